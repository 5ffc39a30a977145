/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Sources of samples that are no ticks, beside the ticks of one session: a sink tells them apart, and what could not be taken
 * is counted by kind.
 */
#include "sampler/session/record.h"
#include "sampler/source/look.h"
#include "sampler/unwind/arch.h"
#include "platform/context.h"
#include "sampler/api/session.h"
#include "support.h"
#include "onstack/labels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

TestSuite(record, .init = t_setup);

#define PERIOD_BYTES 4096u

/* ---- a sink that keeps kinds apart ---- */

typedef struct kind_seen {
  uint64_t samples, weight, value, in_source;
  uint32_t labelled;
  onstack_sample last;
  char name[16];
  uint64_t frames[T_FRAMES];
} kind_seen;

typedef struct seen {
  kind_seen kinds[ONSTACK_KINDS];
  bool (*is_inside)(uint64_t pc); /* a frame of this code is looked for */
  double pause;                   /* in each call */
} seen;

static int see(void *data, const onstack_sample *sample) {
  seen *all = data;
  if (sample->kind >= ONSTACK_KINDS) return 1;
  kind_seen *of = &all->kinds[sample->kind];
  of->samples++;
  of->weight += sample->weight;
  of->value += sample->value;
  of->labelled += sample->label_bytes > 0;
  of->last = *sample;
  snprintf(of->name, sizeof(of->name), "%s", sample->thread_name);
  bool inside = false;
  for (uint32_t i = 0; i < sample->frame_count && i < T_FRAMES; i++) {
    of->frames[i] = sample->frames[i];
    inside |= all->is_inside && all->is_inside(i == 0 ? sample->frames[0] : sample->frames[i] - 1);
  }
  of->in_source += inside;
  if (all->pause > 0) t_sleep(all->pause);
  return 0;
}

/* ---- a source in an ordinary thread ---- */

typedef struct made {
  uint64_t events, weight, value, refused;
} made;

extern const char __start_text_source[], __stop_text_source[];

static bool is_in_source(uint64_t pc) {
  return pc >= (uint64_t)(uintptr_t)__start_text_source && pc < (uint64_t)(uintptr_t)__stop_text_source;
}

/* As an allocator would: with the registers of where it is called. */
__attribute__((noinline, noclone, section("text_source"))) static void allocate(onstack_session *session, made *made,
                                                                                uint64_t bytes, uint32_t weight) {
  onstack_slot *slot = session->slot;
  onstack_source_visit visit;
  onstack_registers registers;
  ucontext_t context;
  getcontext(&context);
  onstack_registers_from(&registers, &context);
  const uint32_t tid = (uint32_t)onstack_sys_gettid();
  onstack_thread *own = onstack_thread_find(&slot->threads, tid);
  if (!onstack_source_enter(&visit, slot, session->generation)) {
    made->refused++;
    return;
  }
  const onstack_event event = {
      .thread = own, .tid = tid, .kind = ONSTACK_KIND_ALLOCATION, .value = bytes, .weight = weight, .registers = &registers};
  onstack_record(slot, &event);
  onstack_source_leave(&visit);
  made->events++;
  made->weight += weight;
  made->value += bytes;
}

static onstack_session *seeing(seen *all, uint32_t label_bytes) {
  onstack_options options = t_options(500, see, all);
  options.buffer_bytes = 64 << 10;
  options.label_bytes = label_bytes;
  onstack_session *session = t_start(&options);
  session->slot->periods[ONSTACK_KIND_ALLOCATION] = PERIOD_BYTES;
  return session;
}

/* What was made is what was recorded and what was lost, in events and in bytes; the sink saw the former. */
static uint64_t check_account(const onstack_session *session, onstack_kind kind, const made *made, const kind_seen *of) {
  const onstack_lost *lost = &session->slot->lost[kind];
  const onstack_deliver_counters *delivered = &session->delivered[kind];
  cr_assert_eq(made->weight, delivered->recorded.weight + lost->ring_full.weight + lost->unwinder.weight);
  cr_assert_eq(made->value, delivered->recorded.value + lost->ring_full.value + lost->unwinder.value);
  cr_assert_eq(of->weight, delivered->recorded.weight);
  cr_assert_eq(of->value, delivered->recorded.value);
  cr_assert_eq(of->samples, delivered->samples);
  cr_assert_eq(delivered->samples, delivered->delivered);
  return lost->ring_full.value;
}

