/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A loaded object of any content, with program headers of any content as the loader keeps them: where its .eh_frame_hdr
 * leads, and the table of what is found there. Promises: it ends, what is read lies between the object's first byte and
 * the end of its header's segment, and a table is one that can be searched.
 * Input: one byte (how many program headers), the headers, then the object's memory.
 */
#include "fuzz.h"

#include "platform/sys.h"

static const uint8_t *object;
static size_t object_bytes;
static uint64_t object_end; /* of the segment that may be read */

/* As process_vm_readv of one piece. */
static long fuzz_read(const struct onstack_vector *local, const struct onstack_vector *remote) {
  uint64_t at = remote->base - (uint64_t)(uintptr_t)object, length = remote->length;
  fuzz_check(length <= 256 || (at < object_bytes && length <= object_end - remote->base));
  if (at >= object_bytes) return -14;
  size_t some = length < object_bytes - at ? length : object_bytes - at;
  memcpy((void *)(uintptr_t)local->base, object + at, some);
  return (long)some;
}
#define onstack_sys_process_vm_readv(local, locals, remote, remotes) fuzz_read(local, remote)
#include "platform/process.c"
#include "sampler/modules/modules.c"

#define HEADERS 6u

/* Headers that mean this object: addresses and sizes are mostly small. */
static uint32_t take_headers(fuzz_input *input, ElfW(Phdr) * headers) {
  static const uint32_t types[] = {PT_LOAD, PT_GNU_EH_FRAME, PT_LOAD, PT_DYNAMIC};
  uint32_t count = (uint32_t)fuzz_take(input, 1) % (HEADERS + 1);
  for (uint32_t i = 0; i < count; i++) {
    uint64_t kind = fuzz_take(input, 1);
    uint32_t width = kind & 128 ? 8 : 2;
    headers[i] = (ElfW(Phdr)){.p_type = types[kind & 3], .p_flags = kind >> 2 & 7};
    headers[i].p_vaddr = fuzz_take(input, width);
    headers[i].p_memsz = fuzz_take(input, width);
    headers[i].p_filesz = kind & 64 ? fuzz_take(input, width) : headers[i].p_memsz;
  }
  return count;
}

/* What the loader mapped: nothing beyond the object. */
static bool is_mapped(const ElfW(Phdr) * headers, uint32_t count) {
  for (uint32_t i = 0; i < count; i++)
    if (headers[i].p_type == PT_LOAD &&
        (headers[i].p_vaddr > object_bytes || headers[i].p_memsz > object_bytes - headers[i].p_vaddr ||
         headers[i].p_filesz > headers[i].p_memsz))
      return false;
  return true;
}

static void run(const struct dl_phdr_info *info) {
  module_entry entry;
  memset(&entry, 0, sizeof(entry));
  module_note_segments(&entry, info);
  if (entry.module.high == 0 || !entry.section_header || !is_mapped(info->dlpi_phdr, info->dlpi_phnum)) return;
  fuzz_check(entry.module.base <= entry.module.low && entry.module.low <= entry.module.high);
  object_end = entry.section_end;
  uint64_t address;
  size_t size = module_section_size(&entry, &address);
  fuzz_check(size <= object_bytes);
  fuzz_check(module_derive(&entry) == 0);
  const onstack_rule_table *table = entry.module.table;
  if (!table) return;
  fuzz_check(table->row_count > 0 && table->rule_count > 0);
  for (uint64_t offset = 0; offset < entry.module.high - entry.module.base; offset += 1 + offset / 8)
    onstack_rules_lookup(table, offset);
  onstack_rule_table_free(table);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  ElfW(Phdr) headers[HEADERS];
  uint32_t count = take_headers(&input, headers);
  object_bytes = input.left;
  uint8_t *copy = fuzz_copy(input.at, object_bytes);
  object = copy;
  struct dl_phdr_info info = {.dlpi_addr = (uint64_t)(uintptr_t)copy, .dlpi_phdr = headers};
  info.dlpi_phnum = (ElfW(Half))count;
  run(&info);
  free(copy);
  return 0;
}
