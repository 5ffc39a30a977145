/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The account of the process's resident memory in heap profiles: by /proc/self/smaps, and by what allocators report. */
#include "profile/text.h"

#include "platform/calls.h"
#include "platform/process.h"
#include "platform/proc.h"
#include "profile/store/store.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- resident bytes by mappings, each byte in one part ---- */

typedef enum memory_part {
  MEMORY_STACKS,                 /* of threads */
  MEMORY_CODE,                   /* of files, executable; the vDSO */
  MEMORY_FILES,                  /* of files otherwise, and the zeroed data (.bss) behind a library's */
  MEMORY_GENERATED,              /* executable, of no file */
  MEMORY_SHARED,                 /* shared with others, of no file on a disk: memfd, System V, /dev/zero */
  MEMORY_NAMED,                  /* those above have a line each */
  MEMORY_RUNTIME = MEMORY_NAMED, /* the heap of Go, or of another runtime: objects and its stacks */
  MEMORY_REST,                   /* heaps, and whatever else is anonymous */
  MEMORY_PARTS
} memory_part;

static const char *const memory_names[MEMORY_NAMED] = {"stacks of threads", "code", "files, data of libraries",
                                                       "generated code", "shared memory"};

#define MEMORY_STACK ((uint64_t)64 << 20) /* a larger mapping with a stack pointer in it holds other things as well */
#define MEMORY_SYSCALL_BYTES ((size_t)256)

/* runtime/malloc.go, mallocinit: arenas follow each other from an address on that is far from the program's and its
   libraries', by chance since Go 1.26 and this one before. */
#define MEMORY_GO_FIRST ((uint64_t)0xc0 << 32)
#define MEMORY_GO_BEFORE ((uint64_t)64 << 30) /* arenas before and behind that of an object */
#define MEMORY_GO_BEHIND ((uint64_t)256 << 30)

typedef struct memory_map {
  uint64_t parts[MEMORY_PARTS];
  memory_part part; /* of the mapping whose size comes next */
  uint64_t runtime_low, runtime_high;
  uint64_t data_high;           /* where the data of a file ended, if the last mapping was such */
  uint64_t *stack_pointers;     /* of threads, ascending */
  size_t count, capacity, next; /* next: the first that is not below the last mapping */
} memory_map;

/* proc_pid_syscall(5): "N arguments... SP PC" of a thread that is in the kernel, "running" of one that is not. */
static uint64_t memory_stack_pointer(const char *tid) {
  char text[MEMORY_SYSCALL_BYTES];
  snprintf(text, sizeof(text), "/proc/self/task/%.20s/syscall", tid);
  const int file = open(text, O_RDONLY | O_CLOEXEC);
  if (file < 0) return 0;
  const ssize_t got = read(file, text, sizeof(text) - 1);
  close(file);
  text[got > 0 ? got : 0] = 0;
  char *last = strrchr(text, ' ');
  if (last) *last = 0;
  const char *before = last ? strrchr(text, ' ') : NULL;
  return before ? strtoull(before + 1, NULL, 16) : 0;
}

static int memory_compare(const void *left, const void *right) {
  const uint64_t a = *(const uint64_t *)left, b = *(const uint64_t *)right;
  return a < b ? -1 : a > b;
}

/* If a thread is running, or memory is out, its stack is in the rest. */
static void memory_find_stacks(memory_map *map) {
  DIR *threads = opendir("/proc/self/task");
  for (const struct dirent *entry; threads && (entry = readdir(threads));) {
    const uint64_t stack_pointer = entry->d_name[0] == '.' ? 0 : memory_stack_pointer(entry->d_name);
    void *grown = stack_pointer == 0
                      ? NULL
                      : onstack_profile_grow(map->stack_pointers, &map->capacity, map->count + 1, sizeof(stack_pointer));
    if (!grown) continue;
    map->stack_pointers = grown;
    map->stack_pointers[map->count++] = stack_pointer;
  }
  if (threads) closedir(threads);
  if (map->count > 0) qsort(map->stack_pointers, map->count, sizeof(*map->stack_pointers), memory_compare);
}

static bool memory_has_stack(memory_map *map, const onstack_mapping *mapping) {
  while (map->next < map->count && map->stack_pointers[map->next] < mapping->low) map->next++;
  return map->next < map->count && map->stack_pointers[map->next] < mapping->high &&
         mapping->high - mapping->low <= MEMORY_STACK;
}