/* The session's statistics are of all kinds: those of ticks are what remains. */
static void check_ticks(const onstack_session *session, const onstack_stats *stats, const seen *all) {
  const kind_seen *of = &all->kinds[ONSTACK_KIND_CPU];
  const onstack_deliver_counters *others = &session->delivered[ONSTACK_KIND_ALLOCATION];
  cr_assert_eq(of->samples, stats->samples - others->samples);
  cr_assert_eq(of->weight, stats->recorded - others->recorded.weight);
  cr_assert_eq(of->value, of->weight * stats->period);
  cr_assert_gt(of->samples, 10);
  cr_assert_eq(of->last.unit, ONSTACK_UNIT_NANOSECONDS);
  cr_assert_eq(of->last.period, stats->period);
}

/* Nothing was lost: what the sink saw of all kinds is what the statistics say. */
static void check_sums(const onstack_stats *stats, const seen *all, const made *made) {
  uint64_t samples = 0, weight = 0;
  for (onstack_kind kind = 0; kind < ONSTACK_KINDS; kind++) {
    samples += all->kinds[kind].samples;
    weight += all->kinds[kind].weight;
  }
  cr_assert_eq(stats->samples, samples);
  cr_assert_eq(stats->delivered, samples);
  cr_assert_eq(stats->recorded, weight);
  cr_assert_geq(stats->ticks, all->kinds[ONSTACK_KIND_CPU].weight + made->weight);
}

static onstack_stats stop(onstack_session *session) {
  cr_assert_eq(onstack_session_stop(session), 0);
  onstack_stats stats = t_stats(session);
  t_check_accounting(&stats);
  return stats;
}

Test(record, allocations_beside_ticks_in_one_session) {
  seen *all = calloc(1, sizeof(*all));
  made made = {0};
  all->is_inside = is_in_source;
  cr_assert_eq(onstack_thread_label_set("request", "17"), 0);
  onstack_session *session = seeing(all, 64);
  for (uint32_t i = 0; i < 200; i++) {
    allocate(session, &made, 1000 + i, 1 + i % 3);
    t_burn(0.001);
  }
  const onstack_stats stats = stop(session);
  const kind_seen *of = &all->kinds[ONSTACK_KIND_ALLOCATION];
  cr_assert_eq(made.events, 200);
  cr_assert_eq(made.value, 200u * 1000u + 199u * 100u);
  cr_assert_eq(check_account(session, ONSTACK_KIND_ALLOCATION, &made, of), 0, "the sink is fast");
  check_ticks(session, &stats, all);
  check_sums(&stats, all, &made);
  cr_assert_eq(of->in_source, of->samples, "each one's stack begins in the source");
  cr_assert_eq(of->labelled, of->samples);
  cr_assert_eq(of->last.unit, ONSTACK_UNIT_BYTES);
  cr_assert_eq(of->last.period, PERIOD_BYTES);
  cr_assert_eq(of->last.value, 1199);
  cr_assert_eq(of->last.tid, onstack_sys_gettid());
  cr_assert_gt(of->last.frame_count, 2);
  cr_assert_str_eq(of->name, all->kinds[ONSTACK_KIND_CPU].name);
  for (onstack_kind kind = 0; kind < ONSTACK_KINDS; kind++)
    if (kind != ONSTACK_KIND_CPU && kind != ONSTACK_KIND_ALLOCATION) cr_assert_eq(all->kinds[kind].samples, 0);
  cr_assert_eq(onstack_session_free(session), 0);
}

Test(record, a_full_ring_is_counted_by_kind) {
  seen *all = calloc(1, sizeof(*all));
  made made = {0};
  all->pause = 0.002;
  onstack_session *session = seeing(all, 0);
  for (uint32_t i = 0; i < 3000; i++) allocate(session, &made, 64, 2);
  t_burn(0.1);
  const onstack_stats stats = stop(session);
  cr_assert_gt(check_account(session, ONSTACK_KIND_ALLOCATION, &made, &all->kinds[ONSTACK_KIND_ALLOCATION]), 64u * 1000u);
  cr_assert_geq(stats.dropped_ring_full, session->slot->lost[ONSTACK_KIND_ALLOCATION].ring_full.weight);
  cr_assert_eq(all->kinds[ONSTACK_KIND_CPU].weight + all->kinds[ONSTACK_KIND_ALLOCATION].weight, stats.recorded);
  cr_assert_eq(onstack_session_free(session), 0);
}

