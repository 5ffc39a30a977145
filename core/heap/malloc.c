/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * malloc and its kin, before those of the next library (libc's, or an allocator that is preloaded), which do the work. They
 * report to heap sessions by the public calls. In libonstack-heap.a, for a program of one's own, and in the preload.
 *
 * Blocks are the next allocator's own, as it would give them to the host: none is aligned, copied or touched. Sampled blocks at
 * addresses of a kind of their own would be easier to know at their end; but an allocator gives such an address again and
 * again, and each sample adds one: after a minute all small blocks of a busy program lie a page apart.
 *
 * While no heap session runs, a call is a look at a word. No lock. dlsym may allocate: what is asked for while the next
 * functions are looked up comes from `early`, for good.
 */
#include "onstack/heap.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

/* Not in the headers of every libc. */
void *reallocarray(void *from, size_t count, size_t size);
void *memalign(size_t alignment, size_t size);
void *valloc(size_t size);
void *pvalloc(size_t size);
void free_sized(void *block, size_t size);
void free_aligned_sized(void *block, size_t alignment, size_t size);
size_t malloc_usable_size(void *block);

/* Sanitizers allocate while they begin, when what they put into functions may not run yet. */
#if defined(__clang__)
#define MALLOC_PLAIN __attribute__((no_sanitize("address", "thread", "undefined", "memory")))
#else
#define MALLOC_PLAIN __attribute__((no_sanitize_address, no_sanitize_thread, no_sanitize_undefined))
#endif
#define MALLOC_API MALLOC_PLAIN __attribute__((visibility("default")))
#define MALLOC_INLINE MALLOC_PLAIN static inline __attribute__((always_inline))
#define MALLOC_STATIC MALLOC_PLAIN static
#define MALLOC_PAGE ((size_t)4096)
#define MALLOC_EARLY ((size_t)256) /* pages, of which those are made that are used */

MALLOC_STATIC void *first_malloc(size_t size);
MALLOC_STATIC void *first_calloc(size_t count, size_t size);
MALLOC_STATIC void *first_realloc(void *from, size_t size);
MALLOC_STATIC void first_free(void *block);
MALLOC_STATIC int first_posix_memalign(void **out, size_t alignment, size_t size);
MALLOC_STATIC void *first_aligned_alloc(size_t alignment, size_t size);
MALLOC_STATIC void *first_memalign(size_t alignment, size_t size);
MALLOC_STATIC size_t first_usable_size(void *block);

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

/* What the library says of its sessions; until it can be asked, that there is none. */
static const onstack_heap_state malloc_never;
static const onstack_heap_state *malloc_state = &malloc_never;

/* ---- before the next functions are known ---- */

#define MALLOC_NONE 0
#define MALLOC_LOOKING 1
#define MALLOC_FOUND 2
static int malloc_stage;

static char early[MALLOC_EARLY][MALLOC_PAGE] __attribute__((aligned(4096)));
static size_t early_sizes[MALLOC_EARLY]; /* of the block that begins there */
static size_t early_used;

MALLOC_STATIC void malloc_end(const char *text) {
  const ssize_t written = write(2, text, strlen(text));
  (void)written;
  syscall(SYS_exit_group, 127); /* _exit may be another's, who looks names up */
}

/* Zeroed, and at a page: free asks about no other. */
MALLOC_STATIC void *early_give(size_t size) {
  const size_t pages = size / MALLOC_PAGE + 1, at = __atomic_fetch_add(&early_used, pages, __ATOMIC_RELAXED);
  if (pages > MALLOC_EARLY || at + pages > MALLOC_EARLY)
    malloc_end("onstack: no memory while the next malloc is looked up\n");
  early_sizes[at] = size;
  return early[at];
}

MALLOC_STATIC bool early_has(const void *block) { return (size_t)((const char *)block - early[0]) < sizeof(early); }
MALLOC_STATIC size_t early_size(const void *block) {
  return early_sizes[(size_t)((const char *)block - early[0]) / MALLOC_PAGE];
}

/* There is no such function in the next library. */
MALLOC_STATIC void *no_aligned(size_t alignment, size_t size) {
  (void)alignment, (void)size;
  return errno = ENOMEM, NULL;
}

/*
 * A sanitizer's, where one is in the program: linked into the program itself it is not the next library, and would be asked to
 * free what it has never seen.
 */
#define MALLOC_SANITIZERS(name) extern char __interceptor_##name[] __attribute__((weak))
MALLOC_SANITIZERS(malloc);
MALLOC_SANITIZERS(calloc);
MALLOC_SANITIZERS(realloc);
MALLOC_SANITIZERS(free);
MALLOC_SANITIZERS(posix_memalign);
MALLOC_SANITIZERS(aligned_alloc);
MALLOC_SANITIZERS(memalign);
MALLOC_SANITIZERS(malloc_usable_size);

/* Converts from void * without a warning. */
MALLOC_STATIC bool malloc_look_up(const char *name, void *sanitizers, void *place) {
  void *found = sanitizers ? sanitizers : dlsym(RTLD_NEXT, name);
  memcpy(place, &found, sizeof(found));
  return found;
}

#define MALLOC_LOOK_UP(name, place) malloc_look_up(#name, __interceptor_##name, place)

MALLOC_STATIC bool malloc_look_up_all(malloc_functions *found) {
  if (!MALLOC_LOOK_UP(aligned_alloc, &found->aligned_alloc)) found->aligned_alloc = no_aligned;
  if (!MALLOC_LOOK_UP(memalign, &found->memalign)) found->memalign = no_aligned;
  return MALLOC_LOOK_UP(malloc, &found->malloc) && MALLOC_LOOK_UP(calloc, &found->calloc) &&
         MALLOC_LOOK_UP(realloc, &found->realloc) && MALLOC_LOOK_UP(free, &found->free) &&
         MALLOC_LOOK_UP(posix_memalign, &found->posix_memalign) && MALLOC_LOOK_UP(malloc_usable_size, &found->usable_size);
}

/* What hands out blocks comes last: another thread may meet the others before. */
#define MALLOC_PUBLISH(name) __atomic_store_n(&next.name, found.name, __ATOMIC_RELEASE)

MALLOC_STATIC void malloc_find(void) {
  int expected = MALLOC_NONE;
  malloc_functions found;
  if (!__atomic_compare_exchange_n(&malloc_stage, &expected, MALLOC_LOOKING, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
    return;
  if (!malloc_look_up_all(&found))
    malloc_end("onstack: libonstack-heap.a finds no malloc below it: a program that is linked statically has none\n");
  __atomic_store_n(&malloc_state, onstack_heap_state_get(), __ATOMIC_RELEASE);
  MALLOC_PUBLISH(usable_size);
  MALLOC_PUBLISH(free);
  MALLOC_PUBLISH(realloc);
  MALLOC_PUBLISH(posix_memalign);
  MALLOC_PUBLISH(aligned_alloc);
  MALLOC_PUBLISH(memalign);
  MALLOC_PUBLISH(calloc);
  MALLOC_PUBLISH(malloc);
  __atomic_store_n(&malloc_stage, MALLOC_FOUND, __ATOMIC_RELEASE);
}

/* False: the look-up goes on, in this thread or another. */
MALLOC_STATIC bool malloc_ready(void) {
  malloc_find();
  return __atomic_load_n(&malloc_stage, __ATOMIC_ACQUIRE) == MALLOC_FOUND;
}

MALLOC_STATIC void *first_malloc(size_t size) { return malloc_ready() ? NEXT(malloc)(size) : early_give(size); }
MALLOC_STATIC void *first_calloc(size_t count, size_t size) {
  if (malloc_ready()) return NEXT(calloc)(count, size);
  return size > 0 && count > SIZE_MAX / size ? NULL : early_give(count * size);
}
MALLOC_STATIC void *first_realloc(void *from, size_t size) {
  return malloc_ready() ? NEXT(realloc)(from, size) : early_give(size);
}
MALLOC_STATIC void first_free(void *block) {
  if (malloc_ready()) NEXT(free)(block);
}
MALLOC_STATIC int first_posix_memalign(void **out, size_t alignment, size_t size) {
  return malloc_ready() ? NEXT(posix_memalign)(out, alignment, size) : ENOMEM;
}
MALLOC_STATIC void *first_aligned_alloc(size_t alignment, size_t size) {
  return malloc_ready() ? NEXT(aligned_alloc)(alignment, size) : no_aligned(alignment, size);
}
MALLOC_STATIC void *first_memalign(size_t alignment, size_t size) {
  return malloc_ready() ? NEXT(memalign)(alignment, size) : no_aligned(alignment, size);
}
MALLOC_STATIC size_t first_usable_size(void *block) { return malloc_ready() ? NEXT(usable_size)(block) : 0; }

/* ---- what is sampled ---- */

/*
 * A thread's own countdown. In libcs whose calloc calls malloc, and whose posix_memalign calls aligned_alloc, by names (musl),
 * a call comes back to this file: it is counted where it began. A handler that leaves a call by siglongjmp leaves the mark
 * behind, so it holds for some blocks only: more than come back of one call. What a handler allocates meanwhile is sampled
 * behind those.
 */
#define MALLOC_BACK 4
typedef struct malloc_thread {
  uint64_t left;   /* bytes before the one that is sampled next */
  uint32_t number; /* of the session that `left` belongs to */
  uint32_t inside; /* due blocks that are still taken for those of a call that is under way; 0: there is none */
} malloc_thread;
static __thread __attribute__((tls_model("initial-exec"))) malloc_thread own;

MALLOC_INLINE uint32_t malloc_session(void) {
  return __atomic_load_n(&__atomic_load_n(&malloc_state, __ATOMIC_RELAXED)->number, __ATOMIC_RELAXED);
}

/* All that most calls do. False: counted, and not sampled. */
MALLOC_INLINE bool malloc_may_be_due(size_t size) {
  const uint32_t number = malloc_session();
  if (__builtin_expect(number == 0, 1)) return false;
  const uint64_t bytes = size + (size == 0);
  if (__builtin_expect(own.number != number || bytes > own.left, 0)) return true;
  own.left -= bytes;
  return false;
}

MALLOC_STATIC __attribute__((noinline)) bool malloc_is_due(size_t size) {
  const uint32_t number = malloc_session();
  const uint64_t bytes = size + (size == 0);
  if (own.number != number) own.left = onstack_heap_distance();
  own.number = number;
  if (bytes <= own.left) {
    own.left -= bytes;
    return false;
  }
  own.left = onstack_heap_distance();
  if (own.inside == 0) return true;
  own.inside--;
  return false;
}

MALLOC_INLINE bool malloc_due(size_t size) { return malloc_may_be_due(size) && malloc_is_due(size); }

/* Before the block's end: behind it another thread may have the address. */
MALLOC_INLINE void malloc_forget(void *block) {
  const onstack_heap_state *state = __atomic_load_n(&malloc_state, __ATOMIC_RELAXED);
  if (__builtin_expect(__atomic_load_n(&state->number, __ATOMIC_RELAXED) == 0, 1)) return;
  const uintptr_t address = (uintptr_t)block, mask = __atomic_load_n(&state->mask, __ATOMIC_ACQUIRE);
  const uint8_t *marks = __atomic_load_n(&state->marks, __ATOMIC_RELAXED);
  if (__builtin_expect(__atomic_load_n(&marks[(address >> 6 ^ address >> 12) & mask], __ATOMIC_RELAXED) != 0, 0))
    onstack_heap_freed(block);
}

MALLOC_API void *malloc(size_t size) {
  if (!malloc_may_be_due(size)) return NEXT(malloc)(size);
  /* Apart: the way above needs no frame. */
  const bool due = malloc_is_due(size);
  void *block = NEXT(malloc)(size);
  if (due) onstack_heap_take(block, size);
  return block;
}

MALLOC_API void *calloc(size_t count, size_t size) {
  size_t bytes;
  if (malloc_session() == 0) return NEXT(calloc)(count, size);
  const bool due = !__builtin_mul_overflow(count, size, &bytes) && malloc_due(bytes);
  const uint32_t inside = own.inside;
  own.inside = MALLOC_BACK;
  void *block = NEXT(calloc)(count, size);
  own.inside = inside;
  if (due) onstack_heap_take(block, bytes);
  return block;
}

/* Exported functions that share work call a static one: their own names may be bound to functions of the host, which may
   call ours. */
MALLOC_INLINE void malloc_free(void *block) {
  if (__builtin_expect(((uintptr_t)block & (MALLOC_PAGE - 1)) == 0, 0) && early_has(block)) return;
  malloc_forget(block);
  NEXT(free)(block);
}

MALLOC_API void free(void *block) { malloc_free(block); }

/* A block of `early` is left where it is. */
MALLOC_STATIC void *early_move(const void *from, size_t size) {
  void *block = NEXT(malloc)(size);
  if (block) memcpy(block, from, early_size(from) < size ? early_size(from) : size);
  return block;
}

/* One that then fails has lost its sample. */
MALLOC_STATIC void *malloc_move(void *from, size_t size) {
  const bool due = malloc_due(size) && (size > 0 || !from);
  malloc_forget(from);
  const uint32_t inside = own.inside;
  own.inside = MALLOC_BACK;
  void *block = early_has(from) ? early_move(from, size) : NEXT(realloc)(from, size);
  own.inside = inside;
  if (due) onstack_heap_take(block, size);
  return block;
}

MALLOC_API void *realloc(void *from, size_t size) { return malloc_move(from, size); }

MALLOC_API void *reallocarray(void *from, size_t count, size_t size) {
  size_t bytes;
  if (__builtin_mul_overflow(count, size, &bytes)) return errno = ENOMEM, NULL;
  return malloc_move(from, bytes);
}

MALLOC_STATIC int malloc_posix_aligned(void **out, size_t alignment, size_t size) {
  const bool due = malloc_due(size);
  const uint32_t inside = own.inside;
  own.inside = MALLOC_BACK;
  const int error = NEXT(posix_memalign)(out, alignment, size);
  own.inside = inside;
  if (due && error == 0) onstack_heap_take(*out, size);
  return error;
}

MALLOC_API int posix_memalign(void **out, size_t alignment, size_t size) {
  return malloc_posix_aligned(out, alignment, size);
}

MALLOC_STATIC void *malloc_aligned(void *(*allocate)(size_t, size_t), size_t alignment, size_t size) {
  const bool due = malloc_due(size);
  const uint32_t inside = own.inside;
  own.inside = MALLOC_BACK;
  void *block = allocate(alignment, size);
  own.inside = inside;
  if (due) onstack_heap_take(block, size);
  return block;
}

MALLOC_API void *aligned_alloc(size_t alignment, size_t size) {
  return malloc_aligned(NEXT(aligned_alloc), alignment, size);
}

MALLOC_API void *memalign(size_t alignment, size_t size) { return malloc_aligned(NEXT(memalign), alignment, size); }

MALLOC_STATIC void *malloc_pages(size_t size) {
  void *block = NULL;
  const int error = malloc_posix_aligned(&block, (size_t)sysconf(_SC_PAGESIZE), size);
  return error == 0 ? block : (errno = error, NULL);
}

MALLOC_API void *valloc(size_t size) { return malloc_pages(size); }

MALLOC_API void *pvalloc(size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  if (size > SIZE_MAX - page) return errno = ENOMEM, NULL;
  return malloc_pages((size + page - 1) & ~(page - 1));
}

MALLOC_API void free_sized(void *block, size_t size) {
  (void)size;
  malloc_free(block);
}

MALLOC_API void free_aligned_sized(void *block, size_t alignment, size_t size) {
  (void)alignment, (void)size;
  malloc_free(block);
}

MALLOC_API size_t malloc_usable_size(void *block) {
  if (early_has(block)) return early_size(block);
  return block ? NEXT(usable_size)(block) : 0;
}
