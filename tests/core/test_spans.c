/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Spans that an OpenTelemetry library publishes for threads: in the samples of that thread, while it is in the span. */
#include "sampler/labels/labels.h"
#include "support.h"

#include <dlfcn.h>
#include <libgen.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

TestSuite(spans, .init = t_setup);

#define LABELS                                                                                                              \
  "trace_id\0"                                                                                                              \
  "00112233445566778899aabbccddeeff\0span_id\0"                                                                             \
  "0123456789abcdef"

typedef struct record {
  uint8_t trace[16], span[8], valid, flags;
  uint16_t attributes;
} record;

static const record published = {
    {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff},
    {0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef},
    1,
    1,
    0};

typedef struct counts {
  uint32_t in_span, behind_label, none, other, cut;
} counts;

static int count(void *data, const onstack_sample *sample) {
  static const char label[] = "a\0b\0" LABELS;
  counts *to = data;
  if (sample->flags & ONSTACK_SAMPLE_LABELS_CUT) to->cut++;
  if (sample->label_bytes == 0)
    to->none++;
  else if (sample->label_bytes == sizeof(LABELS) && memcmp(sample->labels, LABELS, sizeof(LABELS)) == 0)
    to->in_span++;
  else if (sample->label_bytes == sizeof(label) && memcmp(sample->labels, label, sizeof(label)) == 0)
    to->behind_label++;
  else
    to->other++;
  return 0;
}

static counts sampled(uint32_t room) {
  counts seen = {0};
  onstack_options options = t_options(500, count, &seen);
  options.label_bytes = room;
  onstack_session *session = t_start(&options);
  while (t_stats(session).samples < 20) t_burn(0.02);
  t_finish(session);
  return seen;
}

static void (*load(const char *name))(void *) {
  char path[600];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 40);
  cr_assert_gt(length, 0);
  path[length] = 0;
  strcat(dirname(path), name);
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  cr_assert(library, "%s", dlerror());
  void (*set)(void *);
  *(void **)&set = dlsym(library, "span_set");
  cr_assert(set);
  return set;
}

static void *other_thread(void *unused) {
  (void)unused;
  t_burn(0.1);
  return NULL;
}

static void come_and_go(const char *library) {
  cr_assert_eq(onstack_thread_spans_use(ONSTACK_ON), ONSTACK_E_UNSUPPORTED, "there is none yet");
  void (*set)(void *) = load(library);
  cr_assert_eq(onstack_thread_spans_use(ONSTACK_ON), 0);
  counts seen = sampled(128);
  cr_assert(seen.none > 0 && seen.in_span + seen.other == 0, "in no span");

  record now = published;
  set(&now);
  seen = sampled(128);
  cr_assert(seen.in_span > 0 && seen.none + seen.other + seen.cut == 0, "%u of %u", seen.in_span, seen.none);
  cr_assert_eq(onstack_thread_label_set("a", "b"), 0);
  seen = sampled(128);
  cr_assert(seen.behind_label > 0 && seen.in_span + seen.none + seen.other == 0);
  seen = sampled(sizeof(LABELS));
  cr_assert(seen.cut > 0 && seen.other > 0 && seen.in_span + seen.behind_label == 0, "no room for both");
  onstack_thread_labels_clear();

  now.valid = 0;
  seen = sampled(128);
  cr_assert(seen.none > 0 && seen.in_span + seen.other == 0, "not valid");
  now.valid = 1;
  memset(now.span, 0, sizeof(now.span));
  seen = sampled(128);
  cr_assert(seen.none > 0 && seen.in_span + seen.other == 0, "no span");
  now = published;
  cr_assert_eq(onstack_thread_spans_use(ONSTACK_OFF), 0);
  seen = sampled(128);
  cr_assert(seen.none > 0 && seen.in_span + seen.other == 0, "off");
  set(NULL);
}

Test(spans, of_a_library_whose_blocks_are_made_at_first_use) { come_and_go("/span.so"); }

Test(spans, of_a_library_in_the_first_block) { come_and_go("/span_first.so"); }

/* Sessions look for it, and again where it has gone and come. */
Test(spans, of_a_library_that_is_loaded_later) {
  cr_assert_eq(onstack_thread_spans_use(ONSTACK_ON), ONSTACK_E_UNSUPPORTED);
  counts seen = sampled(128);
  cr_assert(seen.none > 0 && seen.in_span + seen.other == 0);
  void (*set)(void *) = load("/span.so");
  record now = published;
  set(&now);
  seen = sampled(128);
  cr_assert_gt(seen.in_span, 0);
  set(NULL);
  cr_assert_eq(onstack_thread_spans_use(ONSTACK_OFF), 0);
  load("/span_first.so");
  sampled(128);
  cr_assert_eq(onstack_span_of_threads, 0, "nobody looks while it is off");
}

Test(spans, other_threads_are_in_none) {
  pthread_t thread;
  counts seen = {0};
  record now = published;
  load("/span.so")(&now);
  cr_assert_eq(onstack_thread_spans_use(ONSTACK_ON), 0);
  onstack_options options = t_options(500, count, &seen);
  options.label_bytes = 128;
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 20; i++) {
    pthread_create(&thread, NULL, other_thread, NULL);
    pthread_join(thread, NULL);
  }
  t_finish(session);
  cr_assert(seen.none > 0 && seen.other == 0, "%u in none", seen.none);
}

/* As of a library that was careless, or is being unloaded. */
Test(spans, a_record_that_is_not_there_is_none) {
  void (*set)(void *) = load("/span.so");
  uint8_t *pages = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_eq(onstack_thread_spans_use(ONSTACK_ON), 0);
  memcpy(pages + 4096 - 28, &published, 28); /* up to the last byte that there is */
  cr_assert_eq(mprotect(pages + 4096, 4096, PROT_NONE), 0);
  set(pages + 4096 - 28);
  cr_assert_gt(sampled(128).in_span, 0);
  void *wild[] = {(void *)8, pages + 4096 - 27, (void *)(UINT64_MAX - 7), (void *)((uint64_t)1 << 62)};
  for (size_t i = 0; i < sizeof(wild) / sizeof(*wild); i++) {
    set(wild[i]);
    counts seen = sampled(128);
    cr_assert(seen.none > 0 && seen.in_span + seen.other == 0, "%p", wild[i]);
  }
  set(NULL);
}

Test(spans, a_switch_has_two_positions) {
  cr_assert_eq(onstack_thread_spans_use(ONSTACK_DEFAULT), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_thread_spans_use(9), ONSTACK_E_OPTIONS);
}
