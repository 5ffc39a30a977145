/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/compress.h"

int onstack_compress_begin(onstack_compress *compress, int (*write)(void *, const void *, size_t), void *data) {
  *compress = (onstack_compress){.write = write, .data = data};
  return 0;
}

int onstack_compress_put(void *data, const void *bytes, size_t length) {
  onstack_compress *compress = data;
  if (!compress->failed) compress->failed = compress->write(compress->data, bytes, length) != 0;
  return compress->failed;
}

int onstack_compress_end(onstack_compress *compress) { return compress->failed; }
