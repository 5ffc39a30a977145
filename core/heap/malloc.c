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
 * While no heap session runs, malloc is a look at a word, and free one at the address. No lock. dlsym may allocate: what is
 * asked for while the next functions are looked up comes from `early`, for good.
 */
#include "onstack/onstack.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define MALLOC_API __attribute__((visibility("default")))
#define MALLOC_INLINE static inline __attribute__((always_inline))
#define MALLOC_PAGE ((size_t)4096)    /* larger pages hold several: the low 12 bits are 0 all the same */
#define MALLOC_HEAD ((size_t)16)      /* glibc's and musl's, before a block with a mapping of its own */
#define MALLOC_LARGE ((size_t)131072) /* from here on glibc maps */
#define MALLOC_EARLY ((size_t)256)    /* pages, of which those are made that are used */

static void *first_malloc(size_t size);
static void *first_calloc(size_t count, size_t size);
static void *first_realloc(void *from, size_t size);
static void first_free(void *block);
static int first_posix_memalign(void **out, size_t alignment, size_t size);
static void *first_aligned_alloc(size_t alignment, size_t size);
static void *first_memalign(size_t alignment, size_t size);
static size_t first_usable_size(void *block);

typedef struct malloc_functions {
  size_t (*usable_size)(void *);
  void (*free)(void *);
  void *(*realloc)(void *, size_t);
  int (*posix_memalign)(void **, size_t, size_t);
  void *(*aligned_alloc)(size_t, size_t);
  void *(*memalign)(size_t, size_t);
  void *(*calloc)(size_t, size_t);
  void *(*malloc)(size_t);
} malloc_functions;

/* Those of the next library; until all are found, functions that look them up. */
static malloc_functions next = {first_usable_size,   first_free,     first_realloc, first_posix_memalign,
                                first_aligned_alloc, first_memalign, first_calloc,  first_malloc};

#define NEXT(name) __atomic_load_n(&next.name, __ATOMIC_RELAXED)

/* The word that is not 0 while a heap session runs. */
static const uint32_t malloc_never;
static const uint32_t *malloc_running = &malloc_never;

/* ---- before the next functions are known ---- */

#define MALLOC_NONE 0
#define MALLOC_LOOKING 1
#define MALLOC_FOUND 2
static int malloc_state;

static char early[MALLOC_EARLY][MALLOC_PAGE] __attribute__((aligned(4096)));
static size_t early_sizes[MALLOC_EARLY]; /* of the block that begins there */
static size_t early_used;

static void malloc_end(const char *text) {
  const ssize_t written = write(2, text, strlen(text));
  (void)written;
  syscall(SYS_exit_group, 127); /* _exit may be another's, who looks names up */
}

/* Zeroed, and at a page, where free asks. */
static void *early_give(size_t size) {
  const size_t pages = size / MALLOC_PAGE + 1, at = __atomic_fetch_add(&early_used, pages, __ATOMIC_RELAXED);
  if (pages > MALLOC_EARLY || at + pages > MALLOC_EARLY)
    malloc_end("onstack: no memory while the next malloc is looked up\n");
  early_sizes[at] = size;
  return early[at];
}

static bool early_has(const void *block) { return (size_t)((const char *)block - early[0]) < sizeof(early); }
static size_t early_size(const void *block) { return early_sizes[(size_t)((const char *)block - early[0]) / MALLOC_PAGE]; }

/* There is no such function in the next library. */
static void *no_aligned(size_t alignment, size_t size) {
  (void)alignment, (void)size;
  return errno = ENOMEM, NULL;
}

/* Converts from void * without a warning. */
static bool malloc_look_up(const char *name, void *place) {
  void *found = dlsym(RTLD_NEXT, name);
  memcpy(place, &found, sizeof(found));
  return found != NULL;
}

static bool malloc_look_up_all(malloc_functions *found) {
  if (!malloc_look_up("aligned_alloc", &found->aligned_alloc)) found->aligned_alloc = no_aligned;
  if (!malloc_look_up("memalign", &found->memalign)) found->memalign = no_aligned;
  return malloc_look_up("malloc", &found->malloc) && malloc_look_up("calloc", &found->calloc) &&
         malloc_look_up("realloc", &found->realloc) && malloc_look_up("free", &found->free) &&
         malloc_look_up("posix_memalign", &found->posix_memalign) &&
         malloc_look_up("malloc_usable_size", &found->usable_size);
}

/* What hands out blocks comes last: another thread may meet the others before. */
#define MALLOC_PUBLISH(name) __atomic_store_n(&next.name, found.name, __ATOMIC_RELEASE)

