/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* More libraries than the map of modules has room for at first, and libraries that are opened and closed all the time beside
   others that stay. */
#include "sampler/modules/modules.h"
#include "support.h"
#include "onstack/profile.h"

#include <dirent.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

TestSuite(modules_many, .init = t_setup);

/* The only callers of the libraries' function; sections of their own make them known to the byte. */
extern const char __start_text_caller[], __stop_text_caller[];
__attribute__((noinline, noclone, section("text_caller"))) static void inner_caller(void (*burn)(unsigned long),
                                                                                    unsigned long rounds) {
  burn(rounds);
  __asm__ volatile("");
}
__attribute__((noinline, noclone, section("text_caller"))) static void outer_caller(void (*burn)(unsigned long),
                                                                                    unsigned long rounds) {
  inner_caller(burn, rounds);
  __asm__ volatile("");
}

static uint32_t callers_in(const onstack_sample *sample) {
  uint32_t callers = 0;
  for (uint32_t i = 0; i < sample->frame_count; i++)
    callers += sample->frames[i] > (uint64_t)(uintptr_t)__start_text_caller &&
               sample->frames[i] < (uint64_t)(uintptr_t)__stop_text_caller;
  return callers;
}

/* ---- copies of one small library ---- */

typedef void (*burner)(unsigned long);

typedef struct copies {
  char directory[256]; /* long, so that the paths of a thousand are more than a quarter of a megabyte */
  uint32_t count;
  void **handles;
  burner *burn;
} copies;

static void copy_path(const copies *all, uint32_t number, char path[300]) {
  snprintf(path, 300, "%s/copy-%04u.so", all->directory, number);
}

static copies copies_make(uint32_t count) {
  static char bytes[1 << 18];
  char path[4096];
  copies all = {.count = count};
  snprintf(all.directory, sizeof(all.directory), "/tmp/onstack-modules-%0200d-XXXXXX", 0);
  const ssize_t length = readlink("/proc/self/exe", path, 4000);
  cr_assert_gt(length, 0);
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, "plugin.so");
  FILE *in = fopen(path, "rb");
  cr_assert_not_null(in);
  const size_t size = fread(bytes, 1, sizeof(bytes), in);
  cr_assert(size > 0 && size < sizeof(bytes));
  fclose(in);
  cr_assert_not_null(mkdtemp(all.directory));
  all.handles = calloc(count, sizeof(*all.handles));
  all.burn = calloc(count, sizeof(*all.burn));
  for (uint32_t i = 0; i < count; i++) {
    copy_path(&all, i, path);
    FILE *out = fopen(path, "wb");
    cr_assert_not_null(out);
    cr_assert_eq(fwrite(bytes, 1, size, out), size);
    cr_assert_eq(fclose(out), 0);
  }
  return all;
}

static void copies_open(copies *all) {
  char path[300];
  for (uint32_t i = 0; i < all->count; i++) {
    copy_path(all, i, path);
    all->handles[i] = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(all->handles[i], "%s", dlerror());
    *(void **)&all->burn[i] = dlsym(all->handles[i], "plugin_burn");
    cr_assert_not_null(*(void **)&all->burn[i]);
  }
}

static void copies_close(copies *all) {
  for (uint32_t i = 0; i < all->count; i++) cr_assert_eq(dlclose(all->handles[i]), 0);
}

static void copies_remove(copies *all) {
  char path[300];
  for (uint32_t i = 0; i < all->count; i++) {
    copy_path(all, i, path);
    unlink(path);
  }
  rmdir(all->directory);
  free(all->handles);
  free(all->burn);
}

/* ---- a thousand ---- */

typedef struct seen {
  const copies *all; /* the libraries that count */
  uint64_t inside, whole, cut, skipped;
} seen;

/* In one of the libraries, each of which has a page of code. libc may lie between two of them. */
static bool is_in_a_copy(const copies *all, uint64_t address) {
  for (uint32_t i = 0; i < all->count; i++)
    if (address / 4096 == (uint64_t)(uintptr_t)all->burn[i] / 4096) return true;
  return false;
}

