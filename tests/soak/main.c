/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Usage: soak PLACE SECONDS [SEED]
 *
 * Runs all workers at once, in rounds. When a round is over they have all ended, and then the process must be as it was
 * after the first round: descriptors, threads, timers, memory; the first owner's action is installed. During it every
 * session closes its accounting, every foreign signal reaches one owner once, no child is lost, and nobody stands still for a
 * minute and a half. Prints a line a round and a closing one. Exit status 1 and "FAILED" where something was wrong.
 */
#include "soak.h"

#include <dirent.h>
#include <malloc.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define ROUND_SECONDS 20.0
#define HANG_SECONDS 90
#define ROUNDS_AT_LEAST 4
/* Thread records for each session at once lie at a place by the thread's id (16,384 of 128 bytes and a note), and stay when the
   session ends: eight sessions of the linked library, one at a time of each copy. */
#define OWN_AT_MOST ((uint64_t)32 << 20)

volatile bool soak_resting;
const char *soak_place;
static uint64_t failures;

static soak_worker workers[] = {
    {.name = "burner", .run = soak_run_burner},
    {.name = "burner", .run = soak_run_burner, .number = 1},
    {.name = "burner", .run = soak_run_burner, .number = 2},
    {.name = "wild", .run = soak_run_wild},
    {.name = "wild", .run = soak_run_wild, .number = 1},
    {.name = "flips", .run = soak_run_flips},
    {.name = "flips", .run = soak_run_flips, .number = 1},
    {.name = "flips", .run = soak_run_flips, .number = 2},
    {.name = "flips", .run = soak_run_flips, .number = 3},
    {.name = "threads", .run = soak_run_threads},
    {.name = "threads", .run = soak_run_threads, .number = 1},
    {.name = "modules", .run = soak_run_modules},
    {.name = "modules", .run = soak_run_modules, .number = 1},
    {.name = "failing modules", .run = soak_run_failing},
    {.name = "fibers", .run = soak_run_fibers},
    {.name = "fibers", .run = soak_run_fibers, .number = 1},
    {.name = "forks", .run = soak_run_forks},
    {.name = "sender", .run = soak_run_sender},
    {.name = "sender", .run = soak_run_sender, .number = 1},
    {.name = "owners", .run = soak_run_owners},
    {.name = "sessions", .run = soak_run_sessions},
    {.name = "sessions", .run = soak_run_sessions, .number = 1},
    {.name = "sessions", .run = soak_run_sessions, .number = 2},
    {.name = "sessions", .run = soak_run_sessions, .number = 3},
    {.name = "heap", .run = soak_run_heap},
    {.name = "storm", .run = soak_run_storm},
    {.name = "storm", .run = soak_run_storm, .number = 1},
    {.name = "other signal", .run = soak_run_other_signal},
    {.name = "a copy", .run = soak_run_a_copy},
    {.name = "a copy", .run = soak_run_a_copy, .number = 1},
};
#define WORKERS (sizeof(workers) / sizeof(workers[0]))

void soak_fail(const char *format, ...) {
  va_list arguments;
  soak_count(&failures, 1);
  if (failures > 50) return;
  va_start(arguments, format);
  char text[400];
  vsnprintf(text, sizeof(text), format, arguments);
  printf("FAILED: %s\n", text);
  fflush(stdout);
  va_end(arguments);
}

/* ---- who stands still ---- */

static void *watch(void *unused) {
  static uint64_t before[WORKERS];
  static int still[WORKERS];
  sigset_t all;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, NULL);
  for (;;) {
    soak_sleep(1);
    for (size_t i = 0; i < WORKERS; i++) {
      uint64_t beats = __atomic_load_n(&workers[i].beats, __ATOMIC_RELAXED);
      still[i] = beats == before[i] && workers[i].works ? still[i] + 1 : 0;
      before[i] = beats;
      if (still[i] < HANG_SECONDS) continue;
      printf("soak: FAILED: worker %zu (%s) stands still, process %d\n", i, workers[i].name, (int)getpid());
      fflush(stdout);
      abort();
    }
  }
  return unused;
}

/* ---- what is left behind ---- */

typedef struct traces {
  int descriptors, threads, timers;
  uint64_t own, others; /* bytes of memory: the library's and its copies', the rest of the process */
} traces;

static int entries(const char *path) {
  int count = 0;
  DIR *directory = opendir(path);
  if (!directory) return -1;
  while (readdir(directory)) count++;
  closedir(directory);
  return count;
}

