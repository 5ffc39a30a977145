/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * malloc and its kin, before those of the next library (libc's, or an allocator that is preloaded), which do the work. They
 * report to heap sessions by the public calls. In libonstack-heap.a, for a program of one's own, and in the preload.
 *
 * A block that is sampled begins at a page, made so by the next allocator itself, so free asks about such addresses alone. It
 * stays that allocator's own block: whoever frees or resizes it, by whatever way, does no harm.
 *
 * No lock. dlsym may allocate: what is asked for while the next functions are looked up comes from `early`, for good.
 */
#include "onstack/onstack.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MALLOC_API __attribute__((visibility("default")))
#define MALLOC_PAGE ((size_t)4096) /* larger pages hold several: the low 12 bits are 0 all the same */
#define MALLOC_EARLY ((size_t)65536)
#define MALLOC_ALIGN ((size_t)16)

static struct {
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void (*free)(void *);
  int (*posix_memalign)(void **, size_t, size_t);
  void *(*aligned_alloc)(size_t, size_t);
  void *(*memalign)(size_t, size_t);
  size_t (*usable_size)(void *);
} next;

#define MALLOC_NONE 0
#define MALLOC_LOOKING 1
#define MALLOC_FOUND 2
static int malloc_state;

static char early[MALLOC_EARLY] __attribute__((aligned(16)));
static size_t early_used;

static void malloc_end(const char *text) {
  const ssize_t written = write(2, text, strlen(text));
  (void)written;
  _exit(127);
}

/* Zeroed, and with its size before it. */
static void *early_give(size_t size) {
  const size_t whole = MALLOC_ALIGN + ((size + MALLOC_ALIGN - 1) & ~(MALLOC_ALIGN - 1));
  const size_t at = __atomic_fetch_add(&early_used, whole, __ATOMIC_RELAXED);
  if (size > MALLOC_EARLY || at + whole > MALLOC_EARLY)
    malloc_end("onstack: no memory while the next malloc is looked up\n");
  memcpy(early + at, &size, sizeof(size));
  return early + at + MALLOC_ALIGN;
}

static bool early_has(const void *block) { return (size_t)((const char *)block - early) < MALLOC_EARLY; }

/* Converts from void * without a warning. */
#define MALLOC_FIND(place, name) *(void **)(void *)&(place) = dlsym(RTLD_NEXT, name)

static void malloc_find(void) {
  int expected = MALLOC_NONE;
  if (!__atomic_compare_exchange_n(&malloc_state, &expected, MALLOC_LOOKING, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return;
  MALLOC_FIND(next.malloc, "malloc");
  MALLOC_FIND(next.calloc, "calloc");
  MALLOC_FIND(next.realloc, "realloc");
  MALLOC_FIND(next.free, "free");
  MALLOC_FIND(next.posix_memalign, "posix_memalign");
  MALLOC_FIND(next.aligned_alloc, "aligned_alloc");
  MALLOC_FIND(next.memalign, "memalign");
  MALLOC_FIND(next.usable_size, "malloc_usable_size");
  if (!next.malloc || !next.calloc || !next.realloc || !next.free || !next.posix_memalign || !next.usable_size)
    malloc_end("onstack: libonstack-heap.a finds no malloc below it: a program that is linked statically has none\n");
  __atomic_store_n(&malloc_state, MALLOC_FOUND, __ATOMIC_RELEASE);
}

/* False: the look-up goes on, in this thread or another. */
static bool malloc_ready(void) {
  if (__builtin_expect(__atomic_load_n(&malloc_state, __ATOMIC_ACQUIRE) == MALLOC_FOUND, 1)) return true;
  malloc_find();
  return __atomic_load_n(&malloc_state, __ATOMIC_ACQUIRE) == MALLOC_FOUND;
}

/* Begins at a page. NULL: as malloc fails. */
static void *malloc_page(size_t size) {
  void *block = NULL;
  const int error = next.posix_memalign(&block, MALLOC_PAGE, size);
  if (error == 0) return block;
  errno = error;
  return NULL;
}

static void malloc_forget(const void *block) {
  if (__builtin_expect(((uintptr_t)block & (MALLOC_PAGE - 1)) == 0, 0)) onstack_heap_freed(block);
}

MALLOC_API void *malloc(size_t size) {
  if (!malloc_ready()) return early_give(size);
  if (__builtin_expect(!onstack_heap_due(size), 1)) return next.malloc(size);
  void *block = malloc_page(size);
  onstack_heap_take(block, size);
  return block;
}

MALLOC_API void *calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, NULL;
  if (!malloc_ready()) return early_give(bytes);
  if (__builtin_expect(!onstack_heap_due(bytes), 1)) return next.calloc(count, size);
  void *block = malloc_page(bytes);
  if (block) memset(block, 0, bytes);
  onstack_heap_take(block, bytes);
  return block;
}

MALLOC_API void free(void *block) {
  if (!block || early_has(block)) return;
  malloc_forget(block);
  if (malloc_ready()) next.free(block);
}

/* A block of ours by the next allocator's means. */
static void *malloc_copy(void *from, size_t had, size_t size, bool sampled) {
  void *block = sampled ? malloc_page(size) : next.malloc(size);
  if (!block) return NULL;
  memcpy(block, from, had < size ? had : size);
  if (!early_has(from)) next.free(from);
  return block;
}

static size_t early_size(const void *block) {
  size_t size;
  memcpy(&size, (const char *)block - MALLOC_ALIGN, sizeof(size));
  return size;
}

/* The end is told first: behind the move another thread may have the address. One that then fails has lost its sample. */
MALLOC_API void *realloc(void *from, size_t size) {
  if (!malloc_ready()) {
    void *block = early_give(size);
    if (from) memcpy(block, from, early_size(from) < size ? early_size(from) : size);
    return block;
  }
  const bool due = onstack_heap_due(size);
  if (from) malloc_forget(from);
  if (__builtin_expect(!due && !early_has(from), 1)) return next.realloc(from, size);
  if (from && size == 0) return next.realloc(from, size);
  void *block =
      !from ? malloc_page(size) : malloc_copy(from, early_has(from) ? early_size(from) : next.usable_size(from), size, due);
  if (due) onstack_heap_take(block, size);
  return block;
}

MALLOC_API void *reallocarray(void *from, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, NULL;
  return realloc(from, bytes);
}

/* Whether an alignment can be raised to a page's; one that is wrong stays so, for the next allocator to say it. */
static bool malloc_can_raise(size_t alignment) {
  return alignment > 0 && alignment < MALLOC_PAGE && (alignment & (alignment - 1)) == 0;
}

/* A block elsewhere than at a page is not sampled: nobody would tell of its end. */
static void malloc_take(const void *block, size_t size) {
  if (((uintptr_t)block & (MALLOC_PAGE - 1)) == 0) onstack_heap_take(block, size);
}

MALLOC_API int posix_memalign(void **out, size_t alignment, size_t size) {
  if (!malloc_ready()) return ENOMEM;
  const bool due = onstack_heap_due(size);
  const bool raise = due && alignment >= sizeof(void *) && malloc_can_raise(alignment);
  const int error = next.posix_memalign(out, raise ? MALLOC_PAGE : alignment, size);
  if (due && error == 0) malloc_take(*out, size);
  return error;
}

static void *malloc_aligned(void *(*allocate)(size_t, size_t), size_t alignment, size_t size) {
  const bool due = onstack_heap_due(size);
  void *block = due && malloc_can_raise(alignment) ? malloc_page(size) : allocate(alignment, size);
  if (due) malloc_take(block, size);
  return block;
}

MALLOC_API void *aligned_alloc(size_t alignment, size_t size) {
  if (!malloc_ready() || !next.aligned_alloc) return errno = ENOMEM, NULL;
  return malloc_aligned(next.aligned_alloc, alignment, size);
}

MALLOC_API void *memalign(size_t alignment, size_t size) {
  if (!malloc_ready() || !next.memalign) return errno = ENOMEM, NULL;
  return malloc_aligned(next.memalign, alignment, size);
}

MALLOC_API void *valloc(size_t size) {
  void *block = NULL;
  const int error = posix_memalign(&block, (size_t)sysconf(_SC_PAGESIZE), size);
  return error == 0 ? block : (errno = error, NULL);
}

MALLOC_API void *pvalloc(size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (size > SIZE_MAX - page) return errno = ENOMEM, NULL;
  return valloc((size + page - 1) & ~(page - 1));
}

MALLOC_API void free_sized(void *block, size_t size) {
  (void)size;
  free(block);
}

MALLOC_API void free_aligned_sized(void *block, size_t alignment, size_t size) {
  (void)alignment, (void)size;
  free(block);
}
