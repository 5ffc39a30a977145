/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/fde_lookup.h"

#include "platform/atomics.h"
#include "platform/elf_file.h"
#include "platform/process.h"
#include "sampler/modules/cfi.h"
#include "sampler/modules/cfi_entry.h"
#include "sampler/modules/rule_table.h"

#include <string.h>

#define FDE_COMMON_BYTES ((size_t)512) /* of the longest CIE that is taken */
#define FDE_BYTES ((size_t)65536)      /* of the longest FDE that is taken; gcc has one of 20 KB */
#define FDE_FIRST ((size_t)256)        /* is copied at first, and nearly always enough */
#define FDE_BLOCK 512u                 /* entries of the search table that are copied at once: a page */

/* An entry of the search table: both relative to the header. */
typedef struct fde_entry {
  int32_t function, fde;
} fde_entry;

static bool fde_copy(const onstack_fde_source *source, uint64_t address, void *out, size_t size) {
  if (address < source->low || address >= source->high || source->high - address < size) return false;
  return onstack_process_memory_copy(address, out, size) == size;
}

static uint64_t fde_function(const onstack_fde_source *source, const fde_entry *entry) {
  return source->header + (uint64_t)(int64_t)entry->function;
}

/* Where the table begins and how many entries it has; 0: it is of another form than linkers write. */
static uint32_t fde_table(const onstack_fde_source *source, uint64_t *table) {
  uint8_t head[12];
  uint32_t count;
  if (!fde_copy(source, source->header, head, sizeof(head)) || head[0] != 1) return 0;
  if (head[1] != (DW_EH_PE_pcrel | DW_EH_PE_sdata4) || head[2] != DW_EH_PE_udata4) return 0;
  if (head[3] != (DW_EH_PE_datarel | DW_EH_PE_sdata4)) return 0;
  memcpy(&count, head + 8, sizeof(count));
  *table = source->header + sizeof(head);
  return *table < source->high && count <= (source->high - *table) / sizeof(fde_entry) ? count : 0;
}

/* Where the function of an entry begins; 0: it cannot be read. */
static uint64_t fde_function_at(const onstack_fde_source *source, const onstack_fde_index *index, uint32_t number) {
  fde_entry entry;
  const bool there = fde_copy(source, index->table + number * sizeof(entry), &entry, sizeof(entry));
  return there ? fde_function(source, &entry) : 0;
}

/* Of the entries that the index holds, the last one at or below the address, or the first; ONSTACK_FDE_POINTS: unreadable. */
static uint32_t fde_nearest_point(const onstack_fde_source *source, onstack_fde_index *index, uint32_t step,
                                  uint64_t address) {
  uint32_t low = 0, high = (index->count - 1) / step + 1;
  while (high - low > 1) {
    const uint32_t middle = low + (high - low) / 2;
    uint64_t *function = &index->functions[middle];
    if (*function == 0 && (*function = fde_function_at(source, index, middle * step)) == 0) return ONSTACK_FDE_POINTS;
    if (*function <= address)
      low = middle;
    else
      high = middle;
  }
  return low;
}

/* The FDE of the last function that begins at or below the address; 0: none. */
static uint64_t fde_find(const onstack_fde_source *source, onstack_fde_index *index, uint64_t address) {
  fde_entry entries[FDE_BLOCK];
  if (index->count == 0 && (index->count = fde_table(source, &index->table)) == 0) return 0;
  const uint32_t step = (index->count - 1) / ONSTACK_FDE_POINTS + 1;
  const uint32_t point = fde_nearest_point(source, index, step, address);
  if (point == ONSTACK_FDE_POINTS) return 0;
  uint32_t low = point * step, high = index->count - low < step ? index->count : low + step;
  while (high - low > FDE_BLOCK) {
    const uint32_t middle = low + (high - low) / 2;
    const uint64_t function = fde_function_at(source, index, middle);
    if (function == 0) return 0;
    if (function <= address)
      low = middle;
    else
      high = middle;
  }
  if (!fde_copy(source, index->table + low * sizeof(*entries), entries, (high - low) * sizeof(*entries))) return 0;
  uint32_t behind = 0;
  while (behind < high - low && fde_function(source, &entries[behind]) <= address) behind++;
  return behind == 0 ? 0 : source->header + (uint64_t)(int64_t)entries[behind - 1].fde;
}

