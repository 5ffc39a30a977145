/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Names of generated code as compilers at run time write them for perf: lines "START SIZE NAME", in hexadecimal, in
 * /tmp/perf-PID.map (Linux, tools/perf/Documentation/jit-interface.txt). node --perf-basic-prof, Java's jcmd
 * Compiler.perfmap, LuaJIT, wasmtime and others do.
 *
 * Of lines that hold an address the last one counts: it is the newest. Lines have no time: an address of which others say
 * another name is counted as replaced. Everybody may write to that directory: a file of somebody else's, or a link, is not
 * read; nor is one that an earlier process of the same number has left, as containers do whose processes are 1 each time.
 */
#include "platform/process.h"
#include "platform/proc.h"
#include "profile/generated/generated.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define PERF_MAP_LINE ONSTACK_GENERATED_NAME

typedef struct perf_map_item {
  uint64_t address; /* as the process has it */
  uint32_t number;
  char *name;    /* of the last line that holds it; NULL: none yet */
  bool replaced; /* an earlier line had another one */
} perf_map_item;

typedef struct perf_map {
  perf_map_item *items; /* sorted by address */
  size_t count;
  int error;
} perf_map;

static int perf_map_collect(perf_map *map, const onstack_symbol_table *table, const onstack_profile_maps *maps) {
  onstack_generated_item *items;
  int error = onstack_generated_collect(table, maps, &items, &map->count);
  if (error != 0) return error;
  map->items = calloc(map->count + 1, sizeof(*map->items));
  for (size_t i = 0; map->items && i < map->count; i++)
    map->items[i] = (perf_map_item){.address = items[i].address, .number = items[i].number};
  free(items);
  return !map->items ? -ENOMEM : 0;
}

#define PERF_MAP_STEP_NS 1000000000 /* for clocks that tell the time of files and the beginning of processes in steps */

/* Whether it was written last before this process began. Where nobody tells when that was, it is believed. */
static bool perf_map_is_of_earlier(const struct stat *status) {
  char line[512];
  FILE *file = fopen("/proc/self/stat", "re");
  const bool read = file && fgets(line, sizeof(line), file);
  if (file) fclose(file);
  const uint64_t age_ns = read ? onstack_proc_stat_age_ns(onstack_proc_stat_state(line)) : 0;
  const int64_t began_ns = (int64_t)(onstack_clock_ns(CLOCK_REALTIME) - age_ns),
                written_ns = ((int64_t)status->st_mtime + 1) * 1000000000; /* at the latest; macOS has no st_mtim */
  return age_ns > 0 && written_ns < began_ns - PERF_MAP_STEP_NS;
}

/* Whether this process has the file open, as a compiler that goes on writing does. Looks into /proc/self/fd because the calling
   thread may have descriptors of its own. */
static bool perf_map_is_open_here(const struct stat *status) {
  DIR *directory = opendir("/proc/self/fd");
  bool found = false;
  for (const struct dirent *entry; directory && !found && (entry = readdir(directory));) {
    char path[sizeof("/proc/self/fd/") + sizeof(entry->d_name)];
    struct stat file;
    snprintf(path, sizeof(path), "/proc/self/fd/%s", entry->d_name); /* not fstatat, which the preload exports */
    found = stat(path, &file) == 0 && file.st_ino == status->st_ino && file.st_dev == status->st_dev;
  }
  if (directory) closedir(directory);
  return found;
}

/* A clock that was set forward makes a file of this process look older than the process. An open file is ours all the same. */
static bool perf_map_is_ours(const struct stat *status) {
  return S_ISREG(status->st_mode) && status->st_uid == geteuid() &&
         (!perf_map_is_of_earlier(status) || perf_map_is_open_here(status));
}

