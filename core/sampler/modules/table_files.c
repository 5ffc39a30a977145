/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/modules/table_files.h"

#include "platform/atomics.h"
#include "platform/clock_ns.h"
#include "sampler/modules/rule_table.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Raised with each change of what a section's rules become; tests/core/test_cfi.c tells when. */
#define TABLE_FILES_FORMAT 2u
#define TABLE_FILES_NAME ((size_t)2 * ONSTACK_ELF_BUILD_ID_MAX + 64)

static const char table_file_magic[8] = "onstack";

/* What a file begins with; behind it are the bytes of a table behind its own head. */
typedef struct table_file {
  char magic[8];
  uint32_t format, chunk_count, row_count, rule_count;
  uint64_t extent, section_offset, section_bytes;
  uint64_t sum;
} table_file;

/* An absolute path, kept for ever, since a reader may have it; NULL: none is used (publish / observe). */
static const char *table_files_directory;
static onstack_table_files_counters table_files_counters;

/* Of this user or root, and nobody else may write it. */
static bool table_file_is_ours(const struct stat *status) {
  return (status->st_uid == geteuid() || status->st_uid == 0) && (status->st_mode & (S_IWGRP | S_IWOTH)) == 0;
}

/* Returns its descriptor or -errno. */
static int table_files_open(const char *directory) {
  struct stat status;
  const int opened = open(directory, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC); /* realpath has left no link */
  if (opened < 0) return -errno;
  const int error = fstat(opened, &status) != 0 ? -errno : table_file_is_ours(&status) ? 0 : -EACCES;
  if (error == 0) return opened;
  close(opened);
  return error;
}

int onstack_table_files_use(const char *directory) {
  char *absolute = NULL;
  if (directory) {
    absolute = realpath(directory, NULL);
    if (!absolute) return -errno;
    const int opened = table_files_open(absolute);
    if (opened < 0) {
      free(absolute);
      return opened;
    }
    close(opened);
  }
  const char *before = onstack_observe(&table_files_directory);
  if (absolute && before && strcmp(absolute, before) == 0) { /* the same again: a profile that is switched on and off */
    free(absolute);
    return 0;
  }
  onstack_publish(&table_files_directory, absolute);
  return 0;
}

bool onstack_table_files_are_used(void) { return onstack_observe(&table_files_directory) ? true : false; }

static void table_file_name(const onstack_table_key *key, char name[TABLE_FILES_NAME]) {
  int used = 0;
  for (uint32_t i = 0; i < key->build_id.length; i++) used += sprintf(name + used, "%02x", key->build_id.bytes[i]);
  snprintf(name + used, TABLE_FILES_NAME - (size_t)used, ".%u.rules", TABLE_FILES_FORMAT);
}

/* FNV-1a over words: 3 MiB in less than a millisecond. */
static uint64_t table_file_sum(const uint8_t *bytes, size_t size) {
  uint64_t sum = 0xcbf29ce484222325u, word;
  for (; size >= sizeof(word); bytes += sizeof(word), size -= sizeof(word)) {
    memcpy(&word, bytes, sizeof(word));
    sum = (sum ^ word) * 0x100000001b3u;
  }
  for (; size > 0; bytes++, size--) sum = (sum ^ *bytes) * 0x100000001b3u;
  return sum;
}

static uint8_t *table_file_body(const onstack_rule_table *table) { return (uint8_t *)(uintptr_t)table + sizeof(*table); }

static table_file table_file_head(const onstack_table_key *key, const onstack_rule_table *table) {
  table_file head = {.format = TABLE_FILES_FORMAT,
                     .chunk_count = table->chunk_count,
                     .row_count = table->row_count,
                     .rule_count = table->rule_count,
                     .extent = key->extent,
                     .section_offset = key->section_offset,
                     .section_bytes = key->section_bytes,
                     .sum = table_file_sum(table_file_body(table), table->bytes - sizeof(*table))};
  memcpy(head.magic, table_file_magic, sizeof(head.magic));
  return head;
}

