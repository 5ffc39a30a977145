/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sets of labels in a thread's places: each sample says what its thread worked for at that instant. */
#include "support.h"

#include "sampler/session/slot.h"
#include "sampler/labels/labels.h"
#include "onstack/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(label_sets, .init = t_setup);

/* Each phase burns in a section of its own: what its samples must carry is then exact. */
T_BURNER(phase_0)
T_BURNER(phase_1)
T_BURNER(phase_2)
T_BURNER(phase_3)

#define PHASES 4
static bool (*const phase_is[PHASES])(uint64_t) = {t_in_phase_0, t_in_phase_1, t_in_phase_2, t_in_phase_3};
static void (*const phase_burn[PHASES])(double) = {phase_0, phase_1, phase_2, phase_3};

typedef struct phases {
  struct {
    const char *text; /* NULL: nothing is known of it */
    uint32_t bytes;
  } expected[PHASES];
  uint32_t good[PHASES], bad[PHASES];
  char worst[256]; /* of a bad one, NULs as '|' */
} phases;
#define EXPECT(phases_, phase, literal)                                                                                     \
  ((phases_)->expected[phase].text = (literal), (phases_)->expected[phase].bytes = sizeof(literal))
#define EXPECT_NONE(phases_, phase) ((phases_)->expected[phase].text = "", (phases_)->expected[phase].bytes = 0)

static void phases_keep(phases *seen, const onstack_sample *sample) {
  uint32_t bytes = sample->label_bytes < sizeof(seen->worst) - 1 ? sample->label_bytes : sizeof(seen->worst) - 1;
  for (uint32_t i = 0; i < bytes; i++) seen->worst[i] = sample->labels[i] ? sample->labels[i] : '|';
  seen->worst[bytes] = 0;
}

static int phases_sink(void *data, const onstack_sample *sample) {
  phases *seen = data;
  for (int p = 0; p < PHASES; p++) {
    if (!seen->expected[p].text || !phase_is[p](sample->frames[0])) continue;
    bool good = sample->label_bytes == seen->expected[p].bytes &&
                (sample->label_bytes == 0 || memcmp(sample->labels, seen->expected[p].text, sample->label_bytes) == 0);
    if (!good) phases_keep(seen, sample);
    __atomic_fetch_add(good ? &seen->good[p] : &seen->bad[p], 1, __ATOMIC_RELAXED);
  }
  return 0;
}

static onstack_session *phases_start(phases *seen, uint32_t room) {
  onstack_options options = t_options(500, phases_sink, seen);
  options.label_bytes = room;
  return t_start(&options);
}

/* Burns in a phase until `enough` samples more have been there. */
static void phases_run(phases *seen, int phase, uint32_t enough) {
  uint32_t before = __atomic_load_n(&seen->good[phase], __ATOMIC_RELAXED);
  while (__atomic_load_n(&seen->good[phase], __ATOMIC_RELAXED) < before + enough &&
         __atomic_load_n(&seen->bad[phase], __ATOMIC_RELAXED) == 0)
    phase_burn[phase](0.02);
}

static void phases_check(const phases *seen) {
  for (int p = 0; p < PHASES; p++) cr_expect_eq(seen->bad[p], 0, "phase %d: one has %s", p, seen->worst);
}

static onstack_labels *set_of(const char *key, const char *value) {
  onstack_labels *set;
  const onstack_label label = {key, value};
  return onstack_labels_new(&label, 1, &set) == 0 ? set : NULL;
}

static const onstack_labels *swap(uint32_t place, const onstack_labels *set) {
  const onstack_labels *before = (const onstack_labels *)&before;
  cr_assert_eq(onstack_thread_labels_swap(place, set, &before), 0);
  return before;
}

static void same_text(const onstack_labels *set, const char *text, size_t bytes) {
  uint32_t has;
  const char *got = onstack_labels_text(set, &has);
  cr_expect(has == bytes && memcmp(got, text, bytes) == 0, "%u bytes, %zu expected: %s", has, bytes, got);
}
#define SAME(set, literal) same_text(set, literal, sizeof(literal))

