/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Long random sequences of what can happen to the signal: copies of the library start, stop and look, and owners come and
 * go above each other, by the pointer that they had found. After each step a foreign signal must reach exactly those
 * owners that would have it without us, once, whether or not anybody has looked since; at the end the first owner's
 * action is back as it was.
 */
#include "copies.h"
#include "support.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(owners, .init = t_setup);

#define OWNERS 4

static struct sigaction found[OWNERS];
static bool chains[OWNERS];
static int calls[OWNERS + 1]; /* the last is the owner from before all */
static int present[OWNERS], count;

/* A foreign signal as it is seen by owner `which`. Ticks of ours reach a newer owner until somebody has looked. */
static void has_it(int which, int signal, siginfo_t *info, void *context) {
  calls[which] += info->si_code == SI_TKILL;
  if (which < OWNERS && chains[which]) found[which].sa_sigaction(signal, info, context);
}

#define OWNER(number)                                                                                                       \
  static void owner_##number(int signal, siginfo_t *info, void *context) { has_it(number, signal, info, context); }
OWNER(0)
OWNER(1)
OWNER(2)
OWNER(3) OWNER(4) static void (*const handlers[])(int, siginfo_t *, void *) = {owner_0, owner_1, owner_2, owner_3, owner_4};

static unsigned choices;
static unsigned choose(unsigned below) {
  choices = choices * 1103515245u + 12345u;
  return (choices >> 16) % below;
}

static bool is_present(int which) {
  for (int i = 0; i < count; i++)
    if (present[i] == which) return true;
  return false;
}

static void come(void) {
  int which = (int)choose(OWNERS);
  if (is_present(which)) return;
  struct sigaction mine = {.sa_sigaction = handlers[which], .sa_flags = SA_SIGINFO | SA_RESTART};
  sigset_t prof, before;
  sigemptyset(&prof);
  sigaddset(&prof, SIGPROF);
  chains[which] = choose(2);
  /* libc writes what was found behind the system call: a tick in between would be chained to nobody. */
  pthread_sigmask(SIG_BLOCK, &prof, &before);
  cr_assert_eq(sigaction(SIGPROF, &mine, &found[which]), 0);
  pthread_sigmask(SIG_SETMASK, &before, NULL);
  present[count++] = which;
}

static bool is_owners(const struct sigaction *action) {
  for (int i = 0; i <= OWNERS; i++)
    if (action->sa_sigaction == handlers[i]) return true;
  return false;
}

/* The newest: politely, with the whole action, or as Go does, with the bare pointer of ours and flags of its own. (With
   another owner's it would be that one's flags that are gone.) */
static void go(void) {
  if (count == 0) return;
  struct sigaction back = found[present[--count]];
  if (choose(2) && !is_owners(&back)) {
    back.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    sigfillset(&back.sa_mask);
  }
  cr_assert_eq(sigaction(SIGPROF, &back, NULL), 0);
}

/* Without threads: who looks, and when, is chosen here. */
static void start_or_stop(t_copy *of) {
  if (!of->session) {
    onstack_options options;
    of->init(&options, sizeof(options));
    options.threads = ONSTACK_OFF;
    cr_assert_eq(of->start(&options, &of->session), 0);
    return;
  }
  cr_assert_eq(of->stop(of->session), 0);
  onstack_stats stats = t_copy_stats(of);
  cr_assert_eq(stats.looped, 0, "a foreign signal went in a circle");
  cr_assert_eq(of->release(of->session), 0);
  of->session = NULL;
}

static void look(t_copy *of) {
  if (of->session) cr_assert_geq(of->poll(of->session, 0), 0);
}

static char said[1000];
static size_t said_length;

static void say(char what, int which) {
  if (said_length + 4 < sizeof(said))
    said_length +=
        (size_t)snprintf(said + said_length, sizeof(said) - said_length, which < 0 ? "%c " : "%c%d ", what, which);
}

static void step(int copies) {
  unsigned what = choose(10), which = choose((unsigned)copies);
  if (what < 3) {
    come();
    say('c', count);
  } else if (what < 6) {
    go();
    say('g', count);
  } else if (what < 8) {
    look(&t_copies[which]);
    say('l', (int)which);
  } else {
    start_or_stop(&t_copies[which]);
    say(t_copies[which].session ? '+' : '-', (int)which);
  }
}

