/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/gzip.h"

#include <string.h>

#define GZIP_MATCH_MIN 4u /* shorter ones save nothing under fixed codes */
#define GZIP_MATCH_MAX 258u
#define GZIP_DISTANCE_MAX 32768u
#define GZIP_END_OF_BLOCK 256u

/* RFC 1951, 3.2.5: first length and distance of each code, and the extra bits behind it. */
static const uint16_t gzip_length_base[] = {3,  4,  5,  6,  7,  8,  9,  10, 11,  13,  15,  17,  19,  23, 27,
                                            31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258};
static const uint8_t gzip_length_extra[] = {0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2,
                                            2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0};
static const uint16_t gzip_distance_base[] = {1,    2,    3,    4,    5,    7,    9,    13,    17,    25,
                                              33,   49,   65,   97,   129,  193,  257,  385,   513,   769,
                                              1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577};
static const uint8_t gzip_distance_extra[] = {0, 0, 0, 0, 1, 1, 2, 2,  3,  3,  4,  4,  5,  5,  6,
                                              6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13};

static void gzip_flush(onstack_gzip *gzip) {
  if (!gzip->failed && gzip->out_used > 0) gzip->failed = gzip->write(gzip->data, gzip->out, gzip->out_used) != 0;
  gzip->out_used = 0;
}

static void gzip_byte(onstack_gzip *gzip, uint32_t byte) {
  if (gzip->out_used == sizeof(gzip->out)) gzip_flush(gzip);
  gzip->out[gzip->out_used++] = (uint8_t)byte;
}

static void gzip_bits(onstack_gzip *gzip, uint32_t value, uint32_t count) {
  gzip->bits |= (uint64_t)value << gzip->bit_count;
  for (gzip->bit_count += count; gzip->bit_count >= 8; gzip->bit_count -= 8, gzip->bits >>= 8)
    gzip_byte(gzip, (uint32_t)gzip->bits & 0xff);
}

/* Huffman codes go out highest bit first, all else lowest first. */
static void gzip_code(onstack_gzip *gzip, uint32_t code, uint32_t count) {
  uint32_t turned = 0;
  for (uint32_t i = 0; i < count; i++) turned |= (code >> i & 1) << (count - 1 - i);
  gzip_bits(gzip, turned, count);
}

/* The fixed code of RFC 1951, 3.2.6. */
static void gzip_symbol(onstack_gzip *gzip, uint32_t symbol) {
  if (symbol < 144)
    gzip_code(gzip, 0x30 + symbol, 8);
  else if (symbol < 256)
    gzip_code(gzip, 0x190 + symbol - 144, 9);
  else if (symbol < 280)
    gzip_code(gzip, symbol - 256, 7);
  else
    gzip_code(gzip, 0xc0 + symbol - 280, 8);
}

static uint32_t gzip_find(const uint16_t *bases, uint32_t count, uint32_t value) {
  uint32_t at = count - 1;
  while (bases[at] > value) at--;
  return at;
}

static void gzip_match(onstack_gzip *gzip, uint32_t length, uint32_t distance) {
  uint32_t at = gzip_find(gzip_length_base, ONSTACK_COUNT_OF(gzip_length_base), length);
  gzip_symbol(gzip, 257 + at);
  gzip_bits(gzip, length - gzip_length_base[at], gzip_length_extra[at]);
  at = gzip_find(gzip_distance_base, ONSTACK_COUNT_OF(gzip_distance_base), distance);
  gzip_code(gzip, at, 5);
  gzip_bits(gzip, distance - gzip_distance_base[at], gzip_distance_extra[at]);
}

static uint32_t gzip_match_length(const uint8_t *a, const uint8_t *b, size_t room) {
  uint32_t length = 0, most = room < GZIP_MATCH_MAX ? (uint32_t)room : GZIP_MATCH_MAX;
  while (length < most && a[length] == b[length]) length++;
  return length;
}

/* The last place with the same four bytes' hash; the caller compares. Remembers this one. */
static size_t gzip_candidate(onstack_gzip *gzip, size_t at) {
  uint32_t word;
  memcpy(&word, gzip->block + at, sizeof(word));
  uint16_t *head = &gzip->heads[word * 2654435761u >> (32 - ONSTACK_GZIP_HASH_BITS)];
  size_t found = *head;
  *head = (uint16_t)at;
  return found;
}

/* A head left over from an earlier block only costs a comparison: what counts are this block's bytes before `at`. */
static void gzip_compress_block(onstack_gzip *gzip, bool last) {
  const uint8_t *block = gzip->block;
  size_t at = 0, used = gzip->block_used;
  gzip_bits(gzip, last ? 3 : 2, 3);
  while (at < used) {
    size_t from = at + GZIP_MATCH_MIN <= used ? gzip_candidate(gzip, at) : at;
    bool near = from < at && at - from <= GZIP_DISTANCE_MAX;
    uint32_t length = near ? gzip_match_length(block + from, block + at, used - at) : 0;
    if (length >= GZIP_MATCH_MIN) {
      gzip_match(gzip, length, (uint32_t)(at - from));
      at += length;
    } else {
      gzip_symbol(gzip, block[at++]);
    }
  }
  gzip_symbol(gzip, GZIP_END_OF_BLOCK);
  gzip->block_used = 0;
}

static void gzip_sum(onstack_gzip *gzip, const uint8_t *bytes, size_t length) {
  /* CRC-32 of RFC 1952, 8., by half bytes. */
  static const uint32_t table[16] = {0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4,
                                     0x4db26158, 0x5005713c, 0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c,
                                     0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c};
  uint32_t crc = ~gzip->crc;
  for (size_t i = 0; i < length; i++) {
    crc ^= bytes[i];
    crc = table[crc & 15] ^ crc >> 4;
    crc = table[crc & 15] ^ crc >> 4;
  }
  gzip->crc = ~crc;
  gzip->length += (uint32_t)length;
}

void onstack_gzip_begin(onstack_gzip *gzip, int (*write)(void *, const void *, size_t), void *data) {
  /* Deflate, no name, no time (two runs over the same samples give the same bytes), unknown system. */
  static const uint8_t head[10] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255};
  memset(gzip, 0, sizeof(*gzip));
  gzip->write = write;
  gzip->data = data;
  for (size_t i = 0; i < sizeof(head); i++) gzip_byte(gzip, head[i]);
}

int onstack_gzip_put(void *data, const void *bytes, size_t length) {
  onstack_gzip *gzip = data;
  const uint8_t *from = bytes;
  gzip_sum(gzip, from, length);
  while (length > 0 && !gzip->failed) {
    size_t room = sizeof(gzip->block) - gzip->block_used, part = length < room ? length : room;
    memcpy(gzip->block + gzip->block_used, from, part);
    gzip->block_used += part;
    from += part;
    length -= part;
    if (gzip->block_used == sizeof(gzip->block)) gzip_compress_block(gzip, false);
  }
  return gzip->failed;
}

int onstack_gzip_end(onstack_gzip *gzip) {
  gzip_compress_block(gzip, true);
  gzip_bits(gzip, 0, (8 - gzip->bit_count) & 7);
  for (uint32_t i = 0; i < 32; i += 8) gzip_byte(gzip, gzip->crc >> i & 0xff);
  for (uint32_t i = 0; i < 32; i += 8) gzip_byte(gzip, gzip->length >> i & 0xff);
  gzip_flush(gzip);
  return gzip->failed;
}
