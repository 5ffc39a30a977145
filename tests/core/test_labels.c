/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Labels that the application gives to threads: in the samples of that thread, at the right times, and nowhere else. */
#include "support.h"
#include "onstack/heap.h"
#include "onstack/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

TestSuite(labels, .init = t_setup);

#define PAIR_BYTES 64
typedef struct seen {
  int32_t tid;
  uint32_t flags, bytes;
  char text[256];
} seen;

#define SEEN 4000
typedef struct seen_list {
  uint32_t count;
  seen items[SEEN];
} seen_list;

static int see(void *data, const onstack_sample *sample) {
  seen_list *list = data;
  if (list->count == SEEN) return 1;
  seen *item = &list->items[list->count++];
  item->tid = sample->tid;
  item->flags = sample->flags;
  item->bytes = sample->label_bytes;
  if (sample->label_bytes > sizeof(item->text) || (!sample->labels) != (sample->label_bytes == 0)) return 1;
  if (sample->label_bytes) memcpy(item->text, sample->labels, sample->label_bytes);
  return 0;
}

static onstack_session *seeing(seen_list *list, uint32_t room) {
  onstack_options options = t_options(500, see, list);
  options.label_bytes = room;
  return t_start(&options);
}

static bool is(const seen *item, const char *text, size_t bytes) {
  return item->bytes == bytes && memcmp(item->text, text, bytes) == 0;
}
#define IS(item, literal) is(item, literal, sizeof(literal)) /* the literal's own NUL ends the last value */

static uint32_t with(const seen_list *list, int32_t tid, const char *text, size_t bytes) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < list->count; i++)
    count += (tid == 0 || list->items[i].tid == tid) && is(&list->items[i], text, bytes);
  return count;
}
#define WITH(list, tid, literal) with(list, tid, literal, sizeof(literal))

Test(labels, come_change_and_go) {
  seen_list *list = calloc(1, sizeof(*list));
  cr_assert_eq(onstack_thread_label_set("before", "start"), 0);
  onstack_session *session = seeing(list, 128);
  t_burn(0.1);
  cr_assert_eq(onstack_thread_label_set("request", "17"), 0);
  t_burn(0.1);
  cr_assert_eq(onstack_thread_label_set("request", "a longer one"), 0);
  t_burn(0.1);
  cr_assert_eq(onstack_thread_label_set("before", NULL), 0);
  cr_assert_eq(onstack_thread_label_set("empty", ""), 0);
  t_burn(0.1);
  onstack_thread_labels_clear();
  t_burn(0.1);
  t_finish(session);
  uint32_t parts[5] = {WITH(list, 0, "before\0start"), WITH(list, 0, "request\00017\0before\0start"),
                       WITH(list, 0, "request\0a longer one\0before\0start"),
                       WITH(list, 0, "empty\0\0request\0a longer one"), with(list, 0, "", 0)};
  for (int i = 0; i < 5; i++) cr_assert_gt(parts[i], 3, "part %d: %u", i, parts[i]);
  cr_assert_eq(parts[0] + parts[1] + parts[2] + parts[3] + parts[4], list->count, "and no others");
}

typedef struct labelled {
  pthread_t thread;
  int number;
  int32_t tid;
} labelled;

static void *burns_labelled(void *data) {
  labelled *l = data;
  char text[16];
  l->tid = onstack_sys_gettid();
  for (int i = 0; i < 400; i++) { /* changes all the while */
    snprintf(text, sizeof(text), "%d-%d", l->number, i);
    if (l->number > 0) onstack_thread_label_set("worker", text);
    t_burn(0.001);
  }
  return NULL;
}

Test(labels, belong_to_one_thread_and_are_always_whole) {
  seen_list *list = calloc(1, sizeof(*list));
  labelled workers[4];
  onstack_session *session = seeing(list, 64);
  for (int i = 0; i < 4; i++) {
    workers[i] = (labelled){.number = i};
    pthread_create(&workers[i].thread, NULL, burns_labelled, &workers[i]);
  }
  for (int i = 0; i < 4; i++) pthread_join(workers[i].thread, NULL);
  t_finish(session);
  uint32_t known = 0;
  for (uint32_t i = 0; i < list->count; i++) {
    const seen *item = &list->items[i];
    for (int w = 0; w < 4; w++) {
      int number = -1, step = -1;
      if (item->tid != workers[w].tid) continue;
      known += w > 0 && item->bytes > 0;
      if (w == 0 || item->bytes == 0) {
        cr_assert_eq(item->bytes, 0, "worker %d", w); /* before its first label, and the one without */
        continue;
      }
      cr_assert(strcmp(item->text, "worker") == 0 && sscanf(item->text + 7, "%d-%d", &number, &step) == 2);
      cr_assert_eq(number, w);
      cr_assert_eq(strlen(item->text + 7) + 8, item->bytes);
    }
  }
  cr_assert_gt(known, 150);
}

static void *labels_itself(void *unused) {
  onstack_thread_label_set("gone", "with the thread");
  return unused;
}
static void *burns_unlabelled(void *data) {
  *(int32_t *)data = onstack_sys_gettid();
  t_burn(0.05);
  return NULL;
}