static bool table_file_get(int file, void *bytes, size_t size) {
  for (uint8_t *at = bytes; size > 0;) {
    const ssize_t got = read(file, at, size);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    at += got;
    size -= (size_t)got;
  }
  return true;
}

static const onstack_rule_table *table_file_take(int file, const onstack_table_key *key) {
  struct stat status;
  table_file head, made;
  if (fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || !table_file_is_ours(&status)) return NULL;
  if (!table_file_get(file, &head, sizeof(head)) || head.format != TABLE_FILES_FORMAT) return NULL;
  onstack_rule_table *table = onstack_rule_table_map(head.chunk_count, head.row_count, head.rule_count);
  if (!table) return NULL;
  const size_t size = table->bytes - sizeof(*table);
  if ((uint64_t)status.st_size == sizeof(head) + size && table_file_get(file, table_file_body(table), size)) {
    made = table_file_head(key, table);
    if (memcmp(&made, &head, sizeof(head)) == 0 && onstack_rule_table_is_sound(table)) return table;
  }
  onstack_rule_table_free(table);
  return NULL;
}

const onstack_rule_table *onstack_table_files_read(const onstack_table_key *key) {
  char name[TABLE_FILES_NAME];
  const char *path = onstack_observe(&table_files_directory);
  const int directory = path ? table_files_open(path) : -ENOENT;
  if (directory < 0) return NULL;
  table_file_name(key, name);
  /* Not to wait where a pipe was put in its place. */
  const int file = openat(directory, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
  close(directory);
  if (file < 0) return NULL;
  const onstack_rule_table *table = table_file_take(file, key);
  close(file);
  onstack_add_relaxed(table ? &table_files_counters.read : &table_files_counters.refused, (uint64_t)1);
  return table;
}

/* Room for a new file, in memory. Its descriptor is open for an instant alone: a host that closes all of them may give its
   number to a file of its own. Written by write(2), a limit of RLIMIT_FSIZE would end the process. NULL: there is no room. */
static uint8_t *table_file_room(int directory, const char *name, size_t size) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur < size) return NULL;
  const int file = openat(directory, name, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
  if (file < 0) return NULL;
  /* With blocks of its own: to write where the disk is full would be a SIGBUS. */
  void *room = MAP_FAILED;
  if (fallocate(file, 0, 0, (off_t)size) == 0) room = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (room != MAP_FAILED) return room;
  unlinkat(directory, name, 0);
  return NULL;
}

/* Into a file of another name first: whoever looks finds a whole one. What a killed process has left is in nobody's way. */
static bool table_file_write(int directory, const char *name, const onstack_table_key *key,
                             const onstack_rule_table *table) {
  char other[TABLE_FILES_NAME + 64];
  const table_file head = table_file_head(key, table);
  const size_t body = table->bytes - sizeof(*table), size = sizeof(head) + body;
  snprintf(other, sizeof(other), "%s.%ld.%" PRIx64, name, (long)getpid(), onstack_monotonic_ns());
  uint8_t *room = table_file_room(directory, other, size);
  if (!room) return false;
  memcpy(room, &head, sizeof(head));
  memcpy(room + sizeof(head), table_file_body(table), body);
  munmap(room, size);
  if (renameat(directory, other, directory, name) == 0) return true;
  unlinkat(directory, other, 0);
  return false;
}

void onstack_table_files_keep(const onstack_table_key *key, const onstack_rule_table *table) {
  char name[TABLE_FILES_NAME];
  const char *path = onstack_observe(&table_files_directory);
  const int directory = path ? table_files_open(path) : -ENOENT;
  table_file_name(key, name);
  const bool kept = directory >= 0 && table_file_write(directory, name, key, table);
  onstack_add_relaxed(kept ? &table_files_counters.kept : &table_files_counters.failed, (uint64_t)1);
  if (directory >= 0) close(directory);
}

onstack_table_files_counters onstack_table_files_count(void) {
  return (onstack_table_files_counters){
      onstack_load_relaxed(&table_files_counters.read), onstack_load_relaxed(&table_files_counters.kept),
      onstack_load_relaxed(&table_files_counters.refused), onstack_load_relaxed(&table_files_counters.failed)};
}