Test(label_sets, have_what_was_given) {
  const onstack_label labels[] = {{"http.route", "/x/{id}"}, {"db-name", "a"}, {"app.io/part", ""}, {"db-name", "b"}};
  onstack_labels *set, *empty;
  cr_assert_eq(onstack_labels_new(labels, 4, &set), 0);
  SAME(set, "http.route\0/x/{id}\0app.io/part\0\0db-name\0b");
  cr_assert_eq(onstack_labels_new(NULL, 0, &empty), 0);
  same_text(empty, "", 0);
  onstack_labels_retain(set);
  onstack_labels_release(set);
  SAME(set, "http.route\0/x/{id}\0app.io/part\0\0db-name\0b");
  onstack_labels_release(set);
  onstack_labels_release(empty);
  onstack_labels_release(NULL);
}

Test(label_sets, bad_ones_are_refused) {
  static const char *const keys[] = {"", "1a", "-a", ".a", "thread", "thread_id", "a b", "a=b", "\xc3\xa4", NULL};
  char huge[ONSTACK_MAX_LABEL_BYTES + 8];
  onstack_labels *set;
  for (size_t i = 0; i < sizeof(keys) / sizeof(*keys); i++) {
    const onstack_label labels[] = {{"fine", "x"}, {keys[i], "x"}};
    set = (onstack_labels *)&set;
    cr_expect_eq(onstack_labels_new(labels, 2, &set), ONSTACK_E_OPTIONS, "%s", keys[i]);
    cr_expect_null(set);
  }
  cr_expect_eq(onstack_labels_new(&(onstack_label){"a", NULL}, 1, &set), ONSTACK_E_OPTIONS);
  cr_expect_eq(onstack_labels_new(NULL, 1, &set), ONSTACK_E_OPTIONS);
  cr_expect_eq(onstack_labels_new(NULL, 0, NULL), ONSTACK_E_OPTIONS);
  memset(huge, 'x', sizeof(huge));
  huge[ONSTACK_MAX_LABEL_BYTES - 3] = 0; /* with "a", and two ends, all that there may be */
  cr_expect_eq(onstack_labels_new(&(onstack_label){"a", huge}, 1, &set), 0);
  onstack_labels_release(set);
  cr_expect_eq(onstack_labels_new(&(onstack_label){"aa", huge}, 1, &set), ONSTACK_E_OPTIONS);
  cr_expect_eq(onstack_thread_labels_swap(ONSTACK_LABELS_PLACES, NULL, NULL), ONSTACK_E_OPTIONS);
}

Test(label_sets, inner_labels_come_first_and_hide_outer_ones) {
  const onstack_label outer_labels[] = {{"route", "/"}, {"tenant", "t"}, {"task", "outer"}};
  onstack_labels *outer, *inner = set_of("task", "inner"), *both;
  cr_assert_eq(onstack_labels_new(outer_labels, 3, &outer), 0);
  cr_assert_eq(onstack_labels_merge(inner, outer, &both), 0);
  SAME(both, "task\0inner\0route\0/\0tenant\0t");
  SAME(inner, "task\0inner");
  onstack_labels_release(both);
  cr_expect_eq(onstack_labels_merge(inner, NULL, &both), ONSTACK_E_OPTIONS);
  cr_expect_null(both);
  onstack_labels_release(inner);
  onstack_labels_release(outer);
}

/* What of the outer set has no room is left out, and every sample says so, in a session with more room too. */
static uint32_t cut_flags[2];
static int cut_sink(void *data, const onstack_sample *sample) {
  (void)data;
  if (sample->label_bytes > 0) cut_flags[(sample->flags & ONSTACK_SAMPLE_LABELS_CUT) != 0]++;
  return 0;
}

Test(label_sets, a_merge_that_is_too_long_says_so) {
  char long_text[3001];
  onstack_labels *inner, *outer, *both;
  memset(long_text, 'x', sizeof(long_text));
  long_text[3000] = 0;
  const onstack_label outer_labels[] = {{"too_long", long_text}, {"short", "stays"}};
  cr_assert_eq(onstack_labels_new(outer_labels, 2, &outer), 0);
  cr_assert_eq(onstack_labels_new(&(onstack_label){"inner", long_text}, 1, &inner), 0);
  cr_assert_eq(onstack_labels_merge(inner, outer, &both), 0);
  uint32_t bytes;
  const char *text = onstack_labels_text(both, &bytes);
  cr_assert_eq(bytes, sizeof("inner") + 3001 + sizeof("short\0stays"));
  cr_assert_str_eq(text + bytes - sizeof("short\0stays"), "short");
  onstack_options options = t_options(500, cut_sink, NULL);
  options.label_bytes = ONSTACK_MAX_LABEL_BYTES;
  onstack_session *session = t_start(&options);
  swap(ONSTACK_LABELS_TASK, both);
  while (__atomic_load_n(&cut_flags[1], __ATOMIC_RELAXED) < 5) t_burn(0.02);
  swap(ONSTACK_LABELS_TASK, NULL);
  t_finish(session);
  cr_assert_eq(cut_flags[0], 0);
  onstack_labels_release(both);
  onstack_labels_release(outer);
  onstack_labels_release(inner);
}

