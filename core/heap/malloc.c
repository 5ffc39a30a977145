/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * malloc and its kin, before those of the next library (libc's, or an allocator that is preloaded), which do the work. They
 * report to heap sessions by the public calls. In libonstack-heap.a, for a program of one's own, and in the preload.
 *
 * A block that is sampled begins at a page, made so by the next allocator itself, or just behind the head of one, where
 * libc puts blocks with a mapping of their own; so free asks about such addresses alone. It stays that allocator's own
 * block: whoever frees or resizes it, by whatever way, does no harm.
 *
 * Large blocks keep what they are to the host: zeroed memory that is not there before it is touched, and a realloc that
 * moves pages and copies nothing. So calloc and realloc take them from the next allocator as it gives them, if free will
 * know the address.
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
#define MALLOC_HEAD ((size_t)16)      /* glibc's and musl's, before a block with a mapping of its own */
#define MALLOC_LARGE ((size_t)131072) /* from here on glibc maps */

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

/*
 * In libcs whose calloc calls malloc, and whose posix_memalign calls aligned_alloc, by names (musl), a call comes back to
 * this file: it is counted where it began. Only what is due looks at it. A handler that allocates meanwhile is not sampled.
 */
static __thread __attribute__((tls_model("initial-exec"))) unsigned char malloc_inside;

static bool malloc_due(size_t size) { return __builtin_expect(onstack_heap_due(size), 0) && malloc_inside == 0; }

static int next_posix_memalign(void **out, size_t alignment, size_t size) {
  malloc_inside++;
  const int error = next.posix_memalign(out, alignment, size);
  malloc_inside--;
  return error;
}

static void *next_calloc(size_t count, size_t size) {
  malloc_inside++;
  void *block = next.calloc(count, size);
  malloc_inside--;
  return block;
}

static void *next_aligned(void *(*allocate)(size_t, size_t), size_t alignment, size_t size) {
  malloc_inside++;
  void *block = allocate(alignment, size);
  malloc_inside--;
  return block;
}

/* Begins at a page. NULL: as malloc fails. */
static void *malloc_page(size_t size) {
  void *block = NULL;
  const int error = next_posix_memalign(&block, MALLOC_PAGE, size);
  if (error == 0) return block;
  errno = error;
  return NULL;
}

/* Whether free asks about the address. */
static bool malloc_is_asked(const void *block) { return ((uintptr_t)block & (MALLOC_PAGE - 1) & ~MALLOC_HEAD) == 0; }

static void malloc_forget(const void *block) {
  if (__builtin_expect(malloc_is_asked(block), 0)) onstack_heap_freed(block);
}

MALLOC_API void *malloc(size_t size) {
  if (!malloc_ready()) return early_give(size);
  if (!malloc_due(size)) return next.malloc(size);
  void *block = malloc_page(size);
  onstack_heap_take(block, size);
  return block;
}

/* Reads of memory that was never written make no pages. */
static void malloc_zero(char *block, size_t size) {
  for (size_t at = 0, part; at < size; at += part) {
    part = size - at < MALLOC_PAGE ? size - at : MALLOC_PAGE;
    if (size < MALLOC_LARGE || block[at] != 0 || memcmp(block + at, block + at + 1, part - 1) != 0)
      memset(block + at, 0, part);
  }
}

static void *malloc_zeroed(size_t count, size_t size) {
  if (count * size >= MALLOC_LARGE) {
    void *given = next_calloc(count, size);
    if (!given || malloc_is_asked(given)) return given;
    next.free(given);
  }
  void *block = malloc_page(count * size);
  if (block) malloc_zero(block, count * size);
  return block;
}

MALLOC_API void *calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, NULL;
  if (!malloc_ready()) return early_give(bytes);
  if (!malloc_due(bytes)) return next_calloc(count, size);
  void *block = malloc_zeroed(count, size);
  onstack_heap_take(block, bytes);
  return block;
}

MALLOC_API void free(void *block) {
  if (!block || early_has(block)) return;
  malloc_forget(block);
  if (malloc_ready()) next.free(block);
}

static size_t early_size(const void *block) {
  size_t size;
  memcpy(&size, (const char *)block - MALLOC_ALIGN, sizeof(size));
  return size;
}

static size_t malloc_size(void *block) { return early_has(block) ? early_size(block) : next.usable_size(block); }

/* A block of ours by the next allocator's means. */
static void *malloc_copy(void *from, size_t size, bool sampled) {
  const size_t had = malloc_size(from);
  void *block = sampled ? malloc_page(size) : next.malloc(size);
  if (!block) return NULL;
  memcpy(block, from, had < size ? had : size);
  if (!early_has(from)) next.free(from);
  return block;
}

/* To an address that free asks about; without the memory for that, elsewhere. */
static void *malloc_move(void *from, size_t size) {
  if (size < MALLOC_LARGE || early_has(from)) return malloc_copy(from, size, true);
  const int saved = errno;
  void *given = next.realloc(from, size);
  if (!given || malloc_is_asked(given)) return given;
  void *block = malloc_copy(given, size, true);
  return block ? block : (errno = saved, given);
}

/* A block elsewhere is not sampled: nobody would tell of its end. */
static inline __attribute__((always_inline)) void malloc_take(const void *block, size_t size) {
  if (malloc_is_asked(block)) onstack_heap_take(block, size);
}

/* The end is told first: behind the move another thread may have the address. One that then fails has lost its sample. */
MALLOC_API void *realloc(void *from, size_t size) {
  if (!malloc_ready()) {
    void *block = early_give(size);
    if (from) memcpy(block, from, early_size(from) < size ? early_size(from) : size);
    return block;
  }
  const bool due = malloc_due(size) && (size > 0 || !from);
  if (from) malloc_forget(from);
  if (!due) return early_has(from) ? malloc_copy(from, size, false) : next.realloc(from, size);
  void *block = from ? malloc_move(from, size) : malloc_page(size);
  malloc_take(block, size);
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

MALLOC_API int posix_memalign(void **out, size_t alignment, size_t size) {
  if (!malloc_ready()) return ENOMEM;
  const bool due = malloc_due(size);
  const bool raise = due && alignment >= sizeof(void *) && malloc_can_raise(alignment);
  const int error = next_posix_memalign(out, raise ? MALLOC_PAGE : alignment, size);
  if (due && error == 0) malloc_take(*out, size);
  return error;
}

static void *malloc_aligned(void *(*allocate)(size_t, size_t), size_t alignment, size_t size) {
  const bool due = malloc_due(size);
  void *block = due && malloc_can_raise(alignment) ? malloc_page(size) : next_aligned(allocate, alignment, size);
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

MALLOC_API size_t malloc_usable_size(void *block) {
  if (early_has(block)) return early_size(block);
  return block && malloc_ready() ? next.usable_size(block) : 0;
}
