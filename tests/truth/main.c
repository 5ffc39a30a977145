/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Steps through a subject and prints how onstack's walks compare with the truth.
 *   <program> [--every N] [--max-steps N] [--places N]
 * Exit: 0 the subject ended well, 1 it did not, 2 wrong arguments, 77 this system does not let us trace.
 */
#include "control/code_map.h"
#include "control/modules.h"
#include "subject.h"
#include "tracer.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <unistd.h>

static void *main_thread(void *result) {
  *(int *)result = subject_run();
  return NULL;
}

static int main_subject(void) {
  pthread_t thread;
  int result = 1;
  if (subject_whole) return subject_run();
  if (pthread_create(&thread, NULL, main_thread, &result) != 0) return 1;
  pthread_join(thread, NULL);
  return result;
}

/* Again, with the layout that the child will have as well. */
static int main_without_randomization(char **arguments) {
  int now = personality(0xffffffff);
  if (now >= 0 && (now & ADDR_NO_RANDOMIZE)) return 0;
  if (now < 0 || personality((unsigned long)now | ADDR_NO_RANDOMIZE) < 0) return -1;
  execv("/proc/self/exe", arguments);
  return -1;
}

static pid_t main_start_child(const char *program) {
  pid_t child = fork();
  if (child != 0) return child;
  char path[4096];
  ssize_t length = readlink("/proc/self/exe", path, sizeof(path) - 1);
  if (length < 0 || ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0) _exit(77);
  path[length] = 0;
  execl(path, program, "--subject", (char *)NULL);
  _exit(77);
}

static uint64_t main_option(int count, char **arguments, const char *name, uint64_t otherwise) {
  for (int i = 1; i + 1 < count; i++)
    if (strcmp(arguments[i], name) == 0) return strtoull(arguments[i + 1], NULL, 10);
  return otherwise;
}

int main(int count, char **arguments) {
  static truth_tally tally;
  if (count == 2 && strcmp(arguments[1], "--subject") == 0) return main_subject();
  truth_plan plan = {main_option(count, arguments, "--every", 1), main_option(count, arguments, "--max-steps", UINT64_MAX),
                     subject_whole};
  if (plan.every == 0 || count % 2 == 0) {
    fprintf(stderr, "usage: %s [--every N] [--max-steps N] [--places N]\n", arguments[0]);
    return 2;
  }
  if (main_without_randomization(arguments) != 0) {
    fprintf(stderr, "truth: address randomization cannot be turned off here (personality): %s\n", strerror(errno));
    return 77;
  }
  onstack_modules_refresh(SIZE_MAX);
  onstack_code_map_refresh(NULL);
  pid_t child = main_start_child(arguments[0]);
  if (child < 0) return 77;
  int result = truth_trace(child, &plan, &tally);
  if (tally.steps == 0) {
    fprintf(stderr, "truth: not one step; is ptrace allowed here?\n");
    return 77;
  }
  truth_tally_print(&tally, subject_name, (uint32_t)main_option(count, arguments, "--places", 10), stdout);
  bool ended = result == 0 || tally.steps >= plan.max_steps;
  if (!ended) fprintf(stderr, "truth: %s ended with %d\n", subject_name, result);
  return ended ? 0 : 1;
}
