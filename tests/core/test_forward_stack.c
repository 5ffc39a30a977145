/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * An owner without SA_ONSTACK runs where the kernel would have run it: on the interrupted stack, not on an alternate one
 * that may be too small for it. The `pprof` crate is such an owner, in a process where each thread has 8 KiB.
 */
#include "support.h"

#include <string.h>
#include <sys/mman.h>

TestSuite(forward_stack, .init = t_setup);

#define ALTERNATE_BYTES 8192u /* as a Rust thread has */
#ifdef __SANITIZE_ADDRESS__
#define STORM_BYTES (2 * ALTERNATE_BYTES) /* our handler is larger then, and two kernel frames of AVX-512 have 6 KiB */
#else
#define STORM_BYTES ALTERNATE_BYTES
#endif
#define BELOW_BYTES 262144u
#define PAINT 0x5a

static uint8_t *alternate;
static size_t alternate_bytes = ALTERNATE_BYTES;
static volatile int calls, calls_on_alternate, nested_on_alternate, base_calls;
static bool sends_another;
static struct sigaction below_newer;

static bool is_on_alternate(const void *place) { return (uintptr_t)place - (uintptr_t)alternate < alternate_bytes; }

/* Ten times what the alternate stack holds. */
static void hungry_owner(int signal, siginfo_t *info, void *context) {
  volatile uint8_t room[10 * ALTERNATE_BYTES];
  (void)signal, (void)info, (void)context;
  for (size_t i = 0; i < sizeof(room); i += 512) room[i] = 1;
  if (sends_another) raise(SIGUSR1);
  calls++;
  calls_on_alternate += is_on_alternate((const void *)room);
}

static void nested(int signal) {
  volatile uint8_t room[600];
  memset((void *)room, signal, sizeof(room));
  nested_on_alternate += is_on_alternate((const void *)room);
}

static void chaining_owner(int signal, siginfo_t *info, void *context) {
  hungry_owner(signal, info, context);
  below_newer.sa_sigaction(signal, info, context);
}

static void base(int signal, siginfo_t *info, void *context) {
  (void)signal, (void)info, (void)context;
  base_calls++;
}

static void install(void (*handler)(int, siginfo_t *, void *), int flags, struct sigaction *found) {
  struct sigaction action = {.sa_sigaction = handler, .sa_flags = SA_SIGINFO | SA_RESTART | flags};
  cr_assert_eq(sigaction(SIGPROF, &action, found), 0);
}

static stack_t current_alternate(void) {
  stack_t stack;
  cr_assert_eq(sigaltstack(NULL, &stack), 0);
  return stack;
}

