/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A Go runtime is opened while a session ticks: late-go LIBRARY SIGNAL on|off [notify]
 * `on`, `off`: the session's on_stack; `notify`: Go still listens to the signal when the session stops.
 */
#include "../session.h"
#include "../support.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SENT 20

static struct library {
  void (*notify)(int), (*reset)(int), (*burn)(int);
  int (*profile)(int);
  long (*notified)(void);
} go;

static void find(void *library, const char *name, void *function) {
  *(void **)function = dlsym(library, name);
  if (!*(void **)function) exit(2);
}

static void open_go(const char *path) {
  void *library = dlopen(path, RTLD_NOW);
  if (!library) {
    fprintf(stderr, "%s\n", dlerror());
    exit(2);
  }
  find(library, "lateNotify", &go.notify);
  find(library, "lateReset", &go.reset);
  find(library, "lateBurn", &go.burn);
  find(library, "lateProfile", &go.profile);
  find(library, "lateNotified", &go.notified);
}

static atomic_int quit;
static void *burn_all_the_time(void *unused) {
  while (!atomic_load(&quit)) burn(0.01);
  return unused;
}

static uint64_t flags_of(int signal) {
  raw_action now;
  syscall(SYS_rt_sigaction, signal, NULL, &now, (size_t)8);
  return now.flags;
}

static onstack_stats stats_of(const onstack_session *session) {
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_session_stats(session, &stats);
  return stats;
}

/* Ours is installed, and ticks. */
static bool ticks_come(const onstack_session *session) {
  uint64_t before = stats_of(session).ticks;
  for (int i = 0; i < 1000 && stats_of(session).ticks < before + 100; i++) burn(0.01);
  return stats_of(session).ticks >= before + 100;
}

static bool hears_more_than(long count) {
  for (int i = 0; i < 1000 && go.notified() <= count; i++) usleep(10000);
  return go.notified() > count;
}

/*
 * Until ours is back on top Go hears our ticks as well, so only what we forward is counted. One at a time: below SIGRTMIN
 * equal signals merge, and in Go's queue all do.
 */
static void listen_to_it(const onstack_session *session, int signal) {
  uint64_t heard = 0;
  go.notify(signal);
  ticks_come(session);
  uint64_t forwarded = stats_of(session).forwarded;
  for (int i = 0; i < SENT; i++) {
    long before = go.notified();
    kill(getpid(), signal);
    heard += hears_more_than(before);
  }
  forwarded = stats_of(session).forwarded - forwarded;
  /* A tick of ours that is pending for the process at that instant is the same signal to the kernel: it drops the second. */
  const uint64_t least = signal < SIGRTMIN ? SENT - SENT / 5 : SENT;
  check(forwarded == heard && heard >= least && heard <= SENT, "each signal that is sent is forwarded once, and Go hears it",
        "%lu and %lu of %d", (unsigned long)forwarded, (unsigned long)heard, SENT);
}

static int start_on(int signal, onstack_switch on_stack, onstack_session **out) {
  onstack_options options;
  onstack_options_init(&options, sizeof(options));
  options.frequency = 1000;
  options.signal = signal;
  options.on_stack = on_stack;
  return onstack_session_start(&options, out);
}

int main(int argc, char **argv) {
  if (argc < 4) return 2;
  pthread_t threads[2];
  int signal = atoi(argv[2]);
  onstack_switch on_stack = strcmp(argv[3], "off") == 0 ? ONSTACK_OFF : ONSTACK_ON;
  onstack_session *session, *second;
  int result = start_on(signal, on_stack, &session);
  if (result < 0) return check(false, "start", "%s", onstack_strerror(result)), 1;
  for (int i = 0; i < 2; i++) pthread_create(&threads[i], NULL, burn_all_the_time, NULL);
  burn(0.1);
  open_go(argv[1]);
  go.burn(300);
  usleep(200000);
  check((flags_of(signal) & SA_ONSTACK) != 0, "ours is on the alternate stack since Go is there", "flags %#lx",
        (unsigned long)flags_of(signal));
  if (signal != SIGPROF) listen_to_it(session, signal);
  go.profile(1);
  go.burn(300);
  int bytes = go.profile(0);
  check(bytes > 0, "Go writes its own profile meanwhile", "%d bytes", bytes);
  if (argc == 4 && signal != SIGPROF) go.reset(signal);
  check(ticks_come(session), "and ours go on", "%lu ticks", (unsigned long)stats_of(session).ticks);
  finish(session, "late-go");
  go.burn(100); /* what came too late would kill here */
  burn(0.1);
  result = start_on(SIGUSR1, ONSTACK_ON, &second);
  check(result == ONSTACK_E_SIGNAL, "from now on only SIGPROF is taken", "%d", result);
  if (result == 0) finish(second, "second");
  result = start_on(SIGPROF, ONSTACK_ON, &second);
  check(result == 0, "which is", "%d", result);
  if (result == 0) finish(second, "second");
  atomic_store(&quit, 1);
  for (int i = 0; i < 2; i++) pthread_join(threads[i], NULL);
  return check_status();
}
