/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The account of the process's memory (onstack_session_memory_text). */
#include "sampler/api/memory_text.h"

#include "platform/exceptions.h"
#include "platform/own_memory.h"
#include "platform/proc.h"
#include "platform/sized.h"
#include "platform/sys.h"
#include "platform/uncancelled.h"
#include "sampler/modules/go_runtime.h"
#include "sampler/threads/task.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- what the process's memory is by its mappings: bytes that are resident, each in one sum ---- */

typedef enum onstack_memory_part {
  ONSTACK_MEMORY_CODE,      /* of files, executable; the vDSO */
  ONSTACK_MEMORY_FILES,     /* of files otherwise, and the zeroed data (.bss) behind a library's */
  ONSTACK_MEMORY_SHARED,    /* shared with others, of no file on a disk: memfd, System V, /dev/zero */
  ONSTACK_MEMORY_STACKS,    /* of threads */
  ONSTACK_MEMORY_GENERATED, /* executable, of no file */
  ONSTACK_MEMORY_GO,        /* the heap of Go, or of another runtime: objects and its stacks */
  ONSTACK_MEMORY_REST,      /* heaps, and whatever else is anonymous */
  ONSTACK_MEMORY_PARTS
} onstack_memory_part;

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

/* `object`: an address in a runtime's heap; 0: Go's is looked for. Ordinary threads. Errors: -errno, when /proc/self/smaps
   cannot be read; -ENOMEM. */
static int memory_map_read(uint64_t object, uint64_t parts[ONSTACK_MEMORY_PARTS]) {
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

/* A part of what is left. Parts that nobody can name in full may be told larger than they are. */
static void memory_part(memory_text *text, uint64_t *left, uint64_t bytes, const char *owner, const char *what) {
  if (bytes > *left) bytes = *left;
  if (bytes == 0) return;
  memory_line(text, bytes, owner, what);
  *left -= bytes;
}

/* What allocators say of themselves. */
typedef struct memory_malloc {
  uint64_t in_use; /* 0: they say nothing */
  uint64_t all;    /* what they have of the kernel's */
} memory_malloc;

/* As in glibc's malloc.h since 2.33; looked up when asked for, so that the library loads with older ones. */
typedef struct memory_mallinfo2 {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
} memory_mallinfo2;

#define MEMORY_FIND(place, name) *(void **)(void *)&(place) = dlsym(RTLD_DEFAULT, name)

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
  MEMORY_FIND(control, "mallctl"); /* whoever has it replaces libc's */
  MEMORY_FIND(info, "mallinfo2");
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

/* Its heap is measured where it is known; otherwise it lies in the rest, and is as the runtime says. */
static void memory_write_heap(memory_text *text, uint64_t *heap, uint64_t *rest, const onstack_runtime_memory *runtime) {
  const char *name = runtime->name ? runtime->name : "runtime";
  uint64_t *left = *heap > 0 ? heap : rest;
  const uint64_t idle = *heap > 0 ? UINT64_MAX : runtime->idle;
  memory_part(text, left, runtime->in_use, name, ", in use");
  memory_part(text, left, runtime->stacks, name, ", stacks");
  memory_part(text, left, idle, name, ", free");
}

/*
 * Out of what no mapping tells apart. What is in use has been touched, and comes first; what an allocator or a runtime has for
 * itself may in part never have been.
 */
static void memory_write_rest(memory_text *text, uint64_t *rest, uint64_t sampled, const onstack_runtime_memory *runtime,
                              memory_malloc malloc_says) {
  const uint64_t in_use = malloc_says.in_use;
  /* By chance. What is more is another allocator's, of which malloc knows nothing. */
  if (sampled > in_use && sampled / 2 < in_use) sampled = in_use;
  memory_part(text, rest, onstack_own_memory_resident(), "this profiler", "");
  memory_part(text, rest, sampled, "native, in use, in the profile", "");
  memory_part(text, rest, in_use > sampled ? in_use - sampled : 0, "native, in use, not in the profile", "");
  if (runtime) memory_part(text, rest, runtime->other, runtime->name ? runtime->name : "runtime", ", its runtime's own");
  memory_part(text, rest, malloc_says.all > in_use ? malloc_says.all - in_use : 0, "native, free in the allocator", "");
}

static void memory_write(memory_text *text, uint64_t parts[ONSTACK_MEMORY_PARTS], uint64_t sampled,
                         const onstack_runtime_memory *runtime, memory_malloc malloc_says) {
  static const struct {
    onstack_memory_part part;
    const char *name;
  } names[] = {{ONSTACK_MEMORY_STACKS, "stacks of threads"},
               {ONSTACK_MEMORY_CODE, "code"},
               {ONSTACK_MEMORY_FILES, "files, data of libraries"},
               {ONSTACK_MEMORY_GENERATED, "generated code"},
               {ONSTACK_MEMORY_SHARED, "shared memory"}};
  uint64_t all = 0, rest = parts[ONSTACK_MEMORY_REST], heap = parts[ONSTACK_MEMORY_GO];
  for (uint32_t i = 0; i < ONSTACK_MEMORY_PARTS; i++) all += parts[i];
  memory_line(text, all, "resident", "");
  if (runtime) memory_write_heap(text, &heap, &rest, runtime);
  memory_part(text, &heap, UINT64_MAX, "Go, objects, stacks and free", "");
  memory_write_rest(text, &rest, sampled, runtime, malloc_says);
  for (uint32_t i = 0; i < ONSTACK_COUNT_OF(names); i++)
    memory_part(text, &parts[names[i].part], UINT64_MAX, names[i].name, "");
  memory_line(text, rest, "unexplained", "");
}

int onstack_memory_text_write(onstack_session *session, const onstack_runtime_memory *runtime, bool ask_malloc,
                              onstack_writer writer, void *data) {
  const memory_malloc nothing = {0, 0};
  uint64_t parts[ONSTACK_MEMORY_PARTS];
  onstack_runtime_memory known;
  onstack_stats stats = {.size = sizeof(stats)};
  memory_text text = {writer, data, 0};
  int result = writer ? 0 : ONSTACK_E_OPTIONS;
  if (result == 0 && runtime) result = onstack_sized_copy(&known, sizeof(known), MEMORY_RUNTIME_SIZE_0_1, runtime);
  if (result == 0 && session) result = onstack_session_stats(session, &stats);
  if (result == 0) result = memory_map_read(runtime ? known.address : 0, parts);
  if (result < 0) return result;
  memory_write(&text, parts, stats.heap_in_use, runtime ? &known : NULL, ask_malloc ? memory_of_allocators() : nothing);
  return text.error;
}

int onstack_session_memory_text(onstack_session *session, const onstack_runtime_memory *runtime, onstack_writer writer,
                                void *data) {
  ONSTACK_UNCANCELLED;
  onstack_ours++;
  const int result = onstack_memory_text_write(session, runtime, true, writer, data);
  onstack_ours--;
  return result;
}
