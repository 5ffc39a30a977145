/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Children made in any instant, while sessions of both kinds (fork = stop, fork = follow) start, run and stop: by fork, by
 * clone behind libc's back, and such as execute a program, by vfork and posix_spawn. A child that stays in this program
 * gets its foreign signals, burns, and with SOAK_CHILD_SESSIONS=1 some have a session of their own; then it ends by itself.
 * That is not the default: a start asks the loader what is loaded, and where another thread was inside dlopen or dlclose
 * when the child was made, glibc leaves the loader's lock taken there for ever (docs/ROADMAP.md).
 */
#include "soak.h"

#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#define FORKS_HANG_SECONDS 45.0
#define FORKS_PROGRAM "/bin/true"

#define FORKS_MERGED 64 /* a child's status: the kernel has merged its SIGPROF with a tick, or it is lost */

uint64_t soak_forks, soak_forks_executed, soak_forks_sent, soak_forks_merged;

static int forks_child(unsigned seed, bool has_libc) {
  if (soak_send(SOAK_OTHER_SIGNAL) != 1) return 2;
  int got = soak_send(SIGPROF);
  if (got > 1) return 3;
  soak_burn_wildly(&seed);
  soak_storm_forget();
  for (int i = 0; has_libc && i < 200; i++) soak_storm_once(&seed);
  if (has_libc && soak_random(&seed, 8) == 0 && getenv("SOAK_CHILD_SESSIONS")) {
    int result = soak_one_session(&seed);
    if (result != 0) return result;
  }
  if (soak_send(SOAK_OTHER_SIGNAL) != 1) return 4;
  return got == 1 ? 0 : FORKS_MERGED;
}

static pid_t forks_fork(unsigned seed) {
  pid_t child = fork();
  if (child == 0) _exit(forks_child(seed, true));
  return child;
}

/* No atfork handler runs, neither libc's nor ours. */
static pid_t forks_clone(unsigned seed) {
  pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
  if (child == 0) _exit(forks_child(seed, false));
  return child;
}

static pid_t forks_vfork(void) {
  pid_t child = vfork();
  if (child == 0) {
    execl(FORKS_PROGRAM, "true", (char *)NULL);
    _exit(127);
  }
  return child;
}

static pid_t forks_spawn(void) {
  pid_t child;
  char name[] = "true", *arguments[] = {name, NULL};
  return posix_spawn(&child, FORKS_PROGRAM, NULL, NULL, arguments, environ) == 0 ? child : -1;
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

static pid_t forks_any(unsigned *seed, const char **how) {
  static const char *const ways[] = {"vfork", "posix_spawn", "clone", "fork"};
  uint32_t way = soak_random(seed, 8), sent = way > 1;
  *how = ways[way < 3 ? way : 3];
  soak_count(&soak_forks, 1);
  soak_count(sent ? &soak_forks_sent : &soak_forks_executed, 1);
  switch (way) {
  case 0:
    return forks_vfork();
  case 1:
    return forks_spawn();
  case 2:
    return forks_clone((unsigned)rand_r(seed));
  default:
    return forks_fork((unsigned)rand_r(seed));
  }
}

void soak_run_forks(soak_worker *worker) {
  while (!soak_resting) {
    const char *how;
    pid_t child = forks_any(&worker->seed, &how);
    int status = child < 0 ? -1 : forks_wait(child);
    if (WIFEXITED(status) && WEXITSTATUS(status) == FORKS_MERGED)
      soak_count(&soak_forks_merged, 1);
    else if (status != 0)
      soak_fail("a child of %s ended with %s %d", how, WIFSIGNALED(status) ? "signal" : "status",
                WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    soak_beat(worker);
    soak_sleep(0.002 * soak_random(&worker->seed, 10));
  }
}
