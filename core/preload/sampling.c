/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/sampling.h"

#include "platform/atomics.h"
#include "platform/process.h"
#include "platform/calls.h"
#include "platform/sys.h"
#include "profile/text.h"
#include "sampler/api/session.h"
#include "sampler/api/statistics.h"
#include "sampler/labels/labels.h"
#include "preload/allocator.h"
#include "preload/compress.h"
#include "preload/descriptors.h"
#include "preload/first_ticks.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- what a session counts, as lines: for `onstack record` while a program runs, and for the profile itself ---- */

static onstack_statistics_more status_more(uint64_t before) {
  onstack_statistics_more more = onstack_first_ticks_count();
  more.unattributed += before;
  return more;
}

static int status_write(onstack_new_file *output, const char *pattern, onstack_new_file_last *last, onstack_session *session,
                        uint64_t before, bool modules) {
  int error = onstack_new_file_begin(output, pattern, -1, last);
  if (error < 0) return error;
  const onstack_statistics_more more = status_more(before);
  error = onstack_statistics_write(session, &more, modules, onstack_new_file_write, output);
  if (error == 0) error = onstack_first_ticks_tell(onstack_new_file_write, output);
  int ended = onstack_new_file_end(output, error == 0);
  return error < 0 && error != ONSTACK_E_OUTPUT ? error : ended;
}

/* Replaces the file that the pattern names by the lines of onstack_session_stats_text, those of modules when `modules` is set.
   `before`: ticks that nobody could take, before the session; they count as unattributed. Returns 0, or the first thing that
   went wrong: -errno or a code of the library's; then the former file lies there. */
static int status_replace(const char *pattern, onstack_new_file_last *last, onstack_session *session, uint64_t before,
                          bool modules) {
  onstack_new_file *output = malloc(sizeof(*output));
  int error = output ? status_write(output, pattern, last, session, before, modules) : -ENOMEM;
  free(output);
  return error;
}

typedef struct status_text {
  char *text;
  size_t length;
  bool failed;
} status_text;

static int status_append(void *data, const void *bytes, size_t length) {
  status_text *into = data;
  char *text = into->failed ? NULL : realloc(into->text, into->length + length + 1);
  into->failed = !text;
  if (!text) return 1;
  memcpy(text + into->length, bytes, length);
  into->length += length;
  text[into->length] = 0;
  into->text = text;
  return 0;
}

/* As of the last look. */
static status_text status_unseen;

/* Looks for allocators that a heap session does not see; later texts name them. It reads symbol tables and takes the loader's
   lock, so call it only while the host runs as usual. */
static void status_find_unseen(void) {
  status_text found = {0};
  onstack_allocator_unseen(status_append, &found);
  free(status_unseen.text);
  status_unseen = found;
}

static uint64_t status_sampled(const onstack_session *session) {
  onstack_stats stats = {.size = sizeof(stats)};
  return onstack_session_stats(session, &stats) == 0 ? stats.heap_in_use : 0;
}

/* The same lines as text, for a heap session with the account of the process's memory. `ask_malloc`: as
   onstack_memory_text; the allocators that the session does not see are then looked for again. The caller frees it;
   NULL: no memory, or no counters. */
static char *status_make_text(onstack_session *session, uint64_t before, bool modules, bool heap, bool ask_malloc) {
  status_text into = {0};
  const onstack_statistics_more more = status_more(before);
  bool whole = onstack_statistics_write(session, &more, modules, status_append, &into) == 0;
  if (whole) onstack_first_ticks_tell(status_append, &into);
  if (whole && heap)
    onstack_memory_text(status_sampled(session), NULL, ask_malloc, status_append, &into); /* without /proc there is none */
  if (heap && ask_malloc) status_find_unseen();
  if (whole && heap && status_unseen.text) status_append(&into, status_unseen.text, status_unseen.length);
  whole = whole && !into.failed;
  if (whole) return into.text;
  free(into.text);
  return NULL;
}

/* ---- the session and its files ---- */

#define SAMPLING_WORTH 5u /* ticks */
#define SAMPLING_WORTH_NS 250000000u
#define SAMPLING_DENSE 65536u /* bytes; with fewer, more stacks wait for rules to be derived than are kept meanwhile */
#define SAMPLING_AGAIN_NS 10000000

