/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The text of /proc/self/maps: reading it whole, and taking it apart. */
#ifndef ONSTACK_PROFILE_MAPS_MAPS_TEXT_H
#define ONSTACK_PROFILE_MAPS_MAPS_TEXT_H

#include "base/defs.h"

/* One line. `path` points into the text and is changed in place; it has no NUL. */
typedef struct onstack_maps_line {
  uint64_t start;
  uint64_t limit;
  uint64_t offset; /* in the file */
  uint64_t device;
  uint64_t inode;
  bool executable;
  bool deleted; /* the file has no name any more; the mark is cut off */
  char *path;   /* "" for anonymous memory; the kernel's "\012" is a line end again */
  size_t path_length;
} onstack_maps_line;

/*
 * Reads the file into new memory, NUL-terminated; the caller frees it. It is read in few large pieces: the kernel
 * keeps the lines of one read together, not those of several. Errors: -errno, -ENOMEM.
 */
ONSTACK_INTERNAL int onstack_maps_text_read(char **text);

/* Takes the next line from *text and moves *text behind it. False at the end. Lines that make no sense are skipped. */
ONSTACK_INTERNAL bool onstack_maps_text_next(char **text, onstack_maps_line *line);

#endif