/* An entry with its length in four bytes, copied to `out`. Returns its bytes; 0: it is longer, or not there. */
static size_t fde_copy_entry(const onstack_fde_source *source, uint64_t at, uint8_t *out, size_t room) {
  uint32_t length;
  if (at < source->low || at >= source->high) return 0;
  const size_t first = source->high - at < FDE_FIRST ? (size_t)(source->high - at) : FDE_FIRST;
  if (first < sizeof(length) || !fde_copy(source, at, out, first)) return 0;
  memcpy(&length, out, sizeof(length));
  if (length < sizeof(uint32_t) || length > room - sizeof(length)) return 0;
  const size_t size = sizeof(length) + length;
  return size <= first || fde_copy(source, at, out, size) ? size : 0;
}

/* A CIE, which many functions share. */
static size_t fde_copy_common(const onstack_fde_source *source, onstack_fde_index *index, uint64_t at, uint8_t *out) {
  onstack_fde_common *common = &index->commons[at / sizeof(uint64_t) % ONSTACK_FDE_COMMONS];
  if (common->address == at && at != 0) {
    memcpy(out, common->bytes, common->size);
    return common->size;
  }
  const size_t size = fde_copy_entry(source, at, out, FDE_COMMON_BYTES);
  if (size == 0 || size > sizeof(common->bytes)) return size;
  onstack_store_relaxed(&common->address, (uint64_t)0);
  onstack_fence_signal();
  memcpy(common->bytes, out, size);
  common->size = (uint32_t)size;
  onstack_publish(&common->address, at); /* last: the child of a fork has a copy */
  return size;
}

/* The rule that holds at an address. */
typedef struct fde_search {
  uint64_t address;
  onstack_cfi_function function;
  onstack_rule *rule;
  bool found;
} fde_search;

static void fde_emit(void *data, uint64_t address, const onstack_rule *rule) {
  fde_search *search = data;
  if (address > search->address) return;
  *search->rule = *rule;
  search->found = true;
}

static bool fde_visit(void *data, const onstack_cfi_function *function) {
  fde_search *search = data;
  search->function = *function;
  return false;
}

/* The CIE, and right behind it the FDE. Too large for the stacks that polls come on; of the pages one is used as a rule. */
static uint8_t fde_section[FDE_COMMON_BYTES + FDE_BYTES];

/* The FDE and its CIE are made a section of their own: the CIE first, and the address such that the FDE lies where it did, as
   its pointers count from their own place. The CIE's pointers are only skipped. */
bool onstack_fde_lookup(const onstack_fde_source *source, onstack_fde_index *index, uint64_t address, onstack_rule *rule) {
  uint8_t common_bytes[FDE_COMMON_BYTES], *fde = fde_section + FDE_COMMON_BYTES;
  uint32_t common_distance;
  fde_search search = {.address = address, .rule = rule};
  const uint64_t at = fde_find(source, index, address);
  const size_t size = at == 0 ? 0 : fde_copy_entry(source, at, fde, FDE_BYTES);
  if (size == 0) return false;
  memcpy(&common_distance, fde + 4, sizeof(common_distance));
  const size_t common = fde_copy_common(source, index, at + 4 - common_distance, common_bytes);
  if (common == 0 || common_distance == 0) return false;
  const uint32_t distance = (uint32_t)common + 4;
  memcpy(fde + 4, &distance, sizeof(distance));
  memcpy(fde - common, common_bytes, common);
  onstack_cfi_section section = {.bytes = fde - common, .size = common + size, .address = at - common};
  onstack_cfi_each(&section, fde_visit, &search);
  if (address < search.function.low || address >= search.function.high) return false;
  onstack_cfi_run(&section, &search.function, fde_emit, &search);
  return search.found && rule->cfa != ONSTACK_CFA_NONE;
}

