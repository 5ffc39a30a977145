/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where the variants of a seam are chosen, once, at start. */
#include "control/choose.h"

#include "base/address.h"

#include <string.h>
#include <sys/mman.h>

const onstack_unwinder_ops *onstack_unwinder_find(const char *name) {
  static const onstack_unwinder_ops *const all[] = {&onstack_unwinder_rules, &onstack_unwinder_frame_pointer,
                                                    &onstack_unwinder_pc_only};
  if (!name) return all[0];
  for (size_t i = 0; i < ONSTACK_COUNT_OF(all); i++)
    if (strcmp(all[i]->name, name) == 0) return all[i];
  return NULL;
}

const onstack_reader *onstack_reader_choose(bool *copy_works) {
  const onstack_reader *chosen = &onstack_reader_none;
  *copy_works = false;
  void *pages = mmap(NULL, 2 * ONSTACK_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return chosen;
  /* The first page readable, the second not. With pages larger than 4 KiB both calls cover whole pages, so map apart. */
  void *good = mmap(NULL, ONSTACK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (good != MAP_FAILED) {
    *copy_works = onstack_reader_copy.self_test(good, pages);
    if (onstack_reader_probe.self_test(good, pages))
      chosen = &onstack_reader_probe;
    else if (*copy_works)
      chosen = &onstack_reader_copy;
    /* Its pipes serve `probe`, too. */
    if (!*copy_works && onstack_reader_pipe.self_test(good, pages) && chosen == &onstack_reader_none)
      chosen = &onstack_reader_pipe;
    munmap(good, ONSTACK_PAGE);
  }
  munmap(pages, 2 * ONSTACK_PAGE);
  return chosen;
}
