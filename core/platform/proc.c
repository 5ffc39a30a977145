/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "platform/proc.h"

#include "platform/process.h"
#include "platform/sys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static uint32_t proc_maps_digit(char c) {
  if (c >= '0' && c <= '9') return (uint32_t)(c - '0');
  return c >= 'a' && c <= 'f' ? (uint32_t)(c - 'a') + 10 : UINT32_MAX;
}

/* A number of at most 64 bits. */
static bool proc_maps_number(char **at, uint32_t base, uint64_t *number) {
  uint64_t value = 0;
  char *c = *at;
  for (; proc_maps_digit(*c) < base; c++) {
    if (value > (UINT64_MAX - proc_maps_digit(*c)) / base) return false;
    value = value * base + proc_maps_digit(*c);
  }
  const bool any = c != *at;
  *number = value;
  *at = c;
  return any;
}

static bool proc_maps_skip(char **at, char expected) {
  if (**at != expected) return false;
  ++*at;
  return true;
}

/* "rwxp", '-' for what is not allowed. */
static bool proc_maps_mode(char **at, onstack_mapping *mapping) {
  const char *mode = *at;
  if (strnlen(mode, 4) < 4) return false;
  mapping->readable = mode[0] == 'r';
  mapping->writable = mode[1] == 'w';
  mapping->executable = mode[2] == 'x';
  mapping->shared = mode[3] == 's';
  *at += 4;
  return true;
}

static size_t proc_maps_unescape(char *path, size_t length) {
  size_t used = 0;
  for (size_t i = 0; i < length; used++) {
    bool escaped = length - i >= 4 && memcmp(path + i, "\\012", 4) == 0;
    path[used] = escaped ? '\n' : path[i];
    i += escaped ? 4 : 1;
  }
  return used;
}

static void proc_maps_path(char *path, size_t length, onstack_mapping *mapping) {
  static const char mark[] = " (deleted)";
  const size_t mark_length = sizeof(mark) - 1;
  while (length > 0 && *path == ' ') path++, length--;
  mapping->deleted = length > mark_length && memcmp(path + length - mark_length, mark, mark_length) == 0;
  if (mapping->deleted) length -= mark_length;
  mapping->path_length = proc_maps_unescape(path, length);
  path[mapping->path_length] = 0;
  mapping->path = path;
}

/* "55e0-55f0 r-xp 00001000 08:02 1234   /path"; qemu-user has nothing behind the number where there is no path. */
bool onstack_proc_maps_parse(char *line, size_t length, onstack_mapping *mapping) {
  uint64_t major, minor;
  char *at = line;
  line[length] = 0;
  if (!proc_maps_number(&at, 16, &mapping->low) || !proc_maps_skip(&at, '-')) return false;
  if (!proc_maps_number(&at, 16, &mapping->high) || !proc_maps_skip(&at, ' ')) return false;
  if (!proc_maps_mode(&at, mapping) || !proc_maps_skip(&at, ' ')) return false;
  if (!proc_maps_number(&at, 16, &mapping->offset) || !proc_maps_skip(&at, ' ')) return false;
  if (!proc_maps_number(&at, 16, &major) || !proc_maps_skip(&at, ':')) return false;
  if (!proc_maps_number(&at, 16, &minor) || !proc_maps_skip(&at, ' ')) return false;
  if (!proc_maps_number(&at, 10, &mapping->inode)) return false;
  mapping->device = major << 32 | minor;
  proc_maps_path(at, length - (size_t)(at - line), mapping);
  return mapping->low < mapping->high;
}

#ifdef __linux__
typedef struct proc_maps_reader {
  void (*visit)(void *data, const onstack_mapping *mapping);
  void (*resident)(void *data, uint64_t bytes); /* NULL: maps, and not smaps */
  void *data;
  bool cut; /* what comes belongs to a line that was too long */
  size_t used;
  char text[PATH_MAX + 256 + 1]; /* a line with the longest path that can be opened, and a NUL */
} proc_maps_reader;

/* "Rss:                1234 kB" */
static bool proc_maps_resident(char *line, size_t length, uint64_t *bytes) {
  static const char key[] = "Rss:";
  uint64_t number;
  if (length < sizeof(key) || memcmp(line, key, sizeof(key) - 1) != 0) return false;
  for (line += sizeof(key) - 1; *line == ' '; line++) continue;
  if (!proc_maps_number(&line, 10, &number)) return false;
  *bytes = number * 1024;
  return true;
}

static void proc_maps_take_line(proc_maps_reader *reader, char *line, size_t length) {
  onstack_mapping mapping;
  uint64_t bytes;
  line[length] = 0;
  if (reader->resident && !reader->cut && proc_maps_resident(line, length, &bytes))
    reader->resident(reader->data, bytes);
  else if (!reader->cut && onstack_proc_maps_parse(line, length, &mapping))
    reader->visit(reader->data, &mapping);
}

