/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Finds where an OpenTelemetry library publishes the spans of threads, and turns their reading on. */
#include "platform/loader.h"
#include "platform/calls.h"
#include "sampler/labels/labels.h"
#include "onstack/labels.h"
#include "onstack/onstack.h"
#include "sampler/api/spans.h"

/* As compilers call it: the address in the calling thread, whose block is made if there is none yet. Programs that are linked
   statically may lack it. */
typedef struct spans_index {
  uint64_t module, offset;
} spans_index;
void *__tls_get_addr(spans_index *index) __attribute__((weak));

static int spans_visit(const struct dl_phdr_info *info, uint64_t number, void *data) {
  spans_index *found = data;
  onstack_loaded_symbols symbols;
  onstack_object_copy copy;
  (void)number;
  if (info->dlpi_tls_modid == 0) return 0;
  onstack_object_copy_headers(info, &copy);
  const uint64_t dynamic = onstack_object_segment(&copy.info, PT_DYNAMIC);
  if (!dynamic || !onstack_loaded_symbols_read(dynamic, info->dlpi_addr, &symbols)) return 0;
  Elf64_Sym symbol;
  if (!onstack_loaded_symbols_find(&symbols, "otel_thread_ctx_v1", STT_TLS, &symbol)) return 0;
  *found = (spans_index){info->dlpi_tls_modid, symbol.st_value};
  return 1;
}

/* The layout is not promised by any libc: the one is taken that leads to the true address. */
static onstack_span_place spans_place(spans_index *index) {
  if (!__tls_get_addr || index->module >> ONSTACK_SPAN_MODULE_BITS != 0 || index->offset >> ONSTACK_SPAN_OFFSET_BITS != 0)
    return 0;
  const uint64_t address = (uint64_t)(uintptr_t)__tls_get_addr(index);
  for (uint64_t layout = 1; layout <= ONSTACK_SPAN_LAYOUTS; layout++) {
    const onstack_span_place place = layout << (ONSTACK_SPAN_OFFSET_BITS + ONSTACK_SPAN_MODULE_BITS) |
                                     index->module << ONSTACK_SPAN_OFFSET_BITS | index->offset;
    if (onstack_span_pointer(place) == address) return place;
  }
  return 0;
}

/*
 * No lock: a child of fork could find it taken for ever. Who looks at the same objects finds the same place; who was overtaken
 * by a newer look leaves its older counts behind, so that somebody looks again; and who has turned reading off meanwhile is
 * seen behind the store.
 */
static uint32_t spans_wanted;
static onstack_loader_counts spans_looked; /* of the last look */

static onstack_span_place spans_look(const onstack_loader_counts *counts) {
  spans_index index = {0, 0};
  onstack_loader_each_load(spans_visit, &index);
  const onstack_span_place place = index.module == 0 ? 0 : spans_place(&index);
  onstack_store_relaxed(&onstack_span_of_threads, place);
  onstack_store_relaxed(&spans_looked.adds, counts->adds);
  onstack_store_relaxed(&spans_looked.subs, counts->subs);
  if (!onstack_load_relaxed(&spans_wanted)) onstack_store_relaxed(&onstack_span_of_threads, (onstack_span_place)0);
  return place;
}

void onstack_spans_look(void) {
  onstack_loader_counts counts;
  if (!onstack_load_relaxed(&spans_wanted) || !onstack_loader_count(&counts)) return;
  const onstack_loader_counts looked = {onstack_load_relaxed(&spans_looked.adds), onstack_load_relaxed(&spans_looked.subs)};
  if (!onstack_loader_same(&counts, &looked)) spans_look(&counts);
}

int onstack_thread_spans_use(onstack_switch use) {
  ONSTACK_UNCANCELLED;
  onstack_loader_counts counts = {0, 0};
  if (use != ONSTACK_ON && use != ONSTACK_OFF) return ONSTACK_E_OPTIONS;
  onstack_store_relaxed(&spans_wanted, (uint32_t)(use == ONSTACK_ON));
  if (use == ONSTACK_OFF) {
    onstack_store_relaxed(&onstack_span_of_threads, (onstack_span_place)0);
    return 0;
  }
  onstack_loader_count(&counts);
  return spans_look(&counts) == 0 ? ONSTACK_E_UNSUPPORTED : 0;
}
