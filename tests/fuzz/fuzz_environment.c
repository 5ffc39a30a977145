/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The preload's variables with any content. Promises: either one complaint that ends in this file's bounds and nothing
 * wanted, or settings within bounds; names of files are absolute and short enough; the variables stay where they were
 * (hosts keep pointers to them); and what the same process becomes by exec reads the same settings again.
 *
 * Input: one byte of choice a variable, then its text; a few texts are given, so that right ones are reached.
 */
#include "fuzz.h"

#include "preload/environment.c" /* its list of what was kept */
#include "preload/new_file.c"    /* how it makes a name */

#include <stdarg.h>
#include <unistd.h>

#define NAMES ((uint32_t)(sizeof(names) / sizeof(names[0])))
#define LONGEST (2u * ONSTACK_NEW_FILE_NAME)

static const char *const names[] = {"ONSTACK_PROFILE",  "CPUPROFILE",          "ONSTACK_FREQUENCY", "CPUPROFILE_FREQUENCY",
                                    "ONSTACK_CLOCK",    "CPUPROFILE_REALTIME", "CPUPROFILESIGNAL",  "ONSTACK_FORK",
                                    "ONSTACK_UNWINDER", "ONSTACK_STATUS"};
static const char *const texts[] = {"",   "/tmp/a", "out-%p.pb.gz", "a%%b%p%+", "99",      "10000", "wall", "cpu",
                                    "12", "follow", "stop",         "rules",    "/tmp/%+", "%+",    "-1",   "0x10"};

static uint32_t complaints;

void onstack_host_stderr_remember(void) {}

const char *onstack_allocator_before(void) { return NULL; }

void onstack_complain(const char *format, ...) {
  char line[1024];
  va_list arguments;
  va_start(arguments, format);
  int length = vsnprintf(line, sizeof(line), format, arguments);
  va_end(arguments);
  fuzz_check(length > 10 && (size_t)length < sizeof(line));
  complaints++;
}

/* "NAME=text" in a block of its own size, or NULL. */
static char *take_variable(const char *name, fuzz_input *input) {
  uint64_t kind = fuzz_take(input, 1);
  size_t used = strlen(name) + 1;
  if (kind % 4 == 0) return NULL;
  size_t length = kind % 4 == 1 ? (size_t)fuzz_take(input, 1) : 0;
  if (kind == 255) length = (size_t)fuzz_take(input, 2) % LONGEST;
  const char *given = kind % 4 >= 2 && kind != 255 ? texts[kind / 4 % (sizeof(texts) / sizeof(texts[0]))] : "";
  char *variable = calloc(1, used + length + strlen(given) + 1);
  if (!variable) abort();
  sprintf(variable, "%s=%s", name, given);
  for (size_t i = 0; i < length; i++) {
    char c = input->left ? (char)fuzz_take(input, 1) : 'x';
    variable[used + i] = c ? c : '%';
  }
  return variable;
}

static void check_name(const char *name, bool may_be_empty) {
  fuzz_check(memchr(name, 0, ONSTACK_NEW_FILE_NAME));
  if (name[0] == 0) {
    fuzz_check(may_be_empty);
    return;
  }
  fuzz_check(name[0] == '/');
  for (int number = -1; number < 2; number++) {
    static onstack_new_file output;
    onstack_new_file_last last = {.number = number < 0 ? 0 : UINT32_MAX};
    output.pattern = name;
    output.number = number == 1 ? INT32_MAX : number;
    output.last = &last;
    const int result = new_file_name(&output);
    fuzz_check(result == -ENAMETOOLONG ||
               (result == 0 && output.name[0] == '/' && strlen(output.name) < sizeof(output.name)));
  }
}

static void check_settings(const onstack_environment *settings) {
  fuzz_check(complaints == 0);
  fuzz_check(settings->frequency <= ONSTACK_MAX_FREQUENCY);
  fuzz_check(settings->clock <= ONSTACK_CLOCK_WALL_SIGNAL);
  fuzz_check(settings->toggle >= 0 && settings->toggle <= SIGRTMAX);
  fuzz_check(settings->toggle != SIGKILL && settings->toggle != SIGSTOP && settings->toggle != SIGPROF);
  fuzz_check(memchr(settings->unwinder, 0, sizeof(settings->unwinder)));
  fuzz_check(settings->kept_out == !settings->follow);
  if (settings->follow) fuzz_check(onstack_new_file_has_pid(settings->profile));
  check_name(settings->profile, false);
  check_name(settings->status, true);
}

static bool read_all(char **variables, onstack_environment *settings) {
  char **host = environ;
  memset(settings, 0, sizeof(*settings));
  for (size_t i = 0; i < ONSTACK_COUNT_OF(environment_kept_list); i++)
    environment_kept_list[i].filled = false, environment_kept_list[i].mark = 0;
  complaints = 0;
  environ = variables;
  bool good = onstack_environment_read(settings);
  environ = host;
  fuzz_check(complaints == (good ? 0u : 1u) && (good || !settings->wanted));
  if (settings->wanted) check_settings(settings);
  return good;
}

/* What exec would hand on, copied as the kernel does. */
static void check_successor(const onstack_environment *before, char **variables, bool saved) {
  char *handed[NAMES + 1], *copies[NAMES + 1] = {NULL};
  onstack_environment after;
  onstack_environment_for_exec(before, saved, variables, handed);
  uint32_t count = 0;
  for (; handed[count]; count++) copies[count] = strdup(handed[count]);
  bool good = read_all(copies, &after);
  if (before->wanted) {
    fuzz_check(good && after.wanted && after.successor == (before->kept_out ? saved : before->successor));
    fuzz_check(strcmp(after.profile, before->profile) == 0 && strcmp(after.status, before->status) == 0);
    fuzz_check(after.follow == before->follow && after.clock == before->clock && after.toggle == before->toggle);
    fuzz_check(after.frequency == before->frequency && strcmp(after.unwinder, before->unwinder) == 0);
  }
  for (uint32_t i = 0; i < count; i++) free(copies[i]);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  char *variables[NAMES + 1];
  uint32_t count = 0;
  for (uint32_t i = 0; i < NAMES; i++) {
    variables[count] = take_variable(names[i], &input);
    count += !!variables[count];
  }
  variables[count] = NULL;
  onstack_environment settings;
  read_all(variables, &settings);
  for (uint32_t i = 0; i < count; i++) fuzz_check(strchr(variables[i], '='));
  check_successor(&settings, variables, size & 1);
  for (uint32_t i = 0; i < count; i++) free(variables[i]);
  return 0;
}
