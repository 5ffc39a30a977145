/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/environment.h"

#include "preload/allocator.h"
#include "preload/descriptors.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

/* Variables that are emptied to keep children out, as "NAME=" and with what stood in them (made absolute). */
typedef struct environment_kept {
  const char *name;
  bool filled;
  size_t mark; /* where ENVIRONMENT_SUCCESSOR begins in `entry`; 0: none */
  char entry[ONSTACK_NEW_FILE_NAME + 24];
} environment_kept;

static environment_kept environment_kept_list[] = {
    {.name = "ONSTACK_PROFILE="}, {.name = "CPUPROFILE="}, {.name = "ONSTACK_STATUS="}, {.name = "ONSTACK_DUMP_SIGNAL="}};

/* Behind the name of the profile in the environment that an exec of the same process gets: see `successor`. */
#define ENVIRONMENT_SUCCESSOR "%+"

/* In ONSTACK_PROFILE instead of nothing, if CPUPROFILE is there as well and is not ours: it is not to take its place. */
#define ENVIRONMENT_NONE "%"

/* Set and not empty, or NULL. */
static const char *environment_get(const char *name) {
  const char *value = getenv(name);
  return value && value[0] ? value : NULL;
}

/* The first of two names that is set; *name is the one to blame. */
static const char *environment_either(const char *ours, const char *theirs, const char **name) {
  *name = environment_get(ours) ? ours : theirs;
  return environment_get(*name);
}

static bool environment_complain(const char *name, const char *value, const char *advice) {
  onstack_complain("%s=%.200s: %s; this process is not profiled", name, value, advice);
  return false;
}

static bool environment_number(const char *text, long low, long high, long *out) {
  char *end;
  errno = 0;
  *out = strtol(text, &end, 10);
  return errno == 0 && *end == 0 && *out >= low && *out <= high;
}

static bool environment_read_name(const char *name, const char *value, char out[ONSTACK_NEW_FILE_NAME]) {
  int result = onstack_new_file_pattern(value, out);
  if (result == 0) return true;
  if (result == -EINVAL) return environment_complain(name, value, "after % comes p (the process id) or another %");
  if (result == -ENAMETOOLONG) return environment_complain(name, value, "the name is too long");
  return environment_complain(name, value, "there is no working directory; give a name that begins with /");
}

static bool environment_read_rate(onstack_environment *settings) {
  const char *name, *value = environment_either("ONSTACK_FREQUENCY", "CPUPROFILE_FREQUENCY", &name);
  long number = 0;
  if (value && !environment_number(value, 1, ONSTACK_MAX_FREQUENCY, &number))
    return environment_complain(name, value, "give ticks a second, 1 to 10000");
  settings->frequency = (uint32_t)number;
  return true;
}

static bool environment_read_clock(onstack_environment *settings) {
  const char *value = environment_get("ONSTACK_CLOCK");
  if (!value) {
    if (environment_get("CPUPROFILE_REALTIME")) settings->clock = ONSTACK_CLOCK_WALL;
    return true;
  }
  static const struct {
    const char *name;
    onstack_clock clock;
  } clocks[] = {{"cpu", ONSTACK_CLOCK_CPU}, {"wall", ONSTACK_CLOCK_WALL}, {"wall-signal", ONSTACK_CLOCK_WALL_SIGNAL}};
  for (size_t i = 0; i < sizeof(clocks) / sizeof(clocks[0]); i++) {
    if (strcmp(value, clocks[i].name) != 0) continue;
    settings->clock = clocks[i].clock;
    return true;
  }
  return environment_complain("ONSTACK_CLOCK", value, "there are cpu, wall and wall-signal");
}

static bool environment_malloc_is_ours(void) {
  const char *other = onstack_allocator_before();
  if (other)
    onstack_complain(
        "ONSTACK_HEAP=1: malloc is that of %.200s, which comes before this library (in LD_PRELOAD the first one wins); "
        "this process is not profiled",
        other);
  return !other;
}