static traces look(void) {
  char line[256];
  unsigned long size, resident = 0;
  traces now = {.descriptors = entries("/proc/self/fd"), .threads = entries("/proc/self/task")};
  malloc_trim(0);
  FILE *file = fopen("/proc/self/statm", "r");
  if (file && fscanf(file, "%lu %lu", &size, &resident) != 2) resident = 0;
  if (file) fclose(file);
  file = fopen("/proc/self/timers", "r");
  while (file && fgets(line, sizeof(line), file)) now.timers += strncmp(line, "ID:", 3) == 0;
  if (file) fclose(file);
  now.own = soak_own_memory();
  now.others = resident * (uint64_t)sysconf(_SC_PAGESIZE) - now.own;
  return now;
}

/* The preload samples all the time, with timers of its own. */
static int timers_too_many(const traces *now) { return getenv("ONSTACK_PROFILE") ? 0 : now->timers; }

/* After a clean start and stop, which puts an end to the pass-through that an owner may have put back (docs/SIGNALS.md). */
static void check_rest(const traces *first, const traces *now) {
  onstack_session *session;
  if (onstack_session_start(NULL, &session) == 0) onstack_session_free(session);
  if (!soak_first_owner_is_back()) soak_fail("the first owner's action is not back");
  if (now->descriptors != first->descriptors || now->threads != first->threads || timers_too_many(now) != 0)
    soak_fail("left behind: %d descriptors, %d threads, %d timers; before %d, %d, 0", now->descriptors, now->threads,
              now->timers, first->descriptors, first->threads);
  if (now->own > OWN_AT_MOST) soak_fail("the library keeps %lu KiB", (unsigned long)(now->own >> 10));
  soak_trend_add(now->others, soak_sessions.sessions);
}

/* ---- rounds ---- */

static void *work(void *data) {
  soak_worker *worker = data;
  int place = soak_posts_open();
  worker->works = true;
  worker->run(worker);
  worker->works = false;
  soak_posts_close(place);
  return NULL;
}

static void run_round(double seconds) {
  soak_resting = false;
  for (size_t i = 0; i < WORKERS; i++)
    if (pthread_create(&workers[i].thread, NULL, work, &workers[i]) != 0) abort();
  soak_sleep(seconds);
  soak_resting = true;
  for (size_t i = 0; i < WORKERS; i++) pthread_join(workers[i].thread, NULL);
  /* The kernel clears a joined thread's place in /proc a little later. */
  soak_sleep(0.2);
  soak_check_posts();
}

static void check_sums(void) {
  const soak_signal_sums *s = &soak_signals;
  const soak_sums *b = &soak_sessions;
  const struct {
    const char *what;
    uint64_t times;
  } happened[] = {
      {"sessions", b->sessions},
      {"ticks", b->ticks},
      {"samples cut short", b->truncated},
      {"forks", soak_forks},
      {"children that execute", soak_forks_executed},
      {"threads", soak_threads},
      {"modules", soak_modules},
      {"modules in the place of others", soak_modules_in_place},
      {"modules that cannot be opened", soak_modules_failed},
      {"fibers", soak_fibers},
      {"flips of memory", soak_flips},
      {"foreign signals", s->sent},
      {"owners", s->owners},
      {"signals to others", soak_posts},
      {"bursts of wild code", soak_wild},
      {"samples of wild code", soak_wild_samples},
      {"heap sessions", soak_heap.sessions},
      {"samples of allocations", soak_heap.samples},
      {"ends of allocations", soak_heap.ended},
  };
  for (size_t i = 0; i < sizeof(happened) / sizeof(*happened); i++)
    if (happened[i].times == 0) soak_fail("no %s: this was no storm", happened[i].what);
  /* A window of some 100 ns in some 4 ms, for each session that samples the sender: a thousandth is far above it. */
  if (s->merged > 20 + s->sent / 1000) soak_fail("%lu of %lu foreign SIGPROF are lost", s->merged, s->sent);
  if (soak_forks_merged > 5 + soak_forks_sent / 1000)
    soak_fail("%lu of %lu foreign SIGPROF are lost in children", soak_forks_merged, soak_forks_sent);
  if (b->looped != 0) soak_fail("%lu signals went in a circle", b->looped);
  if (b->swallowed != 0) soak_fail("%lu signals were swallowed over a handler", b->swallowed);
}