static bool memory_begins(const onstack_mapping *mapping, const char *with) {
  return strncmp(mapping->path, with, strlen(with)) == 0;
}

static bool memory_is_shared(const onstack_mapping *mapping) {
  return mapping->shared && (memory_begins(mapping, "/memfd:") || memory_begins(mapping, "/SYSV") ||
                             memory_begins(mapping, "/dev/zero") || memory_begins(mapping, "/dev/shm/"));
}

static memory_part memory_part_of(memory_map *map, const onstack_mapping *mapping) {
  if (memory_is_shared(mapping)) return MEMORY_SHARED;
  if (mapping->inode != 0) return mapping->executable ? MEMORY_CODE : MEMORY_FILES;
  if (memory_begins(mapping, "[stack")) return MEMORY_STACKS;
  if (memory_begins(mapping, "[v")) return MEMORY_CODE;
  if (mapping->executable) return MEMORY_GENERATED;
  if (mapping->low >= map->runtime_low && mapping->low < map->runtime_high) return MEMORY_RUNTIME;
  if (mapping->low == map->data_high && mapping->path[0] == 0) return MEMORY_FILES;
  return memory_has_stack(map, mapping) ? MEMORY_STACKS : MEMORY_REST;
}

static void memory_visit(void *data, const onstack_mapping *mapping) {
  memory_map *map = data;
  map->part = memory_part_of(map, mapping);
  map->data_high = mapping->inode != 0 && mapping->writable ? mapping->high : 0;
}

static void memory_add(void *data, uint64_t bytes) {
  memory_map *map = data;
  map->parts[map->part] += bytes;
}

/* `object`: an address in a runtime's heap; 0: Go's is looked for. Errors: -errno, when /proc/self/smaps cannot be read. */
static int memory_map_read(uint64_t object, memory_map *map) {
  if (object == 0) object = MEMORY_GO_FIRST;
  *map = (memory_map){.runtime_low = object > MEMORY_GO_BEFORE ? object - MEMORY_GO_BEFORE : 0,
                      .runtime_high = object + MEMORY_GO_BEHIND};
  memory_find_stacks(map);
  const int result = onstack_proc_smaps_each(memory_visit, memory_add, map);
  free(map->stack_pointers);
  return result;
}

/* ---- what allocators report ---- */

typedef struct memory_malloc {
  uint64_t in_use; /* 0: not known */
  uint64_t all;    /* what they have of the kernel's */
} memory_malloc;

/* As in glibc's malloc.h since 2.33; looked up when asked for, so that the library loads with older ones. */
typedef struct memory_mallinfo2 {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
} memory_mallinfo2;

typedef int memory_control(const char *, void *, size_t *, void *, size_t); /* jemalloc's mallctl */

/* Beside libc's malloc there may be jemallocs with names of their own: of the crate tikv-jemallocator, and DuckDB's. Weak: NULL
   where the program that this library is linked into has none. Without statistics they answer ENOENT. */
#if defined(__ELF__)
__attribute__((weak)) extern memory_control je_mallctl, _rjem_mallctl, duckdb_je_mallctl;
static memory_control *const memory_linked_in[] = {je_mallctl, _rjem_mallctl, duckdb_je_mallctl};
#else
static memory_control *const memory_linked_in[] = {NULL};
#endif

static uint64_t memory_ask_jemalloc(memory_control *control, const char *name) {
  size_t bytes = 0, length = sizeof(bytes);
  return control(name, &bytes, &length, NULL, 0) == 0 && length == sizeof(bytes) ? bytes : 0;
}

static void memory_add_jemalloc(memory_malloc *sum, memory_control *control) {
  uint64_t epoch = 1;
  control("epoch", NULL, NULL, &epoch, sizeof(epoch)); /* the numbers of now (jemalloc(3)) */
  sum->in_use += memory_ask_jemalloc(control, "stats.allocated");
  sum->all += memory_ask_jemalloc(control, "stats.resident");
}

static memory_malloc memory_of_allocators(void) {
  memory_malloc sum = {0, 0};
  memory_control *control;
  memory_mallinfo2 (*info)(void);
  *(void **)(void *)&control = dlsym(RTLD_DEFAULT, "mallctl"); /* an allocator that has it replaces libc's */
  *(void **)(void *)&info = dlsym(RTLD_DEFAULT, "mallinfo2");
  if (control) {
    memory_add_jemalloc(&sum, control);
  } else if (info) {
    const memory_mallinfo2 now = info();
    sum = (memory_malloc){now.uordblks + now.hblkhd, now.arena + now.hblkhd};
  }
  for (uint32_t i = 0; i < ONSTACK_COUNT_OF(memory_linked_in); i++)
    if (memory_linked_in[i] && memory_linked_in[i] != control) memory_add_jemalloc(&sum, memory_linked_in[i]);
  return sum;
}