static int see(void *data, const onstack_sample *sample) {
  seen *s = data;
  if (!is_in_a_copy(s->all, sample->frames[0])) return 0;
  s->inside++;
  if (sample->truncation != ONSTACK_TRUNCATED_NOT)
    s->cut++;
  else if (callers_in(sample) == 2 && sample->frame_count >= 5)
    s->whole++;
  else
    s->skipped++;
  return 0;
}

/* How many of them the statistics can name. */
static uint32_t copies_named(const copies *all) {
  char path[300];
  uint32_t named = 0;
  for (uint32_t i = 0; i < all->count; i++) {
    onstack_module module = {.low = 0};
    copy_path(all, i, path);
    if (onstack_modules_find((uint64_t)(uintptr_t)all->burn[i], &module) == ONSTACK_MODULE_HERE)
      named += strcmp(onstack_modules_path(module.number), path) == 0;
  }
  return named;
}

static void burn_in_some(const copies *all, double seconds) {
  const double end = t_thread_cpu() + seconds;
  for (uint32_t i = 0; t_thread_cpu() < end; i++) outer_caller(all->burn[i * 7 % all->count], 300000);
}

static void many(uint32_t count) {
  t_deadline(300);
  copies all = copies_make(count);
  seen s = {.all = &all};
  copies_open(&all);
  onstack_options options = t_options(500, see, &s);
  onstack_session *session = t_start(&options);
  do burn_in_some(&all, 0.2);
  while (s.inside < 200);
  cr_expect_eq(copies_named(&all), count, "%u of %u have their name", copies_named(&all), count);
  t_finish(session);
  fprintf(stderr, "%u libraries: %lu whole, %lu cut, %lu without a caller\n", count, (unsigned long)s.whole,
          (unsigned long)s.cut, (unsigned long)s.skipped);
  cr_expect_eq(s.skipped, 0, "%lu of %lu stacks lack a caller and are called whole", (unsigned long)s.skipped,
               (unsigned long)s.inside);
  cr_expect_geq(s.whole * 100, s.inside * 98, "%lu of %lu", (unsigned long)s.whole, (unsigned long)s.inside);
  copies_close(&all);
  copies_remove(&all);
}

Test(modules_many, a_thousand_and_a_hundred_are_walked_by_their_rules) { many(1100); }

/* The map has room for fewer: what it does not hold must not be taken for code that was generated. */
Test(modules_many, an_address_that_a_full_map_lacks_is_not_known) {
  const uint64_t nowhere = 4096, here = (uint64_t)(uintptr_t)&copies_make;
  onstack_module module = {.low = 0};
  onstack_modules_refresh(0);
  cr_assert_eq(onstack_modules_find(here, &module), ONSTACK_MODULE_HERE);
  cr_assert_eq(onstack_modules_find(nowhere, &module), ONSTACK_MODULE_NONE);
  onstack_modules.left_out = 1;
  cr_assert_eq(onstack_modules_find(nowhere, &module), ONSTACK_MODULES_CHANGING);
}

/* ---- some that come and go ---- */

typedef struct churn {
  uint32_t working; /* 0: the worker ends */
  burner stay;      /* where the worker works; NULL: in this program */
  int32_t tid;
  uint64_t samples, cut, wrong;
} churn;

static volatile unsigned long churn_sum;
__attribute__((noinline)) static void churn_here(unsigned long rounds) {
  for (unsigned long i = 0; i < rounds; i++) churn_sum += i;
}

static void *churn_work(void *data) {
  churn *c = data;
  __atomic_store_n(&c->tid, onstack_sys_gettid(), __ATOMIC_RELEASE);
  while (__atomic_load_n(&c->working, __ATOMIC_RELAXED)) outer_caller(c->stay ? c->stay : churn_here, 3000000);
  return NULL;
}

