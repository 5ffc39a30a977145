/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Signal frames in the middle of stacks: on the thread's stack, on an alternate one, nested, and jumped out of. */
#include "subject.h"

#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

const bool subject_whole = false;
const char subject_name[] = "signals";

static volatile int handled;
static sigjmp_buf escape;

__attribute__((noinline)) static int work(int n) {
  char text[50];
  return n == 0 ? snprintf(text, sizeof(text), "%d", handled) : work(n - 1) + 1;
}

static void handle(int signal_number) {
  handled += work(3) > 0;
  if (signal_number == SIGUSR1) raise(SIGUSR2);
}

static void handle_fault(int signal_number, siginfo_t *info, void *context) {
  (void)signal_number;
  (void)info;
  (void)context;
  handled += work(2) > 0;
  siglongjmp(escape, 1);
}

__attribute__((noinline)) static int fault(volatile int *address) { return *address + 1; }

/* Interrupted at a function's very first instruction: its address minus 1 belongs to another function. */
int fault_at_entry(volatile int *address);
__asm__(".pushsection .text\n"
        "large_frame_before: .cfi_startproc\n sub $88, %rsp\n .cfi_adjust_cfa_offset 88\n add $88, %rsp\n"
        ".cfi_remember_state\n ud2\n .cfi_endproc\n"
        "fault_at_entry: .cfi_startproc\n mov (%rdi), %eax\n ret\n .cfi_endproc\n"
        ".popsection");

static int faults(void) {
  volatile int *nothing = mmap(NULL, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  int before = handled;
  if (sigsetjmp(escape, 1) == 0) fault(nothing);
  if (sigsetjmp(escape, 1) == 0) fault_at_entry(nothing);
  munmap((void *)nothing, 4096);
  return handled == before + 2 ? 0 : 1;
}

static int set(int number, void (*handler)(int), int flags) {
  struct sigaction action;
  memset(&action, 0, sizeof(action));
  action.sa_handler = handler;
  action.sa_flags = flags;
  return sigaction(number, &action, NULL);
}

int subject_run(void) {
  struct sigaction action;
  stack_t stack = {.ss_sp = malloc(65536), .ss_size = 65536};
  memset(&action, 0, sizeof(action));
  action.sa_sigaction = handle_fault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK;
  if (sigaltstack(&stack, NULL) != 0 || sigaction(SIGSEGV, &action, NULL) != 0) return 1;
  if (set(SIGUSR1, handle, 0) || set(SIGUSR2, handle, 0) || set(SIGHUP, SIG_IGN, 0)) return 1;
  int bad = raise(SIGUSR1) + raise(SIGHUP) + faults();
  if (set(SIGUSR1, handle, SA_ONSTACK) || set(SIGUSR2, handle, SA_ONSTACK)) return 1;
  bad += raise(SIGUSR1) + kill(getpid(), SIGUSR2) + faults();
  return bad + (handled != 2 + 2 + 2 + 1 + 2); /* pairs of nested ones, faults, pairs, one alone, faults */
}