Test(label_sets, come_and_go_by_a_swap) {
  phases *seen = calloc(1, sizeof(*seen));
  onstack_labels *task = set_of("task", "a"), *nested = set_of("task", "b"), *span = set_of("span", "s");
  EXPECT_NONE(seen, 0);
  EXPECT(seen, 1, "task\0a");
  EXPECT(seen, 2, "task\0b\0span\0s\0worker\0w"); /* in this order, the thread's own behind */
  EXPECT(seen, 3, "span\0s\0worker\0w");
  onstack_session *session = phases_start(seen, 128);
  for (unsigned round = 0; round < t_repeat(); round++) {
    phases_run(seen, 0, 10);
    cr_assert_null(swap(ONSTACK_LABELS_TASK, task));
    phases_run(seen, 1, 10);
    cr_assert_eq(swap(ONSTACK_LABELS_TASK, nested), task);
    cr_assert_null(swap(ONSTACK_LABELS_SPAN, span));
    cr_assert_eq(onstack_thread_label_set("worker", "w"), 0);
    phases_run(seen, 2, 10);
    cr_assert_eq(swap(ONSTACK_LABELS_TASK, task), nested);
    cr_assert_eq(swap(ONSTACK_LABELS_TASK, NULL), task);
    phases_run(seen, 3, 10);
    cr_assert_eq(onstack_thread_labels_swap(ONSTACK_LABELS_SPAN, NULL, NULL), 0);
    onstack_thread_labels_clear();
  }
  t_finish(session);
  phases_check(seen);
}

Test(label_sets, each_session_has_its_own_room) {
  phases *seen[3];
  onstack_session *sessions[3];
  static const uint32_t rooms[3] = {0, 16, 256};
  onstack_labels *set;
  const onstack_label labels[] = {{"a", "1"}, {"long", "twenty bytes of text"}, {"b", "2"}};
  cr_assert_eq(onstack_labels_new(labels, 3, &set), 0);
  for (int i = 0; i < 3; i++) {
    seen[i] = calloc(1, sizeof(*seen[i]));
    sessions[i] = phases_start(seen[i], rooms[i]);
  }
  EXPECT_NONE(seen[0], 1);
  EXPECT(seen[1], 1, "a\0001\0b\0002");
  EXPECT(seen[2], 1, "a\0001\0long\0twenty bytes of text\0b\0002");
  swap(ONSTACK_LABELS_TASK, set);
  for (int i = 0; i < 3; i++) phases_run(seen[i], 1, 5);
  swap(ONSTACK_LABELS_TASK, NULL);
  for (int i = 0; i < 3; i++) {
    t_finish(sessions[i]);
    phases_check(seen[i]);
  }
}

Test(label_sets, what_is_in_a_place_is_answered) {
  onstack_labels *set;
  cr_assert_null(onstack_thread_labels_get(ONSTACK_LABELS_TASK), "of a thread that has had none");
  cr_assert_eq(onstack_labels_new(&(onstack_label){"a", "1"}, 1, &set), 0);
  swap(ONSTACK_LABELS_TASK, set);
  cr_expect_eq(onstack_thread_labels_get(ONSTACK_LABELS_TASK), set);
  cr_expect_null(onstack_thread_labels_get(ONSTACK_LABELS_SPAN));
  cr_expect_null(onstack_thread_labels_get(ONSTACK_LABELS_PLACES), "no such place");
  swap(ONSTACK_LABELS_TASK, NULL);
  cr_expect_null(onstack_thread_labels_get(ONSTACK_LABELS_TASK));
  onstack_labels_release(set);
}

/* ---- sets that are freed as soon as they are out ---- */

typedef struct storm {
  uint32_t whole, torn, over;
  char torn_text[64];
} storm;

