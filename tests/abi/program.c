/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Uses every sized structure of the header that it is compiled with; run.sh compiles it with older and newer ones and
 * runs it with today's library. With GROWN the structures end with `grown`, of which the library knows nothing.
 * Each structure stands before a canary: the library writes as much as the caller has, and no more.
 */
#include <onstack/heap.h>
#include <onstack/interpreter.h>
#include <onstack/onstack.h>
#include <onstack/profile.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define CANARY 0xC0FFEE0DDF00Du

static int failures;

static void check(const char *what, int holds) {
  printf("%s %s, %s\n", holds ? "ok" : "not ok", HEADER_NAME, what);
  failures += !holds;
}

/* ---- callbacks ---- */

typedef struct seen {
  unsigned samples;
  unsigned bad;
  onstack_profile *profile;
} seen;

/* A sample may be shorter or longer than this header says; what is there has its meaning. */
static int count_sample(void *data, const onstack_sample *sample) {
  seen *all = data;
  all->samples++;
  int sound = sample->size >= offsetof(onstack_sample, frame_count) + sizeof(sample->frame_count) && sample->weight >= 1 &&
              sample->tid > 0 && sample->kind == ONSTACK_KIND_CPU && sample->unit == ONSTACK_UNIT_NANOSECONDS &&
              sample->period > 0 && sample->value == sample->weight * sample->period && sample->frame_count >= 1 &&
              sample->frames[0] != 0 && sample->thread_name[0] != 0;
#ifdef GROWN
  if (sample->size >= sizeof(onstack_sample)) sound = 0; /* today's library cannot have `grown` */
#endif
  all->bad += !sound;
  return onstack_profile_sink(all->profile, sample);
}

static onstack_walk_result walk_pc(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                   uint32_t capacity) {
  onstack_walk_result result = {1, ONSTACK_TRUNCATED_UNWINDER};
  (void)data, (void)ucontext, (void)capacity;
  frames[0] = registers->pc;
  return result;
}

static int name_everything(void *data, const uint64_t *addresses, size_t count, onstack_symbol_table *table) {
  (void)data, (void)addresses;
  onstack_symbol_line line;
  memset(&line, 0, sizeof(line));
  line.size = sizeof(line);
  line.name = "named_by_the_program";
  for (size_t i = 0; i < count; i++) {
    int error = onstack_symbol_add(table, i, &line);
    if (error < 0) return error;
  }
  return 0;
}

static int append(void *text, const void *bytes, size_t length) {
  if (length > (1 << 20) - strlen(text) - 1) return 1;
  strncat(text, bytes, length);
  return 0;
}

/* ---- what a program does ---- */

static void burn(unsigned milliseconds) {
  clock_t end = clock() + (clock_t)(milliseconds * (CLOCKS_PER_SEC / 1000));
  while (clock() < end) continue;
}

static void fill_options(onstack_options *options, seen *all) {
  check("options_init", onstack_options_init(options, sizeof(*options)) == 0 && options->size == sizeof(*options));
  options->frequency = 200;
  options->sink = count_sample;
  options->sink_data = all;
}

static void check_stats(onstack_session *session, const seen *all) {
  struct {
    onstack_stats stats;
    uint64_t canary;
  } have;
  memset(&have, 0xAA, sizeof(have));
  have.canary = CANARY;
  have.stats.size = sizeof(have.stats);
  check("stats", onstack_session_stats(session, &have.stats) == 0 && have.stats.size <= sizeof(have.stats));
  check("the canary behind the statistics lives", have.canary == CANARY);
  const onstack_stats *s = &have.stats;
  check("the accounting is right", s->ticks > 0 && s->delivered == all->samples &&
                                       s->ticks == s->recorded + s->unattributed + s->dropped_ring_full +
                                                       s->dropped_no_stack + s->dropped_unwinder + s->dropped_stopping);
#ifdef GROWN
  check("counters that the library does not know are zero, and it says how far it went",
        s->grown == 0 && !s->grown_text && s->size < sizeof(*s));
#endif
}

static void check_session(seen *all, const onstack_unwinder *unwinder) {
  struct {
    onstack_options options;
    uint64_t canary;
  } have = {.canary = CANARY};
  onstack_session *session = NULL;
  memset(all, 0, sizeof(*all));
  check("profile_new", onstack_profile_new(NULL, &all->profile) == 0);
  fill_options(&have.options, all);
  have.options.custom_unwinder = unwinder;
  check("the canary behind the options lives", have.canary == CANARY);
  check("session_start", onstack_session_start(&have.options, &session) == 0);
  if (!session) return;
  burn(200);
  check("session_stop", onstack_session_stop(session) == 0);
  check("samples came, and all were sound", all->samples > 0 && all->bad == 0);
  check_stats(session, all);
  check("session_free", onstack_session_free(session) == 0);
}

static void check_write(onstack_profile *profile) {
  static char text[1 << 20];
  onstack_write_options options;
  memset(&options, 0, sizeof(options));
  options.size = sizeof(options);
  options.symbolizer = name_everything;
  check("write_folded", onstack_profile_write_folded(profile, &options, append, text) == 0);
  check("our symbolizer's names are in it", !!strstr(text, "named_by_the_program"));
#ifdef GROWN
  options.grown = 1;
  check("an unknown write option is refused",
        onstack_profile_write_folded(profile, &options, append, text) == ONSTACK_E_OPTIONS);
#endif
}