static void malloc_find(void) {
  int expected = MALLOC_NONE;
  malloc_functions found;
  if (!__atomic_compare_exchange_n(&malloc_state, &expected, MALLOC_LOOKING, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return;
  if (!malloc_look_up_all(&found))
    malloc_end("onstack: libonstack-heap.a finds no malloc below it: a program that is linked statically has none\n");
  __atomic_store_n(&malloc_running, onstack_heap_running(), __ATOMIC_RELAXED);
  MALLOC_PUBLISH(usable_size);
  MALLOC_PUBLISH(free);
  MALLOC_PUBLISH(realloc);
  MALLOC_PUBLISH(posix_memalign);
  MALLOC_PUBLISH(aligned_alloc);
  MALLOC_PUBLISH(memalign);
  MALLOC_PUBLISH(calloc);
  MALLOC_PUBLISH(malloc);
  __atomic_store_n(&malloc_state, MALLOC_FOUND, __ATOMIC_RELEASE);
}

/* False: the look-up goes on, in this thread or another. */
static bool malloc_ready(void) {
  malloc_find();
  return __atomic_load_n(&malloc_state, __ATOMIC_ACQUIRE) == MALLOC_FOUND;
}

static void *first_malloc(size_t size) { return malloc_ready() ? NEXT(malloc)(size) : early_give(size); }
static void *first_calloc(size_t count, size_t size) {
  return malloc_ready() ? NEXT(calloc)(count, size) : early_give(count * size);
}
static void *first_realloc(void *from, size_t size) { return malloc_ready() ? NEXT(realloc)(from, size) : early_give(size); }
static void first_free(void *block) {
  if (malloc_ready()) NEXT(free)(block);
}
static int first_posix_memalign(void **out, size_t alignment, size_t size) {
  return malloc_ready() ? NEXT(posix_memalign)(out, alignment, size) : ENOMEM;
}
static void *first_aligned_alloc(size_t alignment, size_t size) {
  return malloc_ready() ? NEXT(aligned_alloc)(alignment, size) : no_aligned(alignment, size);
}
static void *first_memalign(size_t alignment, size_t size) {
  return malloc_ready() ? NEXT(memalign)(alignment, size) : no_aligned(alignment, size);
}
static size_t first_usable_size(void *block) { return malloc_ready() ? NEXT(usable_size)(block) : 0; }

/* ---- what is sampled ---- */

/*
 * In libcs whose calloc calls malloc, and whose posix_memalign calls aligned_alloc, by names (musl), a call comes back to
 * this file: it is counted where it began. Only what is due looks at it. A handler that allocates meanwhile is not sampled.
 */
static __thread __attribute__((tls_model("initial-exec"))) unsigned char malloc_inside;

MALLOC_INLINE bool malloc_due(size_t size) {
  const uint32_t *running = __atomic_load_n(&malloc_running, __ATOMIC_RELAXED);
  if (__builtin_expect(__atomic_load_n(running, __ATOMIC_RELAXED) == 0, 1)) return false;
  return __builtin_expect(onstack_heap_due(size), 0) && malloc_inside == 0;
}

static int next_posix_memalign(void **out, size_t alignment, size_t size) {
  malloc_inside++;
  const int error = NEXT(posix_memalign)(out, alignment, size);
  malloc_inside--;
  return error;
}

static void *next_calloc(size_t count, size_t size) {
  malloc_inside++;
  void *block = NEXT(calloc)(count, size);
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

/* Whether free asks about the address; so it does about NULL and `early`. */
MALLOC_INLINE bool malloc_is_asked(const void *block) { return ((uintptr_t)block & (MALLOC_PAGE - 1) & ~MALLOC_HEAD) == 0; }

/* A block elsewhere is not sampled: nobody would tell of its end. */
MALLOC_INLINE void malloc_take(const void *block, size_t size) {
  if (malloc_is_asked(block)) onstack_heap_take(block, size);
}

/* Ends a block about which free asks. False: it is none of the next allocator's. */
MALLOC_INLINE bool malloc_forget(const void *block) {
  if (!block || early_has(block)) return false;
  onstack_heap_freed(block);
  return true;
}

MALLOC_API void *malloc(size_t size) {
  if (!malloc_due(size)) return NEXT(malloc)(size);
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
    NEXT(free)(given);
  }
  void *block = malloc_page(count * size);
  if (block) malloc_zero(block, count * size);
  return block;
}

MALLOC_API void *calloc(size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, NULL;
  if (!malloc_due(bytes)) return next_calloc(count, size);
  void *block = malloc_zeroed(count, size);
  onstack_heap_take(block, bytes);
  return block;
}

MALLOC_API void free(void *block) {
  if (__builtin_expect(malloc_is_asked(block), 0) && !malloc_forget(block)) return;
  NEXT(free)(block);
}

static size_t malloc_size(void *block) { return early_has(block) ? early_size(block) : NEXT(usable_size)(block); }

/* A block of ours by the next allocator's means. */
static void *malloc_copy(void *from, size_t size, bool sampled) {
  const size_t had = malloc_size(from);
  void *block = sampled ? malloc_page(size) : NEXT(malloc)(size);
  if (!block) return NULL;
  memcpy(block, from, had < size ? had : size);
  if (!early_has(from)) NEXT(free)(from);
  return block;
}

/* To an address that free asks about; without the memory for that, elsewhere. */
static void *malloc_move(void *from, size_t size) {
  if (size < MALLOC_LARGE || early_has(from)) return malloc_copy(from, size, true);
  const int saved = errno;
  void *given = NEXT(realloc)(from, size);
  if (!given || malloc_is_asked(given)) return given;
  void *block = malloc_copy(given, size, true);
  return block ? block : (errno = saved, given);
}

/* The end is told first: behind the move another thread may have the address. One that then fails has lost its sample. */
MALLOC_API void *realloc(void *from, size_t size) {
  const bool due = malloc_due(size) && (size > 0 || !from);
  if (malloc_is_asked(from)) malloc_forget(from);
  if (!due) return early_has(from) ? malloc_copy(from, size, false) : NEXT(realloc)(from, size);
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
  return malloc_aligned(NEXT(aligned_alloc), alignment, size);
}

MALLOC_API void *memalign(size_t alignment, size_t size) { return malloc_aligned(NEXT(memalign), alignment, size); }

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

MALLOC_API size_t malloc_usable_size(void *block) { return block ? malloc_size(block) : 0; }
