/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Sessions of every kind that start, run and stop; each one's accounting is closed at its end. */
#include "soak.h"
#include "onstack/profile.h"
#include "onstack/heap.h"

#include <dlfcn.h>
#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define COPIES 2

soak_sums soak_sessions;

typedef struct soak_core {
  int (*init)(onstack_options *, size_t);
  int (*start)(const onstack_options *, onstack_session **);
  int (*stop)(onstack_session *);
  int (*release)(onstack_session *);
  int (*stats)(const onstack_session *, onstack_stats *);
  int (*poll)(onstack_session *, uint32_t);
  int (*memory_text)(onstack_session *, const onstack_runtime_memory *, onstack_writer, void *);
} soak_core;

static const soak_core sessions_linked = {onstack_options_init,       onstack_session_start, onstack_session_stop,
                                          onstack_session_free,       onstack_session_stats, onstack_session_poll,
                                          onstack_session_memory_text};
static soak_core sessions_copies[COPIES];

void soak_open_copies(void) {
  for (int i = 0; i < COPIES; i++) {
    char path[4200];
    soak_core *copy = &sessions_copies[i];
    snprintf(path, sizeof(path), "%s/copy-%d.so", soak_place, i);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) {
      fprintf(stderr, "soak: %s\n", dlerror());
      exit(1);
    }
    *(void **)&copy->init = dlsym(library, "onstack_options_init");
    *(void **)&copy->start = dlsym(library, "onstack_session_start");
    *(void **)&copy->stop = dlsym(library, "onstack_session_stop");
    *(void **)&copy->release = dlsym(library, "onstack_session_free");
    *(void **)&copy->stats = dlsym(library, "onstack_session_stats");
    *(void **)&copy->poll = dlsym(library, "onstack_session_poll");
    *(void **)&copy->memory_text = dlsym(library, "onstack_session_memory_text");
  }
}

static int sessions_add_own(void *data, const void *text, size_t length) {
  uint64_t *bytes = data, these;
  char line[256], of[64];
  snprintf(line, sizeof(line), "%.*s", (int)length, (const char *)text);
  if (sscanf(line, "onstack.memory bytes=%" SCNu64 " of=%63[^\n]", &these, of) == 2 && strcmp(of, "this profiler") == 0)
    *bytes += these;
  return 0;
}

uint64_t soak_own_memory(void) {
  uint64_t bytes = 0;
  for (int i = -1; i < COPIES; i++)
    if ((i < 0 ? &sessions_linked : &sessions_copies[i])->memory_text(NULL, NULL, sessions_add_own, &bytes) != 0)
      soak_fail("no account of the memory");
  return bytes;
}

/* ---- the sink ---- */

typedef struct sessions_sink {
  uint64_t calls, weight, refused, malformed;
  uint32_t depth;
  bool refuses, is_slow;
} sessions_sink;

static int sessions_take(void *data, const onstack_sample *sample) {
  sessions_sink *sink = data;
  sink->calls++;
  sink->weight += sample->weight;
  if (sample->weight == 0 || sample->frame_count == 0 || sample->frame_count > sink->depth || sample->frames[0] == 0 ||
      sample->truncation >= ONSTACK_TRUNCATION_COUNT || strlen(sample->thread_name) > 15)
    sink->malformed++;
  else if (soak_is_wild(sample->frames[0]))
    soak_count(&soak_wild_samples, 1);
  if (sink->is_slow) soak_sleep(0.001);
  if (!sink->refuses || sink->calls % 16) return 0;
  sink->refused++;
  return 1;
}

/* An unwinder of the user's that reads nothing, and refuses now and then. */
static onstack_walk_result sessions_walk(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                         uint32_t capacity) {
  (void)data, (void)ucontext, (void)capacity;
  frames[0] = registers->pc;
  return (onstack_walk_result){registers->fp % 7 != 0, ONSTACK_TRUNCATED_UNWINDER};
}
static const onstack_unwinder sessions_unwinder = {.size = sizeof(onstack_unwinder), .name = "soak", .walk = sessions_walk};

/* ---- the accounting ---- */

/* What a session can have had in its time, with twice as much for chance and overruns: ticks that nobody had are seen. */
static bool sessions_too_many(const onstack_stats *s, const onstack_options *o, double seconds) {
  double each = (double)o->frequency * seconds + 2;
  double busy = o->clock != ONSTACK_CLOCK_CPU ? (double)s->threads_seen : (double)sysconf(_SC_NPROCESSORS_ONLN);
  return (double)s->ticks > 2 * (each * busy + (double)s->threads_seen) + 1000;
}

