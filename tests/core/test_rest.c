/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A session in a process that sleeps: how often it wakes a processor, and that nothing is lost when the process works again. */
#include "support.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

TestSuite(rest, .init = t_setup);

static uint64_t sampled_ns;

static int see(void *data, const onstack_sample *sample) {
  (void)data;
  sampled_ns += sample->value;
  return 0;
}

/* How often the drain thread has slept. */
static long wakes(void) {
  DIR *tasks = opendir("/proc/self/task");
  long found = -1;
  char path[300], line[128];
  for (struct dirent *task; (task = readdir(tasks));) {
    bool drains = false;
    snprintf(path, sizeof(path), "/proc/self/task/%s/status", task->d_name);
    FILE *status = fopen(path, "r");
    while (status && fgets(line, sizeof(line), status)) {
      drains |= strcmp(line, "Name:\tonstack-drain\n") == 0;
      if (drains) sscanf(line, "voluntary_ctxt_switches: %ld", &found);
    }
    if (status) fclose(status);
  }
  closedir(tasks);
  return found;
}

static void *work(void *unused) {
  (void)unused;
  t_burn(0.3);
  return NULL;
}

Test(rest, an_idle_process_is_woken_seldom_and_loses_nothing_when_it_works_again) {
  onstack_options options = t_options(250, see, NULL);
  onstack_session *session;
  pthread_t thread;
  cr_assert_eq(onstack_session_start(&options, &session), 0);
  t_sleep(1);
  const long before = wakes();
  t_sleep(3);
  const long after = wakes();
  cr_assert_geq(before, 0);
  cr_expect_leq(after - before, 24, "%ld", after - before); /* twelve rounds of 250 ms, and twice that for others' signals */
  sampled_ns = 0;
  pthread_create(&thread, NULL, work, NULL); /* a new one: the process tick finds it, or a scan */
  t_burn(0.3);
  pthread_join(thread, NULL);
  cr_assert_eq(onstack_session_stop(session), 0);
  onstack_session_free(session);
  cr_expect(sampled_ns > 500000000 && sampled_ns < 700000000, "%.3f of 0.6 s", (double)sampled_ns / 1e9);
}

Test(rest, a_process_that_works_and_does_nothing_new_is_woken_each_fourth_period) {
  onstack_options options = t_options(99, see, NULL);
  onstack_session *session;
  pthread_t thread;
  cr_assert_eq(onstack_session_start(&options, &session), 0);
  t_burn(1); /* sixteen rounds of 10 ms, and sixteen of 20 */
  long before = wakes();
  t_burn(1);
  long after = wakes();
  cr_assert_geq(before, 0);
  cr_expect_leq(after - before, 50, "%ld", after - before); /* 25 rounds; a hundred where something happens */
  pthread_create(&thread, NULL, work, NULL);
  pthread_join(thread, NULL);
  sampled_ns = 0;
  pthread_create(&thread, NULL, work, NULL); /* another one of 0.3 s */
  pthread_join(thread, NULL);
  cr_assert_eq(onstack_session_stop(session), 0);
  onstack_session_free(session);
  cr_expect(sampled_ns > 230000000 && sampled_ns < 370000000, "%.3f of 0.3 s", (double)sampled_ns / 1e9);
}
