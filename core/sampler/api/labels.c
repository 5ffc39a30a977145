/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The application's side of a thread's labels: sets come into the places of its entry and go out of them.
 *
 * What the thread itself knows of its entry is in thread-local storage, so that a swap is a few loads and stores. An entry is
 * given back when the thread ends, and is another thread's then: from there on the thread knows that it has none.
 */
#include "platform/calls.h"
#include "platform/label_set.h"
#include "platform/loader.h"
#include "platform/sys.h"
#include "sampler/api/session.h"
#include "sampler/labels/labels.h"
#include "sampler/session/code_map_update.h"

#include "onstack/labels.h"
#include "onstack/onstack.h"
#include "onstack/traceback.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>

#define LABELS_ENDED 1u /* the generation of a thread that is at its end; 0: of one that has had no labels */

/* Entries are those of this process: what a thread knows of an older generation was its parent's. */
static uint32_t labels_generation = LABELS_ENDED + 1;

/* Initial-exec, as in sampler/source/heap.c: no call of the loader, which may allocate. */
static __thread __attribute__((tls_model("initial-exec"))) struct {
  onstack_label_entry *entry;
  uint32_t generation;
} labels_mine;

/* The value of the key says only that there is an entry to be given back. */
static pthread_key_t labels_key;
static pthread_once_t labels_once = PTHREAD_ONCE_INIT;
static int labels_ready; /* 0, or -errno */

static inline bool labels_known(void) {
  return __builtin_expect(labels_mine.generation == onstack_load_relaxed(&labels_generation), 1);
}

/* The store and what stands behind it: see sampler/labels/labels.h. */
static const onstack_labels *labels_exchange(onstack_label_entry *entry, uint32_t place, const onstack_labels *set) {
  const onstack_labels *old = onstack_load_relaxed(&entry->sets[place]);
  onstack_publish(&entry->sets[place], set); /* pairs with the observe in onstack_labels_copy */
  onstack_fence_signal();
  return old;
}

static void labels_give_back(onstack_label_entry *entry) {
  const onstack_labels *own = entry->sets[ONSTACK_LABELS_OWN];
  onstack_label_entry_release(entry);
  onstack_labels_release(own);
}

static void labels_forget(void *unused) {
  onstack_label_entry *entry = labels_known() ? labels_mine.entry : NULL; /* none: its parent's */
  (void)unused;
  labels_mine.entry = NULL;
  labels_mine.generation = LABELS_ENDED;
  if (entry) labels_give_back(entry);
}

/*
 * On the only thread of a child of fork, or on the first one of another child that asks. The forking thread is the one that
 * knows an entry, and goes on with it under its new id. Where another one asks, it may be at a swap at this moment: then
 * nobody gets the parent's entries.
 */
static void labels_after_fork(void) {
  const bool mine = labels_known();
  const onstack_label_entry kept = mine ? *labels_mine.entry : (onstack_label_entry){{NULL}};
  onstack_label_entries_after_fork(mine);
  labels_generation = labels_generation == UINT32_MAX ? LABELS_ENDED + 1 : labels_generation + 1;
  labels_mine.entry = mine ? onstack_label_entry_claim((uint32_t)onstack_sys_gettid()) : NULL;
  if (!labels_mine.entry) return;
  *labels_mine.entry = kept;
  labels_mine.generation = labels_generation;
}

static void labels_prepare(void) {
  labels_ready = -pthread_key_create(&labels_key, labels_forget);
  if (labels_ready < 0) return;
  onstack_pin_self(); /* the key's destructor is in this object */
  onstack_fork_set_labels(labels_after_fork);
  /* The lock is not ours only in a signal handler, where this must not be called. */
  if (!onstack_control_lock()) return;
  labels_ready = onstack_fork_prepare();
  onstack_control_unlock();
}

/* The calling thread's entry, which is made where there is none. Errors: -ENOMEM, CONTEXT. */
static __attribute__((noinline)) int labels_enter(void) {
  ONSTACK_UNCANCELLED;
  onstack_fork_repair();
  if (labels_known()) return 0; /* its parent's, repaired */
  if (labels_mine.generation == LABELS_ENDED) return ONSTACK_E_CONTEXT;
  pthread_once(&labels_once, labels_prepare);
  if (labels_ready < 0) return labels_ready;
  const uint32_t tid = (uint32_t)onstack_sys_gettid();
  onstack_label_entry *entry = onstack_label_entry_find(tid);
  if (entry) labels_give_back(entry); /* of a thread that ended without its destructors */
  entry = onstack_label_entry_claim(tid);
  if (!entry) return -ENOMEM;
  if (pthread_setspecific(labels_key, &labels_key) != 0) {
    onstack_label_entry_release(entry);
    return -ENOMEM;
  }
  labels_mine.entry = entry;
  labels_mine.generation = labels_generation;
  return 0;
}

