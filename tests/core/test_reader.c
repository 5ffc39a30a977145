/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Where system calls are refused, another way to read memory is chosen, or none, and the statistics say which. */
#include "sampler/unwind/memory.h"
#include "support.h"

#include "platform/process.h"

#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <ucontext.h>
#include <unistd.h>

TestSuite(reader, .init = t_setup);

/* EPERM for process_vm_readv, and for rt_sigprocmask with an invalid `how` (the probe), good and bad alike. Each test is
   a process. */
static void refuse(bool copy, bool probe) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, copy ? SYS_process_vm_readv : 0xffffffff, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, probe ? SYS_rt_sigprocmask : 0xffffffff, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xffffffff, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
  cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0, "seccomp: %s", strerror(errno));
}

__attribute__((noinline)) static void two_callers(double seconds) {
  t_burn(seconds);
  __asm__ volatile("");
}

static onstack_stats sampled(const char *reader, const char *unwinder, double *frames) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(250, t_collect, collector);
  options.unwinder = unwinder;
  onstack_session *session = t_start(&options);
  two_callers(0.5);
  onstack_stats stats = t_finish(session);
  cr_assert_str_eq(stats.reader, reader);
  cr_assert_gt(collector->count, 30);
  double sum = 0;
  for (size_t i = 0; i < collector->count; i++) sum += collector->samples[i].frame_count;
  *frames = sum / (double)collector->count;
  return stats;
}

static const char *const walkers[] = {"frame_pointer", "rules"};

Test(reader, probe_where_everything_is_allowed) {
  for (int i = 0; i < 2; i++) {
    double frames;
    sampled("probe", walkers[i], &frames);
    cr_assert_gt(frames, 3, "%s: %.1f frames", walkers[i], frames);
  }
}

Test(reader, probe_without_process_vm_readv) {
  refuse(true, false);
  for (int i = 0; i < 2; i++) {
    double frames;
    sampled("probe", walkers[i], &frames);
    cr_assert_gt(frames, 2.5, "%s: %.1f frames", walkers[i], frames);
  }
}

Test(reader, copy_where_the_probe_is_refused) {
  refuse(false, true);
  for (int i = 0; i < 2; i++) {
    double frames;
    sampled("copy", walkers[i], &frames);
    cr_assert_gt(frames, 3, "%s: %.1f frames", walkers[i], frames);
  }
}

/* Tables of objects that may go at any instant are read by pipes there; they are closed. */
Test(reader, memory_is_copied_where_process_vm_readv_is_refused) {
  enum { PAGE = 4096, PAGES = 40 };
  static uint8_t out[PAGES * PAGE];
  uint8_t *memory = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t address = (uint64_t)(uintptr_t)memory;
  for (size_t i = 0; i < PAGES * PAGE; i++) memory[i] = (uint8_t)(i * 7 >> 3);
  refuse(true, false);
  const t_traces before = t_traces_now();
  cr_expect_eq(onstack_process_memory_copy(address + 1, out, PAGES * PAGE - 1), (size_t)(PAGES * PAGE - 1));
  cr_expect_eq(memcmp(out, memory + 1, PAGES * PAGE - 1), 0);
  cr_assert_eq(munmap(memory + (PAGES - 1) * PAGE, PAGE), 0);
  cr_expect_eq(onstack_process_memory_copy(address + 100, out, PAGES * PAGE - 100), (size_t)((PAGES - 1) * PAGE - 100));
  cr_expect_eq(onstack_process_memory_copy(address + (PAGES - 1) * PAGE, out, 8), (size_t)0);
  cr_expect_not(onstack_process_memory_read(address + (PAGES - 1) * PAGE - 4, out, 8));
  const t_traces after = t_traces_now();
  t_same_traces(&before, &after, "copies by pipes");
}

/* For good masks and bad ones alike. */
Test(reader, copy_where_every_mask_call_is_refused) {
  cr_assert_eq(t_refuse(SYS_rt_sigprocmask, SYS_rt_sigprocmask, EPERM), 0);
  double frames;
  sampled("copy", "rules", &frames);
  cr_assert_gt(frames, 3, "%.1f frames", frames);
}

Test(reader, none_where_both_are_refused) {
  refuse(true, true);
  for (int i = 0; i < 2; i++) {
    double frames;
    onstack_stats stats = sampled("none", walkers[i], &frames);
    cr_assert_lt(frames, 1.01, "%s: the interrupted PC and nothing else", walkers[i]);
    cr_assert_geq(stats.truncated_by[ONSTACK_TRUNCATED_UNREADABLE] * 100, stats.samples * 95);
  }
}

