/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The sequence lock (platform/atomics.h): a copy that is found good belongs together, whatever the writer does meanwhile. */
#include "platform/atomics.h"

#include <criterion/criterion.h>
#include <pthread.h>
#include <sched.h>

#define WORDS 24
#define OVERTAKEN 8u /* copies that a change came into the midst of, that each reader waits for */
#define READERS 2

static onstack_seqlock lock;
static uint64_t words[WORDS]; /* all the same, between two changes */
static uint32_t readers_done;

/* The writer gives its processor away now and then between two changes, and now and then in the midst of one; the reader in
   the midst of a copy. So one processor shows the same as two. */
static void pause_within(uint64_t round, uint32_t word) {
  const uint32_t place = round % 16384 == 0 ? WORDS / 2 : 0;
  if (round % 8192 == 0 && word == place) sched_yield();
}

/* In an order that no processor and no compiler takes by itself. */
static void write_all(uint64_t value) {
  onstack_seqlock_write_begin(&lock);
  for (uint32_t i = 0; i < WORDS; i++) {
    pause_within(value, i);
    onstack_store_relaxed(&words[i * 7 % WORDS], value);
  }
  onstack_seqlock_write_end(&lock);
}

static void *write_on(void *unused) {
  (void)unused;
  for (uint64_t value = 1; onstack_observe(&readers_done) < READERS; value++) write_all(value);
  return NULL;
}

typedef struct reader {
  pthread_t thread;
  uint64_t good, overtaken, torn, older;
} reader;

static void *read_on(void *data) {
  reader *self = data;
  uint64_t copy[WORDS], last = 0;
  for (uint64_t round = 0; self->overtaken < OVERTAKEN || self->good == 0; round++) {
    const uint32_t begun = onstack_seqlock_begin(&lock);
    for (uint32_t i = 0; i < WORDS; i++) {
      if (round % 64 == 0 && i == WORDS / 2) sched_yield();
      copy[i] = onstack_load_relaxed(&words[i]);
    }
    const bool held = onstack_seqlock_held(&lock, begun);
    self->overtaken += !onstack_seqlock_is_written(begun) && onstack_load_relaxed(&lock.sequence) != begun;
    if (!held) continue;
    self->good++;
    for (uint32_t i = 1; i < WORDS; i++) self->torn += copy[i] != copy[0];
    self->older += copy[0] < last;
    last = copy[0];
  }
  __atomic_add_fetch(&readers_done, 1u, __ATOMIC_ACQ_REL);
  return NULL;
}

Test(seqlock, a_copy_that_is_found_good_is_whole, .timeout = 120) {
  pthread_t writer;
  reader readers[READERS] = {{0}};
  cr_assert_eq(pthread_create(&writer, NULL, write_on, NULL), 0);
  for (int i = 0; i < READERS; i++) cr_assert_eq(pthread_create(&readers[i].thread, NULL, read_on, &readers[i]), 0);
  for (int i = 0; i < READERS; i++) pthread_join(readers[i].thread, NULL);
  pthread_join(writer, NULL);
  for (int i = 0; i < READERS; i++) {
    cr_expect_eq(readers[i].torn, 0, "%lu words of another change", (unsigned long)readers[i].torn);
    cr_expect_eq(readers[i].older, 0, "%lu copies from before one that was seen", (unsigned long)readers[i].older);
  }
}

Test(seqlock, nothing_is_good_while_it_is_written) {
  onstack_seqlock one = {0};
  const uint32_t before = onstack_seqlock_begin(&one);
  cr_assert(onstack_seqlock_held(&one, before));
  const uint32_t after = onstack_seqlock_write_begin(&one);
  cr_assert_not(onstack_seqlock_held(&one, before));
  cr_assert(onstack_seqlock_is_written(onstack_seqlock_begin(&one)));
  cr_assert_not(onstack_seqlock_held(&one, onstack_seqlock_begin(&one)));
  onstack_seqlock_write_end(&one);
  cr_assert_not(onstack_seqlock_held(&one, before), "a change in between");
  cr_assert_eq(onstack_seqlock_begin(&one), after);
  cr_assert(onstack_seqlock_held(&one, after));
}

Test(seqlock, a_change_that_a_fork_cut_short_is_ended) {
  onstack_seqlock one = {0};
  cr_assert_not(onstack_seqlock_after_fork(&one));
  onstack_seqlock_write_begin(&one);
  cr_assert(onstack_seqlock_after_fork(&one));
  cr_assert(onstack_seqlock_held(&one, onstack_seqlock_begin(&one)));
}
