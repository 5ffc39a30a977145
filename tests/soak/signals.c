/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The other users of the signal: an owner that was there first, owners that come and go above the profiler (some pass on
 * what they get, some do not; with setitimer, with a POSIX timer of their own, with neither), and threads that send
 * foreign signals to themselves and count what arrives, and some to others (posts.c).
 */
#include "soak.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

soak_signal_sums soak_signals;

static __thread volatile int signals_expected, signals_got;
#define SIGNALS_OWNED 2
static struct sigaction signals_first[SIGNALS_OWNED];
int soak_needs_stack;

static void signals_arrive(const siginfo_t *info) {
  if (info->si_code == SI_QUEUE && soak_posts_take((uint64_t)(uintptr_t)info->si_value.sival_ptr)) return;
  if (info->si_code == SI_QUEUE)
    signals_got += info->si_value.sival_int == signals_expected;
  else
    soak_count(info->si_code == SI_TIMER ? &soak_signals.timer : &soak_signals.itimer, 1);
}

/* More than any alternate stack here has, and less than the stacks of threads and fibers do. */
#define SIGNALS_ROOM ((size_t)24 << 10)

__attribute__((noinline)) static void signals_use_stack(void) {
  volatile uint8_t room[SIGNALS_ROOM];
  for (size_t i = 0; i < sizeof(room); i += 1024) room[i] = (uint8_t)i;
}

static void signals_first_owner(int signal, siginfo_t *info, void *context) {
  (void)context;
  if (signal == soak_needs_stack) signals_use_stack();
  signals_arrive(info);
}

static int signals_flags(int signal) { return SA_SIGINFO | SA_RESTART | (signal == soak_needs_stack ? 0 : SA_ONSTACK); }

void soak_install_first_owner(int round) {
  soak_needs_stack = round % 2 ? SIGPROF : SOAK_OTHER_SIGNAL;
  for (int i = 0; i < SIGNALS_OWNED; i++) {
    int signal = i ? SOAK_OTHER_SIGNAL : SIGPROF;
    struct sigaction first = {.sa_sigaction = signals_first_owner, .sa_flags = signals_flags(signal)};
    sigaddset(&first.sa_mask, SIGUSR2);
    sigaction(signal, &first, NULL);
    sigaction(signal, NULL, &signals_first[i]); /* as it is kept: with libc's additions */
  }
}

bool soak_first_owner_is_back(void) {
  bool back = true;
  for (int i = 0; i < SIGNALS_OWNED; i++) {
    struct sigaction now;
    sigaction(i ? SOAK_OTHER_SIGNAL : SIGPROF, NULL, &now);
    back = back && now.sa_sigaction == signals_first_owner && now.sa_flags == signals_first[i].sa_flags &&
           memcmp(&now.sa_mask, &signals_first[i].sa_mask, 8) == 0;
  }
  return back;
}

/* ---- senders ---- */

int soak_send(int signal) {
  siginfo_t info;
  memset(&info, 0, sizeof(info));
  info.si_signo = signal;
  info.si_code = SI_QUEUE;
  info.si_pid = getpid();
  info.si_uid = getuid();
  info.si_value.sival_int = ++signals_expected;
  signals_got = 0;
  /* EAGAIN: the user's queued signals are used up for the moment; it was not sent. */
  while (syscall(SYS_rt_tgsigqueueinfo, info.si_pid, syscall(SYS_gettid), signal, &info) != 0)
    if (errno != EAGAIN) return -errno;
  return signals_got;
}

/* SIGPROF is no real-time signal: where a tick became pending for this thread between its entry into the kernel and the
   signal, the kernel drops the later one. That is some 100 ns in some 4 ms; main.c allows for it, and for it alone. */
void soak_run_sender(soak_worker *worker) {
  while (!soak_resting) {
    int got = soak_send(SIGPROF);
    soak_count(&soak_signals.sent, 1);
    if (got == 0)
      soak_count(&soak_signals.merged, 1);
    else if (got != 1)
      soak_fail("a foreign SIGPROF was handed on %d times", got);
    got = soak_send(SOAK_OTHER_SIGNAL);
    soak_count(&soak_signals.queued, 1);
    if (got != 1) soak_fail("a foreign real-time signal was handed on %d times", got);
    soak_post(&worker->seed);
    soak_burn(0.00002);
    soak_beat(worker);
  }
}

/* ---- owners ---- */

static struct sigaction owners_below; /* what the one that chains has found; written before it is installed */

static void owners_alone(int signal, siginfo_t *info, void *context) {
  (void)signal;
  (void)context;
  signals_arrive(info);
}

static uint32_t owners_reading; /* handlers of a visit that has ended must not read what the next one has found */

static void owners_chains(int signal, siginfo_t *info, void *context) {
  __atomic_add_fetch(&owners_reading, 1u, __ATOMIC_SEQ_CST);
  void (*below)(int, siginfo_t *, void *) = owners_below.sa_sigaction;
  __atomic_sub_fetch(&owners_reading, 1u, __ATOMIC_SEQ_CST);
  below(signal, info, context);
}

static bool owners_are(const struct sigaction *action) {
  return action->sa_sigaction == owners_alone || action->sa_sigaction == owners_chains;
}

static void owners_stay(unsigned *seed) {
  struct itimerval every = {{0, 1000 + (suseconds_t)soak_random(seed, 20000)}, {0, 1000}}, off = {{0, 0}, {0, 0}};
  struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGPROF};
  struct itimerspec often = {{0, 5000000}, {0, 5000000}};
  double seconds = 0.001 * (1 + soak_random(seed, 120));
  timer_t timer;
  switch (soak_random(seed, 3)) {
  case 0:
    setitimer(ITIMER_PROF, &every, NULL);
    soak_sleep(seconds);
    setitimer(ITIMER_PROF, &off, NULL);
    break;
  case 1:
    if (timer_create(CLOCK_PROCESS_CPUTIME_ID, &event, &timer) != 0) break;
    timer_settime(timer, 0, &often, NULL);
    soak_sleep(seconds);
    timer_delete(timer);
    break;
  default:
    soak_sleep(seconds);
  }
}

/* One at a time: two owners that leave in the order in which they came restore each other's, profiler or not. The next one
   may come before anybody has looked. */
void soak_run_owners(soak_worker *worker) {
  while (!soak_resting) {
    struct sigaction mine = {.sa_flags = signals_flags(SIGPROF)}, found;
    bool chains = soak_random(&worker->seed, 2);
    mine.sa_sigaction = chains ? owners_chains : owners_alone;
    if (soak_random(&worker->seed, 2)) mine.sa_flags |= SA_ONSTACK;
    if (soak_random(&worker->seed, 2)) sigfillset(&mine.sa_mask);
    sigaction(SIGPROF, NULL, &found);
    if (owners_are(&found))
      soak_fail("an owner that has left is installed again");
    else {
      while (__atomic_load_n(&owners_reading, __ATOMIC_SEQ_CST) != 0) soak_sleep(0.001);
      owners_below = found;
      sigaction(SIGPROF, &mine, &found);
      owners_stay(&worker->seed);
      /* As Go does: the pointer, with flags and mask of its own. */
      if (found.sa_sigaction != signals_first_owner && soak_random(&worker->seed, 2)) {
        found.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
        sigfillset(&found.sa_mask);
      }
      sigaction(SIGPROF, &found, NULL);
      soak_count(&soak_signals.owners, 1);
    }
    soak_beat(worker);
    soak_sleep(0.001 * soak_random(&worker->seed, 2) * soak_random(&worker->seed, 100));
  }
}