/* A heap profile instead of one of time. */
static bool environment_read_heap(onstack_environment *settings) {
  const char *value = environment_get("ONSTACK_HEAP"), *rate = environment_get("ONSTACK_HEAP_RATE");
  const char *age = environment_get("ONSTACK_HEAP_AGE");
  long number = 0, seconds = 0;
  if (!value || strcmp(value, "0") == 0) return true;
  if (strcmp(value, "1") != 0) return environment_complain("ONSTACK_HEAP", value, "give 1 for a heap profile, or 0");
  if (environment_get("ONSTACK_CLOCK"))
    return environment_complain("ONSTACK_HEAP", value, "a heap profile has no clock: take ONSTACK_CLOCK away");
  if (rate && !environment_number(rate, 1, 1L << 30, &number))
    return environment_complain("ONSTACK_HEAP_RATE", rate, "give the mean bytes between two samples, 1 to 1073741824");
  if (age && !environment_number(age, 0, INT32_MAX, &seconds))
    return environment_complain("ONSTACK_HEAP_AGE", age, "give whole seconds");
  if (!environment_malloc_is_ours()) return false;
  settings->clock = ONSTACK_CLOCK_HEAP;
  settings->kind = ONSTACK_KIND_ALLOCATION;
  settings->frequency = 0;
  settings->heap_interval = (uint32_t)number;
  settings->heap_age_s = (uint32_t)seconds;
  return true;
}

static bool environment_read_signal(const char *name, const char *example, int *signal) {
  const char *value = environment_get(name);
  long number = 0;
  static const uint8_t never[] = {SIGKILL, SIGSTOP, SIGPROF, SIGSEGV, SIGBUS, SIGILL,
                                  SIGFPE,  SIGTRAP, SIGSYS,  SIGABRT, SIGCHLD};
  if (value && (!environment_number(value, 1, SIGRTMAX, &number) || memchr(never, (int)number, sizeof(never)) ||
                (number >= 32 && number < SIGRTMIN)))
    return environment_complain(name, value, example);
  *signal = (int)number;
  return true;
}

static bool environment_read_signals(onstack_environment *settings) {
  if (!environment_read_signal("ONSTACK_DUMP_SIGNAL", "give the number of a signal that can be caught, such as 3 (SIGQUIT)",
                               &settings->dump))
    return false;
  if (settings->profile[0] == 0) return true;
  if (!environment_read_signal("CPUPROFILESIGNAL", "give the number of a signal that can be caught, such as 12",
                               &settings->toggle))
    return false;
  return settings->toggle == 0 || settings->toggle != settings->dump ||
         environment_complain("CPUPROFILESIGNAL", environment_get("CPUPROFILESIGNAL"),
                              "ONSTACK_DUMP_SIGNAL is the same signal: give another one");
}

static bool environment_read_interpreters(onstack_environment *settings) {
  const char *value = environment_get("ONSTACK_INTERPRETERS");
  settings->interpreters = !value || strcmp(value, "1") == 0;
  if (settings->interpreters || strcmp(value, "0") == 0) return true;
  return environment_complain("ONSTACK_INTERPRETERS", value, "give 0 for native frames alone, or 1");
}

static bool environment_read_timeline(onstack_environment *settings) {
  const char *value = environment_get("ONSTACK_TIMELINE");
  if (!value || strcmp(value, "0") == 0) return true;
  if (strcmp(value, "1") != 0)
    return environment_complain("ONSTACK_TIMELINE", value, "give 1 to keep the times of samples, or 0");
  if (settings->kind == ONSTACK_KIND_ALLOCATION)
    return environment_complain("ONSTACK_TIMELINE", value, "a heap profile has no times of samples");
  settings->timeline = true;
  return true;
}

static bool environment_read_spans(onstack_environment *settings) {
  const char *value = environment_get("ONSTACK_SPANS");
  settings->spans = value && strcmp(value, "1") == 0;
  if (!value || settings->spans || strcmp(value, "0") == 0) return true;
  return environment_complain("ONSTACK_SPANS", value, "give 1 for the spans that threads are in, or 0");
}