static int churn_see(void *data, const onstack_sample *sample) {
  churn *c = data;
  if (sample->tid != c->tid) return 0; /* the other one is in libraries that come and go */
  c->samples++;
  c->cut += sample->truncation != ONSTACK_TRUNCATED_NOT;
  c->wrong += sample->truncation == ONSTACK_TRUNCATED_NOT && callers_in(sample) != 2 && callers_in(sample) != 0;
  return 0;
}

/* Seconds that the threads of this library have run, by the scheduler. */
static double own_seconds(void) {
  double sum = 0;
  DIR *tasks = opendir("/proc/self/task");
  cr_assert_not_null(tasks);
  for (struct dirent *task; (task = readdir(tasks));) {
    char path[300], name[32] = "";
    unsigned long long ran = 0;
    snprintf(path, sizeof(path), "/proc/self/task/%s/comm", task->d_name);
    FILE *file = task->d_name[0] == '.' ? NULL : fopen(path, "r");
    if (!file) continue;
    const bool ours = fgets(name, sizeof(name), file) && strncmp(name, "onstack-", 8) == 0;
    fclose(file);
    snprintf(path, sizeof(path), "/proc/self/task/%s/schedstat", task->d_name);
    if (!ours || !(file = fopen(path, "r"))) continue;
    if (fscanf(file, "%llu", &ran) == 1) sum += (double)ran * 1e-9;
    fclose(file);
  }
  closedir(tasks);
  return sum;
}

#define CHURN_COPIES 11u /* a library with ten dependencies */
#define CHURN_PAUSE 0.009

/* A hundred times a second at most, until there are samples enough. */
static double churn_run(copies *all, churn *c) {
  pthread_t worker;
  onstack_profile *profile;
  onstack_session *naming, *session;
  c->working = 1;
  c->samples = c->cut = c->wrong = 0;
  cr_assert_eq(onstack_profile_new(NULL, &profile), 0);
  onstack_options named = t_options(99, onstack_profile_sink, profile), options = t_options(500, churn_see, c);
  named.threads = ONSTACK_ON;
  naming = t_start(&named);
  cr_assert_eq(pthread_create(&worker, NULL, churn_work, c), 0);
  session = t_start(&options);
  t_sleep(0.5);
  const double ran = own_seconds(), begin = t_now();
  while (c->samples < 1000) {
    t_sleep(CHURN_PAUSE);
    copies_open(all);
    copies_close(all);
  }
  const double share = (own_seconds() - ran) / (t_now() - begin);
  __atomic_store_n(&c->working, 0, __ATOMIC_RELAXED);
  pthread_join(worker, NULL);
  t_finish(session);
  t_finish(naming);
  onstack_profile_free(profile);
  fprintf(stderr, "%lu samples, %lu cut, %.2f %% of a processor\n", (unsigned long)c->samples, (unsigned long)c->cut,
          100 * share);
  return share;
}

static void churn_check(burner stay) {
  copies all = copies_make(CHURN_COPIES);
  churn c = {.stay = stay};
  t_deadline(300);
  double share = churn_run(&all, &c);
  /* Each of the two sessions may use 2 % of a processor. On a machine that others use as well, the best of some runs counts. */
  for (int i = 0; i < 4 && (share > 0.04 || c.cut * 100 > c.samples); i++) share = churn_run(&all, &c);
  copies_remove(&all);
  cr_expect_leq(c.cut * 100, c.samples, "%lu of %lu are cut", (unsigned long)c.cut, (unsigned long)c.samples);
  cr_expect_eq(c.wrong, 0);
  cr_expect_leq(share, 0.04, "%.2f %% of a processor", 100 * share);
}

Test(modules_many, those_that_come_and_go_cut_no_stack_of_the_program) { churn_check(NULL); }

Test(modules_many, those_that_come_and_go_cut_no_stack_of_a_library_that_stays) {
  copies one = copies_make(1);
  copies_open(&one);
  churn_check(one.burn[0]);
  copies_close(&one);
  copies_remove(&one);
}
