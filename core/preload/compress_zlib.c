/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/compress.h"

#include <errno.h>
#include <stdlib.h>
#include <zlib.h>

#define COMPRESS_GZIP 16 /* added to the window's bits: gzip's head and trailer around */
#define COMPRESS_LEVEL 3 /* the host's processor pays: higher levels take much longer for a few hundredths less */
#define COMPRESS_MEMORY 8

/*
 * Debian's libz.a has stack protectors. On aarch64 their canary is a variable of glibc's loader, which would become a
 * library that this one needs, and another libc's loader does not find it. So it is ours; elsewhere nobody reads it.
 */
ONSTACK_INTERNAL const uintptr_t __stack_chk_guard;
const uintptr_t __stack_chk_guard = (uintptr_t)0x0a0dff5c3a96e700u; /* with the bytes that end a copied string */

typedef struct compress_state {
  z_stream stream;
  Bytef out[32768];
} compress_state;

int onstack_compress_begin(onstack_compress *compress, int (*write)(void *, const void *, size_t), void *data) {
  compress_state *state = calloc(1, sizeof(*state));
  *compress = (onstack_compress){.write = write, .data = data, .state = state};
  if (!state) return -ENOMEM;
  /* The head has no name and no time: the same samples give the same bytes. */
  if (deflateInit2(&state->stream, COMPRESS_LEVEL, Z_DEFLATED, COMPRESS_GZIP + MAX_WBITS, COMPRESS_MEMORY,
                   Z_DEFAULT_STRATEGY) == Z_OK)
    return 0;
  free(state);
  return -ENOMEM;
}

/* Until zlib has nothing more to say of what it was given. */
static void compress_run(onstack_compress *compress, int flush) {
  compress_state *state = compress->state;
  z_stream *stream = &state->stream;
  do {
    stream->next_out = state->out;
    stream->avail_out = sizeof(state->out);
    deflate(stream, flush);
    size_t used = sizeof(state->out) - stream->avail_out;
    if (used > 0 && !compress->failed) compress->failed = compress->write(compress->data, state->out, used) != 0;
  } while (stream->avail_out == 0 && !compress->failed);
}

int onstack_compress_put(void *data, const void *bytes, size_t length) {
  onstack_compress *compress = data;
  compress_state *state = compress->state;
  const Bytef *from = bytes;
  while (length > 0 && !compress->failed) {
    uInt part = length < UINT32_MAX ? (uInt)length : UINT32_MAX;
    state->stream.next_in = (z_const Bytef *)(uintptr_t)from;
    state->stream.avail_in = part;
    compress_run(compress, Z_NO_FLUSH);
    from += part;
    length -= part;
  }
  return compress->failed;
}

int onstack_compress_end(onstack_compress *compress) {
  compress_state *state = compress->state;
  if (!compress->failed) compress_run(compress, Z_FINISH);
  deflateEnd(&state->stream);
  free(state);
  return compress->failed;
}
