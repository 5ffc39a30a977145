/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The preload's gzip: whatever goes in, in pieces of any size, zlib gives back; and a write that fails ends it.
 * The input is repeated with changes, so that small ones reach several blocks and long matches.
 */
#include "fuzz.h"

#include "preload/gzip.h"

#include <zlib.h>

typedef struct packed {
  uint8_t *bytes;
  size_t used, room, calls, fails_at; /* fails_at: 0 is never */
} packed;

static int keep(void *data, const void *bytes, size_t length) {
  packed *to = data;
  if (++to->calls == to->fails_at) return 1;
  fuzz_check(length <= to->room - to->used);
  memcpy(to->bytes + to->used, bytes, length);
  to->used += length;
  return 0;
}

static uint8_t *spread(fuzz_input *input, size_t *length) {
  size_t rounds = 1 + (size_t)fuzz_take(input, 1) % 64, step = (size_t)fuzz_take(input, 1), each = input->left;
  uint8_t *bytes = malloc(rounds * each + 1);
  if (!bytes) abort();
  for (size_t round = 0; round < rounds; round++) {
    memcpy(bytes + round * each, input->at, each);
    if (step && each) bytes[round * each + round * step % each] ^= (uint8_t)round;
  }
  *length = rounds * each;
  return bytes;
}

static void pack(const uint8_t *bytes, size_t length, size_t piece, packed *out) {
  onstack_gzip *gzip = malloc(sizeof(*gzip));
  if (!gzip) abort();
  onstack_gzip_begin(gzip, keep, out);
  for (size_t at = 0; at < length; at += piece)
    if (onstack_gzip_put(gzip, bytes + at, length - at < piece ? length - at : piece) != 0) break;
  fuzz_check((onstack_gzip_end(gzip) != 0) == (out->fails_at != 0 && out->calls >= out->fails_at));
  free(gzip);
}

static void check_unpacked(const uint8_t *bytes, size_t length, const packed *from) {
  uint8_t *back = malloc(length + 1);
  z_stream stream = {.next_in = from->bytes, .avail_in = (uInt)from->used, .next_out = back, .avail_out = (uInt)length + 1};
  if (!back || inflateInit2(&stream, 16 + MAX_WBITS) != Z_OK) abort();
  fuzz_check(inflate(&stream, Z_FINISH) == Z_STREAM_END);
  fuzz_check(stream.avail_in == 0 && stream.total_out == length && memcmp(back, bytes, length) == 0);
  inflateEnd(&stream);
  free(back);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  size_t piece = 1 + (size_t)fuzz_take(&input, 2) * 4, fails_at = (size_t)fuzz_take(&input, 1), length;
  uint8_t *bytes = spread(&input, &length);
  packed out = {.room = length * 9 / 8 + 8192}; /* nine bits for the worst byte, and heads */
  out.fails_at = fails_at < 224 ? 0 : fails_at - 223;
  out.bytes = malloc(out.room);
  if (!out.bytes) abort();
  pack(bytes, length, piece, &out);
  if (out.fails_at == 0 || out.calls < out.fails_at) check_unpacked(bytes, length, &out);
  free(out.bytes);
  free(bytes);
  return 0;
}
