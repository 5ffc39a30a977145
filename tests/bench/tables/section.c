/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "section.h"

#include <dlfcn.h>
#include <link.h>
#include <stdlib.h>
#include <string.h>

typedef struct search {
  const char *library;
  section *out;
} search;

static void note_frames(const struct dl_phdr_info *info, const ElfW(Phdr) * header, section *out) {
  uint64_t at = info->dlpi_addr + header->p_vaddr;
  int32_t relative;
  memcpy(&relative, (const void *)(uintptr_t)(at + 4), sizeof relative); /* pcrel sdata4, as linkers write it */
  out->address = at + 4 + (uint64_t)(int64_t)relative;
}

static int look(struct dl_phdr_info *info, size_t size, void *data) {
  search *s = data;
  section *out = s->out;
  (void)size;
  const char *slash = strrchr(info->dlpi_name, '/');
  if (strcmp(slash ? slash + 1 : info->dlpi_name, s->library) != 0) return 0;
  out->base = info->dlpi_addr;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *header = &info->dlpi_phdr[i];
    if (header->p_type == PT_GNU_EH_FRAME) note_frames(info, header, out);
    if (header->p_type != PT_LOAD || !(header->p_flags & PF_X)) continue;
    out->text_low = info->dlpi_addr + header->p_vaddr;
    out->text_high = out->text_low + header->p_memsz;
  }
  for (int i = 0; i < info->dlpi_phnum && out->address; i++) {
    uint64_t low = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr, high = low + info->dlpi_phdr[i].p_memsz;
    if (info->dlpi_phdr[i].p_type == PT_LOAD && out->address >= low && out->address < high) out->size = high - out->address;
  }
  return 1;
}

const char *section_load(const char *library, section *out) {
  search s = {library, out};
  memset(out, 0, sizeof *out);
  if (!dlopen(library, RTLD_NOW | RTLD_LOCAL)) return "it is not installed";
  if (!dl_iterate_phdr(look, &s) || !out->size || !out->text_low) return "it has no .eh_frame with a header";
  out->bytes = malloc(out->size);
  if (!out->bytes) return "no memory for the copy";
  memcpy(out->bytes, (const void *)(uintptr_t)out->address, out->size);
  return NULL;
}