static void proc_maps_take_lines(proc_maps_reader *reader) {
  char *line = reader->text, *limit = line + reader->used, *end;
  for (; (end = memchr(line, '\n', (size_t)(limit - line))); line = end + 1) {
    proc_maps_take_line(reader, line, (size_t)(end - line));
    reader->cut = false;
  }
  reader->used = (size_t)(limit - line);
  memmove(reader->text, line, reader->used);
  if (reader->used < sizeof(reader->text) - 1) return;
  proc_maps_take_line(reader, reader->text, reader->used);
  reader->cut = true;
  reader->used = 0;
}

/* Returns the bytes read, or -errno. */
static long proc_maps_read(const char *path, proc_maps_reader *reader) {
  long file = onstack_sys_call4(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0), got, total = 0;
  if (file < 0) return file;
  for (;;) {
    const size_t room = sizeof(reader->text) - 1 - reader->used;
    got = onstack_sys_call3(SYS_read, file, (long)(reader->text + reader->used), (long)room);
    if (got == -EINTR) continue;
    if (got <= 0) break;
    total += got;
    reader->used += (size_t)got;
    proc_maps_take_lines(reader);
  }
  onstack_sys_call1(SYS_close, file);
  return got < 0 ? got : total;
}

int onstack_proc_smaps_each(void (*visit)(void *data, const onstack_mapping *mapping),
                            void (*resident)(void *data, uint64_t bytes), void *data) {
  proc_maps_reader reader = {.visit = visit, .resident = resident, .data = data};
  long got = proc_maps_read("/proc/self/smaps", &reader);
  if (got == 0) got = proc_maps_read("/proc/thread-self/smaps", &reader); /* as for maps */
  return got < 0 ? (int)got : got == 0 ? -ENOENT : 0;
}

int onstack_proc_maps_each(void (*visit)(void *data, const onstack_mapping *mapping), void *data) {
  proc_maps_reader reader = {.visit = visit, .data = data};
  long got = proc_maps_read("/proc/self/maps", &reader);
  /* After the first thread has ended by pthread_exit the process seems to have no memory; its other threads show it. Not
     thread-self alone: qemu-user emulates /proc/self/maps only. */
  if (got == 0) got = proc_maps_read("/proc/thread-self/maps", &reader);
  return got < 0 ? (int)got : 0;
}
#else
int onstack_proc_smaps_each(void (*visit)(void *data, const onstack_mapping *mapping),
                            void (*resident)(void *data, uint64_t bytes), void *data) {
  (void)visit, (void)resident, (void)data;
  return -ENOENT;
}

int onstack_proc_maps_each(void (*visit)(void *data, const onstack_mapping *mapping), void *data) {
  (void)visit, (void)data;
  return -ENOENT;
}
#endif

#ifndef CLOCK_BOOTTIME /* macOS, which has no /proc either */
#define CLOCK_BOOTTIME CLOCK_MONOTONIC
#endif

/* Fields behind the state, which is the third. */
#define PROC_STAT_START_TIME 19
#define PROC_STAT_START_STACK 25

const char *onstack_proc_stat_state(const char *line) {
  const char *end = strrchr(line, ')');
  return end && end[1] == ' ' && end[2] != 0 ? end + 2 : NULL;
}

static const char *proc_stat_field(const char *state, int number) {
  const char *at = state;
  for (int field = 0; at && field < number; field++) at = strchr(at + 1, ' ');
  return at;
}

uint64_t onstack_proc_stat_main_sp(void) {
  char line[1024], path[48];
  /* The first thread's says nothing once that thread has ended. */
  snprintf(path, sizeof(path), "/proc/self/task/%d/stat", onstack_sys_gettid());
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  const ssize_t got = read(fd, line, sizeof(line) - 1);
  close(fd);
  line[got > 0 ? got : 0] = 0;
  const char *at = proc_stat_field(onstack_proc_stat_state(line), PROC_STAT_START_STACK);
  return at ? strtoull(at, NULL, 10) : 0;
}

uint64_t onstack_proc_stat_age_ns(const char *state) {
  const char *at = proc_stat_field(state, PROC_STAT_START_TIME);
  const long rate = sysconf(_SC_CLK_TCK);
  if (!at || rate <= 0) return 0;
  const uint64_t began_ns = strtoull(at, NULL, 10) * (1000000000u / (uint64_t)rate),
                 now_ns = onstack_clock_ns(CLOCK_BOOTTIME);
  return now_ns > began_ns ? now_ns - began_ns : 0;
}

const char *onstack_own_executable(void) {
  static const char first[] = "/proc/self/exe", calling[] = "/proc/thread-self/exe";
  const int saved = errno;
  char byte;
  const bool gone = readlink(first, &byte, 1) < 0 && readlink(calling, &byte, 1) >= 0;
  errno = saved;
  return gone ? calling : first;
}