static void print_sums(double seconds, const traces *first, const traces *now) {
  const soak_signal_sums *s = &soak_signals;
  const soak_sums *b = &soak_sessions;
  printf("ticks %lu = recorded %lu + unattributed %lu + ring full %lu + no stack %lu + unwinder %lu + stopping %lu\n",
         b->ticks, b->recorded, b->unattributed, b->ring_full, b->no_stack, b->unwinder, b->stopping);
  printf("samples cut %lu, refused by sinks %lu, folded bytes %lu; slowest start %lu ms, stop %lu ms; starts refused for "
         "EAGAIN %lu; late %lu, looped %lu\n",
         b->truncated, b->sink, b->profile_bytes, b->slowest_start_us / 1000, b->slowest_stop_us / 1000, b->refused, b->late,
         b->looped);
  printf("owners %lu, their ITIMER_PROF %lu and timer signals %lu; SIGPROF merged by the kernel %lu, in children %lu\n",
         s->owners, s->itimer, s->timer, s->merged, soak_forks_merged);
  printf("bursts of wild code %lu, samples of them %lu; signals to other threads %lu; fibers %lu; modules in the place of "
         "others %lu, that cannot be opened %lu\n",
         soak_wild, soak_wild_samples, soak_posts, soak_fibers, soak_modules_in_place, soak_modules_failed);
  printf("heap sessions %lu: of %lu blocks %lu counted, ring full %lu; samples %lu, ended %lu, untracked %lu\n",
         soak_heap.sessions, soak_blocks, soak_heap.allocations, soak_heap.ring_full, soak_heap.samples, soak_heap.ended,
         soak_heap.untracked);
  printf("memory %lu KiB after the second round, %lu now, and of the library %lu and %lu; descriptors %d and %d\n",
         (unsigned long)(first->others >> 10), (unsigned long)(now->others >> 10), (unsigned long)(first->own >> 10),
         (unsigned long)(now->own >> 10), first->descriptors, now->descriptors);
  soak_trend trend;
  if (soak_trend_check(&trend))
    printf("memory %lu KiB in the early rounds, %lu in the late ones, %lu sessions between them\n", trend.early >> 10,
           trend.late >> 10, trend.sessions);
  printf("soak: %s: %.0f s, %lu sessions, %lu ticks, %lu foreign signals, %lu forks, %lu threads, %lu modules opened, "
         "%lu flips of memory%s\n",
         failures ? "FAILED" : "ok", seconds, b->sessions, b->ticks, s->sent + s->queued + soak_posts, soak_forks,
         soak_threads, soak_modules, soak_flips, failures ? "" : ": accounting closed, nothing lost, nothing left behind");
}

int main(int argc, char **argv) {
  double seconds = argc > 2 ? atof(argv[2]) : 0, begin = soak_now();
  pthread_t watcher;
  traces first = {0}, now;
  if (seconds <= 0) return fprintf(stderr, "usage: soak PLACE SECONDS [SEED]\n"), 2;
  soak_place = argv[1];
  /* Otherwise it rises to twice the largest block that was freed, and each of sixteen arenas keeps as much (mallopt(3)). */
  mallopt(M_TRIM_THRESHOLD, 128 << 10);
  unsigned seed = argc > 3 ? (unsigned)atoi(argv[3]) : (unsigned)getpid();
  printf("soak: %.0f s in rounds of %.0f s at most, seed %u\n", seconds, ROUND_SECONDS, seed);
  soak_reserve_wild_pages();
  soak_posts_open(); /* the first thread's, for ever */
  soak_open_copies();
  for (size_t i = 0; i < WORKERS; i++) workers[i].seed = seed + (unsigned)i * 7919;
  pthread_create(&watcher, NULL, watch, NULL);
  double round = seconds / ROUNDS_AT_LEAST < ROUND_SECONDS ? seconds / ROUNDS_AT_LEAST : ROUND_SECONDS;
  for (int number = 1; number <= ROUNDS_AT_LEAST || soak_now() - begin + round / 2 < seconds; number++) {
    soak_install_first_owner(number);
    run_round(round);
    now = look();
    if (number <= 2) first = now;
    check_rest(&first, &now);
    printf("round %d: %lu sessions, %lu ticks, %lu KiB and %lu of the library, %lu wrong\n", number, soak_sessions.sessions,
           soak_sessions.ticks, (unsigned long)(now.others >> 10), (unsigned long)(now.own >> 10), failures);
    fflush(stdout);
  }
  check_sums();
  print_sums(soak_now() - begin, &first, &now);
  return failures != 0;
}
