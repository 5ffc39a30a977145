/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Libraries that are opened and closed while ticks come: noticed, walked by their own rules, their tables given back. */
#include "support.h"

#include "sampler/modules/modules.h"
#include "onstack/profile.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
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

static void opened_later_is_walked_to_the_root(const char *name) {
  char path[4096];
  void (*burn)(unsigned long);
  plugin_path(path);
  strcpy(strrchr(path, '/') + 1, name);
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

Test(modules, a_library_opened_later_is_walked_to_the_root) { opened_later_is_walked_to_the_root("plugin.so"); }
Test(modules, a_library_without_eh_frame_hdr_is_walked_to_the_root) { opened_later_is_walked_to_the_root("plugin_bare.so"); }

/* Without memory for a table the module waits: "has no rules" would hold for as long as it is loaded. */
Test(modules, a_table_that_memory_was_short_for_is_made_later) {
  char path[4096];
  void (*burn)(unsigned long);
  onstack_module module = {.low = 0};
  struct rlimit limit, none = {.rlim_cur = 1};
  plugin_path(path);
  while (onstack_modules_refresh(SIZE_MAX / 2)) continue;
  void *library = open_plugin(path, &burn);
  onstack_modules_refresh(0);
  cr_assert_eq(getrlimit(RLIMIT_AS, &limit), 0);
  none.rlim_max = limit.rlim_max;
  cr_assert_eq(setrlimit(RLIMIT_AS, &none), 0);
  bool more = onstack_modules_refresh(SIZE_MAX / 2);
  bool derived = onstack_modules_derive((uint64_t)(uintptr_t)burn);
  cr_assert_eq(setrlimit(RLIMIT_AS, &limit), 0);
  cr_assert_not(more, "there is nothing to be done at once");
  cr_assert(derived, "the module is there");
  cr_assert_eq(onstack_modules_find((uint64_t)(uintptr_t)burn, &module), ONSTACK_MODULE_HERE);
  cr_assert_null(module.table);
  cr_assert(module.pending);
  for (double end = t_now() + 20; !module.table && t_now() < end; t_sleep(0.1)) {
    onstack_modules_refresh(SIZE_MAX / 2);
    module.low = module.high = 0;
    onstack_modules_find((uint64_t)(uintptr_t)burn, &module);
  }
  cr_assert_not_null(module.table);
  cr_assert_not(module.pending);
  dlclose(library);
}

/* ONSTACK_TEST_MODULES: another number. */
static int rounds_of(int usual) {
  const char *asked = getenv("ONSTACK_TEST_MODULES");
  return asked ? atoi(asked) : usual;
}

/* Tables come and go by a megabyte from one round to the next. A leak raises the lowest reading, so those are compared. */
Test(modules, opened_and_closed_all_the_time) {
  char path[4096];
  void (*burn)(unsigned long);
  int rounds = rounds_of(10000), apart = rounds / 100 + 1;
  uint64_t lowest[2] = {UINT64_MAX, UINT64_MAX};
  plugin_path(path);
  t_deadline(600);
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  for (int i = 0; i < rounds; i++) {
    void *library = open_plugin(path, &burn);
    burn(200000);
    dlclose(library);
    uint64_t *low = &lowest[i > rounds / 2];
    if (i % apart || i < rounds / 10) continue;
    uint64_t rss = t_rss_bytes();
    if (rss < *low) *low = rss;
  }
  onstack_stats stats = t_finish(session);
  cr_assert_gt(stats.ticks, 100);
  cr_assert_lt(lowest[1], lowest[0] + 512 * 1024, "%lu bytes at least, after %lu", (unsigned long)lowest[1],
               (unsigned long)lowest[0]);
}

/* ---- several threads, each with a library of its own ---- */

#define OPENERS 4

typedef struct opener {
  pthread_t thread;
  char path[4200];
  int rounds;
  uint32_t failed; /* asserts end the test from its own thread only */
  uint32_t done;
} opener;

typedef struct inside {
  uint64_t low[OPENERS]; /* where the libraries were loaded last */
  uint64_t samples, within;
} inside;

static inside seen;

static void *open_and_close(void *data) {
  opener *self = data;
  int number = self->path[strlen(self->path) - 4] - '0';
  for (int i = 0; i < self->rounds && !self->failed; i++) {
    void (*burn)(unsigned long);
    void *library = dlopen(self->path, RTLD_NOW | RTLD_LOCAL);
    *(void **)&burn = library ? dlsym(library, "plugin_burn") : NULL;
    self->failed = !burn;
    if (self->failed) break;
    __atomic_store_n(&seen.low[number], ((uint64_t)(uintptr_t)burn & ~(uint64_t)4095) - 4096, __ATOMIC_RELAXED);
    burn(600000);
    /* Its samples are in the ring, the interrupted PCs of the next tick perhaps in the PLT of a library that goes. */
    self->failed = dlclose(library) != 0;
    __atomic_add_fetch(&self->done, 1, __ATOMIC_RELAXED);
  }
  return NULL;
}

static int count_inside(void *unused, const onstack_sample *sample) {
  (void)unused;
  seen.samples++;
  for (int i = 0; i < OPENERS; i++)
    if (sample->frames[0] - __atomic_load_n(&seen.low[i], __ATOMIC_RELAXED) < 3 * 4096) {
      seen.within++;
      break;
    }
  return 0;
}

static void copy_file(const char *from, const char *to) {
  static char bytes[1 << 16];
  FILE *in = fopen(from, "rb"), *out = fopen(to, "wb");
  cr_assert(in && out);
  for (size_t got; (got = fread(bytes, 1, sizeof(bytes), in)) > 0;) cr_assert_eq(fwrite(bytes, 1, got, out), got);
  fclose(in);
  cr_assert_eq(fclose(out), 0);
}

static void openers_start(opener *openers, const char *directory, int rounds) {
  char path[4096];
  plugin_path(path);
  memset(openers, 0, OPENERS * sizeof(*openers));
  for (int i = 0; i < OPENERS; i++) {
    openers[i].rounds = rounds;
    snprintf(openers[i].path, sizeof(openers[i].path), "%s/plugin%d.so", directory, i);
    copy_file(path, openers[i].path);
    pthread_create(&openers[i].thread, NULL, open_and_close, &openers[i]);
  }
}

static void openers_join(opener *openers, const char *directory) {
  for (int i = 0; i < OPENERS; i++) {
    pthread_join(openers[i].thread, NULL);
    unlink(openers[i].path);
  }
  rmdir(directory);
  for (int i = 0; i < OPENERS; i++) cr_assert(!openers[i].failed, "%s: %s", openers[i].path, dlerror());
}

static int discard(void *length, const void *bytes, size_t size) {
  (void)bytes;
  *(size_t *)length += size;
  return 0;
}

/*
 * At the highest rate, on all threads that open, run in and close libraries. The samples of closed ones are still in the
 * ring and in a profile, which is written at the end.
 */
Test(modules, closed_while_their_samples_are_on_the_way) {
  static opener openers[OPENERS];
  char directory[] = "/tmp/onstack-modules-XXXXXX";
  int rounds = rounds_of(10000) / OPENERS;
  onstack_profile *profile;
  size_t length = 0;
  uint64_t early = UINT64_MAX, late = UINT64_MAX; /* the lowest readings, as above */
  t_deadline(900);
  cr_assert_not_null(mkdtemp(directory));
  cr_assert_eq(onstack_profile_new(NULL, &profile), 0);
  onstack_options fast = t_options(ONSTACK_MAX_FREQUENCY, count_inside, NULL);
  onstack_options slow = t_options(97, onstack_profile_sink, profile);
  onstack_session *first = t_start(&fast), *second = t_start(&slow);
  openers_start(openers, directory, rounds);
  for (uint32_t done = 0; done < OPENERS * (uint32_t)rounds;) {
    t_sleep(0.005);
    done = 0;
    for (int i = 0; i < OPENERS; i++)
      done += openers[i].failed ? (uint32_t)rounds : __atomic_load_n(&openers[i].done, __ATOMIC_RELAXED);
    const uint32_t fifths = done * 5 / (OPENERS * (uint32_t)rounds);
    const uint64_t now = t_rss_bytes();
    if (fifths == 1 && now < early) early = now;
    if (fifths >= 4 && now < late) late = now;
  }
  const int64_t grown = (int64_t)(late - early);
  openers_join(openers, directory);
  t_finish(second);
  onstack_stats stats = t_finish(first);
  cr_assert_eq(onstack_profile_write_folded(profile, NULL, discard, &length), 0);
  onstack_profile_free(profile);
  fprintf(stderr, "%d rounds: %lu samples, %lu in libraries, %lu truncated, %ld bytes more\n", OPENERS * rounds,
          (unsigned long)seen.samples, (unsigned long)seen.within, (unsigned long)stats.truncated, (long)grown);
  cr_assert_gt(seen.within, (uint64_t)(OPENERS * rounds) / 100, "ticks must hit the libraries, or this shows nothing");
  cr_assert_gt(length, 0);
  cr_assert_lt(grown, 1024 * 1024, "%ld bytes more after %d rounds", (long)grown, OPENERS * rounds);
}

/* The loader's names may be relative: to a directory that is no longer the current one, or that of the vdso. A pipe that
   lies there now would make the one who opens it wait for a writer. */
Test(modules, pipes_in_the_place_of_libraries_are_not_waited_for) {
  char path[4096], directory[] = "/tmp/onstack-modules-XXXXXX";
  void (*burn)(unsigned long);
  plugin_path(path);
  t_deadline(20);
  cr_assert_not_null(mkdtemp(directory));
  cr_assert_eq(chdir(directory), 0);
  copy_file(path, "first.so");
  copy_file(path, "later.so");
  void *first = open_plugin("./first.so", &burn);
  cr_assert_eq(unlink("first.so"), 0);
  cr_assert_eq(mkfifo("first.so", 0600), 0);
  cr_assert_eq(mkfifo("linux-vdso.so.1", 0600), 0);
  onstack_options options = t_options(500, NULL, NULL);
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  void *later = open_plugin("./later.so", &burn);
  cr_assert_eq(unlink("later.so"), 0);
  cr_assert_eq(mkfifo("later.so", 0600), 0);
  for (int i = 0; i < 20; i++) {
    burn(1000000);
    onstack_session_poll(session, 1000);
  }
  t_finish(session);
  dlclose(first);
  dlclose(later);
  static const char *const names[] = {"first.so", "later.so", "linux-vdso.so.1"};
  for (int i = 0; i < 3; i++) unlink(names[i]);
  rmdir(directory);
}

/* The numbers of the map's states come round: what has been there all the time must not seem to have come a moment ago. */
Test(modules, a_library_that_stays_is_old_after_any_number_of_changes) {
  const uint64_t here = (uint64_t)(uintptr_t)&plugin_path;
  char path[4096];
  void (*burn)(unsigned long);
  plugin_path(path);
  for (int turn = 0; turn < 6; turn++) {
    onstack_module module = {.low = 0};
    onstack_add_relaxed(&onstack_modules.lock.sequence, 0x30000000u); /* as many changes elsewhere */
    onstack_session *session = t_start(NULL);
    void *library = open_plugin(path, &burn);
    const uint32_t before = onstack_observe(&onstack_modules.lock.sequence);
    while (onstack_observe(&onstack_modules.lock.sequence) == before) t_burn(0.01);
    const uint32_t sequence = onstack_observe(&onstack_modules.lock.sequence);
    cr_assert_eq(onstack_modules_find(here, &module), ONSTACK_MODULE_HERE);
    cr_expect_leq((int32_t)(module.since - sequence), 0, "turn %d: here since %u, now %u", turn, module.since, sequence);
    cr_expect_leq((int32_t)(onstack_modules.gone - sequence), 0, "turn %d: gone since %u", turn, onstack_modules.gone);
    t_finish(session);
    dlclose(library);
  }
}
