/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A jitdump file of any content. Promises: an address is named by the last record that holds it and is not younger than its
 * last sample, or by the first one (asked slowly here), names are not empty and shorter than their room, and a line has a file.
 * Input: the file.
 */
#include "fuzz.h"

#include "profile/generated/jitdump.c" /* its static functions */

#include <sys/mman.h>

static const uint64_t fuzz_addresses[] = {0, 1, 0xfff, 0x1000, 0x1010, 0x1018, 0x2000, UINT64_MAX - 1, UINT64_MAX};
#define FUZZ_ADDRESSES (sizeof(fuzz_addresses) / sizeof(fuzz_addresses[0]))

/* When the addresses were sampled: each two at the same times. */
static onstack_generated_span fuzz_span(size_t i) {
  static const onstack_generated_span spans[] = {{0, UINT64_MAX}, {1, 1}, {2, 1000}, {1000, 1ull << 40}};
  return spans[i / 2 % 4];
}

typedef struct slow {
  uint64_t load;
  bool moved, early, found;
} slow;

static void take_slowly(slow *found, uint64_t load, bool early) {
  if (found->found && !early) return;
  *found = (slow){load, load == 0, early, true};
}

/* Record by record, of one address alone. */
static slow find_slowly(const uint8_t *data, size_t size, const jitdump_item *item, bool timed) {
  const uint64_t address = item->address;
  jitdump_header header;
  slow found = {.load = 0};
  if (size < sizeof(header)) return found;
  memcpy(&header, data, sizeof(header));
  if (header.magic != JITDUMP_MAGIC || header.version != 1 || header.bytes < sizeof(header)) return found;
  for (uint64_t at = header.bytes; at <= size && size - at >= sizeof(jitdump_record);) {
    jitdump_record record;
    memcpy(&record, data + at, sizeof(record));
    if (record.bytes < sizeof(record) || record.bytes > size - at) break;
    const size_t left = record.bytes - sizeof(record);
    const bool early = !timed || record.time <= item->span.last_ns;
    jitdump_load_record load;
    jitdump_move_record move;
    if (record.kind == jitdump_load && left >= sizeof(load)) {
      memcpy(&load, data + at + sizeof(record), sizeof(load));
      if (address >= load.address && address - load.address < load.bytes) take_slowly(&found, at, early);
    } else if (record.kind == jitdump_move && left >= sizeof(move)) {
      memcpy(&move, data + at + sizeof(record), sizeof(move));
      if (address >= move.to && address - move.to < move.bytes) take_slowly(&found, 0, early);
    }
    at += record.bytes;
  }
  return found;
}

static void check_items(const jitdump *dump, const uint8_t *data, size_t size) {
  for (size_t i = 0; i < dump->count; i++) {
    const jitdump_item *item = &dump->items[i];
    const slow wanted = find_slowly(data, size, item, dump->timed);
    fuzz_check(item->early == wanted.early && (item->what != 0) == wanted.found && (wanted.early || !item->replaced));
    fuzz_check(item->moved == wanted.moved && (item->moved || item->load == wanted.load));
  }
}

static void check_names(const onstack_symbol_table *table) {
  for (size_t i = 0; i < table->line_count; i++) {
    const onstack_profile_line *line = &table->lines[i];
    fuzz_check(table->strings.items[line->name].length > 0);
    fuzz_check(line->file != 0 || line->line == 0);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static int file = -1;
  onstack_symbol_table table;
  if (file < 0) file = memfd_create("jitdump", MFD_CLOEXEC);
  if (ftruncate(file, 0) != 0 || pwrite(file, data, size, 0) != (ssize_t)size) return 0;
  jitdump dump = {.file = file, .size = size, .count = FUZZ_ADDRESSES, .window = malloc(JITDUMP_WINDOW)};
  dump.items = calloc(FUZZ_ADDRESSES, sizeof(*dump.items));
  if (!dump.items || !dump.window || onstack_profile_symbols_init(&table) != 0) abort();
  for (size_t i = 0; i < FUZZ_ADDRESSES; i++) {
    if (onstack_profile_symbols_add_address(&table, fuzz_addresses[i]) != 0) abort();
    dump.items[i] = (jitdump_item){.address = fuzz_addresses[i], .number = (uint32_t)i, .span = fuzz_span(i)};
  }
  if (onstack_profile_symbols_open(&table) != 0) abort();
  fuzz_check(jitdump_find(&dump) == 0);
  check_items(&dump, data, size);
  fuzz_check(jitdump_give(&dump, &table) == 0);
  check_names(&table);
  onstack_profile_symbols_release(&table);
  free(dump.items);
  free(dump.window);
  free(dump.moved);
  return 0;
}