/* "a\0N\0b\0N\0", the same number twice. */
static int storm_sink(void *data, const onstack_sample *sample) {
  storm *seen = data;
  int a = -1, b = -2, used = 0;
  if (sample->label_bytes == 0) return 0;
  char text[64] = {0};
  for (uint32_t i = 0; i < sample->label_bytes && i < 63; i++) text[i] = sample->labels[i] ? sample->labels[i] : ' ';
  const bool whole = sscanf(text, "a %d b %d %n", &a, &b, &used) == 2 && a == b && used == (int)sample->label_bytes;
  __atomic_fetch_add(whole ? &seen->whole : &seen->torn, 1, __ATOMIC_RELAXED);
  if (!whole) memcpy(seen->torn_text, text, sizeof(text));
  return 0;
}

static void *storm_thread(void *data) {
  storm *seen = data;
  for (unsigned round = (unsigned)onstack_sys_gettid() * 10000; !__atomic_load_n(&seen->over, __ATOMIC_RELAXED); round++) {
    char number[16];
    const onstack_labels *before;
    onstack_labels *set;
    snprintf(number, sizeof(number), "%u", round);
    const onstack_label labels[] = {{"a", number}, {"b", number}};
    cr_assert_eq(onstack_labels_new(labels, 2, &set), 0);
    cr_assert_eq(onstack_thread_labels_swap(ONSTACK_LABELS_TASK, set, &before), 0);
    cr_assert_null(before);
    for (volatile int i = 0; i < 200; i++) continue;
    cr_assert_eq(onstack_thread_labels_swap(ONSTACK_LABELS_TASK, NULL, &before), 0);
    cr_assert_eq(before, set);
    uint32_t bytes;
    memset((char *)(uintptr_t)onstack_labels_text(set, &bytes), 'z', 8); /* what a handler must not see any more */
    onstack_labels_release(set);
  }
  return NULL;
}

Test(label_sets, that_are_freed_at_once_are_always_whole) {
  storm *seen = calloc(1, sizeof(*seen));
  pthread_t threads[4];
  onstack_options options = t_options(1000, storm_sink, seen);
  options.label_bytes = 64;
  onstack_session *sessions[3];
  for (int i = 0; i < 3; i++) sessions[i] = t_start(&options); /* more instants: each has its own phase */
  for (int i = 0; i < 4; i++) pthread_create(&threads[i], NULL, storm_thread, seen);
  while (__atomic_load_n(&seen->whole, __ATOMIC_RELAXED) < 400 && __atomic_load_n(&seen->torn, __ATOMIC_RELAXED) == 0)
    t_sleep(0.05);
  seen->over = 1;
  for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
  for (int i = 0; i < 3; i++) t_finish(sessions[i]);
  cr_assert_eq(seen->torn, 0, "%s", seen->torn_text);
}

/* ---- threads that begin and end ---- */

static void *labelled_from_its_beginning(void *set) {
  swap(ONSTACK_LABELS_TASK, set);
  phase_1(0.004);
  swap(ONSTACK_LABELS_TASK, NULL);
  return NULL;
}

/* Most are met by the process's tick alone: before they have a timer. */
Test(label_sets, short_threads_have_their_labels) {
  phases *seen = calloc(1, sizeof(*seen));
  onstack_labels *set = set_of("task", "short");
  EXPECT(seen, 1, "task\0short");
  onstack_session *session = phases_start(seen, 64);
  while (__atomic_load_n(&seen->good[1], __ATOMIC_RELAXED) < 20 && __atomic_load_n(&seen->bad[1], __ATOMIC_RELAXED) == 0) {
    pthread_t threads[8];
    for (int i = 0; i < 8; i++) cr_assert_eq(pthread_create(&threads[i], NULL, labelled_from_its_beginning, set), 0);
    for (int i = 0; i < 8; i++) pthread_join(threads[i], NULL);
  }
  t_finish(session);
  phases_check(seen);
}

typedef struct ending {
  int32_t tid;
  pthread_key_t before, after; /* keys whose destructors run before that of the library, and after it */
  onstack_labels *set;
  int early, late, late_own;
  const onstack_labels *late_before;
} ending;

static void ends_early(void *data) {
  ending *end = data;
  end->early = onstack_thread_labels_swap(ONSTACK_LABELS_TASK, end->set, NULL);
}

