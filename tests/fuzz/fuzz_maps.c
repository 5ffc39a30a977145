/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Both readers of /proc/self/maps. Raw text of any kind (input begins with 'R'): they end, stay inside, and answer
 * nothing that makes no sense. Otherwise the input describes mappings, which are written as the kernel writes them: then
 * both must give them back.
 */
#include "fuzz.h"

#include "base/sys.h"
#include "profile/maps/maps_text.h"

/* The reader of control/ with its file replaced by `text`. */
static const char *text;
static size_t text_left;
static long fuzz_open(void) { return 99; }
static long fuzz_read(long number, char *buffer, size_t room) {
  if (number == SYS_close) return 0;
  size_t some = text_left < room ? text_left : room;
  memcpy(buffer, text, some);
  text += some;
  text_left -= some;
  return (long)some;
}
static long fuzz_close(void) { return 0; }
#define onstack_sys_call4(number, a, b, c, d) ((void)(b), fuzz_open())
#define onstack_sys_call3(number, a, b, c) fuzz_read(number, (char *)(b), c)
#define onstack_sys_call1(number, a) (fuzz_close())
#include "control/unwind/memory_map.c"

#define MAPPINGS 40u

typedef struct mapping {
  uint64_t low, high, offset, inode;
  char mode[5];
} mapping;

typedef struct wanted {
  const mapping *mappings;
  uint32_t count, seen;
} wanted;

static void see_any(void *data, const onstack_mapping *mapping) {
  (void)mapping;
  ++*(uint64_t *)data;
}

static void see_wanted(void *data, const onstack_mapping *got) {
  wanted *want = data;
  fuzz_check(want->seen < want->count);
  const mapping *mapping = &want->mappings[want->seen++];
  fuzz_check(got->low == mapping->low && got->high == mapping->high);
  fuzz_check(got->readable == (mapping->mode[0] == 'r') && got->writable == (mapping->mode[1] == 'w'));
  fuzz_check(got->executable == (mapping->mode[2] == 'x') && got->shared == (mapping->mode[3] == 's'));
  fuzz_check(got->anonymous == (mapping->inode == 0));
}

static void run_raw(const uint8_t *data, size_t size) {
  char *copy = malloc(size + 1);
  onstack_maps_line line;
  uint64_t seen = 0, lines = 1;
  if (!copy) abort();
  memcpy(copy, data, size);
  copy[size] = 0;
  for (size_t i = 0; i < size; i++) lines += copy[i] == '\n';
  text = copy;
  text_left = size;
  onstack_memory_map_each(see_any, &seen);
  fuzz_check(seen <= lines);
  char *at = copy;
  while (onstack_maps_text_next(&at, &line)) {
    fuzz_check(line.start < line.limit);
    fuzz_check(line.path >= copy && line.path + line.path_length <= copy + size);
    fuzz_check(lines-- > 0);
  }
  free(copy);
}

static uint32_t describe(fuzz_input *input, mapping *mappings) {
  uint64_t at = 0x10000;
  uint32_t count = 0;
  for (; count < MAPPINGS && input->left > 0; count++) {
    uint64_t bits = fuzz_take(input, 1);
    mapping *to = &mappings[count];
    to->low = at + (fuzz_take(input, 4) << (bits & 15));
    to->high = to->low + 1 + fuzz_take(input, 2) * 4096;
    at = to->high;
    to->offset = fuzz_take(input, 3) * 4096;
    to->inode = bits & 16 ? fuzz_take(input, 2) : 0;
    memcpy(to->mode, "---p", 5);
    if (bits & 32) to->mode[0] = 'r';
    if (bits & 64) to->mode[2] = 'x';
    if (bits & 128) memcpy(to->mode + 1, "w", 1), to->mode[3] = bits & 1 ? 's' : 'p';
  }
  return count;
}

static void run_described(fuzz_input input) {
  mapping mappings[MAPPINGS];
  char written[MAPPINGS * 128], *end = written;
  uint32_t count = describe(&input, mappings);
  for (uint32_t i = 0; i < count; i++)
    end += sprintf(end, "%08llx-%08llx %s %08llx fd:01 %llu %s\n", (unsigned long long)mappings[i].low,
                   (unsigned long long)mappings[i].high, mappings[i].mode, (unsigned long long)mappings[i].offset,
                   (unsigned long long)mappings[i].inode, mappings[i].inode ? "      /a file (deleted)" : "");
  wanted want = {mappings, count, 0};
  text = written;
  text_left = (size_t)(end - written);
  onstack_memory_map_each(see_wanted, &want);
  fuzz_check(want.seen == count);
  onstack_maps_line line;
  char *at = written;
  *end = 0;
  for (uint32_t i = 0; i < count; i++) {
    fuzz_check(onstack_maps_text_next(&at, &line));
    fuzz_check(line.start == mappings[i].low && line.limit == mappings[i].high && line.offset == mappings[i].offset);
    fuzz_check(line.executable == (mappings[i].mode[2] == 'x') && line.inode == mappings[i].inode);
    fuzz_check(line.deleted == (line.inode != 0) && line.path_length == (line.inode ? 7 : 0));
  }
  fuzz_check(!onstack_maps_text_next(&at, &line));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size >= 1 && data[0] == 'R')
    run_raw(data + 1, size - 1);
  else
    run_described((fuzz_input){data, size});
  return 0;
}
