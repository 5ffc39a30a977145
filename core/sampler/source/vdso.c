/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Looked up by hand because dlsym and libc's clock_gettime go through the dynamic linker, whose lazy binding would run
 * on the signal stack. The kernel maps the image before main and never changes it, so it is trusted.
 */
#include "sampler/source/vdso.h"

#include "platform/loader.h"
#include "platform/sys.h"

#include <sys/auxv.h>

onstack_vdso_clock_gettime onstack_vdso_find(void) {
  const uint8_t *base = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
  if (!base) return NULL;
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)base;
  const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(base + header->e_phoff);
  uint64_t dynamic = 0, bias = 0;
  bool loaded = false;
  onstack_loaded_symbols image;
  for (uint32_t i = 0; i < header->e_phnum; i++) {
    if (segments[i].p_type == PT_LOAD && !loaded) {
      bias = (uint64_t)(uintptr_t)base + segments[i].p_offset - segments[i].p_vaddr;
      loaded = true;
    } else if (segments[i].p_type == PT_DYNAMIC) {
      dynamic = (uint64_t)(uintptr_t)base + segments[i].p_offset;
    }
  }
  if (!loaded || !dynamic) return NULL;
  if (!onstack_loaded_symbols_read(dynamic, bias, &image)) return NULL;
  Elf64_Sym symbol;
  if (!onstack_loaded_symbols_find(&image, ONSTACK_VDSO_CLOCK_GETTIME, STT_NOTYPE, &symbol)) return NULL;
  return (onstack_vdso_clock_gettime)(uintptr_t)(bias + symbol.st_value);
}
