/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The preload's output stage as a filter: stdin to stdout, in pieces of uneven size. With an argument that many writes
   succeed; the exit status is 3 where the stage has said so, and called nobody any more. */
#include "preload/compress.h"

#include <stdio.h>
#include <stdlib.h>

static long left = -1; /* writes that succeed; below 0: all */
static int refused;

static int put(void *file, const void *bytes, size_t length) {
  if (refused) abort();
  refused = left == 0;
  left -= left > 0;
  return refused || fwrite(bytes, 1, length, file) != length;
}

int main(int count, char **arguments) {
  onstack_compress compress;
  static unsigned char bytes[7001];
  if (count > 1) left = atol(arguments[1]);
  if (onstack_compress_begin(&compress, put, stdout) != 0) return 1;
  for (size_t got; (got = fread(bytes, 1, sizeof(bytes), stdin)) > 0;)
    if (onstack_compress_put(&compress, bytes, got) != 0) break;
  bool failed = onstack_compress_end(&compress) != 0;
  return failed != refused ? 1 : failed ? 3 : 0;
}