static onstack_walk_result refuse(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                  uint32_t capacity) {
  (void)registers, (void)capacity;
  frames[0] = registers->pc;
  *(uint32_t *)data += !ucontext;
  return (onstack_walk_result){ucontext ? 1 : 0, ONSTACK_TRUNCATED_BY_DESIGN};
}

Test(record, a_refusal_of_the_unwinder_is_counted_by_kind) {
  seen *all = calloc(1, sizeof(*all));
  made made = {0};
  uint32_t without_context = 0;
  const onstack_unwinder unwinder = {.size = sizeof(unwinder), .name = "refuses", .data = &without_context, .walk = refuse};
  onstack_options options = t_options(500, see, all);
  options.custom_unwinder = &unwinder;
  onstack_session *session = t_start(&options);
  for (uint32_t i = 0; i < 50; i++) allocate(session, &made, 10, 1);
  t_burn(0.1);
  const onstack_stats stats = stop(session);
  check_account(session, ONSTACK_KIND_ALLOCATION, &made, &all->kinds[ONSTACK_KIND_ALLOCATION]);
  cr_assert_eq(without_context, 50, "no signal, no context");
  cr_assert_eq(session->slot->lost[ONSTACK_KIND_ALLOCATION].unwinder.value, 500);
  cr_assert_eq(stats.dropped_unwinder, 50);
  check_ticks(session, &stats, all);
  cr_assert_eq(onstack_session_free(session), 0);
}

/* ---- the end of a session ---- */

Test(record, a_session_that_is_over_takes_nothing_and_masks_come_back) {
  seen *all = calloc(1, sizeof(*all));
  made made = {0};
  sigset_t before, after;
  sigemptyset(&before);
  sigaddset(&before, SIGUSR1);
  pthread_sigmask(SIG_BLOCK, &before, &after);
  pthread_sigmask(SIG_SETMASK, NULL, &before);
  onstack_session *session = seeing(all, 0);
  allocate(session, &made, 1, 1);
  const uint32_t generation = session->generation;
  session->generation++; /* one of another slot's, or of the slot before */
  allocate(session, &made, 1, 1);
  session->generation = generation;
  cr_assert_eq(made.refused, 1);
  stop(session);
  allocate(session, &made, 1, 1);
  cr_assert_eq(made.refused, 2);
  cr_assert_eq(made.events, 1);
  pthread_sigmask(SIG_SETMASK, NULL, &after);
  cr_assert_eq(memcmp(&before, &after, 8), 0);
  cr_assert_eq(onstack_session_free(session), 0);
}

typedef struct hammer {
  onstack_session *session; /* NULL: none now (publish / observe) */
  uint32_t inside, quit;
  made made;
} hammer;

static void *hammers(void *data) {
  hammer *h = data;
  while (!onstack_observe(&h->quit)) {
    onstack_dekker_add(&h->inside, 1u);
    onstack_session *session = onstack_observe(&h->session);
    if (session) allocate(session, &h->made, 8, 1);
    onstack_dekker_sub(&h->inside, 1u);
  }
  return NULL;
}

/* Stop waits for who is inside, with a thread record and without one: the account closes with the last event. */
Test(record, stop_beside_sources_on_many_threads) {
  enum { THREADS = 4 };
  hammer *h = calloc(THREADS, sizeof(*h));
  pthread_t threads[THREADS];
  uint64_t events = 0;
  for (int i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, hammers, &h[i]);
  for (unsigned round = 0; round < 20 * t_repeat(); round++) {
    seen *all = calloc(1, sizeof(*all));
    onstack_session *session = seeing(all, 0);
    made sum = {0};
    for (int i = 0; i < THREADS; i++) h[i].made = (made){0}, onstack_publish(&h[i].session, session);
    t_burn(0.005);
    cr_assert_eq(onstack_session_stop(session), 0);
    for (int i = 0; i < THREADS; i++) {
      onstack_publish(&h[i].session, (onstack_session *)NULL);
      while (onstack_dekker_load(&h[i].inside) != 0) t_sleep(0.0001);
      sum.weight += h[i].made.weight;
      sum.value += h[i].made.value;
    }
    events += sum.weight;
    check_account(session, ONSTACK_KIND_ALLOCATION, &sum, &all->kinds[ONSTACK_KIND_ALLOCATION]);
    cr_assert_eq(onstack_session_free(session), 0);
    free(all);
  }
  cr_assert_gt(events, 0);
  for (int i = 0; i < THREADS; i++) {
    onstack_publish(&h[i].quit, 1u);
    pthread_join(threads[i], NULL);
  }
}