#ifdef ONSTACK_CLOCK_HEAP
static int count_allocation(void *data, const onstack_sample *sample) {
  seen *all = data;
  const int freed = (sample->flags & ONSTACK_SAMPLE_FREED) != 0;
  all->samples++;
  all->bad += sample->kind != ONSTACK_KIND_ALLOCATION || sample->unit != ONSTACK_UNIT_BYTES || sample->value != 100 ||
              sample->weight != 1 || sample->object == 0 || freed != (sample->frame_count == 0);
  return 0;
}

/* A library that knows no heap sessions refuses, and is not asked for the calls of allocators. */
static void check_heap(void) {
  struct {
    onstack_options options;
    uint64_t canary;
  } have = {.canary = CANARY};
  seen all = {0};
  onstack_session *session = NULL;
  fill_options(&have.options, &all);
  have.options.clock = ONSTACK_CLOCK_HEAP;
  have.options.frequency = 0;
  have.options.heap_interval = 1;
  have.options.sink = count_allocation;
  const int result = onstack_session_start(&have.options, &session);
  check("heap: a session or a refusal", result == 0 || (result == ONSTACK_E_OPTIONS && !session));
  if (!session) return;
  for (uintptr_t i = 1; i <= 10; i++) onstack_heap_allocated((void *)(i << 12), 100);
  for (uintptr_t i = 1; i <= 5; i++) onstack_heap_freed((void *)(i << 12));
  check("heap: session_stop", onstack_session_stop(session) == 0);
  check("heap: ten samples and five ends, all sound", all.samples == 15 && all.bad == 0 && have.canary == CANARY);
  check("heap: session_free", onstack_session_free(session) == 0);
}
#endif

#ifdef ONSTACK_INTERPRETED_BYTE
static int prepare_nothing(void *data, const onstack_frame_memory *memory, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  (void)data, (void)memory, (void)loops;
  return 0;
}

static uint32_t copy_nothing(void *data, const onstack_frame_memory *memory, onstack_interpreted_frame *frames,
                             uint32_t capacity) {
  (void)data, (void)memory, (void)frames, (void)capacity;
  return 0;
}

static int describe_nothing(void *data, const onstack_frame_memory *memory, const onstack_interpreted_frame *frame,
                            onstack_frame_text *text) {
  (void)data, (void)memory, (void)frame, (void)text;
  return -1;
}

/* A library that knows no providers refuses. */
static void check_provider(void) {
  static onstack_frame_provider provider = {.size = sizeof(provider),
                                            .name = "program's",
                                            .prepare = prepare_nothing,
                                            .copy = copy_nothing,
                                            .describe = describe_nothing};
  struct {
    onstack_frame_text text;
    uint64_t canary;
  } have = {.text.size = sizeof(have.text), .canary = CANARY};
  onstack_options options;
  onstack_session *session = NULL;
  onstack_options_init(&options, sizeof(options));
  options.frame_provider = &provider;
  const int result = onstack_session_start(&options, &session);
  check("provider: a session or a refusal", result == 0 || (result == ONSTACK_E_OPTIONS && !session));
  if (!session) return;
  check("provider: session_free", onstack_session_free(session) == 0);
  check("provider: a frame without a name has one all the same",
        onstack_interpreted_describe((uint64_t)ONSTACK_INTERPRETED_BYTE << 56, &have.text) == 0 &&
            have.text.function[0] == '[' && have.canary == CANARY);
#ifdef GROWN
  provider.grown = 1;
  check("a provider that wants unknown things is refused",
        onstack_session_start(&options, &session) == ONSTACK_E_OPTIONS && !session);
#endif
}
#endif

#ifdef GROWN
/* What the library does not know must not be asked for. */
static void check_refusals(void) {
  onstack_options options;
  onstack_session *session;
  onstack_profile *profile;
  onstack_options_init(&options, sizeof(options));
  options.grown_text = "a thing that only newer libraries do";
  check("an unknown option is refused", onstack_session_start(&options, &session) == ONSTACK_E_OPTIONS && !session);
  onstack_unwinder unwinder = {.size = sizeof(unwinder), .name = "grown", .walk = walk_pc, .grown = 1};
  onstack_options_init(&options, sizeof(options));
  options.custom_unwinder = &unwinder;
  check("an unwinder that wants unknown things is refused",
        onstack_session_start(&options, &session) == ONSTACK_E_OPTIONS && !session);
  onstack_profile_options wanted = {.size = sizeof(wanted), .grown = 1};
  check("an unknown profile option is refused", onstack_profile_new(&wanted, &profile) == ONSTACK_E_OPTIONS);
}
#endif

int main(void) {
  seen all;
  check_session(&all, NULL);
  check_write(all.profile);
  onstack_profile_free(all.profile);
  onstack_unwinder unwinder = {.size = sizeof(unwinder), .name = "program's", .walk = walk_pc};
  check_session(&all, &unwinder);
  onstack_profile_free(all.profile);
  onstack_profile_options wanted = {.size = sizeof(wanted), .max_stacks = 1};
  check("profile_new with options", onstack_profile_new(&wanted, &all.profile) == 0);
  onstack_profile_free(all.profile);
#ifdef GROWN
  check_refusals();
#endif
#ifdef ONSTACK_CLOCK_HEAP
  check_heap();
#endif
#ifdef ONSTACK_INTERPRETED_BYTE
  check_provider();
#endif
  return failures > 0;
}