static void reaches_whom_it_should(unsigned seed) {
  int expected[OWNERS + 1] = {0};
  int next = count - 1;
  while (next >= 0) {
    expected[present[next]] = 1;
    if (!chains[present[next]]) break;
    next--;
  }
  expected[OWNERS] = next < 0;
  memset(calls, 0, sizeof(calls));
  raise(SIGPROF);
  for (int i = 0; i <= OWNERS; i++)
    cr_assert_eq(calls[i], expected[i], "seed %u: owner %d has a signal %d times, not %d, after %s", seed, i, calls[i],
                 expected[i], said);
}

static void run(unsigned seed, int copies) {
  choices = seed;
  said_length = 0;
  struct sigaction first = {.sa_sigaction = owner_4, .sa_flags = SA_SIGINFO | SA_RESTART};
  cr_assert_eq(sigaction(SIGPROF, &first, NULL), 0);
  struct onstack_kernel_sigaction before = t_action(SIGPROF);
  for (int i = 0; i < 60; i++) {
    step(copies);
    reaches_whom_it_should(seed);
  }
  while (count > 0) {
    go();
    say('g', count);
    look(&t_copies[choose((unsigned)copies)]);
    reaches_whom_it_should(seed);
  }
  /* With nobody at work a pointer of ours that was put back stays, and passes on: a last session takes it away. */
  if (!t_copies[0].session) start_or_stop(&t_copies[0]);
  for (int i = 0; i < copies; i++)
    if (t_copies[i].session) start_or_stop(&t_copies[i]);
  struct onstack_kernel_sigaction after = t_action(SIGPROF);
  cr_assert(t_same_action(&before, &after), "seed %u: the first owner's action is not back after %s", seed, said);
}

static unsigned rounds(void) {
  const char *text = getenv("ONSTACK_TEST_SEQUENCES");
  return text ? (unsigned)atoi(text) : 300;
}

static void sequences(int copies) {
  t_deadline(200);
  t_copies_open(false);
  for (unsigned seed = 1; seed <= rounds(); seed++) run(seed, copies);
}

Test(owners, come_and_go_above_one_copy, .timeout = 200) { sequences(1); }
Test(owners, come_and_go_above_two_copies, .timeout = 200) { sequences(2); }
Test(owners, come_and_go_above_three_copies, .timeout = 200) { sequences(3); }

/* ---- one that comes and leaves at the very instants in which we change the action ---- */

static uint32_t hasty, hasty_found_itself, hasty_stays, hasty_visits;

static void hasty_owner(int signal, siginfo_t *info, void *context) { (void)signal, (void)info, (void)context; }

static void *comes_and_leaves(void *data) {
  struct sigaction mine = {.sa_sigaction = hasty_owner, .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK}, below;
  (void)data;
  while (__atomic_load_n(&hasty, __ATOMIC_RELAXED)) {
    /* Where it left as we put it back, it is there for an instant: there is no compare and swap of actions. */
    sigaction(SIGPROF, NULL, &below);
    hasty_found_itself += below.sa_sigaction == hasty_owner;
    for (int looks = 0; looks < 100 && below.sa_sigaction == hasty_owner; looks++) {
      t_sleep(0.01);
      sigaction(SIGPROF, NULL, &below);
    }
    if (below.sa_sigaction == hasty_owner) {
      hasty_stays = 1;
      break;
    }
    sigaction(SIGPROF, &mine, &below);
    for (unsigned wait = hasty_visits++ % 64; wait > 0; wait--) __asm__ volatile("");
    sigaction(SIGPROF, &below, NULL);
    t_sleep(0.00002); /* one that comes again between two system calls of ours can find what we put back */
  }
  return NULL;
}

Test(owners, come_and_leave_at_every_instant_of_start_and_stop) {
  pthread_t thread;
  onstack_options options = t_options(100, NULL, NULL);
  t_deadline(200);
  signal(SIGPROF, SIG_IGN);
  hasty = 1;
  pthread_create(&thread, NULL, comes_and_leaves, NULL);
  for (unsigned i = 0; i < 1500 * t_repeat(); i++) t_finish(t_start(&options));
  __atomic_store_n(&hasty, 0u, __ATOMIC_RELAXED);
  pthread_join(thread, NULL);
  cr_log_info("%u visits, %u times put back for an instant", hasty_visits, hasty_found_itself);
  cr_assert_eq(hasty_stays, 0u, "an owner that had left was installed again after %u visits", hasty_visits);
}
