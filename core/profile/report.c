/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/report.h"

#include "platform/own_memory.h"
#include "platform/sized.h"
#include "profile/elf/demangle.h"
#include "profile/elf/symbolize.h"
#include "profile/generated/name_source.h"
#include "profile/interpreted_lines.h"

#include <errno.h>
#include <stdlib.h>

static int report_read_options(const onstack_write_options *given, onstack_write_options *options, bool *symbolize) {
  *options = (onstack_write_options){0};
  *symbolize = true;
  if (!given) return 0;
  int error = onstack_sized_copy(options, sizeof(*options), 0, given);
  if (error != 0) return error;
  for (size_t i = 0; i < sizeof(options->reserved0); i++) {
    if (options->reserved0[i] != 0) return ONSTACK_E_OPTIONS;
  }
  if (options->reserved1 != 0 || (options->kind != 0 && onstack_kind_unit(options->kind) == 0)) return ONSTACK_E_OPTIONS;
  return onstack_switch_read(options->symbolize, symbolize);
}

static int report_collect_addresses(onstack_profile_report *report) {
  const onstack_profile_view *view = &report->view;
  int error = 0;
  report->numbers = malloc((view->address_count + 1) * sizeof(*report->numbers));
  if (!report->numbers) return -ENOMEM;
  for (size_t i = 0; i < view->address_count; i++) report->numbers[i] = ONSTACK_PROFILE_HASH_NONE;
  for (size_t i = 0; error == 0 && i < view->count; i++) {
    const onstack_profile_stack *stack = &view->items[i];
    for (uint32_t frame = 0; error == 0 && frame < stack->frame_count; frame++) {
      uint32_t *number = &report->numbers[stack->frames[frame]];
      if (*number != ONSTACK_PROFILE_HASH_NONE) continue;
      *number = (uint32_t)report->symbols.count; /* each address is here once */
      error = onstack_profile_symbols_add_address(&report->symbols, view->addresses[stack->frames[frame]]);
    }
  }
  return error != 0 ? error : onstack_profile_symbols_open(&report->symbols);
}

/* Of a place with neither address nor name servers drop every sample: a call through a null pointer has this one. */
static int report_name_null(onstack_symbol_table *symbols) {
  uint32_t number = onstack_profile_symbols_number(symbols, 0);
  return number == ONSTACK_PROFILE_HASH_NONE ? 0 : onstack_profile_symbols_name(symbols, number, "0x0", false);
}

static int report_name_unknown(onstack_symbol_table *symbols) {
  uint32_t number = onstack_profile_symbols_number(symbols, ONSTACK_MAPS_UNKNOWN);
  if (number == ONSTACK_PROFILE_HASH_NONE) return 0;
  return onstack_profile_symbols_name(symbols, number, ONSTACK_MAPS_UNKNOWN_FRAME, false);
}

static int report_fill(onstack_profile_report *report, const onstack_write_options *options, bool always_names) {
  const onstack_profile_maps *maps = report->view.maps;
  int error = report_collect_addresses(report);
  const onstack_name_context generated = {maps, report->view.items, report->view.count, report->numbers};
  if (error == 0) error = report_name_unknown(&report->symbols);
  if (error == 0) error = onstack_profile_name_interpreted(&report->symbols);
  if (error == 0 && report->symbolized) {
    error = onstack_profile_symbolize_by_host(&report->symbols, maps, options->symbolizer, options->symbolizer_data);
    if (error == 0) error = onstack_profile_symbolize_by_elf(&report->symbols, maps);
    if (error == 0) error = onstack_name_sources_give(&report->symbols, &generated);
    if (error == 0) error = onstack_profile_demangle(&report->symbols, options->demangler, options->demangler_data);
  }
  if (error == 0 && (report->symbolized || always_names)) {
    error = onstack_profile_symbolize_by_module(&report->symbols, maps);
  } else if (error == 0) {
    error = report_name_null(&report->symbols);
  }
  return error;
}

static int report_take(onstack_profile_report *report, const onstack_write_options *options) {
  int error = onstack_profile_symbols_init(&report->symbols);
  if (error != 0) return error;
  error = onstack_profile_view_take(report->profile, options->kind, options->heap_age_ns, &report->view);
  if (error != 0) onstack_profile_symbols_release(&report->symbols);
  return error;
}

static bool report_is_of_heap(const onstack_profile_report *report, const onstack_write_options *options) {
  const uint32_t heap = 1u << ONSTACK_KIND_ALLOCATION, kinds = report->view.kinds;
  return kinds == heap || (kinds == 0 && options->kind == ONSTACK_KIND_ALLOCATION);
}

/* What is in use is so at the end. Profile servers take a heap profile with a duration for what was allocated in that, and add
   it to others. */
static void report_of_a_moment(onstack_profile_report *report) {
  report->start_unix_ns += report->duration_ns;
  report->duration_ns = 0;
}

int onstack_profile_report_open(onstack_profile_report *report, onstack_profile *profile, const onstack_write_options *given,
                                bool always_names) {
  onstack_write_options options;
  if (!profile) return ONSTACK_E_OPTIONS;
  *report = (onstack_profile_report){.profile = profile};
  int error = report_read_options(given, &options, &report->symbolized);
  if (error != 0) return error;
  onstack_ours++; /* until it is closed */
  error = report_take(report, &options);
  if (error != 0) {
    onstack_ours--;
    return error;
  }
  report->start_unix_ns = options.start_time_unix_ns != 0 ? options.start_time_unix_ns : report->view.start_unix_ns;
  report->duration_ns = options.duration_ns != 0 ? options.duration_ns : report->view.duration_ns;
  if (report_is_of_heap(report, &options)) report_of_a_moment(report);
  report->comments = options.comments;
  report->period = options.period;
  report->kind = options.kind;
  error = report_fill(report, &options, always_names);
  if (error != 0) onstack_profile_report_close(report);
  return error;
}

void onstack_profile_report_close(onstack_profile_report *report) {
  onstack_profile_symbols_release(&report->symbols);
  onstack_profile_view_release(report->profile, &report->view);
  free(report->numbers);
  onstack_ours--;
}