int onstack_thread_labels_swap(uint32_t place, const onstack_labels *labels, const onstack_labels **before) {
  if (before) *before = NULL;
  if (place >= ONSTACK_LABELS_PLACES) return ONSTACK_E_OPTIONS;
  if (!labels_known()) {
    const int result = labels ? labels_enter() : 0;
    if (result < 0 || !labels) return result;
  }
  const onstack_labels *old = labels_exchange(labels_mine.entry, place, labels);
  if (before) *before = old;
  return 0;
}

const onstack_labels *onstack_thread_labels_get(uint32_t place) {
  return place < ONSTACK_LABELS_PLACES && labels_known() ? onstack_load_relaxed(&labels_mine.entry->sets[place]) : NULL;
}

/* With `set`, NULL: none, in place of the thread's own labels. */
static void labels_put(const onstack_labels *set) {
  onstack_labels_release(labels_exchange(labels_mine.entry, ONSTACK_LABELS_OWN, set));
}

static int labels_add(const onstack_labels *own, const char *key, const char *value) {
  onstack_labels *one, *set;
  int result = onstack_labels_new(&(onstack_label){key, value}, 1, &one);
  if (result < 0) return result;
  if (!own) {
    labels_put(one);
    return 0;
  }
  result = onstack_labels_merge(one, own, &set);
  onstack_labels_release(one);
  if (result == 0 && set->cut) {
    onstack_labels_release(set);
    return ONSTACK_E_OPTIONS;
  }
  if (result == 0) labels_put(set);
  return result;
}

int onstack_thread_label_set(const char *key, const char *value) {
  onstack_labels *rest;
  int result = labels_known() ? 0 : labels_enter();
  if (result < 0) return result;
  const onstack_labels *own = labels_mine.entry->sets[ONSTACK_LABELS_OWN];
  if (value) return labels_add(own, key, value);
  result = onstack_label_set_without(own, key, &rest);
  if (result == 0) labels_put(rest);
  return result;
}

void onstack_thread_labels_clear(void) {
  if (labels_known()) labels_put(NULL);
}

/* ---- goroutines: finds out where they keep their labels, with the host's help, and turns their reading on ---- */

#define GO_LABELS_G 1024u /* bytes of g that are searched; Go 1.26: 448 */

/* The runtime whose code holds `text`; found by the first session, or here. */
static onstack_go_runtime *go_labels_runtime(uint64_t address) {
  ONSTACK_UNCANCELLED;
  if (!onstack_code_find_go(address)) onstack_code_map_refresh(NULL);
  return (onstack_go_runtime *)(uintptr_t)onstack_code_find_go(address);
}

int onstack_go_labels_find(uint64_t text, uint64_t labels) {
  onstack_go_runtime *go = go_labels_runtime(text);
  uint64_t goroutine;
  int found = ONSTACK_E_UNSUPPORTED;
  if (!go || labels == 0 || (goroutine = onstack_go_current(go)) == 0) return ONSTACK_E_UNSUPPORTED;
  for (uint32_t offset = 0; offset < GO_LABELS_G; offset += 8) {
    uint64_t pair[2];
    if (!onstack_memory_copy_pair(goroutine + offset, pair)) break; /* the end of a page, at worst */
    if (pair[0] != labels) continue;
    if (found >= 0) return ONSTACK_E_UNSUPPORTED; /* not the only one */
    found = (int)offset;
  }
  return found;
}

int onstack_go_labels_read(uint64_t text, uint32_t offset, char *out, uint32_t bytes) {
  onstack_go_runtime *go = go_labels_runtime(text);
  if (!go) return ONSTACK_E_UNSUPPORTED;
  uint32_t result = onstack_go_labels_copy_at(go, offset, (uint8_t *)out, bytes);
  return (int)(result & ~ONSTACK_GO_LABELS_CUT);
}

int onstack_go_labels_use(uint64_t text, uint32_t offset) {
  onstack_go_runtime *go = go_labels_runtime(text);
  if (!go || offset >= GO_LABELS_G) return ONSTACK_E_UNSUPPORTED;
  onstack_store_relaxed(&go->layout.g_labels, offset);
  return 0;
}

/* Finds where an OpenTelemetry library publishes the spans of threads, and turns their reading on. */

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