/* An empty directory over /proc, in a mount namespace of this test's own process. */
Test(reader, without_proc) {
  if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
      mount("none", "/proc", "tmpfs", 0, NULL) != 0)
    cr_skip_test("no mount namespace here: %s", strerror(errno));
  cr_assert_neq(access("/proc/self", F_OK), 0);
  double frames;
  onstack_stats stats = sampled("probe", "frame_pointer", &frames);
  cr_assert_gt(frames, 2.5, "%.1f frames", frames);
  cr_assert_geq(stats.threads_seen, 1, "the process tick finds the threads");
  t_near((double)stats.recorded / 250, 0.5, 0.2, "without /proc");
}

/* What becomes of the probe's questions from here on. */
static void answer_questions(uint32_t answer) {
  struct sock_filter program[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[0])),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, 0xffffffff, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, answer),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog filter = {sizeof(program) / sizeof(program[0]), program};
  cr_assert_eq(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), 0);
  cr_assert_eq(prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter), 0, "seccomp: %s", strerror(errno));
}

/*
 * What the probe finds readable, another thread may have unmapped before it is read. So the probe is made to find everything
 * readable: only the stack that is walked may be loaded from then. A stack that the thread ran on earlier is read by copy.
 */
Test(reader, a_stack_that_was_left_is_not_loaded_from) {
  uint64_t on_stack[2] = {1, 2}, words[2] = {0, 0};
  uint8_t *left = mmap(NULL, 16384, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  const uint64_t here = (uint64_t)(uintptr_t)on_stack & ~(uint64_t)7;
  onstack_memory memory = {.reader = &onstack_reader_probe, .copy_works = true};
  memory.ranges[0] = (onstack_stack_range){here - 65536, here + 4096};
  memory.ranges[1] = (onstack_stack_range){(uint64_t)(uintptr_t)left, (uint64_t)(uintptr_t)left + 16384};
  onstack_memory_enter_stack(&memory, here);
  cr_assert_eq(munmap(left, 16384), 0);
  answer_questions(SECCOMP_RET_ERRNO | EINVAL);
  cr_assert(onstack_memory_read_pair(&memory, here, words));
  cr_assert(words[0] == 1 && words[1] == 2);
  cr_assert_not(onstack_memory_read_pair(&memory, (uint64_t)(uintptr_t)left + 4096, words));
}

/* Stacks of 16 pages, [i] of which the first word says whose they are. */
enum { STACK_PAGES = 16, STACK_PAGE = 4096, STACKS = 3 };
static uint8_t *map_stack(uint64_t number) {
  uint8_t *stack = mmap(NULL, STACK_PAGES * STACK_PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(stack, MAP_FAILED);
  for (uint64_t i = 0; i < STACK_PAGES * STACK_PAGE / 8; i++) ((uint64_t *)(void *)stack)[i] = number << 32 | i;
  return stack;
}

static onstack_stack_range stack_range(const uint8_t *stack) {
  return (onstack_stack_range){(uint64_t)(uintptr_t)stack, (uint64_t)(uintptr_t)stack + STACK_PAGES * STACK_PAGE};
}

/*
 * The probe asks for two pages at once, and keeps what it has proven of three stacks. Any word of any of them, in any order:
 * it is read where its own pages may be read, whatever lies beside them, and nowhere else.
 */
Test(reader, pages_that_may_not_be_read_between_others) {
  enum { WALKS = 4000, READS = 24 };
  uint8_t *stacks[STACKS];
  bool forbidden[STACKS][STACK_PAGES] = {{false}};
  unsigned seed = 20263, refused = 0;
  for (uint32_t s = 0; s < STACKS; s++) {
    stacks[s] = map_stack(s);
    for (uint32_t page = 0; page < STACK_PAGES; page++) {
      forbidden[s][page] = rand_r(&seed) % 4 == 0;
      if (forbidden[s][page]) cr_assert_eq(mprotect(stacks[s] + page * STACK_PAGE, STACK_PAGE, PROT_NONE), 0);
    }
  }
  for (uint32_t walk = 0; walk < WALKS; walk++) {
    onstack_memory memory = {.reader = &onstack_reader_probe};
    for (uint32_t s = 0; s < STACKS; s++) memory.ranges[s] = stack_range(stacks[s]);
    for (uint32_t i = 0; i < READS; i++) {
      const uint32_t s = (uint32_t)rand_r(&seed) % STACKS, page = (uint32_t)rand_r(&seed) % STACK_PAGES;
      static const uint32_t offsets[] = {0, 8, 2040, 4072, 4080, 4088};
      const uint32_t at = page * STACK_PAGE + offsets[(uint32_t)rand_r(&seed) % 6], last = (at + 15) / STACK_PAGE;
      const uint64_t address = (uint64_t)(uintptr_t)stacks[s] + at, first = (uint64_t)s << 32 | at / 8;
      uint64_t words[2];
      if (last == STACK_PAGES) continue;
      onstack_memory_enter_stack(&memory, address);
      const bool good = !forbidden[s][page] && !forbidden[s][last];
      cr_assert_eq(onstack_memory_read_pair(&memory, address, words), good, "walk %u: page %u of stack %u", walk, page, s);
      cr_assert(!good || (words[0] == first && words[1] == first + 1));
      refused += !good;
    }
  }
  cr_assert_gt(refused, WALKS * READS / 10);
}

static volatile uint32_t questions;
static void count_question(int signal, siginfo_t *info, void *context) {
  ucontext_t *interrupted = context;
  (void)signal;
  (void)info;
  questions++;
#if defined(__x86_64__)
  interrupted->uc_mcontext.gregs[REG_RAX] = -EINVAL;
#else
  interrupted->uc_mcontext.regs[0] = (uint64_t)-EINVAL;
#endif
}

/* Reads a word of each page from one to another, and returns how many questions that took. */
static uint32_t asked_for(onstack_memory *memory, uint8_t *stack, uint32_t from, uint32_t to) {
  questions = 0;
  for (uint32_t page = from; page <= to; page++) {
    uint64_t words[2], address = (uint64_t)(uintptr_t)stack + page * STACK_PAGE + 64;
    onstack_memory_enter_stack(memory, address);
    cr_assert(onstack_memory_read_pair(memory, address, words));
  }
  return questions;
}

Test(reader, a_question_is_asked_for_two_pages_and_only_once) {
  struct sigaction action = {.sa_sigaction = count_question, .sa_flags = SA_SIGINFO};
  uint8_t *stacks[STACKS];
  onstack_memory memory = {.reader = &onstack_reader_probe};
  cr_assert_eq(sigaction(SIGSYS, &action, NULL), 0);
  for (uint32_t s = 0; s < STACKS; s++) {
    stacks[s] = map_stack(s);
    memory.ranges[s] = stack_range(stacks[s]);
  }
  answer_questions(SECCOMP_RET_TRAP);
  cr_assert_eq(asked_for(&memory, stacks[0], 2, 9), 4);
  cr_assert_eq(asked_for(&memory, stacks[0], 2, 9), 0);
  cr_assert_eq(asked_for(&memory, stacks[0], 1, 1), 1, "below what is proven");
  cr_assert_eq(asked_for(&memory, stacks[1], 15, 15), 1, "nothing above the end of a stack");
  cr_assert_eq(asked_for(&memory, stacks[2], 4, 4), 1);
  for (uint32_t round = 0; round < 3; round++) {
    cr_assert_eq(asked_for(&memory, stacks[0], 1, 9), 0, "there and back");
    cr_assert_eq(asked_for(&memory, stacks[1], 15, 15), 0);
    cr_assert_eq(asked_for(&memory, stacks[2], 4, 5), 0);
  }
  cr_assert_eq(asked_for(&memory, stacks[0], 10, 15), 3);
}

/* Burns with the stack pointer in the middle of a page, so that the next callers are on that page. */
__attribute__((noinline)) static void burn_inside_a_page(double seconds) {
  uint8_t here;
  volatile uint8_t *room = __builtin_alloca((((uintptr_t)&here - 2048) & (STACK_PAGE - 1)) + 64);
  room[0] = 1;
  two_callers(seconds);
  room[1] = 1;
}

/* The share of samples with callers, where the kernel answers no question any more. */
static double with_callers(const char *unwinder, bool alternate) {
  static uint8_t stack[128 << 10];
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(250, t_collect, collector);
  stack_t on = {.ss_sp = stack, .ss_size = alternate ? sizeof(stack) : 0, .ss_flags = alternate ? 0 : SS_DISABLE};
  cr_assert_eq(sigaltstack(&on, NULL), 0);
  options.unwinder = unwinder;
  onstack_session *session = t_start(&options);
  answer_questions(SECCOMP_RET_ERRNO | EPERM);
  burn_inside_a_page(0.5);
  t_finish(session);
  size_t count = 0;
  for (size_t i = 0; i < collector->count; i++) count += collector->samples[i].frame_count >= 3;
  cr_assert_gt(collector->count, 60);
  return (double)count / (double)collector->count;
}

Test(reader, no_question_for_the_page_that_holds_the_signals_frame_frame_pointer) {
  cr_assert_gt(with_callers("frame_pointer", false), 0.6); /* not inside libc */
}
Test(reader, no_question_for_the_page_that_holds_the_signals_frame_rules) {
  cr_assert_gt(with_callers("rules", false), 0.9);
}
Test(reader, an_alternate_stack_tells_nothing_of_the_interrupted_one) {
  cr_assert_lt(with_callers("rules", true), 0.1); /* where the bounds are not known yet, the kernel copies */
}