static struct {
  uint32_t on;
  int number;
  uint64_t written; /* samples in the file that was written last */
  onstack_new_file_last profile_file, status_file;
  uint64_t before; /* ticks' worth of CPU time that the process had used when sampling began */
  onstack_session *session;
  onstack_profile *profile;
} sampling = {.number = -1};

/* What one write needs, too large for the stack. */
typedef struct sampling_writer {
  onstack_new_file output;
  onstack_compress compress;
} sampling_writer;

bool onstack_sampling_is_on(void) { return onstack_load_relaxed(&sampling.on); }

static const char *sampling_text(int code) { return code > -4096 ? strerror(-code) : onstack_strerror(code); }

static void sampling_complain(const onstack_environment *settings, int code) {
  const char *text = sampling_text(code);
  if (code == ONSTACK_E_OPTIONS && !settings->on_stack) /* all others are checked when they are read */
    onstack_complain(
        "ONSTACK_ON_STACK=0: a Go runtime is in the process, which needs alternate signal stacks; this process is "
        "not profiled");
  else if (code == ONSTACK_E_UNWINDER)
    onstack_complain("ONSTACK_UNWINDER=%s: %s; this process is not profiled", settings->unwinder, text);
  else
    onstack_complain("cannot start: %s; this process is not profiled", text);
}

/*
 * While another thread executes another program the kernel lets no thread be made (EAGAIN: kernel/fork.c, copy_fs). Either
 * this process goes on as that program, and this thread is ended any moment; or the exec fails, as it does along PATH.
 */
static int sampling_start_session(const onstack_options *options, uint32_t tries) {
  const bool dense = options->heap_interval != 0 && options->heap_interval < SAMPLING_DENSE;
  int (*const start)(const onstack_options *, onstack_session **) =
      dense ? onstack_session_start : onstack_session_start_at_once;
  int result = start(options, &sampling.session);
  for (uint32_t i = 0; result == -EAGAIN && i < tries; i++) {
    onstack_sys_sleep(SAMPLING_AGAIN_NS);
    result = start(options, &sampling.session);
  }
  return result;
}

/*
 * Ticks of the CPU time that the process has used until now, this thread's left out, and `told_ns`, which is in a parent's
 * profile; the others of ours have done nothing yet.
 * A part of a period is a tick as often as it is large, so that the sum over many short processes is right.
 */
static uint64_t sampling_ticks_before(uint64_t told_ns) {
  onstack_stats stats = {.size = sizeof(stats)};
  if (onstack_session_stats(sampling.session, &stats) < 0) return 0;
  const uint64_t random = (onstack_clock_ns(CLOCK_MONOTONIC) * 0x9e3779b97f4a7c15u) >> 20;
  const uint64_t own = onstack_clock_ns(CLOCK_THREAD_CPUTIME_ID) + told_ns, all = onstack_clock_ns(CLOCK_PROCESS_CPUTIME_ID);
  return all > own ? (all - own + random % stats.period) / stats.period : 0;
}

void onstack_sampling_options(const onstack_environment *settings, onstack_options *options) {
  onstack_options_init(options, sizeof(*options));
  options->frequency = settings->frequency;
  options->clock = settings->clock;
  options->on_stack = settings->on_stack ? ONSTACK_ON : ONSTACK_OFF;
  options->interpreters = settings->interpreters ? ONSTACK_ON : ONSTACK_OFF;
  options->heap_interval = settings->heap_interval;
  options->unwinder = settings->unwinder[0] ? settings->unwinder : NULL;
  options->label_bytes = settings->spans ? ONSTACK_SPAN_BYTES : 0;
}

