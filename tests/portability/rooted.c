/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Statically linked, as a rule, without frame pointers and without --eh-frame-hdr: the stacks of a thread reach its root. */
#include <onstack/onstack.h>

#include <pthread.h>
#include <stdio.h>
#include <time.h>

#define DEPTH 20

static uint64_t seen, whole;
static volatile unsigned sum;

/* Libc may have no unwind tables, so only samples in it count. */
__attribute__((noinline)) static void rooted_spin(void) {
  for (unsigned i = 0; i < 1000000; i++) sum += i;
}

__attribute__((noinline)) static void rooted_deep(unsigned depth) {
  if (depth > 0)
    rooted_deep(depth - 1);
  else
    for (clock_t end = clock() + CLOCKS_PER_SEC / 10; clock() < end;) rooted_spin();
  sum++; /* keeps the call from becoming a jump */
}

static void *rooted_thread(void *unused) {
  rooted_deep(DEPTH);
  return unused;
}

static int rooted_sink(void *data, const onstack_sample *sample) {
  const uint64_t low = (uint64_t)(uintptr_t)rooted_spin;
  (void)data;
  if (sample->frames[0] - low >= 128) return 0;
  seen++;
  whole += sample->truncation == ONSTACK_TRUNCATED_NOT && sample->frame_count > DEPTH;
  return 0;
}

int main(void) {
  onstack_options options;
  onstack_session *session;
  pthread_t thread;
  onstack_options_init(&options, sizeof(options));
  options.frequency = 250;
  options.sink = rooted_sink;
  if (onstack_session_start(&options, &session) < 0) return 1;
  for (int i = 0; i < 200 && __atomic_load_n(&seen, __ATOMIC_RELAXED) < 40; i++) {
    if (pthread_create(&thread, NULL, rooted_thread, NULL) != 0) return 1;
    pthread_join(thread, NULL);
  }
  onstack_session_free(session);
  printf("%lu of %lu stacks reach the root of their thread\n", (unsigned long)whole, (unsigned long)seen);
  return seen >= 40 && whole * 100 >= seen * 95 ? 0 : 1;
}
