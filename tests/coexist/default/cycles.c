/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Over SIG_DFL a tick that is pending at stop would end the process. Starts and stops under sixteen burning threads,
 * while another thread forks and its children exec: nobody dies, and no child is left with another action than SIG_DFL.
 * ONSTACK_TEST_CYCLES: how many; 10,000 is the full number.
 */
#include "../session.h"
#include "../support.h"
#include "burners.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_int quit, children, bad_children;

/* After exec: only "ignored" could have come over, and a timer that came over (ITIMER_PROF does) would kill. */
static int child_after_exec(void) {
  sigset_t mask;
  raw_action action = current_action();
  pthread_sigmask(SIG_SETMASK, NULL, &mask);
  burn(0.002);
  if (action.handler != (uint64_t)(uintptr_t)SIG_DFL) return 3;
  return sigismember(&mask, SIGPROF) ? 4 : 0;
}

static int fork_and_exec(void) {
  int status = 0;
  pid_t child = fork();
  if (child < 0) return -1;
  if (child == 0) {
    burn(0.001); /* in between: a tick over SIG_DFL would kill here too */
    execl("/proc/self/exe", "cycles", "child", (char *)NULL);
    _exit(5);
  }
  waitpid(child, &status, 0);
  return status;
}

static void *fork_all_the_time(void *unused) {
  while (!atomic_load(&quit)) {
    int status = fork_and_exec();
    atomic_fetch_add(&children, 1);
    if (status == 0) continue;
    fprintf(stderr, "a child ended with wait status %#x\n", status);
    atomic_fetch_add(&bad_children, 1);
  }
  return unused;
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "child")) return child_after_exec();
  const char *asked = getenv("ONSTACK_TEST_CYCLES");
  int cycles = asked ? atoi(asked) : 1000, wrong = 0;
  pthread_t forker;
  uint64_t ticks = 0;
  if (cycles < 1) return fprintf(stderr, "ONSTACK_TEST_CYCLES: a number from 1 up\n"), 2;
  burners_start();
  if (pthread_create(&forker, NULL, fork_all_the_time, NULL) != 0) return 2;
  for (int i = 0; i < cycles; i++) {
    onstack_session *session = start(1000, ONSTACK_OFF); /* without a thread to make and join: quicker rounds */
    usleep(i % 16 ? (useconds_t)(i % 8) * 400 : 20000);
    ticks += finish(session, "cycles").ticks;
    wrong += current_action().handler != (uint64_t)(uintptr_t)SIG_DFL;
    if ((i + 1) % 1000 == 0 && i + 1 < cycles) fprintf(stderr, "%d of %d cycles\n", i + 1, cycles);
  }
  atomic_store(&quit, 1);
  pthread_join(forker, NULL);
  burners_stop();
  check(wrong == 0, "SIG_DFL after each stop", "%d cycles, %d wrong", cycles, wrong);
  check(ticks > (uint64_t)cycles / 10, "ticks came in the cycles", "%lu in %d cycles", (unsigned long)ticks, cycles);
  check(bad_children == 0 && children > 0, "children that exec are whole", "%d children, %d bad", children, bad_children);
  return check_status();
}
