/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * malloc and its family in place of libc's: everything that allocates in the process comes here, libc's own functions
 * (opendir, getline) included. glibc lends its own under other names.
 */
#include "allocate.h"

#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *memory, size_t size);

extern void __libc_free(void *memory);

static plan *allocate_plan;
static long allocate_count;

long allocate_live(void) { return __atomic_load_n(&allocate_count, __ATOMIC_RELAXED); }

static void *allocate_counted(void *memory) {
  if (memory) __atomic_add_fetch(&allocate_count, 1, __ATOMIC_RELAXED);
  return memory;
}

void allocate_under(plan *plan) { allocate_plan = plan; }

static bool allocate_fails(void) {
  plan *plan = allocate_plan;
  if (!plan || !plan->armed) return false;
  if (plan->host && plan->host == (int32_t)syscall(SYS_gettid)) return false;
  uint64_t index = __atomic_add_fetch(&plan->seen, 1, __ATOMIC_RELAXED);
  if (plan->nth == 0 || index < plan->nth || (!plan->persistent && index > plan->nth)) return false;
  __atomic_add_fetch(&plan->injected, 1, __ATOMIC_RELAXED);
  errno = ENOMEM;
  return true;
}

void *malloc(size_t size) { return allocate_fails() ? NULL : allocate_counted(__libc_malloc(size)); }
void *calloc(size_t count, size_t size) { return allocate_fails() ? NULL : allocate_counted(__libc_calloc(count, size)); }
void *realloc(void *memory, size_t size) {
  if (allocate_fails()) return NULL;
  void *result = __libc_realloc(memory, size);
  return memory ? result : allocate_counted(result);
}
void free(void *memory) {
  if (memory) __atomic_sub_fetch(&allocate_count, 1, __ATOMIC_RELAXED);
  __libc_free(memory);
}
