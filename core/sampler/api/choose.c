/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where the variants of a seam are chosen, once, at start. */
#include "sampler/api/choose.h"

#include "platform/defs.h"
#include "platform/atomics.h"
#include "platform/proc.h"
#include "platform/process.h"
#include "platform/sys.h"
#include "sampler/unwind/generated_code.h"

#include <errno.h>
#include <link.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

const onstack_unwinder_ops *onstack_unwinder_find(const char *name) {
  static const onstack_unwinder_ops *const all[] = {&onstack_unwinder_rules, &onstack_unwinder_frame_pointer,
                                                    &onstack_unwinder_pc_only};
  if (!name) return all[0];
  for (size_t i = 0; i < ONSTACK_COUNT_OF(all); i++)
    if (strcmp(all[i]->name, name) == 0) return all[i];
  return NULL;
}

const onstack_source *onstack_source_find(uint32_t number) {
  static const onstack_source *const all[] = {&onstack_source_cpu, &onstack_source_wall, &onstack_source_wall_signal,
                                              &onstack_source_heap};
  for (size_t i = 0; i < ONSTACK_COUNT_OF(all); i++)
    if (number == 0 || all[i]->number == number) return all[i];
  return NULL;
}

/* Of the loader, which is mapped from its ELF header on; 0: there is none. */
static uint64_t choose_loader_entry(void) {
  const uint64_t base = getauxval(AT_BASE);
  ElfW(Ehdr) header;
  if (base == 0 || onstack_process_memory_copy(base, &header, sizeof(header)) != sizeof(header)) return 0;
  return base + header.e_entry;
}

static void choose_note_roots(void) {
  onstack_chain_roots *roots = &onstack_chain_roots_known;
  onstack_store_relaxed(&roots->entry, (uint64_t)getauxval(AT_ENTRY));
  if (onstack_load_relaxed(&roots->loader_entry) == 0) onstack_store_relaxed(&roots->loader_entry, choose_loader_entry());
  onstack_store_relaxed(&roots->has_libc, (uint32_t)(getauxval(AT_BASE) != 0));
  if (onstack_load_relaxed(&roots->main_sp) == 0) onstack_store_relaxed(&roots->main_sp, onstack_proc_stat_main_sp());
}

#define CHOOSE_LARGEST_PAGE ((size_t)64 << 10) /* of both architectures' kernels */

const onstack_reader *onstack_reader_choose(bool *copy_works) {
  const onstack_reader *chosen = &onstack_reader_none;
  *copy_works = false;
  choose_note_roots();
  /* Above all frames of the main thread, and below the strings of its environment (Linux, fs/binfmt_elf.c). */
  onstack_store_relaxed(&onstack_memory_main_end, (uint64_t)getauxval(AT_RANDOM) & ~(uint64_t)15);
  /* The first half readable, the second not: each at least a page of the kernel's. */
  uint8_t *pages = mmap(NULL, 2 * CHOOSE_LARGEST_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return chosen;
  if (mprotect(pages, CHOOSE_LARGEST_PAGE, PROT_READ | PROT_WRITE) == 0) {
    const uint8_t *bad = pages + CHOOSE_LARGEST_PAGE, *good = bad - ONSTACK_PAGE;
    *copy_works = onstack_reader_copy.self_test(good, bad);
    /* memcheck reports each question of `probe` about a bad page, or about a page whose last bytes nobody has written; it does
       not look at the addresses that `copy` reads from. */
    if (*copy_works && onstack_sys_is_valgrind())
      chosen = &onstack_reader_copy;
    else if (onstack_reader_probe.self_test(good, bad))
      chosen = &onstack_reader_probe;
    else if (*copy_works)
      chosen = &onstack_reader_copy;
  }
  munmap(pages, 2 * CHOOSE_LARGEST_PAGE);
  return chosen;
}