/* An alternate stack whose overflow is seen. */
static void use_alternate(void) {
  uint8_t *region = mmap(NULL, BELOW_BYTES + alternate_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(region, MAP_FAILED);
  memset(region, PAINT, BELOW_BYTES);
  alternate = region + BELOW_BYTES;
  stack_t stack = {.ss_sp = alternate, .ss_size = alternate_bytes};
  cr_assert_eq(sigaltstack(&stack, NULL), 0);
}

static void check_alternate(void) {
  const uint8_t *region = alternate - BELOW_BYTES;
  for (size_t i = 0; i < BELOW_BYTES; i++) cr_assert_eq(region[i], PAINT, "%zu bytes below the stack", BELOW_BYTES - i);
  stack_t now = current_alternate();
  cr_assert_eq(now.ss_sp, alternate);
  cr_assert_eq(now.ss_size, alternate_bytes);
  cr_assert_eq(now.ss_flags, 0);
}

Test(forward_stack, an_owner_without_sa_onstack_has_the_interrupted_stack) {
  use_alternate();
  install(hungry_owner, 0, NULL);
  onstack_session *session = t_start(NULL);
  for (int i = 0; i < 20; i++) {
    raise(SIGPROF);
    t_burn(0.01);
  }
  onstack_stats stats = t_finish(session);
  cr_assert_eq(calls, 20);
  cr_assert_eq(calls_on_alternate, 0);
  cr_assert_eq(stats.forwarded, 20);
  check_alternate();
}

static void tame_owner(int signal, siginfo_t *info, void *context) {
  uint8_t here = 0;
  (void)signal, (void)info, (void)context;
  calls++;
  calls_on_alternate += is_on_alternate(&here);
}

Test(forward_stack, an_owner_with_sa_onstack_has_the_alternate_one) {
  use_alternate();
  install(tame_owner, SA_ONSTACK, NULL);
  onstack_session *session = t_start(NULL);
  for (int i = 0; i < 20; i++) raise(SIGPROF);
  t_finish(session);
  cr_assert_eq(calls, 20);
  cr_assert_eq(calls_on_alternate, 20);
  check_alternate();
}

/* It must not begin where the frames are that the owner returns to. */
Test(forward_stack, a_signal_meanwhile_spares_our_frames) {
  struct sigaction another = {.sa_handler = nested, .sa_flags = SA_ONSTACK};
  cr_assert_eq(sigaction(SIGUSR1, &another, NULL), 0);
  use_alternate();
  install(hungry_owner, 0, NULL);
  sends_another = true;
  onstack_session *session = t_start(NULL);
  for (int i = 0; i < 20; i++) raise(SIGPROF);
  t_finish(session);
  cr_assert_eq(calls, 20);
  cr_assert_eq(nested_on_alternate, 0, "what is left of 8 KiB is too little");
  check_alternate();
}

static pthread_t sends_to;
static uint32_t sending, plain_calls;
static void *sends_all_the_time(void *data) {
  (void)data;
  while (__atomic_load_n(&sending, __ATOMIC_RELAXED)) pthread_kill(sends_to, SIGUSR1);
  return NULL;
}

static void plain_owner(int signal) {
  (void)signal;
  __atomic_add_fetch(&plain_calls, 1u, __ATOMIC_RELAXED);
}

static void passes_on(int signal, siginfo_t *info, void *context) { below_newer.sa_sigaction(signal, info, context); }

/* At every instant of the way to the other stack and back. */
static void storm(bool from_a_newer_owner) {
  struct sigaction another = {.sa_handler = nested, .sa_flags = SA_ONSTACK | SA_RESTART},
                   plain = {.sa_handler = plain_owner};
  onstack_options options = t_options(100, NULL, NULL);
  pthread_t sender;
  cr_assert_eq(sigaction(SIGUSR1, &another, NULL), 0);
  alternate_bytes = STORM_BYTES;
  if (from_a_newer_owner) alternate_bytes *= 4; /* it leaves signals open there, and two of them fill 8 KiB without us */
  use_alternate();
  cr_assert_eq(sigaction(SIGPROF, &plain, NULL), 0);
  options.threads = ONSTACK_OFF; /* no copy reinstalls on top of the newer one */
  onstack_session *session = t_start(&options);
  if (from_a_newer_owner) install(passes_on, SA_ONSTACK, &below_newer);
  sends_to = pthread_self();
  sending = 1;
  pthread_create(&sender, NULL, sends_all_the_time, NULL);
  /* A second showed it before it was repaired; where every signal is slow, 100,000 rounds take half a minute. */
  const double end = t_now() + 5 * t_repeat();
  const uint32_t most = 100000 * t_repeat();
  uint32_t rounds = 0;
  while (rounds < most && (rounds % 100 != 0 || t_now() < end)) {
    raise(SIGPROF);
    rounds++;
  }
  __atomic_store_n(&sending, 0u, __ATOMIC_RELAXED);
  pthread_join(sender, NULL);
  t_finish(session);
  cr_assert_eq(plain_calls, rounds);
  check_alternate();
}

Test(forward_stack, a_storm_of_signals_meanwhile_spares_our_frames) { storm(false); }
/* Which blocks the signal alone. */
Test(forward_stack, a_storm_of_signals_meanwhile_spares_the_frames_of_a_newer_owner) { storm(true); }

/* The same signal comes in again from another stack than the one on which it is under way. */
Test(forward_stack, an_owner_that_chains_from_there_is_no_circle) {
  use_alternate();
  install(base, SA_ONSTACK, NULL);
  onstack_session *session = t_start(NULL);
  install(chaining_owner, 0, &below_newer);
  for (int i = 0; i < 100 && t_action(SIGPROF).handler == (uint64_t)(uintptr_t)chaining_owner; i++) t_burn(0.005);
  cr_assert_neq(t_action(SIGPROF).handler, (uint64_t)(uintptr_t)chaining_owner);
  calls = base_calls = calls_on_alternate = 0;
  for (int i = 0; i < 20; i++) raise(SIGPROF);
  onstack_stats stats = t_finish(session);
  cr_assert_eq(calls, 20);
  cr_assert_eq(calls_on_alternate, 0);
  cr_assert_eq(base_calls, 20, "once each");
  cr_assert_eq(stats.looped, 0);
  check_alternate();
}