/* Children write over their parent's file where the name does not tell them apart, so then they are left out. */
static bool environment_read_fork(onstack_environment *settings) {
  const char *value = environment_get("ONSTACK_FORK");
  bool own_files = onstack_new_file_has_pid(settings->profile);
  settings->follow = own_files;
  if (!value) return true;
  if (strcmp(value, "follow") != 0 && strcmp(value, "stop") != 0)
    return environment_complain("ONSTACK_FORK", value, "there are follow (children are profiled too) and stop");
  settings->follow = value[0] == 'f';
  if (settings->follow && !own_files)
    return environment_complain("ONSTACK_FORK", value, "children need files of their own: put %p into ONSTACK_PROFILE");
  return true;
}

static bool environment_read_others(onstack_environment *settings) {
  const char *unwinder = environment_get("ONSTACK_UNWINDER"), *status = environment_get("ONSTACK_STATUS");
  if (unwinder && strlen(unwinder) >= sizeof(settings->unwinder))
    return environment_complain("ONSTACK_UNWINDER", unwinder, onstack_strerror(ONSTACK_E_UNWINDER));
  if (unwinder) strcpy(settings->unwinder, unwinder);
  return !status || environment_read_name("ONSTACK_STATUS", status, settings->status);
}

/* Its % is the last of an odd number: those before it stand in pairs, each for one in the name. */
static bool environment_is_successor(const char *value, size_t length) {
  size_t percents = 0;
  if (length == 0 || value[length - 1] != ENVIRONMENT_SUCCESSOR[1]) return false;
  while (percents + 1 < length && value[length - 2 - percents] == '%') percents++;
  return percents % 2 == 1 && length > strlen(ENVIRONMENT_SUCCESSOR);
}

static bool environment_read_profile(onstack_environment *settings, const char *name, const char *value) {
  char copy[ONSTACK_NEW_FILE_NAME];
  size_t length = strlen(value), tail = strlen(ENVIRONMENT_SUCCESSOR);
  settings->successor = environment_is_successor(value, length);
  if (!settings->successor) return environment_read_name(name, value, settings->profile);
  if (length - tail >= sizeof(copy)) return environment_complain(name, value, "the name is too long");
  memcpy(copy, value, length - tail);
  copy[length - tail] = 0;
  return environment_read_name(name, copy, settings->profile);
}

/* `left` is what remains in the variable, as short as any value. */
static void environment_empty(const char *name, const char *filled, bool marked, const char *left) {
  char *value = getenv(name);
  if (!value || value[0] == 0) return;
  for (size_t i = 0; i < ONSTACK_COUNT_OF(environment_kept_list); i++) {
    environment_kept *kept = &environment_kept_list[i];
    size_t length = strlen(name);
    if (strncmp(kept->name, name, length) != 0 || kept->name[length] != '=') continue;
    strcpy(kept->entry, kept->name);
    strcat(kept->entry, filled);
    kept->mark = marked ? strlen(kept->entry) : 0;
    if (marked) strcat(kept->entry, ENVIRONMENT_SUCCESSOR);
    kept->filled = true;
  }
  strcpy(value, left);
}

/* gperftools sets the high bit of the first byte as a mark for its children (GetUniquePathFromEnv). In a name that begins
   with a character of UTF-8, the high bit of the second byte is set as well. */
static const char *environment_unmarked(const char *value) {
  static char copy[ONSTACK_NEW_FILE_NAME];
  const bool marked = (value[0] & 0x80) && !(value[1] & 0x80) && strlen(value) < sizeof(copy);
  if (!marked) return value;
  strcpy(copy, value);
  copy[0] &= 0x7f;
  return copy;
}

