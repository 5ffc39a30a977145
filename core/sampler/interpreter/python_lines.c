/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/python_lines.h"

#define LINES_UNIT 2u /* bytes of a code unit */
#define LINES_MOST 100000000u

/* Objects/lnotab_notes.txt (3.9): pairs of a distance in bytes and one in lines. */
static int64_t lines_of_3_9(const uint8_t *table, size_t size, int64_t line, uint32_t position) {
  uint64_t at = 0;
  for (size_t i = 0; i + 2 <= size; i += 2) {
    at += table[i];
    if (at > position) break;
    line += (int8_t)table[i + 1];
  }
  return line;
}

/* Objects/lnotab_notes.txt (3.10): pairs of a length in bytes and a distance in lines, -128: no line. */
static int64_t lines_of_3_10(const uint8_t *table, size_t size, int64_t line, uint32_t position) {
  uint64_t end = 0;
  for (size_t i = 0; i + 2 <= size; i += 2) {
    const int8_t delta = (int8_t)table[i + 1];
    end += table[i];
    if (delta != -128) line += delta;
    if (position < end) return delta == -128 ? 0 : line;
  }
  return 0;
}

/* Objects/locations.md (3.11): a zig-zag number of six bits a byte. */
static int64_t lines_signed(const uint8_t *table, size_t size, size_t at) {
  uint64_t value = 0;
  for (uint32_t shift = 0; at < size && shift < 60; at++, shift += 6) {
    value |= (uint64_t)(table[at] & 63) << shift;
    if (!(table[at] & 64)) break;
  }
  value = value >> 1 < LINES_MOST ? value : 0; /* no table of CPython's has more; and sums do not overflow */
  return value & 1 ? -(int64_t)(value >> 1) : (int64_t)(value >> 1);
}

/* Objects/locations.md (3.11): entries whose first byte has its top bit set; a form, and a length in code units. */
static int64_t lines_of_3_11(const uint8_t *table, size_t size, int64_t line, uint32_t position) {
  uint64_t end = 0;
  for (size_t i = 0; i < size;) {
    const uint32_t form = table[i] >> 3 & 15;
    end += ((table[i] & 7u) + 1) * LINES_UNIT;
    if (form == 13 || form == 14) line += lines_signed(table, size, i + 1);
    if (form >= 10 && form <= 12) line += form - 10;
    if (position < end) return form == 15 ? 0 : line;
    for (i++; i < size && !(table[i] & 128); i++) continue;
  }
  return 0;
}

uint32_t onstack_python_line(uint16_t version, const uint8_t *table, size_t size, uint32_t first_line, uint32_t position) {
  int64_t line = version >= 0x030b   ? lines_of_3_11(table, size, first_line, position)
                 : version == 0x030a ? lines_of_3_10(table, size, first_line, position * LINES_UNIT)
                                     : lines_of_3_9(table, size, first_line, position);
  return line > 0 && line < (int64_t)LINES_MOST ? (uint32_t)line : 0;
}
