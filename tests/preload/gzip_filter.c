/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The preload's compressor as a filter: stdin to stdout, in pieces of uneven size. */
#include "preload/gzip.h"

#include <stdio.h>

static int put(void *file, const void *bytes, size_t length) { return fwrite(bytes, 1, length, file) != length; }

int main(void) {
  static onstack_gzip gzip;
  static unsigned char bytes[7001];
  onstack_gzip_begin(&gzip, put, stdout);
  for (size_t got; (got = fread(bytes, 1, sizeof(bytes), stdin)) > 0;)
    if (onstack_gzip_put(&gzip, bytes, got) != 0) return 1;
  return onstack_gzip_end(&gzip) != 0;
}