int onstack_sampling_start(const onstack_environment *settings, int number, uint32_t tries) {
  const onstack_profile_options kept = {.size = sizeof(kept),
                                        .timeline_bytes = settings->timeline ? ONSTACK_TIMELINE_BYTES : 0};
  onstack_options options;
  onstack_sampling_options(settings, &options);
  const uint64_t told_ns = onstack_first_ticks_end(); /* a tick of theirs is no foreign signal of the session's */
  sampling.number = number;
  sampling.written = 0;
  memset(&sampling.profile_file, 0, sizeof(sampling.profile_file));
  int result = onstack_profile_new(&kept, &sampling.profile);
  options.sink = onstack_profile_sink;
  options.sink_data = sampling.profile;
  if (settings->spans) onstack_thread_spans_use(ONSTACK_ON); /* or later, when somebody who publishes them is there */
  if (result == 0) result = sampling_start_session(&options, tries);
  if (result == 0) {
    const bool of_cpu_time = onstack_session_kind(sampling.session) == ONSTACK_KIND_CPU;
    sampling.before = number < 0 && of_cpu_time ? sampling_ticks_before(told_ns) : 0;
    if (of_cpu_time && settings->follow) onstack_first_ticks_open(sampling.session);
    onstack_store_relaxed(&sampling.on, 1u); /* an end waits from here on, so that what is taken back is written */
    onstack_first_ticks_take_back(sampling.session, sampling.profile);
    return 0;
  }
  onstack_profile_free(sampling.profile);
  sampling.profile = NULL;
  onstack_first_ticks_give_up(); /* the host may have little address space */
  sampling_complain(settings, result);
  return result;
}

static void sampling_complain_of_file(const char *what, const char *name, int code) {
  const char *text = sampling_text(code);
  if (code == -EEXIST) text = "something that is not a regular file is there; give another name";
  onstack_complain("%s lost: %s: %s", what, name, text);
}

/* `error` is the first thing that went wrong, as -errno or a code of the library's. */
static int sampling_write(sampling_writer *writer, const onstack_environment *settings, bool ask_malloc) {
  int error = onstack_new_file_begin(&writer->output, settings->profile, sampling.number, &sampling.profile_file);
  if (error < 0) return error;
  error = onstack_compress_begin(&writer->compress, onstack_new_file_write, &writer->output);
  if (error < 0) {
    onstack_new_file_end(&writer->output, false);
    return error;
  }
  /* Without memory for the comments the profile is worth as much. */
  char *comments = sampling.session ? status_make_text(sampling.session, sampling.before, !sampling.on,
                                                       settings->kind == ONSTACK_KIND_ALLOCATION, ask_malloc)
                                    : NULL;
  /* The kind says itself where there is a sample; a process that ended before the session began has none. */
  const onstack_write_options options = {.size = sizeof(options),
                                         .comments = comments,
                                         .kind = settings->kind,
                                         .heap_age_ns = settings->heap_age_s * (uint64_t)1000000000};
  int written = onstack_profile_write_pprof(sampling.profile, &options, onstack_compress_put, &writer->compress);
  free(comments);
  onstack_compress_end(&writer->compress);
  error = onstack_new_file_end(&writer->output, written == 0);
  return error < 0 ? error : written;
}

/* `last`: what goes wrong is told. */
static int sampling_write_file(const onstack_environment *settings, bool last, bool ask_malloc) {
  sampling_writer *writer = malloc(sizeof(*writer));
  int error = writer ? sampling_write(writer, settings, ask_malloc) : -ENOMEM;
  const char *name = writer && writer->output.name[0] ? writer->output.name : settings->profile;
  if (error < 0 && last) sampling_complain_of_file("the profile is", name, error);
  free(writer);
  return error;
}

/* Of every kind: with none a file that is named by the process id is not written. */
static uint64_t sampling_count(void) {
  uint64_t count = 0, of_kind;
  for (onstack_kind kind = 1; kind < ONSTACK_KINDS; kind++) {
    onstack_profile_totals(sampling.profile, kind, &of_kind, NULL, NULL);
    count += of_kind;
  }
  return count;
}

bool onstack_sampling_collect(bool all) {
  return sampling.on && onstack_first_ticks_collect(sampling.session, sampling.profile, all) > 0;
}

void onstack_sampling_find_unseen(const onstack_environment *settings) {
  static bool found;
  if (found || !sampling.on || settings->kind != ONSTACK_KIND_ALLOCATION) return;
  found = true;
  status_find_unseen();
}

bool onstack_sampling_save(const onstack_environment *settings) {
  if (!sampling.on) return false;
  onstack_session_poll(sampling.session, 0);
  uint64_t samples = sampling_count();
  /* A heap changes without samples: what was in use has been freed, or has grown old. */
  if (samples == sampling.written && settings->kind != ONSTACK_KIND_ALLOCATION) return samples > 0;
  if (sampling_write_file(settings, false, false) == 0) sampling.written = samples;
  return sampling.written > 0;
}