static void ends_late(void *data) {
  ending *end = data;
  end->late_before = (const onstack_labels *)data;
  end->late = onstack_thread_labels_swap(ONSTACK_LABELS_TASK, end->set, &end->late_before);
  end->late_own = onstack_thread_label_set("late", "label");
  onstack_thread_labels_clear();
}

static void *ends_with_a_set(void *data) {
  ending *end = data;
  end->tid = onstack_sys_gettid();
  cr_assert_eq(onstack_thread_labels_swap(ONSTACK_LABELS_TASK, end->set, NULL), 0);
  cr_assert_eq(onstack_thread_label_set("own", "label"), 0);
  cr_assert_not_null(onstack_label_entry_find((uint32_t)end->tid));
  pthread_setspecific(end->before, end);
  pthread_setspecific(end->after, end);
  return NULL;
}

Test(label_sets, nothing_is_left_of_a_thread_that_ends_with_one) {
  ending end = {.set = set_of("task", "left")};
  cr_assert_eq(pthread_key_create(&end.before, ends_early), 0);
  swap(ONSTACK_LABELS_TASK, end.set); /* the library makes its key */
  swap(ONSTACK_LABELS_TASK, NULL);
  cr_assert_eq(pthread_key_create(&end.after, ends_late), 0);
  pthread_t thread;
  pthread_create(&thread, NULL, ends_with_a_set, &end);
  pthread_join(thread, NULL);
  cr_expect_eq(end.early, 0);
  cr_expect_eq(end.late, ONSTACK_E_CONTEXT);
  cr_expect_null(end.late_before);
  cr_expect_eq(end.late_own, ONSTACK_E_CONTEXT);
  cr_expect_null(onstack_label_entry_find((uint32_t)end.tid));
  onstack_labels_release(end.set);
}

static void raw_burns(void *unused) {
  (void)unused;
  for (int i = 0; i < 20; i++) t_burn(0.01);
}

static uint32_t raw_samples, raw_labelled;
static int32_t raw_tid;
static int raw_sink(void *data, const onstack_sample *sample) {
  (void)data;
  if (sample->tid != __atomic_load_n(&raw_tid, __ATOMIC_RELAXED)) return 0;
  raw_samples++;
  raw_labelled += sample->label_bytes > 0;
  return 0;
}

