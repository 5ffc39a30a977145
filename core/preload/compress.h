/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The profile's bytes on their way to the file: compressed as gzip by zlib (compress_zlib.c), or as they are
 * (compress_none.c) where the build finds no static zlib for its compiler; readers of pprof take both. preload.mk chooses.
 *
 * zlib is linked in statically, and preload.map hides its names. A dynamic zlib would be one more library that a host must
 * have: another libc's loader would not find it, and in node or python calls would reach the copy that the host exports.
 * What libz.a wants of libc (malloc, free, memcpy, memset) has been there in every version of glibc and musl.
 *
 * Owner: the thread that writes a profile.
 */
#ifndef ONSTACK_PRELOAD_COMPRESS_H
#define ONSTACK_PRELOAD_COMPRESS_H

#include "platform/defs.h"

typedef struct onstack_compress {
  int (*write)(void *data, const void *bytes, size_t length); /* non-zero: the output is lost */
  void *data;
  void *state;
  bool failed;
} onstack_compress;

/* Errors: -ENOMEM (nothing to end). */
ONSTACK_INTERNAL int onstack_compress_begin(onstack_compress *compress, int (*write)(void *, const void *, size_t),
                                            void *data);

/* Has the shape of an onstack_writer. Returns non-zero once a write has failed. */
ONSTACK_INTERNAL int onstack_compress_put(void *compress, const void *bytes, size_t length);

/* Writes what is left and releases. Returns 0, or non-zero when any write has failed. */
ONSTACK_INTERNAL int onstack_compress_end(onstack_compress *compress);

#endif
