/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Libraries in a namespace of their own (dlmopen), which the loader's list does not name. */
#include "support.h"

#include <dlfcn.h>
#include <string.h>
#include <unistd.h>

TestSuite(modules_other, .init = t_setup);

static void (*burn)(unsigned long);

/* The only caller; a section of its own makes it known to the byte. */
extern const char __start_text_caller[], __stop_text_caller[];
__attribute__((noinline, noclone, section("text_caller"))) static void caller(unsigned long rounds) {
  burn(rounds);
  __asm__ volatile("");
}

typedef struct seen {
  uint64_t inside, rooted, skipped;
} seen;

static int see(void *data, const onstack_sample *sample) {
  seen *s = data;
  bool called = false;
  if (sample->frames[0] - (uint64_t)(uintptr_t)burn + 4096 > 8192) return 0;
  for (uint32_t i = 0; i < sample->frame_count; i++)
    called |=
        sample->frames[i] - (uint64_t)(uintptr_t)__start_text_caller < (uint64_t)(__stop_text_caller - __start_text_caller);
  s->inside++;
  s->rooted += sample->truncation == ONSTACK_TRUNCATED_NOT && called;
  s->skipped += sample->truncation == ONSTACK_TRUNCATED_NOT && !called;
  return 0;
}

static void *open_apart(void) {
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, 4000);
  cr_assert_gt(length, 0);
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, "plugin.so");
  void *library = dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL);
  cr_assert_not_null(library, "%s", dlerror());
  *(void **)&burn = dlsym(library, "plugin_burn");
  cr_assert_not_null(*(void **)&burn);
  return library;
}

static void burn_for(double seconds) {
  const double end = t_thread_cpu() + seconds;
  while (t_thread_cpu() < end) caller(200000);
}

static void check(const seen *s) {
  cr_assert_gt(s->inside, 20);
  cr_assert_eq(s->skipped, 0, "%lu of %lu lack their caller and say that they are whole", (unsigned long)s->skipped,
               (unsigned long)s->inside);
  cr_assert_geq(s->rooted * 100, s->inside * 95, "%lu of %lu", (unsigned long)s->rooted, (unsigned long)s->inside);
}

Test(modules_other, opened_before_the_start) {
  seen s = {0};
  onstack_options options = t_options(500, see, &s);
  void *library = open_apart();
  onstack_session *session = t_start(&options);
  burn_for(0.5);
  t_finish(session);
  check(&s);
  dlclose(library);
}

Test(modules_other, opened_later) {
  seen s = {0};
  onstack_options options = t_options(500, see, &s);
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  void *library = open_apart();
  onstack_session_poll(session, 0);
  burn_for(0.5);
  onstack_session_poll(session, 0);
  t_finish(session);
  check(&s);
  dlclose(library);
}
