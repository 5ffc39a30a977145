/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A dump: a session of the clock `wall` for some moments, of which each thread's first sample stays. Who waits is looked at
 * from outside, and who runs is met by a tick after DUMP_HZ's period of CPU time.
 */
#include "onstack/onstack.h"
#include "onstack/profile.h"

#include "platform/process.h"
#include "platform/sys.h"
#include "platform/calls.h"
#include "sampler/interpreter/interpreter.h"
#include "sampler/threads/task.h"
#include "sampler/signal/own_threads.h"
#include "profile/text.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define DUMP_HZ 100u
#define DUMP_LABEL_BYTES 1024u
#define DUMP_DEPTH 512u
#define DUMP_TIDS (1u << 22) /* ids are below (include/linux/threads.h, PID_MAX_LIMIT) */
#define DUMP_BITS 64u

/* Each round for threads that those before it have not met: some wait long for a processor. */
static const uint32_t dump_rounds_ms[] = {30, 70, 200};

typedef struct dump_thread {
  uint32_t tid;
  uint64_t name[3]; /* 16 bytes and a NUL */
} dump_thread;

typedef struct dump {
  onstack_profile *profile;
  uint64_t *seen; /* a bit each thread id; the kernel gives memory only where bits are set */
  int32_t asking; /* the thread that is in here */
  uint32_t threads, missing_count;
  dump_thread *missing; /* threads without a stack when the last round was over */
  int error;
} dump;

static bool dump_has(const dump *now, uint32_t tid) {
  return tid < DUMP_TIDS && (now->seen[tid / DUMP_BITS] >> tid % DUMP_BITS & 1) != 0;
}

static bool dump_is_blocked(const onstack_sample *sample) {
  static const char state[] = "state\0blocked";
  return sample->label_bytes >= sizeof(state) && memcmp(sample->labels, state, sizeof(state)) == 0;
}

static int dump_sink(void *data, const onstack_sample *sample) {
  dump *now = data;
  const uint32_t tid = (uint32_t)sample->tid;
  if (tid >= DUMP_TIDS || dump_has(now, tid)) return 0;
  /* Who asks waits in dump_sleep; what else it does here is our work. */
  if (sample->tid == now->asking && !dump_is_blocked(sample)) return 0;
  onstack_sample stack = *sample;
  stack.kind = ONSTACK_KIND_DUMP;
  stack.unit = ONSTACK_UNIT_COUNT;
  stack.value = stack.weight = 1;
  stack.period = 0;
  const int result = onstack_profile_sink(now->profile, &stack);
  if (result != 0) return result;
  now->seen[tid / DUMP_BITS] |= (uint64_t)1 << tid % DUMP_BITS;
  now->threads++;
  return 0;
}

static void dump_miss(void *data, uint32_t tid) {
  dump *now = data;
  dump_thread thread = {.tid = tid};
  if (dump_has(now, tid) || onstack_own_is((int32_t)tid) || !onstack_task_name(tid, thread.name)) return;
  if (onstack_task_state(tid) == 'Z') return; /* the first thread, which has ended before the process */
  dump_thread *more = realloc(now->missing, (now->missing_count + (size_t)1) * sizeof(*more));
  if (!more) {
    now->error = -ENOMEM;
    return;
  }
  now->missing = more;
  now->missing[now->missing_count++] = thread;
}

static void dump_sleep(uint32_t ms) {
  const uint64_t until_ns = onstack_monotonic_ns() + ms * (uint64_t)1000000;
  const struct timespec until = {(time_t)(until_ns / 1000000000u), (long)(until_ns % 1000000000u)};
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL) == EINTR) continue;
}

static int dump_round(dump *now, uint32_t ms) {
  onstack_options options;
  onstack_interpreter_list interpreters;
  onstack_session *session;
  onstack_options_init(&options, sizeof(options));
  onstack_providers_list(&interpreters);
  options.clock = ONSTACK_CLOCK_WALL;
  options.frequency = DUMP_HZ;
  options.max_depth = DUMP_DEPTH;
  options.label_bytes = DUMP_LABEL_BYTES;
  options.interpreters = interpreters.count > 0 ? ONSTACK_ON : ONSTACK_OFF;
  options.sink = dump_sink;
  options.sink_data = now;
  int result = onstack_session_start(&options, &session);
  if (result < 0) return result;
  dump_sleep(ms);
  result = onstack_session_stop(session);
  onstack_session_free(session);
  return result;
}

static void dump_release(dump *now) {
  free(now->seen);
  free(now->missing);
}

/* Whatever it returns, the caller releases. */
static int dump_take(dump *now, onstack_profile *profile) {
  *now = (dump){.profile = profile, .asking = onstack_sys_gettid(), .seen = calloc(DUMP_TIDS / DUMP_BITS, sizeof(uint64_t))};
  if (!now->seen) return -ENOMEM;
  for (size_t i = 0; i < ONSTACK_COUNT_OF(dump_rounds_ms); i++) {
    const int result = dump_round(now, dump_rounds_ms[i]);
    if (result < 0) return i == 0 ? result : now->error; /* later: what there is, and who is missing has a line */
    now->missing_count = 0;
    onstack_task_list_each(dump_miss, now); /* without a list those that the session has found are all */
    if (now->error != 0 || now->missing_count == 0) break;
  }
  return now->error;
}

ONSTACK_API int onstack_dump_take(onstack_profile *profile) {
  ONSTACK_UNCANCELLED;
  dump now;
  if (!profile) return ONSTACK_E_OPTIONS;
  const int result = dump_take(&now, profile);
  const int missing = (int)now.missing_count;
  dump_release(&now);
  return result < 0 ? result : missing;
}

static void dump_write_missing(const dump *now, onstack_profile_output *output) {
  static const char why[] = " no stack: it began just now, or got no processor, or blocks the profiling signal\n";
  for (uint32_t i = 0; i < now->missing_count; i++) {
    onstack_profile_output_put(output, "\n", 1);
    onstack_threads_text_thread(output, (int32_t)now->missing[i].tid, (const char *)now->missing[i].name);
    onstack_profile_output_put(output, why, sizeof(why) - 1);
  }
}

static int dump_write(const dump *now, const onstack_write_options *options, onstack_profile_output *output) {
  char head[128];
  const int length =
      snprintf(head, sizeof(head), "onstack dump of process %" PRId32 ": %" PRIu32 " threads, %" PRIu32 " without a stack\n",
               onstack_sys_getpid(), now->threads + now->missing_count, now->missing_count);
  onstack_profile_output_put(output, head, (size_t)length);
  const int result = onstack_threads_text(now->profile, options, output);
  if (result == 0) dump_write_missing(now, output);
  return result == 0 ? output->error : result;
}

ONSTACK_API int onstack_dump(const onstack_write_options *options, onstack_writer writer, void *writer_data) {
  ONSTACK_UNCANCELLED;
  dump now = {.seen = NULL};
  onstack_profile *profile;
  onstack_profile_output output;
  if (!writer) return ONSTACK_E_OPTIONS;
  int result = onstack_profile_new(NULL, &profile);
  if (result != 0) return result;
  result = dump_take(&now, profile);
  if (result == 0) result = onstack_profile_output_open(&output, writer, writer_data);
  if (result == 0) result = onstack_profile_output_close(&output, dump_write(&now, options, &output));
  dump_release(&now);
  onstack_profile_free(profile);
  return result;
}