/* The table is keyed by the kernel's ids, which come again: entries must not outlive their threads, nor fill the table. */
Test(labels, end_with_their_thread) {
  seen_list *list = calloc(1, sizeof(*list));
  pthread_t thread;
  int32_t tid;
  for (int i = 0; i < 20000; i++) {
    cr_assert_eq(pthread_create(&thread, NULL, labels_itself, NULL), 0);
    pthread_join(thread, NULL);
  }
  onstack_session *session = seeing(list, 64);
  pthread_create(&thread, NULL, burns_unlabelled, &tid);
  pthread_join(thread, NULL);
  cr_assert_eq(onstack_thread_label_set("still", "room"), 0);
  t_burn(0.05);
  t_finish(session);
  cr_assert_gt(with(list, tid, "", 0), 3);
  cr_assert_gt(WITH(list, onstack_sys_gettid(), "still\0room"), 3);
}

/* An allocation has those of the moment at which it was made. */
Test(labels, are_those_of_an_allocation) {
  seen_list *list = calloc(1, sizeof(*list));
  onstack_options options = t_options(0, see, list);
  options.clock = ONSTACK_CLOCK_HEAP;
  options.heap_interval = 1;
  options.label_bytes = 128;
  onstack_session *session = t_start(&options);
  const char *block = (const char *)0x100000000000;
  onstack_heap_allocated(block, 64);
  cr_assert_eq(onstack_thread_label_set("request", "7"), 0);
  onstack_heap_allocated(block + 64, 64);
  onstack_thread_labels_clear();
  onstack_heap_allocated(block + 128, 64);
  t_finish(session);
  cr_assert_eq(list->count, 3);
  cr_assert(list->items[0].bytes == 0 &&
            IS(&list->items[1], "request\0"
                                "7") &&
            list->items[2].bytes == 0);
  free(list);
}

Test(labels, what_does_not_fit_is_left_out_whole_and_said) {
  seen_list *list = calloc(1, sizeof(*list));
  onstack_thread_label_set("a", "1");
  onstack_thread_label_set("long", "twenty bytes of text");
  onstack_thread_label_set("b", "2");
  onstack_session *session = seeing(list, 16);
  t_burn(0.1);
  t_finish(session);
  cr_assert_gt(list->count, 3);
  for (uint32_t i = 0; i < list->count; i++) {
    cr_assert(IS(&list->items[i], "b\0002\0a\0001"));
    cr_assert(list->items[i].flags & ONSTACK_SAMPLE_LABELS_CUT);
  }
}

Test(labels, sessions_without_room_carry_none) {
  seen_list *list = calloc(1, sizeof(*list));
  onstack_thread_label_set("a", "1");
  onstack_session *session = seeing(list, 0);
  t_burn(0.05);
  t_finish(session);
  cr_assert_eq(with(list, 0, "", 0), list->count);
  cr_assert_gt(list->count, 3);
}

Test(labels, bad_ones_are_refused_and_change_nothing) {
  static const char *const keys[] = {"", "1a", "-a", "thread", "thread_id", "a b", "\xc3\xa4", NULL};
  char huge[ONSTACK_MAX_LABEL_BYTES + 1];
  seen_list *list = calloc(1, sizeof(*list));
  cr_assert_eq(onstack_thread_label_set("good_1", "kept"), 0);
  for (int i = 0; i < 8; i++) cr_expect_eq(onstack_thread_label_set(keys[i], "x"), ONSTACK_E_OPTIONS, "%d", i);
  memset(huge, 'x', sizeof(huge));
  huge[sizeof(huge) - 1] = 0;
  cr_expect_eq(onstack_thread_label_set("huge", huge), ONSTACK_E_OPTIONS);
  cr_expect_eq(onstack_thread_label_set("good_1", huge), ONSTACK_E_OPTIONS);
  cr_expect_eq(onstack_thread_label_set("unknown", NULL), 0);
  onstack_session *session = seeing(list, 64);
  t_burn(0.05);
  t_finish(session);
  cr_assert_gt(list->count, 3);
  cr_assert_eq(WITH(list, 0, "good_1\0kept"), list->count);
}

/* In the child of a fork the thread has another id. */
Test(labels, the_forking_thread_keeps_its_own) {
  seen_list *list = calloc(1, sizeof(*list));
  onstack_thread_label_set("request", "42");
  int child = fork();
  if (child == 0) {
    onstack_session *session = NULL;
    onstack_options options;
    t_deadline(20);
    onstack_options_init(&options, sizeof(options));
    options.frequency = 500;
    options.label_bytes = 64;
    options.sink = see;
    options.sink_data = list;
    if (onstack_session_start(&options, &session) != 0) _exit(1);
    t_burn(0.1);
    if (onstack_session_free(session) != 0 || list->count < 5) _exit(2);
    if (WITH(list, 0, "request\00042") != list->count) _exit(3);
    if (onstack_thread_label_set("request", NULL) != 0) _exit(4);
    _exit(0);
  }
  cr_assert_eq(t_wait(child), 0);
}