/* The file of this process, and ours; -1: there is none. */
static int perf_map_open(void) {
  char path[64];
  struct stat status;
  snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
  if (lstat(path, &status) != 0 || !perf_map_is_ours(&status)) return -1;
  const int file = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NOCTTY | O_NONBLOCK);
  struct stat opened;
  if (file < 0) return -1;
  if (fstat(file, &opened) == 0 && opened.st_ino == status.st_ino && opened.st_dev == status.st_dev) return file;
  close(file);
  return -1;
}

/* A hexadecimal number and the space behind it. */
static bool perf_map_number(const char **at, uint64_t *number) {
  char *end;
  errno = 0;
  *number = strtoull(*at, &end, 16);
  if (end == *at || *end != ' ' || errno != 0 || **at == '-') return false;
  *at = end + 1;
  return true;
}

/* Of a name as wazero writes it for each block of a function, "[3/17].main.work:::::L2", what the function is called. In
   place. */
static const char *perf_map_function(char *name) {
  static const char digits[] = "0123456789", block[] = ":::::L";
  const size_t index = strspn(name + (name[0] == '['), digits), total = 2 + index; /* behind "[3/" */
  char *end = strstr(name, block);
  if (name[0] != '[' || index == 0 || name[1 + index] != '/' || !end || end[sizeof(block) - 1] == 0) return name;
  const size_t behind = total + strspn(name + total, digits);
  if (behind == total || name[behind] != ']' || name[behind + 1] != '.') return name;
  if (end[sizeof(block) - 1 + strspn(end + sizeof(block) - 1, digits)] != 0 || end <= name + behind + 2) return name;
  *end = 0;
  return name + behind + 2;
}

static void perf_map_take(perf_map *map, char *text) {
  uint64_t start, size;
  const char *line = text;
  if (!perf_map_number(&line, &start) || !perf_map_number(&line, &size) || line[0] == 0) return;
  line = perf_map_function(text + (line - text));
  for (size_t i = onstack_generated_first(map->items, sizeof(*map->items), map->count, start);
       i < map->count && map->items[i].address - start < size; i++) {
    perf_map_item *item = &map->items[i];
    if (item->name && strcmp(item->name, line) == 0) continue;
    if (item->name) item->replaced = true;
    free(item->name);
    item->name = strdup(line);
    if (!item->name) map->error = -ENOMEM;
  }
}

/* Line by line: such files grow for as long as the process lives. The last line may be half written. */
static void perf_map_read(perf_map *map, FILE *file) {
  char line[PERF_MAP_LINE];
  bool begins = true;
  while (map->error == 0 && fgets(line, sizeof(line), file)) {
    const size_t length = strcspn(line, "\r\n");
    const bool ends = line[length] != 0;
    line[length] = 0;
    if (begins && (ends || length == sizeof(line) - 1)) perf_map_take(map, line);
    begins = ends;
  }
}

static int perf_map_give(perf_map *map, onstack_symbol_table *table) {
  int error = map->error;
  for (size_t i = 0; i < map->count; i++) {
    const perf_map_item *item = &map->items[i];
    const onstack_symbol_line line = {.name = item->name};
    if (error == 0 && item->name) error = onstack_generated_name(table, item->number, &line);
    table->replaced += item->replaced;
    free(item->name);
  }
  return error;
}

static int perf_map_read_and_give(onstack_symbol_table *table, const onstack_name_context *context) {
  const onstack_profile_maps *maps = context->maps;
  perf_map map = {.items = NULL};
  int error = perf_map_collect(&map, table, maps);
  const int descriptor = error == 0 && map.count > 0 ? perf_map_open() : -1;
  FILE *file = descriptor >= 0 ? fdopen(descriptor, "r") : NULL;
  if (file) {
    perf_map_read(&map, file);
    fclose(file);
    error = perf_map_give(&map, table);
  } else if (descriptor >= 0)
    close(descriptor);
  free(map.items);
  return error;
}

ONSTACK_INTERNAL_DEFINE const onstack_name_source onstack_name_source_perf_map = {perf_map_read_and_give};
