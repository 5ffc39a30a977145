/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "profile/report.h"

#include "platform/atomics.h"
#include "platform/process.h"
#include "platform/calls.h"
#include "profile/generated/generated.h"

#include "onstack/interpreter.h"
#include "onstack/onstack.h"
#include "onstack/profile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TRUNCATION_FRAME "[truncated: "
#define TRUNCATION_NEITHER                                                                                                  \
  "it has neither unwind tables nor frame pointers: build it with -fasynchronous-unwind-tables or -fno-omit-frame-pointer"

typedef struct truncation_text {
  const char *key;
  const char *frame;  /* NULL: stands in no stack */
  const char *advice; /* NULL: no fault of the module */
} truncation_text;

static const truncation_text truncation_texts[ONSTACK_TRUNCATION_COUNT] = {
    [ONSTACK_TRUNCATED_DEPTH] = {"depth", TRUNCATION_FRAME "deeper than the maximal depth]",
                                 "stacks there are deeper than the session keeps: raise max_depth"},
    [ONSTACK_TRUNCATED_UNREADABLE] =
        {"unreadable", TRUNCATION_FRAME "unreadable stack memory]",
         "its frames lead to memory that cannot be read: wrong unwind information, or code that "
         "keeps no frame pointers; build it with -fasynchronous-unwind-tables"},
    [ONSTACK_TRUNCATED_MISALIGNED] = {"misaligned", TRUNCATION_FRAME "misaligned frame pointer]", TRUNCATION_NEITHER},
    [ONSTACK_TRUNCATED_NOT_RISING] = {"not_rising", TRUNCATION_FRAME "frame pointer does not rise]", TRUNCATION_NEITHER},
    [ONSTACK_TRUNCATED_BAD_RETURN] = {"bad_return", TRUNCATION_FRAME "no return address]",
                                      "its callers lie in no executable memory that was known: code generated or loaded in "
                                      "the last moments, the stack of a coroutine whose beginning has been overwritten "
                                      "since (greenlet), or wrong unwind information"},
    [ONSTACK_TRUNCATED_STACK_SWITCH] = {"stack_switch", TRUNCATION_FRAME "switch of stacks]",
                                        "it runs on a stack of its own, and who entered that is not known: generated code "
                                        "that was called there, or a function that changes stacks"},
    [ONSTACK_TRUNCATED_BY_DESIGN] = {"by_design", NULL, NULL},
    [ONSTACK_TRUNCATED_UNWINDER] = {"unwinder", TRUNCATION_FRAME "by the unwinder]",
                                    "the unwinder that was given ended there"},
    [ONSTACK_TRUNCATED_NO_RULE] =
        {"no_rule", TRUNCATION_FRAME "no unwind information]",
         "parts of it have no unwind information: assembly (add .cfi directives, or -g for the assembler), or compiled code "
         "whose callers only its runtime knows, since it keeps a stack or registers of its own (Haskell, Guile, qemu; let "
         "its compiler keep frame pointers if it can, as Erlang's by +JPperf true)"},
    [ONSTACK_TRUNCATED_PENDING] = {"pending", TRUNCATION_FRAME "unwind information not read yet]",
                                   "its unwind information was still being read, as in the first moments after it is loaded "
                                   "or a profile begins: later samples have their callers"},
};

