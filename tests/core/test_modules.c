/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Libraries that are opened and closed while ticks come: noticed, walked by their own rules, their tables given back. */
#include "support.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(modules, .init = t_setup);

static void plugin_path(char path[4096]) {
  ssize_t length = readlink("/proc/self/exe", path, 4000);
  cr_assert_gt(length, 0);
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, "plugin.so");
}

static void *open_plugin(const char *path, void (**burn)(unsigned long)) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  cr_assert_not_null(library, "%s", dlerror());
  *(void **)burn = dlsym(library, "plugin_burn");
  cr_assert_not_null(*(void **)burn);
  return library;
}

Test(modules, a_library_opened_later_is_walked_to_the_root) {
  char path[4096];
  void (*burn)(unsigned long);
  plugin_path(path);
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(500, t_collect, collector);
  onstack_session *session = t_start(&options);
  t_burn(0.2);
  void *library = open_plugin(path, &burn);
  double end = t_now() + 0.3;
  while (t_now() < end) burn(100000); /* until the drain has noticed it */
  size_t begin = collector->count;
  end = t_thread_cpu() + 0.7;
  while (t_thread_cpu() < end) burn(1000000);
  t_finish(session);
  size_t inside = 0, rooted = 0;
  for (size_t i = begin; i < collector->count; i++) {
    const t_sample *sample = &collector->samples[i];
    uint64_t near = (uint64_t)(uintptr_t)burn;
    if (sample->frames[0] - near + 4096 > 8192) continue;
    inside++;
    rooted += sample->truncation == ONSTACK_TRUNCATED_NOT && sample->frame_count >= 4;
  }
  cr_assert_gt(inside, 20);
  cr_assert_geq(rooted * 100, inside * 95, "%zu of %zu", rooted, inside);
  dlclose(library);
}

/* ONSTACK_TEST_MODULES=10000 for the long run. */
Test(modules, opened_and_closed_all_the_time) {
  char path[4096];
  void (*burn)(unsigned long);
  const char *asked = getenv("ONSTACK_TEST_MODULES");
  int rounds = asked ? atoi(asked) : 1500;
  plugin_path(path);
  t_deadline(600);
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  uint64_t rss = 0;
  for (int i = 0; i < rounds; i++) {
    void *library = open_plugin(path, &burn);
    burn(200000);
    dlclose(library);
    if (i == rounds / 10) rss = t_rss_bytes();
  }
  uint64_t grown = t_rss_bytes() - rss;
  onstack_stats stats = t_finish(session);
  cr_assert_gt(stats.ticks, 100);
  cr_assert((int64_t)grown < 512 * 1024, "%lu bytes more after %d rounds", (unsigned long)grown, rounds);
}
