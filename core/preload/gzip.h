/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * gzip (RFC 1951, 1952) in one file of our own: a dynamic zlib in somebody else's process would bind to whatever copy
 * the host exports (node and others export their own), and a static one would have to be had as position independent
 * code for each target. Fixed Huffman codes and one probe of a hash table: a profile shrinks to about a third.
 *
 * Owner: the thread that writes a profile. No libc but memcpy and memset.
 */
#ifndef ONSTACK_PRELOAD_GZIP_H
#define ONSTACK_PRELOAD_GZIP_H

#include "base/defs.h"

#define ONSTACK_GZIP_BLOCK ((size_t)1 << 16)
#define ONSTACK_GZIP_HASH_BITS 14

typedef struct onstack_gzip {
  int (*write)(void *data, const void *bytes, size_t length); /* non-zero: the output is lost */
  void *data;
  bool failed;
  uint32_t crc, length; /* of what came in */
  uint64_t bits;        /* that wait for a whole byte, lowest first */
  uint32_t bit_count;
  size_t block_used, out_used;
  uint8_t block[ONSTACK_GZIP_BLOCK]; /* matches do not reach back beyond it */
  uint8_t out[4096];
  uint16_t heads[1 << ONSTACK_GZIP_HASH_BITS]; /* last place in the block with this hash */
} onstack_gzip;

ONSTACK_INTERNAL void onstack_gzip_begin(onstack_gzip *gzip, int (*write)(void *, const void *, size_t), void *data);

/* Has the shape of an onstack_writer. Returns non-zero once a write has failed. */
ONSTACK_INTERNAL int onstack_gzip_put(void *gzip, const void *bytes, size_t length);

/* Writes what is left and the trailer. Returns 0, or non-zero when any write has failed. */
ONSTACK_INTERNAL int onstack_gzip_end(onstack_gzip *gzip);

#endif
