/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Code that nobody knows, in pages that come and go, with a stack pointer that points anywhere: a JIT compiler's thread in
 * its worst instant. It survives a signal only where the handler and all that it hands the signal on to are on the alternate
 * stack. Of the two signals that is one in each round (signals.c); the other one would fault without a profiler too, and is
 * put off meanwhile.
 */
#include "soak.h"

#include <signal.h>
#include <string.h>
#include <sys/mman.h>

#define WILD_WORKERS 2
#define WILD_PAGES 64u /* each worker's */
#define WILD_PAGE ((size_t)65536)
#define WILD_BYTES (WILD_PAGES * WILD_PAGE)

typedef void wild_code(uint64_t count, uint64_t sp, uint64_t fp, uint64_t bx);
extern const uint8_t wild_begin[], wild_end[];

/* The old stack pointer waits in a register: nothing is pushed or popped while it is away. */
#if defined(__x86_64__)
__asm__(".pushsection .text\nwild_begin:\n"
        "push %rbp\n\tpush %rbx\n\t"
        "mov %rsp, %r8\n\t"
        "mov %rcx, %rbx\n\t"
        "mov %rdx, %rbp\n\t"
        "mov %rsi, %rsp\n\t"
        "1: dec %rdi\n\t"
        "jnz 1b\n\t"
        "mov %r8, %rsp\n\t"
        "pop %rbx\n\tpop %rbp\n\tret\n"
        "wild_end:\n.popsection");
#else
__asm__(".pushsection .text\n.balign 4\nwild_begin:\n"
        "mov x9, sp\n\tmov x10, x29\n\tmov x11, x30\n\t"
        "mov x30, x3\n\t"
        "mov x29, x2\n\t"
        "mov sp, x1\n\t"
        "1: subs x0, x0, #1\n\t"
        "b.ne 1b\n\t"
        "mov sp, x9\n\tmov x29, x10\n\tmov x30, x11\n\tret\n"
        "wild_end:\n.popsection");
#endif

uint64_t soak_wild, soak_wild_samples;
static uint8_t *wild_pages[WILD_WORKERS]; /* reserved once, for ever: nobody else's memory comes there */
static uint8_t wild_alternates[WILD_WORKERS][65536] __attribute__((aligned(4096)));
static uint64_t wild_words[4096];

/* Each record leads to the next one. */
static void wild_fill(void) {
  for (size_t i = 0; i + 1 < sizeof(wild_words) / 8; i += 16) {
    wild_words[i] = (uint64_t)(uintptr_t)&wild_words[(i + 16) % 4096];
    wild_words[i + 1] = (uint64_t)(uintptr_t)__builtin_return_address(0);
  }
}

void soak_reserve_wild_pages(void) {
  for (int i = 0; i < WILD_WORKERS; i++) {
    wild_pages[i] = mmap(NULL, WILD_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (wild_pages[i] == MAP_FAILED) soak_fail("no place for generated code");
  }
  wild_fill();
}

bool soak_is_wild(uint64_t address) {
  for (int i = 0; i < WILD_WORKERS; i++)
    if (address - (uint64_t)(uintptr_t)wild_pages[i] < WILD_BYTES) return true;
  return false;
}

uint64_t soak_wild_place(unsigned *seed) {
  return (uint64_t)(uintptr_t)wild_pages[soak_random(seed, WILD_WORKERS)] + WILD_PAGE * soak_random(seed, WILD_PAGES) +
         soak_random(seed, 64);
}

/* Not the memory that others unmap (soak_somewhere): what SP lies in is a stack to the handler, and the one thing that must
   not go between its probe and its load (docs/ARCHITECTURE.md). Nor the alternate stack: SP in there says that it is in use. */
static uint64_t wild_stack_pointer(unsigned *seed) {
  uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  switch (soak_random(seed, 6)) {
  case 0:
    return (uint64_t)soak_random(seed, ~0u) << 32 ^ soak_random(seed, ~0u);
  case 1:
    return here + soak_random(seed, 16384); /* the rest of this stack, or the guard behind it */
  case 2:
    return here - soak_random(seed, 131072);
  case 3:
    return (uint64_t)(uintptr_t)wild_begin + soak_random(seed, 4096);
  case 4:
    return (uint64_t)(uintptr_t)wild_words + soak_random(seed, sizeof(wild_words));
  default:
    return soak_random(seed, 2) ? soak_random(seed, 4096) : ~(uint64_t)soak_random(seed, 4096);
  }
}

static void wild_burst(wild_code *code, unsigned *seed) {
  sigset_t unsafe, before;
  uint64_t sp = wild_stack_pointer(seed), fp = soak_random(seed, 3) ? soak_somewhere(seed) : sp;
  sigemptyset(&unsafe);
  sigaddset(&unsafe, soak_needs_stack);
  pthread_sigmask(SIG_BLOCK, &unsafe, &before);
  code(400000, sp, fp, soak_somewhere(seed));
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  soak_count(&soak_wild, 1);
}

/* Code comes to a page and leaves it again; a return address into it stays in what others have read. */
static bool wild_visit(uint8_t *page, unsigned *seed) {
  wild_code *code;
  size_t bytes = (size_t)(wild_end - wild_begin);
  int flags = MAP_FIXED | MAP_PRIVATE | MAP_ANONYMOUS;
  if (mmap(page, WILD_PAGE, PROT_READ | PROT_WRITE, flags, -1, 0) == MAP_FAILED) return false;
  memcpy(page, wild_begin, bytes);
  __builtin___clear_cache((char *)page, (char *)page + bytes);
  if (mprotect(page, WILD_PAGE, PROT_READ | PROT_EXEC) != 0) return false;
  memcpy(&code, &page, sizeof(code));
  for (uint32_t i = 1 + soak_random(seed, 40); i > 0; i--) wild_burst(code, seed);
  return mmap(page, WILD_PAGE, PROT_NONE, flags, -1, 0) != MAP_FAILED;
}

typedef struct wild_life {
  soak_stack stack;
  soak_worker *worker;
} wild_life;

static void *wild_live(void *data) {
  soak_worker *worker = ((wild_life *)data)->worker;
  stack_t alternate = {.ss_sp = wild_alternates[worker->number], .ss_size = sizeof(wild_alternates[0])};
  if (sigaltstack(&alternate, NULL) != 0)
    soak_fail("no alternate stack");
  else
    while (!soak_resting) {
      uint8_t *page = wild_pages[worker->number] + WILD_PAGE * soak_random(&worker->seed, WILD_PAGES);
      if (!wild_visit(page, &worker->seed)) soak_fail("no page for generated code");
      soak_beat(worker);
    }
  alternate.ss_flags = SS_DISABLE;
  sigaltstack(&alternate, NULL);
  return NULL;
}

void soak_run_wild(soak_worker *worker) {
  wild_life life = {.worker = worker};
  if (soak_stack_start(&life.stack, (size_t)256 << 10, wild_live, &life))
    soak_stack_join(&life.stack);
  else
    soak_fail("no thread for wild code");
}
