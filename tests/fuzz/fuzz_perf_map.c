/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * /tmp/perf-PID.map of any content. Promises: a name is found for an address inside its line's range alone, is not empty and
 * stands in the file, and of two lines the later one counts.
 * Input: the file.
 */
#include "fuzz.h"

#include "profile/generated/perf_map.c" /* its static functions */

static const uint64_t fuzz_addresses[] = {0, 1, 0xfff, 0x1000, 0x1010, 0x1018, 0x2000, UINT64_MAX - 1, UINT64_MAX};
#define FUZZ_ADDRESSES (sizeof(fuzz_addresses) / sizeof(fuzz_addresses[0]))

/* The name by the last line that holds the address, asked line by line. */
static const char *find_slowly(const char *text, uint64_t address, char *name) {
  const char *found = NULL;
  for (const char *at = text; *at;) {
    char line[PERF_MAP_LINE];
    const size_t length = strcspn(at, "\n");
    const size_t kept = strcspn(at, "\r\n") < sizeof(line) - 1 ? strcspn(at, "\r\n") : sizeof(line) - 1;
    const char *rest = line;
    uint64_t start, size;
    memcpy(line, at, kept);
    line[kept] = 0;
    const bool whole = at[length] == '\n' || kept == sizeof(line) - 1 || at[kept] == '\r';
    if (whole && perf_map_number(&rest, &start) && perf_map_number(&rest, &size) && rest[0] != 0 && address >= start &&
        address - start < size)
      found = strcpy(name, rest);
    at += length + (at[length] == '\n');
  }
  return found;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static char name[PERF_MAP_LINE];
  perf_map map = {.items = calloc(FUZZ_ADDRESSES, sizeof(*map.items)), .count = FUZZ_ADDRESSES};
  if (size == 0 || !map.items) {
    free(map.items);
    return 0;
  }
  for (size_t i = 0; i < FUZZ_ADDRESSES; i++) map.items[i].address = fuzz_addresses[i];
  uint8_t *copy = fuzz_copy(data, size);
  FILE *file = fmemopen(copy, size, "r");
  if (!file) abort();
  perf_map_read(&map, file);
  fclose(file);
  const bool is_text = !memchr(data, 0, size);
  char *text = malloc(size + 1);
  if (!text) abort();
  memcpy(text, data, size);
  text[size] = 0;
  for (size_t i = 0; i < FUZZ_ADDRESSES; i++) {
    const char *found = map.items[i].name;
    fuzz_check(!found || (found[0] != 0 && !strchr(found, '\n')));
    if (is_text) {
      const char *wanted = find_slowly(text, fuzz_addresses[i], name);
      fuzz_check(!found == !wanted && (!found || strcmp(found, wanted) == 0));
    }
    free(map.items[i].name);
  }
  free(text);
  free(copy);
  free(map.items);
  return 0;
}
