/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The truth, instruction by instruction: a child is single-stepped, its calls and returns keep a shadow stack, and at
 * each step the unwinder `rules` walks the child's registers and memory. Parent and child are one program image, so the
 * parent's rule tables describe the child too. Each frame up to the workload's own must be the shadow stack's.
 */
#include "check.h"

#include "control/modules.h"
#include "handler/unwinder.h"

#include <elf.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STEPS_MOST 60000u
#define SHADOW_MOST 256u
#define FRAMES_MOST 300u

/* ---- what is stepped through ---- */

static volatile uint64_t sink;

__attribute__((noinline, noclone)) static uint64_t step_leaf(uint64_t x) { return x * 7 + sink; }
__attribute__((noinline, noclone)) static uint64_t step_frame(uint64_t x) {
  volatile uint64_t words[6] = {x};
  return step_leaf(words[0]) + step_leaf(x + 1) + words[3];
}
__attribute__((noinline, noclone)) static uint64_t step_large(uint64_t x) { /* several instructions move SP */
  volatile uint64_t words[9000];
  words[x % 9000] = x;
  return step_frame(words[x % 9000]) + 1;
}
__attribute__((noinline, noclone)) static uint64_t step_alloca(uint64_t x) { /* the CFA is x29's */
  volatile uint8_t *bytes = __builtin_alloca(16 + x % 100);
  bytes[x % 16] = (uint8_t)x;
  return step_frame(x) + bytes[x % 16];
}
__attribute__((noinline, noclone)) static uint64_t step_deep(uint64_t depth) {
  volatile uint64_t here = depth; /* no loop in place of the recursion */
  return depth == 0 ? step_frame(1) : step_deep(here - 1) * 3 + here;
}
__attribute__((noinline, noclone)) static double step_float(double x) { return step_leaf((uint64_t)x) * 0.5 + x; }
static int step_compare(const void *a, const void *b) { return *(const int *)a - (int)step_leaf(0) - *(const int *)b; }
static void step_on_signal(int signal) { sink += step_frame((uint64_t)signal); }

__attribute__((noinline, noclone)) static void workload(void) {
  char text[200];
  int numbers[24];
  signal(SIGUSR1, step_on_signal);
  for (int i = 0; i < 24; i++) numbers[i] = (i * 37) % 23;
  sink += step_large(5) + step_alloca(77) + step_deep(40) + (uint64_t)step_float(3.5);
  qsort(numbers, 24, sizeof(numbers[0]), step_compare);
  snprintf(text, sizeof(text), "%d %s %.3f %lx", numbers[3], "text", 1.25, (unsigned long)sink);
  for (int i = 0; i < 6; i++) {
    char *block = malloc((size_t)100 << i);
    memset(block, i, (size_t)100 << i);
    memcpy(text, block, 100);
    free(block);
  }
  for (int i = 0; i < 3; i++) {
    /* In the vDSO. Its clocks proper would never end: they start over when the kernel's tick comes between. */
    struct timespec resolution;
    clock_getres(CLOCK_MONOTONIC, &resolution);
    sink += (uint64_t)thread_cpu() + (uint64_t)resolution.tv_nsec;
  }
  raise(SIGUSR1);
  sink += strtoul("12345", NULL, 10) + strlen(text);
}

/* ---- the child's state ---- */

static pid_t child;
static uint64_t shadow[SHADOW_MOST]; /* what a walk must find behind the first frame, the outermost first */
static size_t shadow_count;

static bool read_child(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  struct iovec local = {words, 16}, remote = {(void *)(uintptr_t)address, 16};
  (void)memory;
  return process_vm_readv(child, &local, 1, &remote, 1, 0) == 16;
}
static const onstack_reader child_reader = {"child", NULL, read_child};

static onstack_walk_result walk_child(const struct user_regs_struct *state, uint64_t *frames) {
  static onstack_thread thread;
  onstack_memory memory;
  onstack_registers registers;
  memset(&memory, 0, sizeof(memory));
  memset(&registers, 0, sizeof(registers));
  memory.reader = &child_reader;
  memory.thread = &thread;
  registers.pc = state->pc;
  registers.sp = state->sp;
  registers.fp = state->regs[29];
  registers.lr = state->regs[30];
  onstack_walk walk = {.registers = &registers, .memory = &memory, .frames = frames, .capacity = FRAMES_MOST};
  return onstack_unwinder_rules.run(&walk);
}

static bool read_registers(struct user_regs_struct *state) {
  struct iovec vector = {state, sizeof(*state)};
  return ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &vector) == 0;
}

/* ---- calls and returns ---- */

