/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A host with real-time threads: what they wait for in a start or stop is done by an ordinary thread that may have no other
 * processor than theirs.
 */
#include "support.h"

#include "sampler/source/threads.h"

#include <sched.h>

TestSuite(real_time, .init = t_setup);

static uint32_t scans;

/* A scan by an ordinary thread: it is in the middle of it when the real-time thread wakes up. */
static void *scan(void *data) {
  onstack_slot *slot = data;
  onstack_dekker_store(&slot->scanning, 1u);
  onstack_publish(&scans, 1u);
  t_burn(0.05);
  onstack_dekker_store(&slot->scanning, 0u);
  return NULL;
}

static bool pin_to_this_processor(void) {
  cpu_set_t here;
  CPU_ZERO(&here);
  CPU_SET((unsigned)sched_getcpu(), &here);
  return sched_setaffinity(0, sizeof(here), &here) == 0;
}

/* As one who stops waits, in CPU time. Who burns it until the kernel takes the processor away needs 0.95 s
   (sched_rt_runtime_us). */
Test(real_time, who_waits_leaves_the_processor_to_who_is_waited_for) {
  const struct sched_param ordinary = {.sched_priority = 0}, first = {.sched_priority = 10};
  pthread_t thread;
  pthread_attr_t attributes;
  onstack_slot *slot = &onstack_slots[0];
  if (!pin_to_this_processor()) cr_skip("a thread cannot be pinned");
  pthread_attr_init(&attributes);
  pthread_attr_setinheritsched(&attributes, PTHREAD_EXPLICIT_SCHED);
  pthread_attr_setschedpolicy(&attributes, SCHED_OTHER);
  pthread_attr_setschedparam(&attributes, &ordinary);
  if (sched_setscheduler(0, SCHED_FIFO, &first) != 0) cr_skip("no real-time policy for us");
  cr_assert_eq(pthread_create(&thread, &attributes, scan, slot), 0);
  while (!onstack_observe(&scans)) t_sleep(0.001);
  const double before = t_thread_cpu();
  onstack_threads_wait_scanned(slot);
  const double spent = t_thread_cpu() - before;
  pthread_join(thread, NULL);
  cr_assert_lt(spent, 0.5, "%.3f s of CPU time for 0.05 s of the other thread's", spent);
}
