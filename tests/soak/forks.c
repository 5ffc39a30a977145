/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Children made in any instant, while sessions of both kinds (fork = stop, fork = follow) start, run and stop. A child
 * gets its foreign signals, burns, and with SOAK_CHILD_SESSIONS=1 some have a session of their own; then it ends by itself.
 * That is not the default: a start asks the loader what is loaded, and where another thread was inside dlopen or dlclose
 * when the child was made, glibc leaves the loader's lock taken there for ever (docs/EVIDENCE.md).
 */
#include "soak.h"

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS_HANG_SECONDS 45.0

uint64_t soak_forks;

static int forks_child(unsigned seed) {
  if (soak_send(SOAK_OTHER_SIGNAL) != 1) return 2;
  if (soak_send(SIGPROF) > 1) return 3;
  soak_burn_wildly(&seed);
  if (soak_random(&seed, 8) == 0 && getenv("SOAK_CHILD_SESSIONS")) {
    int result = soak_one_session(&seed);
    if (result != 0) return result;
  }
  return soak_send(SOAK_OTHER_SIGNAL) == 1 ? 0 : 4;
}

/* By the parent's clock: a child that hangs inside fork() has set no alarm. */
static int forks_wait(pid_t child) {
  int status = 0;
  double end = soak_now() + FORKS_HANG_SECONDS;
  for (;;) {
    pid_t got = waitpid(child, &status, WNOHANG);
    if (got == child) return status;
    if (got < 0) return -1;
    if (soak_now() < end) {
      soak_sleep(0.001);
      continue;
    }
    soak_fail("child %d hangs: it is left for a debugger, for a minute", (int)child);
    soak_sleep(getenv("SOAK_DEBUG") ? 60 : 0);
    kill(child, SIGKILL);
    end += 1e9;
  }
}

void soak_run_forks(soak_worker *worker) {
  while (!soak_resting) {
    unsigned seed = (unsigned)rand_r(&worker->seed);
    pid_t child = fork();
    if (child == 0) _exit(forks_child(seed));
    int status = child < 0 ? -1 : forks_wait(child);
    if (status != 0)
      soak_fail("a child ended with %s %d", WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    soak_count(&soak_forks, 1);
    soak_beat(worker);
    soak_sleep(0.002 * soak_random(&worker->seed, 10));
  }
}