int onstack_sampling_tell(const onstack_environment *settings) {
  if (settings->status[0] == 0 || !sampling.session) return 0;
  return status_replace(settings->status, &sampling.status_file, sampling.session, sampling.before, !sampling.on);
}

/* Why most of the CPU time of a program that ran for a while has no sample. Less than that is no loss worth a line. */
static void sampling_complain_of_ticks(const onstack_stats *stats) {
  const bool blocked = stats->blocked > stats->dropped_no_stack;
  const uint64_t ticks = blocked ? stats->blocked : stats->dropped_no_stack;
  const char *advice = onstack_advice(blocked ? "blocked" : "dropped_no_stack");
  const uint64_t sampled_ns = stats->recorded * stats->period, used_ns = stats->cpu_ns;
  if (stats->samples == 0 && ticks >= SAMPLING_WORTH) {
    onstack_complain("no samples: %" PRIu64 " %s", ticks, advice);
    return;
  }
  if (used_ns < 2 * sampled_ns + SAMPLING_WORTH_NS) return;
  const uint64_t missing_ns = used_ns - sampled_ns, missing_ms = missing_ns / 1000000, used_ms = used_ns / 1000000;
  if (ticks * stats->period > missing_ns / 2)
    onstack_complain("%" PRIu64 " of %" PRIu64 " ms of CPU time have no sample: %" PRIu64 " %s", missing_ms, used_ms, ticks,
                     advice);
  else
    onstack_complain("%" PRIu64 " of %" PRIu64 " ms of CPU time have no sample: the counters in the profile "
                     "(onstack.stats) say what was lost; threads that end before a tick are in none",
                     missing_ms, used_ms);
}

/* What the profile had no memory for is missing in it, and whole profiles look the same; so do empty ones. */
static void sampling_complain_of_loss(void) {
  onstack_stats stats = {.size = sizeof(stats)};
  if (!sampling.session || onstack_session_stats(sampling.session, &stats) < 0) return;
  if (stats.dropped_sink > 0)
    onstack_complain("%" PRIu64 " of %" PRIu64 " samples are not in the profile: %s", stats.dropped_sink, stats.samples,
                     strerror(ENOMEM));
  else
    sampling_complain_of_ticks(&stats);
}

/* Who asked for spans and has none should not look for them in the profile. */
static void sampling_complain_of_spans(const onstack_environment *settings) {
  if (settings->spans && sampling.session && onstack_thread_spans_use(ONSTACK_ON) < 0)
    onstack_complain(
        "ONSTACK_SPANS=1: no loaded library publishes spans (the symbol otel_thread_ctx_v1): samples name none");
}

void onstack_sampling_end(const onstack_environment *settings, bool ask_malloc) {
  bool empty_wanted = !onstack_new_file_has_pid(settings->profile) && !settings->successor;
  onstack_first_ticks_close();
  if (sampling.session) onstack_first_ticks_collect(sampling.session, sampling.profile, true);
  if (sampling.session) onstack_session_stop(sampling.session);
  onstack_first_ticks_collect(NULL, sampling.profile, true); /* of those that were in their handlers meanwhile */
  onstack_store_relaxed(&sampling.on, 0u);
  sampling_complain_of_loss();
  sampling_complain_of_spans(settings);
  if (!sampling.profile && (!empty_wanted || onstack_profile_new(NULL, &sampling.profile) < 0)) return;
  int lost = empty_wanted || sampling_count() > 0 ? sampling_write_file(settings, true, ask_malloc) : 0;
  int status_lost = onstack_sampling_tell(settings);
  /* What took the profile as well has had its line. */
  if (status_lost < 0 && lost == 0) sampling_complain_of_file("the counters are", settings->status, status_lost);
  onstack_session_free(sampling.session);
  onstack_profile_free(sampling.profile);
  sampling.session = NULL;
  sampling.profile = NULL;
}

void onstack_sampling_forget(void) {
  onstack_new_file_process_begins();
  memset(&sampling.profile_file, 0, sizeof(sampling.profile_file));
  memset(&sampling.status_file, 0, sizeof(sampling.status_file));
  sampling.session = NULL;
  sampling.profile = NULL;
  onstack_store_relaxed(&sampling.on, 0u);
}
