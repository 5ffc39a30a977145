/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/loader.h"

#include "platform/atomics.h"

#ifdef __linux__
#include "platform/load_numbers.h"
#include "platform/sys.h"

#define LOADER_PAUSE_NS 50000u
#define LOADER_PAUSES 2000u /* at least 0.1 s */

static uint32_t loader_inside; /* threads of ours in a call (dekker) */
static uint32_t loader_forks;  /* threads that are about to fork, or do (dekker) */
static uint32_t loader_lost;   /* its lock is held by a thread that is not in this process */

static void loader_wait_for_none(const uint32_t *word) {
  for (uint32_t i = 0; i < LOADER_PAUSES && onstack_dekker_load(word) > 0; i++) onstack_sys_sleep(LOADER_PAUSE_NS);
}

/* Each side raises its own word before it looks at the other's, so one of the two sees the other. */
void onstack_loader_enter(void) {
  onstack_dekker_add(&loader_inside, 1u);
  if (onstack_dekker_load(&loader_forks) == 0) return;
  onstack_dekker_sub(&loader_inside, 1u);
  loader_wait_for_none(&loader_forks);
  onstack_dekker_add(&loader_inside, 1u);
}

void onstack_loader_leave(void) { onstack_dekker_sub(&loader_inside, 1u); }

void onstack_loader_before_fork(void) {
  onstack_dekker_add(&loader_forks, 1u);
  loader_wait_for_none(&loader_inside);
}

void onstack_loader_forked(void) { onstack_dekker_sub(&loader_forks, 1u); }

void onstack_loader_after_fork(void) {
  onstack_store_relaxed(&loader_forks, 0u);
  if (onstack_load_relaxed(&loader_inside) == 0) return;
  onstack_store_relaxed(&loader_lost, 1u);
  onstack_store_relaxed(&loader_inside, 0u);
}

/* False, and no visit, where the loader cannot be asked. */
static bool loader_iterate(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data) {
  if (onstack_load_relaxed(&loader_lost)) return false;
  onstack_loader_enter();
  dl_iterate_phdr(visit, data);
  onstack_loader_leave();
  return true;
}

typedef struct loader_visitor {
  int (*visit)(struct dl_phdr_info *info, size_t size, void *data);
  int (*visit_load)(const struct dl_phdr_info *info, uint64_t number, void *data);
  void *data;
  onstack_load_walk walk;
} loader_visitor;

static int loader_visit_copy(struct dl_phdr_info *info, size_t size, void *data) {
  const loader_visitor *visitor = data;
  onstack_object_copy copy;
  onstack_object_copy_headers(info, &copy);
  return visitor->visit(&copy.info, size, visitor->data);
}

bool onstack_loader_each(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data) {
  loader_visitor visitor = {.visit = visit, .data = data};
  return loader_iterate(loader_visit_copy, &visitor);
}

static int loader_visit_load(struct dl_phdr_info *info, size_t size, void *data) {
  loader_visitor *visitor = data;
  (void)size;
  return visitor->visit_load(info, onstack_load_walk_step(&visitor->walk, info), visitor->data);
}

bool onstack_loader_each_load(int (*visit)(const struct dl_phdr_info *info, uint64_t number, void *data), void *data) {
  loader_visitor visitor = {.visit_load = visit, .data = data};
  if (onstack_load_relaxed(&loader_lost)) return false;
  onstack_loader_enter();
  onstack_load_walk_begin(&visitor.walk);
  dl_iterate_phdr(loader_visit_load, &visitor);
  onstack_loader_leave();
  return true;
}

static int loader_read_counts(struct dl_phdr_info *info, size_t size, void *counts) {
  (void)size;
  *(onstack_loader_counts *)counts = onstack_loader_counts_in(info);
  return 1; /* the first one knows */
}

bool onstack_loader_count(onstack_loader_counts *counts) { return loader_iterate(loader_read_counts, counts); }
#else
bool onstack_loader_count(onstack_loader_counts *counts) {
  (void)counts;
  return false;
}
#endif
