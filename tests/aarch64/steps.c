/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "steps.h"

#include "check.h"
#include "sampler/modules/modules.h"

#include <elf.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

static pid_t child;
static uint64_t shadow[STEPS_SHADOW];
static size_t shadow_count;
static struct user_regs_struct now;
static bool inside, resolves;
static int deliver; /* the signal that waits for the next step */

bool steps_read(uint64_t address, uint64_t words[2]) {
  struct iovec local = {words, 16}, remote = {(void *)(uintptr_t)address, 16};
  return process_vm_readv(child, &local, 1, &remote, 1, 0) == 16;
}

static bool read_child(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  (void)memory;
  return steps_read(address, words);
}
const onstack_reader steps_reader = {"child", NULL, read_child};

onstack_walk_result steps_walk(const steps_state *state, const onstack_reader *reader, uint64_t *frames) {
  static onstack_stack_bounds bounds;
  onstack_memory memory;
  onstack_registers registers;
  memset(&memory, 0, sizeof(memory));
  memset(&registers, 0, sizeof(registers));
  memory.reader = reader;
  memory.bounds = &bounds;
  registers.pc = state->registers.pc;
  registers.sp = state->registers.sp;
  registers.fp = state->registers.regs[29];
  registers.lr = state->registers.regs[30];
  onstack_walk walk = {.registers = &registers, .memory = &memory, .frames = frames, .capacity = STEPS_FRAMES};
  return onstack_unwinder_rules.run(&walk);
}

bool steps_exact(const steps_state *state, const uint64_t *frames, uint32_t count) {
  if (count < state->shadow_count + 1) return false;
  for (size_t i = 0; i < state->shadow_count; i++)
    if (frames[1 + i] != state->shadow[state->shadow_count - 1 - i]) return false;
  return true;
}

static bool read_registers(struct user_regs_struct *state) {
  struct iovec vector = {state, sizeof(*state)};
  return ptrace(PTRACE_GETREGSET, child, NT_PRSTATUS, &vector) == 0;
}

/* ---- calls and returns ---- */

static void shadow_push(uint64_t frame) {
  if (shadow_count == STEPS_SHADOW) exit(3);
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

/* .plt's first entry, whose fourth instruction br x17 leads to the resolver: stp x16, x30, [sp, #-16]!; adrp; ldr; add. */
static bool is_to_resolver(uint64_t pc, uint32_t code) {
  const uint32_t *at = (const uint32_t *)(uintptr_t)pc;
  return code == 0xd61f0220u && at[-4] == 0xa9bf7bf0u;
}

/* One step, with the signal that waits. False when the child has ended. */
static bool step_child(void) {
  int status;
  if (ptrace(PTRACE_SINGLESTEP, child, NULL, (void *)(long)deliver) != 0) return false;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return false;
  deliver = WSTOPSIG(status) == SIGTRAP ? 0 : WSTOPSIG(status);
  return read_registers(&now);
}

/* A step, and what it did to the shadow stack. */
static bool step_and_follow(void) {
  struct user_regs_struct before = now;
  uint32_t code = *(const uint32_t *)(uintptr_t)before.pc; /* the image is ours too */
  int delivered = deliver;
  if (!step_child()) return false;
  resolves = is_to_resolver(before.pc, code);
  if (!inside) {
    inside = now.pc == (uint64_t)(uintptr_t)steps_workload;
    if (inside) shadow_push(now.regs[30]);
  } else if (delivered == SIGUSR1) { /* the step has led to the handler's first instruction */
    shadow_push(before.pc + 1);
    shadow_push(now.regs[30]);
  } else if (now.pc != before.pc) { /* a step can end before its instruction ran: signals, ends of system calls */
    shadow_follow(&before, code);
  }
  return true;
}

bool steps_next(steps_state *state) {
  if (!step_and_follow()) return false;
  while (!inside)
    if (!step_and_follow()) return false;
  *state = (steps_state){now, shadow, shadow_count, resolves};
  return shadow_count > 0;
}

static void run_child(void) {
  ptrace(PTRACE_TRACEME, 0, NULL, NULL);
  raise(SIGSTOP);
  steps_workload();
  _exit(0);
}

bool steps_begin(void) {
  /* Parent and child take turns: on one processor nobody has to be woken on another. */
  cpu_set_t one;
  int status;
  CPU_ZERO(&one);
  CPU_SET(0, &one);
  sched_setaffinity(0, sizeof(one), &one);
  /* Fills the map of executable memory; the rule tables are completed here. */
  onstack_session *session = start(99, NULL);
  while (onstack_modules_refresh((size_t)1 << 30)) continue;
  finish(session, "steps");
  if ((child = fork()) == 0) run_child();
  waitpid(child, &status, 0);
  return WIFSTOPPED(status) && read_registers(&now);
}

void steps_end(void) {
  kill(child, SIGKILL);
  waitpid(child, NULL, 0);
}
