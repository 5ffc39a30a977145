/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/wiped_word.h"

#include <sys/mman.h>

#define WIPED_PAGE ((size_t)4096)

uint32_t *onstack_wiped_word(void) {
  void *page = mmap(NULL, WIPED_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (page == MAP_FAILED) return NULL;
  if (madvise(page, WIPED_PAGE, ONSTACK_WIPE_ON_FORK) == 0) return page;
  munmap(page, WIPED_PAGE);
  return NULL;
}