/* It has no thread-local storage to look at. */
Test(label_sets, a_thread_without_libc_has_none) {
  enum { stack_bytes = 1 << 18 };
  onstack_labels *set = set_of("task", "of another thread");
  onstack_options options = t_options(500, raw_sink, NULL);
  options.label_bytes = 64;
  onstack_session *session = t_start(&options);
  swap(ONSTACK_LABELS_TASK, set);
  void *stack = mmap(NULL, stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  for (int tries = 0; tries < 20 && raw_samples < 5; tries++) {
    int32_t gone = 1;
    __atomic_store_n(&raw_tid, t_raw_thread(raw_burns, NULL, stack, stack_bytes, &gone), __ATOMIC_RELAXED);
    t_raw_join(&gone);
  }
  swap(ONSTACK_LABELS_TASK, NULL);
  t_finish(session);
  cr_assert_geq(raw_samples, 5);
  cr_assert_eq(raw_labelled, 0);
}

/* ---- children ---- */

#define CHILD(condition, step)                                                                                              \
  do {                                                                                                                      \
    if (!(condition)) _exit(step);                                                                                          \
  } while (0)

/* Until a sample has come from a phase; 0: as expected. */
static int child_phase(phases *seen, int phase) {
  onstack_options options;
  onstack_session *session;
  memset(seen->good, 0, sizeof(seen->good));
  onstack_options_init(&options, sizeof(options));
  options.frequency = 500;
  options.label_bytes = 64;
  options.sink = phases_sink;
  options.sink_data = seen;
  if (onstack_session_start(&options, &session) != 0) return 1;
  phases_run(seen, phase, 3);
  return onstack_session_free(session) == 0 && seen->good[phase] >= 3 && seen->bad[phase] == 0 ? 0 : 2;
}

static void child_in_a_scope(phases *seen, const onstack_labels *set) {
  const onstack_labels *before;
  t_deadline(30);
  CHILD(child_phase(seen, 1) == 0, 1);
  CHILD(onstack_thread_labels_swap(ONSTACK_LABELS_TASK, NULL, &before) == 0 && before == set, 2);
  CHILD(child_phase(seen, 0) == 0, 3);
  CHILD(onstack_thread_label_set("own", "still") == 0, 4);
  CHILD(onstack_thread_labels_swap(ONSTACK_LABELS_TASK, set, &before) == 0 && !before, 5);
  CHILD(child_phase(seen, 2) == 0, 6);
  _exit(0);
}

static void *holds_labels(void *set) {
  swap(ONSTACK_LABELS_TASK, set);
  t_sleep(1000);
  return NULL;
}

static void forks_in_a_scope(int (*make)(void)) {
  phases *seen = calloc(1, sizeof(*seen));
  onstack_labels *set = set_of("task", "forks"), *other = set_of("task", "is not there");
  pthread_t thread;
  EXPECT_NONE(seen, 0);
  EXPECT(seen, 1, "task\0forks");
  EXPECT(seen, 2, "task\0forks\0own\0still");
  pthread_create(&thread, NULL, holds_labels, other);
  swap(ONSTACK_LABELS_TASK, set);
  for (int i = 0; i < 3; i++) {
    int child = make();
    if (child == 0) child_in_a_scope(seen, set);
    cr_assert_eq(t_wait(child), 0);
  }
  cr_assert_eq(swap(ONSTACK_LABELS_TASK, NULL), set);
}

static int fork_underscore(void) { return _Fork(); }
Test(label_sets, a_child_goes_on_in_the_scope) { forks_in_a_scope(fork); }
Test(label_sets, a_child_without_atfork_handlers_goes_on_in_the_scope) { forks_in_a_scope(fork_underscore); }

static void *calls_first(void *unused) { return onstack_thread_label_set("first", "call") == 0 ? unused : NULL; }

/* Then nobody can tell which entry is the forking thread's, and it begins anew. */
Test(label_sets, a_child_whose_other_thread_calls_first_begins_anew) {
  phases *seen = calloc(1, sizeof(*seen));
  onstack_labels *set = set_of("task", "anew");
  EXPECT_NONE(seen, 0);
  EXPECT(seen, 1, "task\0anew");
  swap(ONSTACK_LABELS_TASK, set);
  int child = _Fork();
  if (child == 0) {
    pthread_t thread;
    void *result = NULL;
    const onstack_labels *before = set;
    t_deadline(30);
    CHILD(pthread_create(&thread, NULL, calls_first, set) == 0 && pthread_join(thread, &result) == 0 && result == set, 10);
    CHILD(child_phase(seen, 0) == 0, 11);
    CHILD(onstack_thread_labels_swap(ONSTACK_LABELS_TASK, NULL, &before) == 0 && !before, 12);
    CHILD(onstack_thread_labels_swap(ONSTACK_LABELS_TASK, set, &before) == 0 && !before, 13);
    CHILD(child_phase(seen, 1) == 0, 14);
    pthread_exit(NULL); /* the destructor runs on what was the parent's thread */
  }
  cr_assert_eq(t_wait(child), 0);
  cr_assert_eq(swap(ONSTACK_LABELS_TASK, NULL), set);
}

/* ---- other sources ---- */

static uint32_t heap_labelled;
static int heap_sink(void *data, const onstack_sample *sample) {
  static const char text[] = "task\0allocates";
  (void)data;
  if (sample->kind == ONSTACK_KIND_ALLOCATION && sample->label_bytes == sizeof(text) &&
      memcmp(sample->labels, text, sizeof(text)) == 0)
    heap_labelled++;
  return 0;
}

Test(label_sets, allocations_carry_them) {
  onstack_options options;
  onstack_options_init(&options, sizeof(options));
  options.clock = ONSTACK_CLOCK_HEAP;
  options.heap_interval = 1;
  options.label_bytes = 64;
  options.sink = heap_sink;
  onstack_labels *set = set_of("task", "allocates");
  onstack_session *session = t_start(&options);
  onstack_heap_allocated((void *)0x100000000000, 100);
  swap(ONSTACK_LABELS_TASK, set);
  for (int i = 1; i <= 50; i++) onstack_heap_allocated((void *)(0x100000000000 + 4096 * (uintptr_t)i), 100);
  swap(ONSTACK_LABELS_TASK, NULL);
  onstack_heap_allocated((void *)0x200000000000, 100);
  t_finish(session);
  cr_assert_eq(heap_labelled, 50);
}
