/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "tracer.h"

#include "sampler/unwind/code_map.h"
#include "instruction.h"
#include "remote.h"
#include "shadow.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/user.h>
#include <sys/wait.h>

#define TRACER_THREADS 64u
#define TRACER_FRAMES 1024u

typedef struct tracer_thread {
  pid_t tid;
  bool stepping;
  bool begun; /* `registers` are of the last stop */
  int injected;
  truth_instruction last; /* the instruction at registers.rip, which the step executes */
  struct user_regs_struct registers;
  truth_shadow shadow;
  truth_remote remote;
} tracer_thread;

typedef struct tracer {
  const truth_plan *plan;
  truth_counts *counts;
  pid_t process;
  uint32_t count;
  tracer_thread *threads[TRACER_THREADS];
  onstack_code_range code;
} tracer;

static tracer_thread *tracer_find(tracer *tracer, pid_t tid) {
  for (uint32_t i = 0; i < tracer->count; i++)
    if (tracer->threads[i]->tid == tid) return tracer->threads[i];
  if (tracer->count == TRACER_THREADS) return NULL;
  tracer_thread *thread = calloc(1, sizeof(*thread));
  if (!thread) return NULL;
  thread->tid = tid;
  thread->remote.process = tracer->process;
  thread->stepping = tracer->plan->whole || tid != tracer->process;
  tracer->threads[tracer->count++] = thread;
  return thread;
}

static void tracer_forget(tracer *tracer, pid_t tid) {
  for (uint32_t i = 0; i < tracer->count; i++) {
    if (tracer->threads[i]->tid != tid) continue;
    free(tracer->threads[i]);
    tracer->threads[i] = tracer->threads[--tracer->count];
    return;
  }
}

/* Code is the same in both processes; only what the tracer does not have is read from the subject. */
static truth_instruction tracer_decode(tracer *tracer, const tracer_thread *thread, uint64_t pc) {
  uint8_t code[16] = {0};
  if (pc - tracer->code.low < tracer->code.high - tracer->code.low && tracer->code.high - pc >= sizeof(code))
    memcpy(code, (const void *)(uintptr_t)pc, sizeof(code));
  else if (!truth_remote_read(&thread->remote, pc, code, sizeof(code)))
    return TRUTH_OTHER;
  else
    onstack_code_is_executable(pc, &tracer->code);
  return truth_instruction_kind(code);
}

/* The kernel has built a signal frame: the handler's return address at SP, above it a ucontext. */
static void tracer_enter_signal(tracer_thread *thread, const struct user_regs_struct *now) {
  uint64_t restorer, saved[2], alternate[3];
  uint64_t context = now->rsp + 8;
  if (now->rip == thread->registers.rip || !truth_remote_read(&thread->remote, now->rsp, &restorer, 8) ||
      !truth_remote_read(&thread->remote, context + 40 + 15 * 8, saved, sizeof(saved)) ||
      !truth_remote_read(&thread->remote, context + 16, alternate, sizeof(alternate)))
    return;
  if (saved[0] != thread->registers.rsp || saved[1] != thread->registers.rip) return; /* it was ignored */
  truth_entry frame = {.slot = saved[0], .value = saved[1], .signal = true};
  if (now->rsp - alternate[0] < alternate[2]) {
    frame.alternate_low = alternate[0];
    frame.alternate_high = alternate[0] + alternate[2];
  }
  truth_shadow_push(&thread->shadow, frame);
  truth_shadow_push(&thread->shadow, (truth_entry){.slot = now->rsp, .value = restorer});
}

/* What the step from `registers` to `now` did to the chain of callers. */
static void tracer_follow(tracer_thread *thread, const struct user_regs_struct *now) {
  uint64_t value;
  if (thread->last == TRUTH_SYSCALL && thread->registers.rax == 15) /* rt_sigreturn */
    truth_shadow_return_from_signal(&thread->shadow);
  else
    truth_shadow_unwind_to(&thread->shadow, now->rsp);
  if (thread->last == TRUTH_CALL && now->rsp == thread->registers.rsp - 8 &&
      truth_remote_read(&thread->remote, now->rsp, &value, 8))
    truth_shadow_push(&thread->shadow, (truth_entry){.slot = now->rsp, .value = value});
}

/*
 * libgcc's uw_install_context writes the registers of the frame that catches over those that its own caller has saved,
 * the return address included: from there until the landing pad the memory does not say who called.
 */
