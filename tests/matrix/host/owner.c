/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "owner.h"

#include "driver.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#define OWNER_COOKIE ((void *)(uintptr_t)0x0BEEF00D)
#define OWNER_TIMERS 8
#define OWNER_PERIOD_NS 10000000

#ifndef sigev_notify_thread_id
#define sigev_notify_thread_id _sigev_un._tid
#endif

typedef atomic_ullong counter;
static counter direct_timer, direct_kernel, direct_other, direct_theirs;
static counter via_timer, via_kernel, via_other, via_theirs;
static counter weight; /* of our own timer ticks: with the overruns, which come where the machine is busy */

static owner_style style_now;
static struct sigaction found;
static timer_t timers[OWNER_TIMERS];
static int timer_count;
static atomic_uintptr_t restorer; /* where the kernel's own call returns to */

static void count(counter *by_code[4], const siginfo_t *info) {
  counter *which = by_code[2];
  if (info->si_code == SI_KERNEL) which = by_code[1];
  if (info->si_code == SI_TIMER) which = info->si_value.sival_ptr == OWNER_COOKIE ? by_code[0] : by_code[3];
  atomic_fetch_add_explicit(which, 1, memory_order_relaxed);
  if (which == by_code[0]) atomic_fetch_add_explicit(&weight, 1 + (unsigned)info->si_overrun, memory_order_relaxed);
}

/* `theirs` are timer ticks without our cookie: the profiler's. Directly they may come until it is back on top; passed on
   by it, never. */
__attribute__((noinline)) static void owner_handler(int signal, siginfo_t *info, void *context) {
  static counter *const direct[4] = {&direct_timer, &direct_kernel, &direct_other, &direct_theirs};
  static counter *const via[4] = {&via_timer, &via_kernel, &via_other, &via_theirs};
  int saved = errno;
  bool by_kernel = (uintptr_t)__builtin_return_address(0) == atomic_load(&restorer);
  count((counter **)(by_kernel ? direct : via), info);
  bool can_chain = found.sa_handler != SIG_DFL && found.sa_handler != SIG_IGN;
  if (style_now == OWNER_CHAIN && can_chain) found.sa_sigaction(signal, info, context);
  errno = saved;
}

static void note_restorer(void) {
  uint64_t raw[4] = {0};
  syscall(SYS_rt_sigaction, SIGPROF, NULL, raw, 8);
  atomic_store(&restorer, raw[2]);
}

static int add_timer(pid_t thread) {
  struct sigevent event;
  memset(&event, 0, sizeof(event));
  event.sigev_notify = SIGEV_THREAD_ID;
  event.sigev_signo = SIGPROF;
  event.sigev_value.sival_ptr = OWNER_COOKIE;
  event.sigev_notify_thread_id = thread;
  if (timer_create(matrix_cpu_clock(thread), &event, &timers[timer_count]) != 0) return errno;
  const struct itimerspec every = {{0, OWNER_PERIOD_NS}, {0, OWNER_PERIOD_NS}};
  return timer_settime(timers[timer_count++], 0, &every, NULL) != 0 ? errno : 0;
}

int owner_start(owner_style style, const pid_t *threads, int count_threads) {
  struct sigaction action = {.sa_sigaction = owner_handler, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
  sigfillset(&action.sa_mask);
  style_now = style;
  if (sigaction(SIGPROF, NULL, &found) != 0 || sigaction(SIGPROF, &action, NULL) != 0) return errno;
  note_restorer();
  /* As a careful owner does: a late tick of its own must not meet the default action. */
  if (found.sa_handler == SIG_DFL) found.sa_handler = SIG_IGN;
  timer_count = 0;
  for (int i = 0; i < count_threads && i < OWNER_TIMERS; i++) {
    int result = add_timer(threads[i]);
    if (result != 0) return result;
  }
  const struct itimerval every = {{0, OWNER_PERIOD_NS / 1000}, {0, OWNER_PERIOD_NS / 1000}};
  return setitimer(ITIMER_PROF, &every, NULL) != 0 ? errno : 0;
}

void owner_stop(void) {
  const struct itimerval never = {{0, 0}, {0, 0}};
  setitimer(ITIMER_PROF, &never, NULL);
  while (timer_count > 0) timer_delete(timers[--timer_count]);
  struct sigaction back = found;
  if (style_now == OWNER_BARE) {
    back.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigfillset(&back.sa_mask);
  }
  sigaction(SIGPROF, &back, NULL);
}

long long owner_samples(void) { return (long long)weight; }

void owner_describe(FILE *out) {
  fprintf(out, ",\"owner\":{\"direct\":%llu,\"direct_theirs\":%llu", direct_timer + direct_kernel + direct_other,
          (unsigned long long)direct_theirs);
  fprintf(out, ",\"via\":%llu,\"via_timer\":%llu,\"via_theirs\":%llu}", via_timer + via_kernel + via_other,
          (unsigned long long)via_timer, (unsigned long long)via_theirs);
}