static void shadow_push(uint64_t frame) {
  if (shadow_count == SHADOW_MOST) exit(3);
  shadow[shadow_count++] = frame;
}

static bool is_call(uint32_t code) {
  return (code & 0xfc000000u) == 0x94000000u || (code & 0xfffffc1fu) == 0xd63f0000u || /* bl, blr */
         (code & 0xfefff800u) == 0xd63f0800u;                                          /* blraa and its kin */
}
static bool is_return(uint32_t code) {
  return (code & 0xfffffc1fu) == 0xd65f0000u || (code & 0xfffffbffu) == 0xd65f0bffu; /* ret; retaa, retab */
}

/* What an instruction that was stepped over has done to the shadow stack. */
static void shadow_follow(const struct user_regs_struct *before, uint32_t code) {
  bool sigreturn = code == 0xd4000001u && before->regs[8] == 139;
  if (is_call(code))
    shadow_push(before->pc + 4);
  else if ((is_return(code) || sigreturn) && shadow_count > 0)
    shadow_count--;
}

static bool is_exact(const uint64_t *frames, uint32_t count) {
  if (count < shadow_count + 1) return false;
  for (size_t i = 0; i < shadow_count; i++)
    if (frames[1 + i] != shadow[shadow_count - 1 - i]) return false;
  return true;
}

static void report(const uint64_t *frames, onstack_walk_result result, uint32_t code) {
  printf("   inexact at workload%+ld (%08x), truncation %u, %u frames:", (long)(frames[0] - (uint64_t)(uintptr_t)workload),
         code, result.truncation, result.frame_count);
  for (uint32_t i = 1; i < result.frame_count && i < 5; i++) printf(" %#lx", (unsigned long)frames[i]);
  printf("; wanted");
  for (size_t i = 0; i < shadow_count && i < 4; i++) printf(" %#lx", (unsigned long)shadow[shadow_count - 1 - i]);
  printf("\n");
}

/* One step, with the signal that waits. Returns false when the child has ended. */
static bool step_child(int *deliver) {
  int status;
  if (ptrace(PTRACE_SINGLESTEP, child, NULL, (void *)(long)*deliver) != 0) return false;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return false;
  *deliver = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
  return true;
}

static void run_child(void) {
  ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  raise(SIGSTOP);
  workload();
  _exit(0);
}

static void step_through(void) {
  struct user_regs_struct state, before;
  uint64_t frames[FRAMES_MOST];
  size_t steps = 0, exact = 0, rooted = 0, deepest = 0;
  int deliver = 0;
  bool inside = false;
  while (steps < STEPS_MOST && read_registers(&before)) {
    uint32_t code = *(const uint32_t *)(uintptr_t)before.pc; /* the image is ours too */
    int delivered = deliver;
    if (!step_child(&deliver) || !read_registers(&state)) break;
    if (!inside) {
      if (state.pc != (uint64_t)(uintptr_t)workload) continue;
      inside = true;
      shadow_push(state.regs[30]);
    } else if (delivered == SIGUSR1) { /* the step has led to the handler's first instruction */
      shadow_push(before.pc + 1);
      shadow_push(state.regs[30]);
    } else if (state.pc != before.pc) { /* a step can end before its instruction ran: signals, ends of system calls */
      shadow_follow(&before, code);
    }
    if (shadow_count == 0) break; /* workload has returned */
    onstack_walk_result result = walk_child(&state, frames);
    bool good = is_exact(frames, result.frame_count);
    steps++;
    exact += good;
    rooted += result.truncation == ONSTACK_TRUNCATED_NOT;
    if (shadow_count > deepest) deepest = shadow_count;
    if (!good && steps - exact <= 12) report(frames, result, *(const uint32_t *)(uintptr_t)state.pc);
  }
  check(steps > 3000 && deepest > 40 && exact * 1000 >= steps * 999, "single steps have the shadow stack's frames",
        "%zu of %zu exact (%.3f %%), %zu rooted, up to %zu deep", exact, steps, 100.0 * (double)exact / (double)steps,
        rooted, deepest);
}

int main(void) {
  /* Parent and child take turns: on one processor nobody has to be woken on another. */
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  sched_setaffinity(0, sizeof(one), &one);
  /* Fills the map of executable memory; the rule tables are completed here. */
  onstack_session *session = start(99, NULL);
  while (onstack_modules_refresh((size_t)1 << 30)) continue;
  finish(session, "steps");
  fflush(stdout);
  if ((child = fork()) == 0) run_child();
  int status;
  waitpid(child, &status, 0);
  if (!WIFSTOPPED(status)) {
    check(false, "single steps", "the child did not stop");
    return check_status();
  }
  step_through();
  kill(child, SIGKILL);
  return check_status();
}