/* ---- a blocked thread, seen by another ---- */

extern const char __start_text_sleeper[], __stop_text_sleeper[];

static bool is_in_sleeper(uint64_t pc) {
  return pc >= (uint64_t)(uintptr_t)__start_text_sleeper && pc < (uint64_t)(uintptr_t)__stop_text_sleeper;
}

typedef struct sleeper {
  int pipe[2];
  uint32_t tid;
} sleeper;

/* Only PC and SP are known of it, so its frame must be found by SP. */
__attribute__((noinline, noclone, section("text_sleeper"), optimize("omit-frame-pointer"))) static void *sleeps(void *data) {
  sleeper *s = data;
  char byte;
  prctl(PR_SET_NAME, "sleeper");
  onstack_publish(&s->tid, (uint32_t)onstack_sys_gettid());
  if (read(s->pipe[0], &byte, 1) != 1) abort();
  __asm__ volatile("");
  return NULL;
}

/* It sleeps, at last. */
static void look_at(const onstack_slot *slot, uint32_t tid, onstack_look *look) {
  uint64_t cpu_ns, hints[ONSTACK_INTERPRETERS] = {0};
  onstack_look_status status;
  do {
    cr_assert(onstack_timer_read_clock(onstack_timer_cpu_clock(tid), &cpu_ns));
    status = onstack_look_at(slot, tid, cpu_ns, hints, look);
    cr_assert(status == ONSTACK_LOOK_BLOCKED || status == ONSTACK_LOOK_RUNS || status == ONSTACK_LOOK_MOVED, "%d", status);
  } while (status != ONSTACK_LOOK_BLOCKED);
}

Test(record, a_wait_that_another_thread_sees) {
  seen *all = calloc(1, sizeof(*all));
  sleeper s = {.tid = 0};
  pthread_t thread;
  onstack_look look;
  all->is_inside = is_in_sleeper;
  if (!onstack_look_works()) cr_skip("the kernel tells nothing of blocked threads, or an emulator tells of its own");
  cr_assert_eq(pipe(s.pipe), 0);
  pthread_create(&thread, NULL, sleeps, &s);
  while (!onstack_observe(&s.tid)) t_sleep(0.001);
  onstack_session *session = seeing(all, 64);
  onstack_slot *slot = session->slot;
  look_at(slot, s.tid, &look);
  const uint64_t name[2] = {0x72657065656c73u, 0}; /* "sleeper" */
  const onstack_event event = {.tid = s.tid, .kind = ONSTACK_KIND_WALL, .value = 123456789, .weight = 1, .name = name};
  look.stack.label_bytes = 0;
  onstack_record_walked(slot, &event, &look.stack);
  stop(session);
  const kind_seen *of = &all->kinds[ONSTACK_KIND_WALL];
  cr_assert_eq(of->samples, 1);
  cr_assert_eq(of->value, 123456789);
  cr_assert_eq(of->last.unit, ONSTACK_UNIT_NANOSECONDS);
  cr_assert_eq(of->last.tid, (int32_t)s.tid);
  if (ONSTACK_ARCH_LINK_REGISTER)
    cr_assert_neq(of->last.truncation, ONSTACK_TRUNCATED_NOT, "its caller is in no register that is known");
  else
    cr_assert_eq(of->in_source, 1, "the caller of read() is found: %u frames, truncation %u", of->last.frame_count,
                 of->last.truncation);
  cr_assert_str_eq(of->name, "sleeper");
  cr_assert_eq(of->labelled, 0);
  cr_assert_eq(write(s.pipe[1], "x", 1), 1);
  pthread_join(thread, NULL);
  cr_assert_eq(onstack_session_free(session), 0);
}
