/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "base/loader.h"

#include "base/atomics.h"

#ifdef __linux__
static uint32_t loader_inside; /* threads of ours in a call */
static uint32_t loader_lost;   /* its lock is held by a thread that is not in this process */

bool onstack_loader_each(int (*visit)(struct dl_phdr_info *info, size_t size, void *data), void *data) {
  if (onstack_load_relaxed(&loader_lost)) return false;
  onstack_dekker_add(&loader_inside, 1u);
  dl_iterate_phdr(visit, data);
  onstack_dekker_sub(&loader_inside, 1u);
  return true;
}

void onstack_loader_after_fork(void) {
  if (onstack_load_relaxed(&loader_inside) == 0) return;
  onstack_store_relaxed(&loader_lost, 1u);
  onstack_store_relaxed(&loader_inside, 0u);
}

static int loader_read_counts(struct dl_phdr_info *info, size_t size, void *counts) {
  (void)size;
  *(onstack_loader_counts *)counts = onstack_loader_counts_in(info);
  return 1; /* the first one knows */
}

bool onstack_loader_count(onstack_loader_counts *counts) { return onstack_loader_each(loader_read_counts, counts); }
#else
bool onstack_loader_count(onstack_loader_counts *counts) {
  (void)counts;
  return false;
}
#endif