static bool tracer_is_overwritten(const tracer_thread *thread) {
  uint64_t value;
  for (uint32_t i = 0; i < thread->shadow.count; i++) {
    const truth_entry *entry = &thread->shadow.entries[i];
    if (!entry->signal && truth_remote_read(&thread->remote, entry->slot, &value, 8) && value != entry->value) return true;
  }
  return false;
}

/* What the kernel would write for a handler. */
static void tracer_fill_context(ucontext_t *context, const struct user_regs_struct *now) {
  greg_t *to = context->uc_mcontext.gregs;
  memset(context, 0, sizeof(*context));
  const unsigned long long from[] = {now->r8,  now->r9,  now->r10, now->r11, now->r12, now->r13,
                                     now->r14, now->r15, now->rdi, now->rsi, now->rbp, now->rbx,
                                     now->rdx, now->rax, now->rcx, now->rsp, now->rip};
  for (size_t i = 0; i < sizeof(from) / sizeof(from[0]); i++) to[i] = (greg_t)from[i];
}

static void tracer_compare(tracer *tracer, tracer_thread *thread, const struct user_regs_struct *now) {
  static uint64_t truth[TRACER_FRAMES], frames[TRACER_FRAMES];
  if (thread->shadow.lost > 0) return;
  if (tracer_is_overwritten(thread)) {
    tracer->counts->overwritten++;
    return;
  }
  onstack_registers registers = {.pc = now->rip, .sp = now->rsp, .fp = now->rbp, .reserved[ONSTACK_REGISTER_RBX] = now->rbx};
  size_t count = truth_shadow_list(&thread->shadow, now->rip, truth, TRACER_FRAMES);
  ucontext_t context;
  tracer_fill_context(&context, now);
  onstack_walk_result walk = truth_remote_walk(&thread->remote, &registers, &context, frames, TRACER_FRAMES);
  truth_counts_add(tracer->counts, truth, count, frames, walk);
}

static void tracer_step_done(tracer *tracer, tracer_thread *thread) {
  struct user_regs_struct now;
  if (ptrace(PTRACE_GETREGS, thread->tid, NULL, &now) != 0) return;
  truth_remote_look(&thread->remote, now.rsp);
  if (thread->begun) {
    uint32_t before = thread->shadow.count;
    if (thread->injected) tracer_enter_signal(thread, &now);
    if (!thread->injected || thread->shadow.count == before) tracer_follow(thread, &now);
  }
  thread->injected = 0;
  thread->begun = true;
  thread->registers = now;
  thread->last = tracer_decode(tracer, thread, now.rip);
  if (tracer->counts->steps++ % tracer->plan->every == 0) tracer_compare(tracer, thread, &now);
}

/* A stop of a thread; returns the signal that goes on to it. */
static int tracer_stopped(tracer *tracer, tracer_thread *thread, int status) {
  int signal_number = WSTOPSIG(status);
  if (status >> 16) return 0; /* a ptrace event: the step itself has not ended */
  if (signal_number == SIGTRAP || (signal_number == SIGSTOP && !thread->begun)) {
    if (thread->stepping) tracer_step_done(tracer, thread);
    return 0;
  }
  thread->injected = signal_number;
  return signal_number;
}

int truth_trace(pid_t child, const truth_plan *plan, truth_counts *counts) {
  tracer tracer = {.plan = plan, .counts = counts, .process = child};
  int status;
  if (waitpid(child, &status, 0) != child || !WIFSTOPPED(status)) return -1;
  if (ptrace(PTRACE_SETOPTIONS, child, NULL, (void *)(PTRACE_O_EXITKILL | PTRACE_O_TRACECLONE)) != 0) return -errno - 1;
  for (pid_t tid = child;;) {
    tracer_thread *thread = tracer_find(&tracer, tid);
    if (!thread) return -ENOMEM - 1;
    int forward = tracer_stopped(&tracer, thread, status);
    if (counts->steps >= plan->max_steps) break;
    ptrace(thread->stepping ? PTRACE_SINGLESTEP : PTRACE_CONT, tid, NULL, (void *)(intptr_t)forward);
    while ((tid = waitpid(-1, &status, __WALL)) > 0 && !WIFSTOPPED(status)) {
      tracer_forget(&tracer, tid);
      if (tid == child) return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    }
    if (tid < 0) return -errno - 1;
  }
  kill(child, SIGKILL);
  while (waitpid(-1, &status, __WALL) > 0) continue;
  return -1;
}
