/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/api/memory_map.h"

#include "platform/proc.h"
#include "platform/sys.h"
#include "sampler/threads/task.h"
#include "sampler/modules/go_runtime.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MEMORY_THREADS 16384u             /* whose stacks are looked for */
#define MEMORY_STACK ((uint64_t)64 << 20) /* a larger mapping with a stack pointer in it holds other things as well */
#define MEMORY_SYSCALL_BYTES ((size_t)256)

/* runtime/malloc.go, mallocinit: arenas follow each other from an address on that is far from the program's and its
   libraries', by chance since Go 1.26 and this one before. */
#define MEMORY_GO_FIRST ((uint64_t)0xc0 << 32)
#define MEMORY_GO_BEFORE ((uint64_t)64 << 30) /* arenas before and behind that of an object */
#define MEMORY_GO_BEHIND ((uint64_t)256 << 30)

typedef struct memory_map {
  uint64_t *parts;
  onstack_memory_part part; /* of the mapping whose size comes next */
  uint64_t go_low, go_high; /* where a runtime's heap lies; equal: nowhere */
  uint64_t data_high;       /* where the data of a file ended, if the last mapping was such */
  size_t count;
  uint64_t stack_pointers[MEMORY_THREADS]; /* ascending */
} memory_map;

/* proc_pid_syscall(5): "N arguments... SP PC" of a thread that is in the kernel, "running" of one that is not. */
static bool memory_stack_pointer(char *line, uint64_t *stack_pointer) {
  char *last = strrchr(line, ' '), *before;
  if (!last) return false;
  *last = 0;
  before = strrchr(line, ' ');
  if (!before) return false;
  *stack_pointer = strtoull(before + 1, NULL, 16);
  return *stack_pointer != 0;
}

static void memory_note_thread(void *data, uint32_t tid) {
  memory_map *map = data;
  char text[MEMORY_SYSCALL_BYTES];
  if (map->count == MEMORY_THREADS) return;
  snprintf(text, sizeof(text), "/proc/self/task/%u/syscall", tid);
  const long file = onstack_sys_call4(SYS_openat, AT_FDCWD, (long)text, O_RDONLY | O_CLOEXEC, 0);
  if (file < 0) return;
  const long got = onstack_sys_call3(SYS_read, file, (long)text, sizeof(text) - 1);
  onstack_sys_call1(SYS_close, file);
  text[got > 0 ? got : 0] = 0;
  if (memory_stack_pointer(text, &map->stack_pointers[map->count])) map->count++;
}

static int memory_compare(const void *left, const void *right) {
  const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return a < b ? -1 : a > b;
}

static bool memory_has_stack(const memory_map *map, const onstack_mapping *mapping) {
  size_t low = 0, high = map->count;
  if (mapping->high - mapping->low > MEMORY_STACK) return false;
  while (low < high) {
    const size_t middle = low + (high - low) / 2;
    if (map->stack_pointers[middle] < mapping->low)
      low = middle + 1;
    else
      high = middle;
  }
  return low < map->count && map->stack_pointers[low] < mapping->high;
}

static bool memory_begins(const onstack_mapping *mapping, const char *with) {
  return strncmp(mapping->path, with, strlen(with)) == 0;
}

static bool memory_is_shared(const onstack_mapping *mapping) {
  return mapping->shared && (memory_begins(mapping, "/memfd:") || memory_begins(mapping, "/SYSV") ||
                             memory_begins(mapping, "/dev/zero") || memory_begins(mapping, "/dev/shm/"));
}

static onstack_memory_part memory_part_of_nobody(const memory_map *map, const onstack_mapping *mapping) {
  if (memory_begins(mapping, "[stack")) return ONSTACK_MEMORY_STACKS;
  if (memory_begins(mapping, "[v")) return ONSTACK_MEMORY_CODE;
  if (mapping->executable) return ONSTACK_MEMORY_GENERATED;
  if (mapping->low >= map->go_low && mapping->low < map->go_high) return ONSTACK_MEMORY_GO;
  if (mapping->low == map->data_high && mapping->path[0] == 0) return ONSTACK_MEMORY_FILES;
  return memory_has_stack(map, mapping) ? ONSTACK_MEMORY_STACKS : ONSTACK_MEMORY_REST;
}

static void memory_visit(void *data, const onstack_mapping *mapping) {
  memory_map *map = data;
  if (memory_is_shared(mapping))
    map->part = ONSTACK_MEMORY_SHARED;
  else if (mapping->inode != 0)
    map->part = mapping->executable ? ONSTACK_MEMORY_CODE : ONSTACK_MEMORY_FILES;
  else
    map->part = memory_part_of_nobody(map, mapping);
  map->data_high = mapping->inode != 0 && mapping->writable ? mapping->high : 0;
}

static void memory_add(void *data, uint64_t bytes) {
  const memory_map *map = data;
  map->parts[map->part] += bytes;
}

int onstack_memory_map_read(uint64_t object, uint64_t parts[ONSTACK_MEMORY_PARTS]) {
  memset(parts, 0, ONSTACK_MEMORY_PARTS * sizeof(*parts));
  memory_map *map = calloc(1, sizeof(*map));
  if (!map) return -ENOMEM;
  map->parts = parts;
  if (object == 0 && onstack_go_runtime_is_present()) object = MEMORY_GO_FIRST;
  if (object != 0) {
    map->go_low = object > MEMORY_GO_BEFORE ? object - MEMORY_GO_BEFORE : 0;
    map->go_high = object + MEMORY_GO_BEHIND;
  }
  map->stack_pointers[map->count++] = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  onstack_task_list_each(memory_note_thread, map); /* without a list only fewer stacks are known */
  qsort(map->stack_pointers, map->count, sizeof(map->stack_pointers[0]), memory_compare);
  const int result = onstack_proc_smaps_each(memory_visit, memory_add, map);
  free(map);
  return result;
}
