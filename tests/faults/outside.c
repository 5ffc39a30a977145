/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "outside.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>

static int outside_entries(int pid, const char *what) {
  char path[64];
  snprintf(path, sizeof(path), "/proc/%d/%s", pid, what);
  DIR *directory = opendir(path);
  struct dirent *entry;
  int count = 0;
  while (directory && (entry = readdir(directory)))
    if (entry->d_name[0] != '.') count++;
  if (directory) closedir(directory);
  return count;
}

/* Needs CONFIG_CHECKPOINT_RESTORE, which distributions set; without it there are 0 before and after. */
static int outside_timers(int pid) {
  char path[64], line[256];
  int count = 0;
  snprintf(path, sizeof(path), "/proc/%d/timers", pid);
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof(line), file)) count += strncmp(line, "ID:", 3) == 0;
  if (file) fclose(file);
  return count;
}

static int outside_profiling(int pid) {
  char path[64], line[256];
  int state = 0;
  snprintf(path, sizeof(path), "/proc/%d/status", pid);
  FILE *file = fopen(path, "re");
  while (file && fgets(line, sizeof(line), file)) {
    unsigned long long set;
    if (sscanf(line, "SigIgn: %llx", &set) == 1 && set >> (SIGPROF - 1) & 1) state = 1;
    if (sscanf(line, "SigCgt: %llx", &set) == 1 && set >> (SIGPROF - 1) & 1) state = 2;
  }
  if (file) fclose(file);
  return state;
}

outside outside_look(int pid) {
  return (outside){outside_entries(pid, "task"), outside_entries(pid, "fd"), outside_timers(pid), outside_profiling(pid)};
}

bool outside_same(const outside *a, const outside *b) {
  return a->threads == b->threads && a->fds == b->fds && a->timers == b->timers && a->profiling == b->profiling;
}
