/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names of output files, and files that appear whole or not at all.
 *
 * A file is written without a name, or where the file system has none such, beside its place under a name that nobody had
 * (O_EXCL: no link planted in a shared directory is followed), readable by its owner alone, and then renamed over its place.
 * So a reader never sees half a profile, a
 * full disk leaves the former one, and a name that is a device, a pipe or a symbolic link is refused instead of replaced.
 * No descriptor is held between writes: hosts close and re-use them.
 *
 * A process replaces its own file, and one of an earlier process. If "%p" is in the name and the file there was written by
 * another process since this one began, that process has the same id in another PID namespace or on another machine: then "-1"
 * or the next number that is free follows the id.
 */
#ifndef ONSTACK_PRELOAD_NEW_FILE_H
#define ONSTACK_PRELOAD_NEW_FILE_H

#include "platform/defs.h"

#include <sys/stat.h>

#define ONSTACK_NEW_FILE_NAME 4096

/*
 * Makes `pattern` absolute, as the directory is now: the host may change it. "%p" stays. Returns 0, or a negative errno
 * (ENAMETOOLONG, ENOENT: no working directory), or -EINVAL for a '%' that is followed by neither 'p' nor '%'.
 */
ONSTACK_INTERNAL int onstack_new_file_pattern(const char *pattern, char out[ONSTACK_NEW_FILE_NAME]);

ONSTACK_INTERNAL bool onstack_new_file_has_pid(const char *pattern);

/* This process begins: in the constructor, and in the child of a fork. Async-signal-safe. */
ONSTACK_INTERNAL void onstack_new_file_process_begins(void);

/* What a process remembers of one of its files, so that it knows it again. Zeros: it has written none. */
typedef struct onstack_new_file_last {
  struct stat file;
  uint32_t number; /* behind the process id; 0: none */
} onstack_new_file_last;

typedef struct onstack_new_file {
  int file;
  int error; /* the first that happened, as -errno */
  const char *pattern;
  int number;
  onstack_new_file_last *last;
  char name[ONSTACK_NEW_FILE_NAME]; /* "": none yet */
  char temporary[ONSTACK_NEW_FILE_NAME];
} onstack_new_file;

/*
 * Begins a file. In its name, `pattern`'s "%p" is the process id, "%%" a '%'; `number` >= 0 is appended as ".3". Ownership:
 * `pattern` and `last` live until the end. Returns 0 or -errno; -EEXIST if something is there that is not a regular file.
 */
ONSTACK_INTERNAL int onstack_new_file_begin(onstack_new_file *output, const char *pattern, int number,
                                            onstack_new_file_last *last);

/* Has the shape of an onstack_writer. */
ONSTACK_INTERNAL int onstack_new_file_write(void *output, const void *bytes, size_t length);

/* Puts the file in its place, or takes it away when `keep` is false or a write had failed. Returns 0 or -errno. */
ONSTACK_INTERNAL int onstack_new_file_end(onstack_new_file *output, bool keep);

#endif
