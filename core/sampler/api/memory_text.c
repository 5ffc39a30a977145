/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The account of the process's memory (onstack_session_memory_text). */
#include "sampler/api/memory_text.h"

#include "platform/exceptions.h"
#include "platform/ours.h"
#include "platform/own_memory.h"
#include "platform/sized.h"
#include "platform/uncancelled.h"
#include "sampler/api/memory_map.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

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
  if (result == 0) result = onstack_memory_map_read(runtime ? known.address : 0, parts);
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