/* ---- rules that stay ---- */

#define FDE_RULES 4096u /* places of the hash; a large library has a thousand rules */

/* Not the host's memory: handlers have their addresses for good. 24 KiB, of which only used pages are in memory. */
static onstack_rule fde_pool[FDE_RULES / 2];
static const onstack_rule *fde_rules[FDE_RULES];
static uint32_t fde_rule_count;

/* In the child of a fork that met another thread in here one rule is nobody's: what is stored last leads to it. */
const onstack_rule *onstack_fde_intern(const onstack_rule *rule) {
  uint32_t at = onstack_rule_hash(rule) % FDE_RULES;
  for (; fde_rules[at]; at = (at + 1) % FDE_RULES)
    if (onstack_rule_is_same(fde_rules[at], rule)) return fde_rules[at];
  if (fde_rule_count == ONSTACK_COUNT_OF(fde_pool)) return NULL;
  onstack_rule *made = &fde_pool[fde_rule_count];
  onstack_publish(&fde_rule_count, fde_rule_count + 1); /* first: it is written once */
  *made = *rule;
  onstack_publish(&fde_rules[at], (const onstack_rule *)made);
  return made;
}

/* ---- where .eh_frame is -------------------------------------------------------------------------------------------------- */

#define FRAME_SEGMENTS 64u /* linkers write about ten */

/* A file that has replaced the loaded one has other segments. */
static bool frame_file_is_loaded(const onstack_elf_file *file, uint64_t base) {
  onstack_elf_header header;
  onstack_elf_segment loaded[FRAME_SEGMENTS];
  const size_t size = file->segment_count * sizeof(loaded[0]);
  if (file->segment_count == 0 || file->segment_count > FRAME_SEGMENTS) return false;
  if (onstack_process_memory_copy(base, &header, sizeof(header)) != sizeof(header)) return false;
  if (!onstack_elf_header_is_known(&header)) return false;
  if (onstack_process_memory_copy(base + header.segments_offset, loaded, size) != size) return false;
  return memcmp(loaded, file->segments, size) == 0;
}

/* The segment that the file's first bytes are in, which lies at the object's base; NULL: there is none. */
static const onstack_elf_segment *frame_first_segment(const onstack_elf_file *file) {
  for (uint32_t i = 0; i < file->segment_count; i++) {
    const onstack_elf_segment *segment = &file->segments[i];
    if (segment->type == ONSTACK_ELF_SEGMENT_LOAD) return segment->offset == 0 ? segment : NULL;
  }
  return NULL;
}

static const onstack_elf_section *frame_find_section(const onstack_elf_file *file) {
  for (uint32_t i = 0; i < file->section_count; i++) {
    char name[sizeof(".eh_frame") + 1];
    const onstack_elf_section *section = &file->sections[i];
    onstack_elf_section_name(file, section, name, sizeof(name));
    if (section->vaddr != 0 && strcmp(name, ".eh_frame") == 0) return section;
  }
  return NULL;
}

bool onstack_frame_section_find(const char *path, uint64_t base, uint64_t *low, uint64_t *high) {
  onstack_elf_file file;
  bool found = false;
  if (onstack_elf_open_file(&file, path) < 0) return false;
  const onstack_elf_segment *first = frame_first_segment(&file);
  const onstack_elf_section *section = frame_find_section(&file);
  if (first && section && frame_file_is_loaded(&file, base)) {
    *low = base - first->vaddr + section->vaddr;
    found = !__builtin_add_overflow(*low, section->bytes, high) && *low >= base && *high > *low;
  }
  onstack_elf_close(&file);
  return found;
}
