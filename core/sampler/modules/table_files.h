/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Rule tables of large objects, kept in files of a directory from one process to the next. A file's name is the object's build
 * id and the number of what makes tables (TABLE_FILES_FORMAT).
 *
 * A handler trusts its tables, so nobody else may write what is read here: the directory and the file belong to this user or
 * to root, and others have no right to write them. What was read is copied, so that a file may be cut or removed at any time,
 * and is checked: a sum of all words against a disk that lies, and each number that the handler follows.
 * Ordinary threads.
 */
#ifndef ONSTACK_SAMPLER_MODULES_TABLE_FILES_H
#define ONSTACK_SAMPLER_MODULES_TABLE_FILES_H

#include "platform/elf_file.h"
#include "sampler/unwind/rules.h"

/* Objects with less of .eh_frame are derived in less than a millisecond. */
#define ONSTACK_TABLE_FILES_LEAST ((size_t)1 << 16)

/* Which table is meant. */
typedef struct onstack_table_key {
  onstack_elf_build_id build_id;
  uint64_t extent;         /* of the object in memory */
  uint64_t section_offset; /* of .eh_frame, from the object's lowest address */
  uint64_t section_bytes;  /* up to the end of its segment */
} onstack_table_key;

/* Any thread, while no other calls it. NULL: none is kept any more. Errors: -errno; -EACCES: others may write there. */
ONSTACK_INTERNAL int onstack_table_files_use(const char *directory);

ONSTACK_INTERNAL bool onstack_table_files_are_used(void);

/* NULL: there is none, or it cannot be trusted. The caller frees it by onstack_rule_table_free. */
ONSTACK_INTERNAL const onstack_rule_table *onstack_table_files_read(const onstack_table_key *key);

/* What cannot be written is left out. Its directory is a local one: the caller waits, with the lock of all objects. */
ONSTACK_INTERNAL void onstack_table_files_keep(const onstack_table_key *key, const onstack_rule_table *table);

/* Since the process began: tables that were read, were written, files that were not trusted, and tables that could not be
   written. */
typedef struct onstack_table_files_counters {
  uint64_t read, kept, refused, failed;
} onstack_table_files_counters;

ONSTACK_INTERNAL onstack_table_files_counters onstack_table_files_count(void);

#endif
