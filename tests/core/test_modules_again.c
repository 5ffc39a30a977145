/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that is loaded where another one was: what was known of the first must not be used for the second. */
#include "sampler/modules/modules.h"
#include "support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(modules_again, .init = t_setup);

/* The only caller of the libraries; a section of its own makes it known to the byte. */
extern const char __start_text_caller[], __stop_text_caller[];
__attribute__((noinline, noclone, section("text_caller"))) static void caller(void (*burn)(unsigned long),
                                                                              unsigned long rounds) {
  burn(rounds);
  __asm__ volatile("");
}

static bool is_caller(uint64_t frame) {
  return frame > (uint64_t)(uintptr_t)__start_text_caller && frame < (uint64_t)(uintptr_t)__stop_text_caller;
}

typedef struct twin {
  void *library;
  void (*burn)(unsigned long);
} twin;

static twin twin_open(const char *name) {
  char path[4096];
  twin t;
  ssize_t length = readlink("/proc/self/exe", path, 4000);
  cr_assert_gt(length, 0);
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, name);
  t.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  cr_assert_not_null(t.library, "%s", dlerror());
  *(void **)&t.burn = dlsym(t.library, "plugin_burn");
  cr_assert_not_null(*(void **)&t.burn);
  return t;
}

static void twin_close(twin t) { cr_assert_eq(dlclose(t.library), 0); }

typedef struct seen {
  uint64_t near; /* where both libraries are loaded */
  uint64_t inside, whole, skipped, pending;
} seen;

static int see(void *data, const onstack_sample *sample) {
  seen *s = data;
  bool called = false;
  if (sample->frames[0] - s->near + 4096 > 8192) return 0;
  for (uint32_t i = 0; i < sample->frame_count; i++) called |= is_caller(sample->frames[i]);
  s->inside++;
  s->pending += sample->truncation == ONSTACK_TRUNCATED_PENDING;
  if (sample->truncation != ONSTACK_TRUNCATED_NOT) return 0;
  s->whole++;
  s->skipped += !called;
  return 0;
}

/* Both have the same size, so that they come to lie at the same place; where they do not there is nothing to see. A hole
   above it, where the kernel looks first, is left for everything that is small. */
static void twin_find(seen *s) {
  const size_t size = 32 << 20;
  char *hole = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  for (int i = 0; i < 2; i++) {
    twin t = twin_open(i ? "twin-24.so" : "twin-40.so");
    if (i && (uint64_t)(uintptr_t)t.burn != s->near) cr_skip_test("the loader puts each library elsewhere");
    s->near = (uint64_t)(uintptr_t)t.burn;
    twin_close(t);
  }
  munmap(hole + 4096, size - 4096); /* the rest keeps the two holes apart */
}

static void burn_in(twin t, double seconds) {
  const double end = t_thread_cpu() + seconds;
  while (t_thread_cpu() < end) caller(t.burn, 200000);
}

/* The session looks at the modules only when it is polled: each library is known before it is sampled. */
static void one_after_the_other(const char *first, const char *second) {
  seen s = {0};
  onstack_options options = t_options(1000, see, &s);
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  twin_find(&s); /* behind the start, which maps much */
  twin t = twin_open(first);
  onstack_session_poll(session, 0);
  burn_in(t, 0.1);
  onstack_session_poll(session, 0);
  twin_close(t);
  t = twin_open(second);
  cr_assert_eq((uint64_t)(uintptr_t)t.burn, s.near);
  onstack_session_poll(session, 0);
  s = (seen){.near = s.near};
  do {
    burn_in(t, 0.1);
    onstack_session_poll(session, 0);
  } while (s.inside < 30);
  t_finish(session);
  twin_close(t);
  cr_assert_eq(s.skipped, 0, "%lu of %lu whole stacks lack their caller", (unsigned long)s.skipped, (unsigned long)s.whole);
  cr_assert_geq(s.whole * 100, s.inside * 90, "%lu of %lu", (unsigned long)s.whole, (unsigned long)s.inside);
}

Test(modules_again, a_smaller_frame_in_the_place_of_a_larger_one) { one_after_the_other("twin-40.so", "twin-24.so"); }
Test(modules_again, a_larger_frame_in_the_place_of_a_smaller_one) { one_after_the_other("twin-24.so", "twin-40.so"); }

/* The loader has told of it, and the map of code is older. */
Test(modules_again, opened_a_moment_ago_it_is_not_taken_for_generated_code) {
  seen s = {0};
  onstack_options options = t_options(1000, see, &s);
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  twin_find(&s);
  onstack_session_poll(session, 0);
  twin t = twin_open("twin-24.so");
  onstack_modules_refresh(0);
  burn_in(t, 0.1);
  onstack_session_poll(session, 0);
  t_finish(session);
  cr_assert_gt(s.inside, 10);
  cr_assert_eq(s.skipped, 0, "%lu of %lu whole stacks lack their caller", (unsigned long)s.skipped, (unsigned long)s.whole);
  cr_assert_gt(s.whole, 10, "what was pending is walked again");
}

/* Faster than the session looks: what was sampled between two looks may be of either. */
Test(modules_again, replaced_between_two_looks_a_stack_is_cut_and_not_guessed) {
  seen s = {0};
  onstack_options options = t_options(1000, see, &s);
  onstack_session *session = t_start(&options);
  twin_find(&s); /* behind the start, which maps much */
  for (int i = 0, elsewhere = 0; i < 500 || (i < 10000 && s.inside < 50); i++) {
    twin t = twin_open(i % 2 ? "twin-24.so" : "twin-40.so");
    const bool there = (uint64_t)(uintptr_t)t.burn == s.near;
    if (there) burn_in(t, 0.003);
    twin_close(t);
    if (there) continue;
    /* A mapping of the session has taken the place meanwhile: another one. */
    cr_assert_lt(++elsewhere, 100, "the libraries never stay at one place");
    twin_find(&s);
  }
  t_finish(session);
  fprintf(stderr, "%lu samples, %lu whole, %lu pending, %lu lack their caller\n", (unsigned long)s.inside,
          (unsigned long)s.whole, (unsigned long)s.pending, (unsigned long)s.skipped);
  cr_assert_gt(s.inside, 20, "ticks must hit the libraries, or this shows nothing");
  cr_assert_eq(s.skipped, 0, "%lu of %lu stacks lack their caller and are called whole", (unsigned long)s.skipped,
               (unsigned long)s.inside);
}