static const char *sessions_wrong(const onstack_stats *s, const sessions_sink *sink) {
  uint64_t truncated = 0;
  for (int i = 1; i < 16; i++) truncated += s->truncated_by[i];
  if (s->running) return "it runs after stop";
  if (s->ticks !=
      s->recorded + s->unattributed + s->dropped_ring_full + s->dropped_no_stack + s->dropped_unwinder + s->dropped_stopping)
    return "the ticks do not add up";
  if (s->delivered != s->samples || s->truncated != truncated) return "the samples do not add up";
  if (sink && (sink->calls != s->delivered || sink->weight != s->recorded || sink->refused != s->dropped_sink))
    return "the sink has got something else";
  return sink && sink->malformed ? "a sample is malformed" : NULL;
}

static void sessions_add(const onstack_stats *s) {
  soak_sums *sums = &soak_sessions;
  soak_count(&sums->sessions, 1);
  soak_count(&sums->ticks, s->ticks);
  soak_count(&sums->recorded, s->recorded);
  soak_count(&sums->unattributed, s->unattributed);
  soak_count(&sums->ring_full, s->dropped_ring_full);
  soak_count(&sums->no_stack, s->dropped_no_stack);
  soak_count(&sums->unwinder, s->dropped_unwinder);
  soak_count(&sums->stopping, s->dropped_stopping);
  soak_count(&sums->sink, s->dropped_sink);
  soak_count(&sums->truncated, s->truncated);
  /* These four belong to the action, which sessions share: the largest, not the sum. */
  soak_most(&sums->forwarded, s->forwarded);
  soak_most(&sums->swallowed, s->swallowed);
  soak_most(&sums->late, s->late);
  soak_most(&sums->looped, s->looped);
}

/* ---- one session ---- */

static void sessions_choose(onstack_options *o, unsigned *seed) {
  static const uint32_t rates[] = {99, 1000, 10000, 10000};
  static const onstack_clock clocks[] = {ONSTACK_CLOCK_CPU,  ONSTACK_CLOCK_CPU, ONSTACK_CLOCK_CPU,
                                         ONSTACK_CLOCK_CPU,  ONSTACK_CLOCK_CPU, ONSTACK_CLOCK_WALL_SIGNAL,
                                         ONSTACK_CLOCK_WALL, ONSTACK_CLOCK_WALL};
  static const char *const unwinders[] = {"rules", "rules", "rules", "frame_pointer", "pc_only"};
  o->frequency = rates[soak_random(seed, 4)];
  o->clock = clocks[soak_random(seed, 8)];
  if (o->clock != ONSTACK_CLOCK_CPU && o->frequency > 1000) o->frequency = 250;
  if (o->clock == ONSTACK_CLOCK_WALL)
    o->unwinder = soak_random(seed, 4) == 0 ? "pc_only" : "rules"; /* it takes no other */
  else if (soak_random(seed, 8) == 0)
    o->custom_unwinder = &sessions_unwinder;
  else
    o->unwinder = unwinders[soak_random(seed, 5)];
  o->threads = soak_random(seed, 3) == 0 ? ONSTACK_OFF : ONSTACK_ON;
  o->own_threads = soak_random(seed, 4) == 0 ? ONSTACK_ON : ONSTACK_OFF;
  o->fork = soak_random(seed, 2) ? ONSTACK_FORK_FOLLOW : ONSTACK_FORK_STOP;
  o->max_depth = 1 + soak_random(seed, 200);
  o->buffer_bytes = 65536u << soak_random(seed, 5);
  o->label_bytes = soak_random(seed, 3) * 64;
}

static int sessions_start(const soak_core *core, const onstack_options *options, onstack_session **session) {
  double before = soak_now();
  int result = core->start(options, session);
  soak_most(&soak_sessions.slowest_start_us, (uint64_t)((soak_now() - before) * 1e6));
  return result;
}

static int sessions_stop(const soak_core *core, onstack_session *session) {
  double before = soak_now();
  int result = core->stop(session);
  soak_most(&soak_sessions.slowest_stop_us, (uint64_t)((soak_now() - before) * 1e6));
  return result;
}