/* ---- text ---- */

#define MEMORY_LINE ((size_t)160)
#define MEMORY_RUNTIME_SIZE_0_1 ((size_t)56)
_Static_assert(offsetof(onstack_runtime_memory, idle) + sizeof(uint64_t) == MEMORY_RUNTIME_SIZE_0_1, "grows at the end");

typedef struct memory_text {
  onstack_writer writer;
  void *data;
  int error;
} memory_text;

static void memory_line(memory_text *text, uint64_t bytes, const char *owner, const char *what) {
  ONSTACK_STOP_EXCEPTIONS;
  char line[MEMORY_LINE];
  if (text->error != 0) return;
  const int length = snprintf(line, sizeof(line), "onstack.memory bytes=%" PRIu64 " of=%s%s\n", bytes, owner, what);
  if (length <= 0 || (size_t)length >= sizeof(line)) return;
  if (text->writer(text->data, line, (size_t)length) != 0) text->error = ONSTACK_E_OUTPUT;
}

/* A part of what is left. An allocator's or a runtime's figure may be more than what is resident. */
static void memory_take(memory_text *text, uint64_t *left, uint64_t bytes, const char *owner, const char *what) {
  if (bytes > *left) bytes = *left;
  if (bytes == 0) return;
  memory_line(text, bytes, owner, what);
  *left -= bytes;
}

/*
 * What is in use has been touched, and comes first; what an allocator or a runtime has for itself may in part never have been.
 * A runtime's heap is measured if its place is known; otherwise it is in the rest, and is as large as the runtime reports.
 */
static void memory_write(memory_text *text, uint64_t parts[MEMORY_PARTS], uint64_t sampled,
                         const onstack_runtime_memory *runtime, memory_malloc malloc_says) {
  uint64_t all = 0, *rest = &parts[MEMORY_REST], *heap = &parts[MEMORY_RUNTIME], in_use = malloc_says.in_use;
  const char *name = runtime && runtime->name ? runtime->name : "runtime";
  for (uint32_t i = 0; i < MEMORY_PARTS; i++) all += parts[i];
  memory_line(text, all, "resident", "");
  if (runtime) {
    uint64_t *left = *heap > 0 ? heap : rest;
    const uint64_t idle = *heap > 0 ? UINT64_MAX : runtime->idle;
    memory_take(text, left, runtime->in_use, name, ", in use");
    memory_take(text, left, runtime->stacks, name, ", stacks");
    memory_take(text, left, idle, name, ", free");
  }
  memory_take(text, heap, UINT64_MAX, "Go, objects, stacks and free", "");
  /* A sample's share is a matter of chance. What is far more is another allocator's, of which malloc knows nothing. */
  if (sampled > in_use && sampled / 2 < in_use) sampled = in_use;
  memory_take(text, rest, onstack_own_memory_resident(), "this profiler", "");
  memory_take(text, rest, sampled, "native, in use, in the profile", "");
  memory_take(text, rest, in_use > sampled ? in_use - sampled : 0, "native, in use, not in the profile", "");
  if (runtime) memory_take(text, rest, runtime->other, name, ", its runtime's own");
  memory_take(text, rest, malloc_says.all > in_use ? malloc_says.all - in_use : 0, "native, free in the allocator", "");
  for (uint32_t i = 0; i < MEMORY_NAMED; i++) memory_take(text, &parts[i], UINT64_MAX, memory_names[i], "");
  memory_line(text, *rest, "unexplained", "");
}

int onstack_memory_text(uint64_t sampled, const onstack_runtime_memory *runtime, bool ask_malloc, onstack_writer writer,
                        void *data) {
  memory_map map;
  onstack_runtime_memory known = {.address = 0};
  memory_text text = {writer, data, 0};
  int result = 0;
  if (runtime) result = onstack_sized_copy(&known, sizeof(known), MEMORY_RUNTIME_SIZE_0_1, runtime);
  if (result == 0) result = memory_map_read(known.address, &map);
  if (result < 0) return result;
  const memory_malloc reported = ask_malloc ? memory_of_allocators() : (memory_malloc){0, 0};
  memory_write(&text, map.parts, sampled, runtime ? &known : NULL, reported);
  return text.error;
}