/* NULL: none is wanted. A value that a parent has emptied means that this process is left out. */
static const char *environment_profile(const char **name) {
  const char *ours = environment_get("ONSTACK_PROFILE");
  if (ours && strcmp(ours, ENVIRONMENT_NONE) == 0) return NULL;
  const char *value = environment_either("ONSTACK_PROFILE", "CPUPROFILE", name);
  return value ? environment_unmarked(value) : NULL;
}

static void environment_keep_out(const onstack_environment *settings, const char *name, bool good) {
  const bool beside = name && strcmp(name, "ONSTACK_PROFILE") == 0 && environment_get("CPUPROFILE");
  if (name) environment_empty(name, settings->profile, true, beside ? ENVIRONMENT_NONE : "");
  environment_empty("ONSTACK_STATUS", settings->status, false, "");
  if (!good) environment_empty("ONSTACK_DUMP_SIGNAL", "", false, "");
}

static bool environment_read_on_stack(onstack_environment *settings) {
  const char *value = environment_get("ONSTACK_ON_STACK");
  settings->on_stack = !value || strcmp(value, "1") == 0;
  if (settings->on_stack || strcmp(value, "0") == 0) return true;
  return environment_complain("ONSTACK_ON_STACK", value, "give 0 to leave alternate signal stacks alone, or 1");
}

/* All that is about profiles. */
static bool environment_read_sampling(onstack_environment *settings, const char *name, const char *value) {
  return environment_read_profile(settings, name, value) && environment_read_fork(settings) &&
         environment_read_rate(settings) && environment_read_clock(settings) && environment_read_heap(settings) &&
         environment_read_interpreters(settings) && environment_read_timeline(settings) &&
         environment_read_spans(settings) && environment_read_others(settings);
}

/* Who forgot the file's name. Where it is there and empty, a parent keeps this process out. Said once: children inherit what is
   emptied here. */
static void environment_miss_profile(void) {
  char *heap = getenv("ONSTACK_HEAP");
  if (getenv("ONSTACK_PROFILE") || getenv("CPUPROFILE") || !heap || strcmp(heap, "1") != 0) return;
  onstack_host_stderr_remember();
  environment_complain("ONSTACK_HEAP", heap, "ONSTACK_PROFILE says where the profile goes, and is not set");
  heap[0] = 0;
}

bool onstack_environment_read(onstack_environment *settings) {
  const char *name = NULL, *value = environment_profile(&name);
  if (getauxval(AT_SECURE)) return true;
  if (!value) environment_miss_profile();
  if (!value && !environment_get("ONSTACK_DUMP_SIGNAL")) return true;
  onstack_host_stderr_remember();
  onstack_new_file_process_begins();
  settings->follow = true;
  bool good = (!value || environment_read_sampling(settings, name, value)) && environment_read_signals(settings) &&
              environment_read_on_stack(settings);
  settings->wanted = good;
  settings->kept_out = !settings->follow || !good; /* children would only repeat the complaint */
  if (settings->kept_out) environment_keep_out(settings, value ? name : NULL, good);
  return good;
}

static bool environment_is_emptied(const char *entry, const char *name) {
  const size_t length = strlen(name);
  return strncmp(entry, name, length) == 0 && (entry[length] == 0 || strcmp(entry + length, ENVIRONMENT_NONE) == 0);
}

void onstack_environment_for_exec(const onstack_environment *settings, bool saved, char *const given[], char **out) {
  for (size_t i = 0; i < ONSTACK_COUNT_OF(environment_kept_list); i++) {
    environment_kept *kept = &environment_kept_list[i];
    if (kept->mark) kept->entry[kept->mark] = saved ? ENVIRONMENT_SUCCESSOR[0] : 0;
  }
  for (; *given; given++) {
    *out = *given;
    for (size_t i = 0; settings->kept_out && i < ONSTACK_COUNT_OF(environment_kept_list); i++)
      if (environment_kept_list[i].filled && environment_is_emptied(*given, environment_kept_list[i].name))
        *out = environment_kept_list[i].entry;
    out++;
  }
  *out = NULL;
}