/* Counters that somebody can do something about. */
static const struct {
  const char *key, *advice;
} truncation_counters[] = {
    {"blocked", "ticks of threads that block the profiling signal (SIGPROF, most often) and have no samples: let them take "
                "it (pthread_sigmask); "
                "libraries' own threads often block all signals, as jemalloc's do (background_thread:false)"},
    {"cpu_ns", "it is more than ticks * period: threads, or processes, ended before a tick met them, and weigh too little; "
               "a higher frequency meets more of them"},
    {"dropped_ring_full", "ticks that found the buffer full: raise buffer_bytes, or lower frequency"},
    {"dropped_no_stack", "ticks on alternate signal stacks (sigaltstack) without room for a handler: make them 4096 bytes "
                         "larger"},
    {"dropped_unwinder", "ticks for which the unwinder that was given returned no frame; with the clock wall also the time "
                         "of threads until they are "
                         "found, and of threads that end before a look"},
    {"dropped_sink", "samples that the sink refused; a profile refuses where memory runs out"},
    {"heap_untracked",
     "sampled blocks without a place among those in use (heap_objects): they are in alloc and never in inuse; "
     "raise it, or the bytes between two samples"},
    {"threads_unarmed",
     "attempts to give a thread a timer that failed: those threads' samples are coarser; raise the limit of "
     "pending signals (ulimit -i)"},
    {"generated_replaced",
     "addresses of generated code that had several functions one after the other: their samples have the name of one"},
    {"timeline_lost",
     "samples whose time found no room (timeline_bytes), mostly the later ones: pictures of time lack them; profile for a "
     "shorter while, or at a lower frequency"},
};

const char *onstack_profile_truncation_frame(uint32_t truncation) {
  if (truncation >= ONSTACK_TRUNCATION_COUNT) return TRUNCATION_FRAME "unknown reason]";
  return truncation_texts[truncation].frame;
}

const char *onstack_profile_truncation_key(uint32_t truncation) {
  return truncation < ONSTACK_TRUNCATION_COUNT ? truncation_texts[truncation].key : NULL;
}

/* Whether it is the text between "[truncated: " and "]". */
static bool truncation_is_reason(const char *frame, const char *text) {
  size_t head = strlen(TRUNCATION_FRAME), length = strlen(text);
  return frame && strlen(frame) == head + length + 1 && strncmp(frame + head, text, length) == 0;
}

ONSTACK_API const char *onstack_advice(const char *key) {
  if (!key) return NULL;
  for (uint32_t i = 0; i < ONSTACK_TRUNCATION_COUNT; i++) {
    const truncation_text *text = &truncation_texts[i];
    if (text->key && (strcmp(text->key, key) == 0 || truncation_is_reason(text->frame, key))) return text->advice;
  }
  for (size_t i = 0; i < ONSTACK_COUNT_OF(truncation_counters); i++) {
    if (strcmp(truncation_counters[i].key, key) == 0) return truncation_counters[i].advice;
  }
  return NULL;
}

ONSTACK_INTERNAL_DEFINE int (*onstack_profile_interpreted)(uint64_t frame, onstack_frame_text *text);

/* The system name has the language before it, "python:<module>": readers take a name for one of C++, and its brackets for
   parameters to be left out, if the two are the same. */
static int interpreted_name(onstack_symbol_table *table, uint32_t number, const onstack_frame_text *text) {
  char system_name[sizeof(text->language) + sizeof(text->function) + 1];
  snprintf(system_name, sizeof(system_name), "%s:%s", text->language, text->function);
  const onstack_symbol_line line = {.size = sizeof(line),
                                    .name = text->function,
                                    .system_name = text->language[0] ? system_name : NULL,
                                    .file = text->file,
                                    .line = text->line,
                                    .start_line = text->start_line};
  return onstack_profile_symbols_add_line(table, number, &line);
}

/* Names the addresses of such frames. Errors: -ENOMEM. */
static int name_interpreted(onstack_symbol_table *table) {
  int (*const describe)(uint64_t, onstack_frame_text *) = onstack_observe(&onstack_profile_interpreted);
  int error = 0;
  for (size_t i = 0; describe && error == 0 && i < table->count; i++) {
    onstack_frame_text text = {.size = sizeof(text)};
    if (onstack_is_interpreted(table->addresses[i]) && describe(table->addresses[i], &text) == 0)
      error = interpreted_name(table, (uint32_t)i, &text);
  }
  return error;
}

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
  if (error == 0) error = name_interpreted(&report->symbols);
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
