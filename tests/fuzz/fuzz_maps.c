/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The reader of /proc/self/maps, in large and in small pieces. Raw text of any kind (input begins with 'R'): it ends, stays
 * inside, and says nothing that makes no sense. Otherwise the input describes mappings, which are written as the kernel
 * writes them: then all of them come back.
 */
#include "fuzz.h"

#include "platform/sys.h"

/* Its file replaced by `text`, of which a call reads at most `piece` bytes. */
static const char *text;
static size_t text_left, piece;
static long fuzz_open(void) { return 99; }
static long fuzz_read(long number, char *buffer, size_t room) {
  if (number == SYS_close) return 0;
  size_t some = text_left < room ? text_left : room;
  if (some > piece) some = piece;
  memcpy(buffer, text, some);
  text += some;
  text_left -= some;
  return (long)some;
}
static long fuzz_close(void) { return 0; }
#define onstack_sys_call4(number, a, b, c, d) ((void)(b), fuzz_open())
#define onstack_sys_call3(number, a, b, c) fuzz_read(number, (char *)(b), (size_t)(c))
#define onstack_sys_call1(number, a) (fuzz_close())
#include "platform/proc.c"

#define MAPPINGS 40u
#define PATH_BYTES 5000u /* more than any path has */
#define LINE_BYTES (PATH_BYTES + 128u)
#define LINE_WHOLE (sizeof(((proc_maps_reader *)0)->text) - 2) /* the longest that is not cut */

typedef struct mapping {
  uint64_t low, high, offset, inode;
  char mode[5];
  uint32_t path_length;
  size_t line_length;
} mapping;

typedef struct seen {
  const mapping *mappings; /* NULL: anything */
  uint32_t count, mappings_count;
  uint64_t hash;
} seen;

static void hash_bytes(seen *all, const void *bytes, size_t length) {
  for (size_t i = 0; i < length; i++) all->hash = (all->hash ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
}

static void check_described(const onstack_mapping *got, const mapping *mapping) {
  fuzz_check(got->low == mapping->low && got->high == mapping->high && got->offset == mapping->offset);
  fuzz_check(got->readable == (mapping->mode[0] == 'r') && got->writable == (mapping->mode[1] == 'w'));
  fuzz_check(got->executable == (mapping->mode[2] == 'x') && got->shared == (mapping->mode[3] == 's'));
  fuzz_check(got->device == ((uint64_t)0xfd << 32 | 1) && got->inode == mapping->inode);
  for (size_t i = 0; i < got->path_length && i < mapping->path_length; i++)
    fuzz_check(got->path[i] == (i == 0 ? '/' : i == 1 ? '\n' : 'a'));
  if (mapping->line_length > LINE_WHOLE) return;
  fuzz_check(got->deleted == (mapping->inode != 0) && got->path_length == mapping->path_length);
}

static void see(void *data, const onstack_mapping *got) {
  seen *all = data;
  fuzz_check(got->low < got->high && got->path[got->path_length] == 0);
  const uint64_t numbers[] = {got->low, got->high, got->offset, got->device, got->inode, got->path_length};
  const bool marks[] = {got->readable, got->writable, got->executable, got->shared, got->deleted};
  hash_bytes(all, numbers, sizeof(numbers));
  hash_bytes(all, marks, sizeof(marks));
  hash_bytes(all, got->path, got->path_length);
  if (all->mappings) {
    fuzz_check(all->count < all->mappings_count);
    check_described(got, &all->mappings[all->count]);
  }
  all->count++;
}

static seen read_in_pieces(const char *from, size_t size, size_t bytes, const mapping *mappings, uint32_t count) {
  seen all = {.mappings = mappings, .mappings_count = count};
  text = from;
  text_left = size;
  piece = bytes;
  fuzz_check(onstack_proc_maps_each(see, &all) == 0);
  return all;
}

/* Returns how many it has seen. */
static uint32_t read_both(const char *from, size_t size, const mapping *mappings, uint32_t count) {
  seen large = read_in_pieces(from, size, SIZE_MAX, mappings, count);
  seen small = read_in_pieces(from, size, 1 + size % 61, mappings, count);
  fuzz_check(large.count == small.count && large.hash == small.hash);
  return large.count;
}

static void run_raw(const uint8_t *data, size_t size) {
  uint64_t lines = 1;
  for (size_t i = 0; i < size; i++) lines += data[i] == '\n';
  fuzz_check(read_both((const char *)data, size, NULL, 0) <= lines);
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
    to->path_length = to->inode == 0 ? 0 : 2 + (uint32_t)fuzz_take(input, 2) % (PATH_BYTES - 2);
    memcpy(to->mode, "---p", 5);
    if (bits & 32) to->mode[0] = 'r';
    if (bits & 64) to->mode[2] = 'x';
    if (bits & 128) memcpy(to->mode + 1, "w", 1), to->mode[3] = bits & 1 ? 's' : 'p';
  }
  return count;
}

/* "/", the end of a line, and "aaa...". */
static size_t write_line(char *line, const mapping *mapping) {
  char *end = line + sprintf(line, "%08llx-%08llx %s %08llx fd:01 %llu ", (unsigned long long)mapping->low,
                             (unsigned long long)mapping->high, mapping->mode, (unsigned long long)mapping->offset,
                             (unsigned long long)mapping->inode);
  if (mapping->inode != 0) {
    end += sprintf(end, "      /\\012");
    memset(end, 'a', mapping->path_length - 2);
    end += mapping->path_length - 2;
    end += sprintf(end, " (deleted)");
  }
  *end = '\n';
  return (size_t)(end - line);
}

static void run_described(fuzz_input input) {
  static mapping mappings[MAPPINGS];
  static char written[MAPPINGS * LINE_BYTES];
  char *end = written;
  uint32_t count = describe(&input, mappings);
  for (uint32_t i = 0; i < count; i++) {
    mappings[i].line_length = write_line(end, &mappings[i]);
    end += mappings[i].line_length + 1;
  }
  fuzz_check(read_both(written, (size_t)(end - written), mappings, count) == count);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size >= 1 && data[0] == 'R')
    run_raw(data + 1, size - 1);
  else
    run_described((fuzz_input){data, size});
  return 0;
}