/* NULL, or what was wrong; *result is the code of a call that failed. */
static const char *sessions_run(const soak_core *core, onstack_options *options, double seconds, int *result) {
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_session *session;
  onstack_profile *profile = options->sink == onstack_profile_sink ? options->sink_data : NULL;
  const double began = soak_now();
  if ((*result = sessions_start(core, options, &session)) != 0) return "start";
  for (double end = soak_now() + seconds; soak_now() < end && !soak_resting;) {
    soak_sleep(0.01);
    if (options->threads == ONSTACK_OFF && (*result = core->poll(session, 0)) < 0) return "poll";
  }
  if ((*result = sessions_stop(core, session)) != 0) return "stop";
  if ((*result = core->stats(session, &stats)) != 0) return "stats";
  sessions_add(&stats);
  const char *wrong = sessions_wrong(&stats, profile ? NULL : options->sink_data);
  if (!wrong && sessions_too_many(&stats, options, soak_now() - began)) wrong = "ticks that nobody had";
  if ((*result = core->stop(session)) != ONSTACK_E_STOPPED) return "a second stop";
  if ((*result = core->release(session)) != 0) return "free";
  if (!wrong && profile) {
    const onstack_kind kind = options->clock != ONSTACK_CLOCK_CPU ? ONSTACK_KIND_WALL : ONSTACK_KIND_CPU;
    uint64_t samples, ticks;
    onstack_profile_totals(profile, kind, &samples, &ticks, NULL);
    if (ticks != stats.recorded || samples != stats.samples) return "the profile holds something else";
  }
  return wrong;
}

static int sessions_written(void *data, const void *bytes, size_t length) {
  (void)data, (void)bytes;
  soak_count(&soak_sessions.profile_bytes, length);
  return 0;
}

static void sessions_round(soak_worker *worker, const soak_core *core, int signal) {
  onstack_options options;
  sessions_sink sink = {.refuses = soak_random(&worker->seed, 2), .is_slow = soak_random(&worker->seed, 8) == 0};
  onstack_profile *profile = NULL;
  int result = 0;
  core->init(&options, sizeof(options));
  sessions_choose(&options, &worker->seed);
  /* A stop hands over what the buffer holds: with a slow sink and a large one that is minutes on a busy machine. */
  if (sink.is_slow) options.buffer_bytes = 65536;
  options.signal = signal;
  options.sink = sessions_take;
  options.sink_data = &sink;
  sink.depth = options.max_depth;
  if (soak_random(&worker->seed, 4) == 0 && onstack_profile_new(NULL, &profile) == 0) {
    options.sink = onstack_profile_sink;
    options.sink_data = profile;
  }
  const char *wrong = sessions_run(core, &options, 0.001 * soak_random(&worker->seed, 800), &result);
  if (wrong && result == -EAGAIN)
    soak_count(&soak_sessions.refused, 1);
  else if (wrong)
    soak_fail("a session of %s: %s (%d: %s)", worker->name, wrong, result, onstack_strerror(result));
  if (profile && onstack_profile_write_folded(profile, NULL, sessions_written, NULL) != 0) soak_fail("a profile");
  onstack_profile_free(profile);
  soak_beat(worker);
}

void soak_run_sessions(soak_worker *worker) {
  while (!soak_resting) sessions_round(worker, &sessions_linked, 0);
}
void soak_run_a_copy(soak_worker *worker) {
  while (!soak_resting) sessions_round(worker, &sessions_copies[worker->number], 0);
}
void soak_run_other_signal(soak_worker *worker) {
  while (!soak_resting) sessions_round(worker, &sessions_linked, SOAK_OTHER_SIGNAL);
}

int soak_one_session(unsigned *seed) {
  onstack_options options;
  onstack_session *session;
  onstack_stats stats = {.size = sizeof(stats)};
  sessions_sink sink = {.depth = 128};
  onstack_options_init(&options, sizeof(options));
  options.frequency = 1000;
  options.sink = sessions_take;
  options.sink_data = &sink;
  options.threads = soak_random(seed, 2) ? ONSTACK_OFF : ONSTACK_ON;
  int result = onstack_session_start(&options, &session);
  if (result == -EAGAIN || result == ONSTACK_E_SESSIONS) return 0; /* those that follow may have all eight places */
  if (result != 0) return 10;
  soak_burn_wildly(seed);
  if (onstack_session_stop(session) != 0) return 11;
  if (onstack_session_stats(session, &stats) != 0 || sessions_wrong(&stats, &sink)) return 12;
  return onstack_session_free(session) == 0 ? 0 : 13;
}
