/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Looked up by hand because dlsym and libc's clock_gettime go through the dynamic linker, whose lazy binding would run
 * on the signal stack. The kernel maps the image before main and never changes it, so it is trusted.
 */
#include "control/tick/vdso.h"

#include "base/sys.h"

#include <elf.h>
#include <string.h>
#include <sys/auxv.h>

typedef struct vdso_image {
  const Elf64_Sym *symbols;
  const char *strings;
  uint64_t symbol_count;
} vdso_image;

/* Symbols of a DT_GNU_HASH table: the highest index that a chain reaches, plus one (the table has no count). */
static uint64_t vdso_gnu_hash_count(const uint32_t *table) {
  uint32_t bucket_count = table[0], offset = table[1], bloom_count = table[2];
  const uint32_t *buckets = table + 4 + (size_t)bloom_count * 2;
  const uint32_t *chains = buckets + bucket_count;
  uint32_t last = 0;
  for (uint32_t i = 0; i < bucket_count; i++)
    if (buckets[i] > last) last = buckets[i];
  if (last < offset) return 0;
  while (!(chains[last - offset] & 1)) last++;
  return (uint64_t)last + 1;
}

static void vdso_read_dynamic(const Elf64_Dyn *dynamic, uint64_t bias, vdso_image *image) {
  for (; dynamic->d_tag != DT_NULL; dynamic++) {
    const void *target = (const void *)(uintptr_t)(bias + dynamic->d_un.d_ptr);
    if (dynamic->d_tag == DT_SYMTAB) image->symbols = target;
    if (dynamic->d_tag == DT_STRTAB) image->strings = target;
    if (dynamic->d_tag == DT_HASH) image->symbol_count = ((const uint32_t *)target)[1];
    if (dynamic->d_tag == DT_GNU_HASH && image->symbol_count == 0) image->symbol_count = vdso_gnu_hash_count(target);
  }
}

onstack_vdso_clock_gettime onstack_vdso_find(void) {
  const uint8_t *base = (const uint8_t *)getauxval(AT_SYSINFO_EHDR);
  if (!base) return NULL;
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)(const void *)base;
  const Elf64_Phdr *segments = (const Elf64_Phdr *)(const void *)(base + header->e_phoff);
  const Elf64_Dyn *dynamic = NULL;
  uint64_t bias = 0;
  bool loaded = false;
  vdso_image image = {NULL, NULL, 0};
  for (uint32_t i = 0; i < header->e_phnum; i++) {
    if (segments[i].p_type == PT_LOAD && !loaded) {
      bias = (uint64_t)(uintptr_t)base + segments[i].p_offset - segments[i].p_vaddr;
      loaded = true;
    } else if (segments[i].p_type == PT_DYNAMIC) {
      dynamic = (const Elf64_Dyn *)(const void *)(base + segments[i].p_offset);
    }
  }
  if (!loaded || !dynamic) return NULL;
  vdso_read_dynamic(dynamic, bias, &image);
  if (!image.symbols || !image.strings) return NULL;
  for (uint64_t i = 0; i < image.symbol_count; i++) {
    const Elf64_Sym *symbol = &image.symbols[i];
    if (symbol->st_shndx != SHN_UNDEF && strcmp(image.strings + symbol->st_name, ONSTACK_VDSO_CLOCK_GETTIME) == 0)
      return (onstack_vdso_clock_gettime)(uintptr_t)(bias + symbol->st_value);
  }
  return NULL;
}
