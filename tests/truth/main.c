/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Steps through a subject and prints how onstack's walks compare with the truth.
 *   <program> [--every N] [--max-steps N] [--places N] [--least-steps N] [--least-exact PERCENT] [--most-skipped N]
 * Exit: 0 the subject ended well and the figures are good enough, 1 not so, 2 wrong arguments, 77 this system does not
 * let us trace. No frame may ever be invented and no root claimed too early; what else is asked for is in the options.
 */
#include "sampler/session/code_map_update.h"
#include "sampler/api/options.h"
#include "sampler/modules/modules.h"
#include "subject.h"
#include "tracer.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/personality.h>
#include <sys/ptrace.h>
#include <unistd.h>

__attribute__((weak)) void subject_prepare(void) {}

static void *main_thread(void *result) {
  *(int *)result = subject_run();
  return NULL;
}

static int main_subject(void) {
  pthread_t thread;
  sigset_t every;
  int result = 1;
  if (subject_whole) return subject_run();
  subject_prepare();
  if (pthread_create(&thread, NULL, main_thread, &result) != 0) return 1;
  /* A signal that the subject sends to the process is for its own thread, at once, and not for this one some time later. */
  sigfillset(&every);
  pthread_sigmask(SIG_SETMASK, &every, NULL);
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

static const char *main_text(int count, char **arguments, const char *name, const char *otherwise) {
  for (int i = 1; i + 1 < count; i += 2)
    if (strcmp(arguments[i], name) == 0) return arguments[i + 1];
  return otherwise;
}

static uint64_t main_number(int count, char **arguments, const char *name, const char *otherwise) {
  return strtoull(main_text(count, arguments, name, otherwise), NULL, 10);
}

static bool main_complain(bool wrong, const char *what) {
  if (wrong) fprintf(stderr, "  %s: %s\n", subject_name, what);
  return wrong;
}

/* Says what is not as it should be; true if nothing. */
static bool main_check(const truth_counts *counts, int count, char **arguments) {
  double exact = 100 * (double)counts->verdicts[TRUTH_EXACT] / (counts->compared ? (double)counts->compared : 1);
  bool wrong = false;
  wrong |= main_complain(counts->verdicts[TRUTH_INVENTED] > 0, "frames that nobody called from");
  wrong |= main_complain(counts->verdicts[TRUTH_FALSE_ROOT] > 0, "stacks that claim to be whole and are not");
  wrong |= main_complain(exact < strtod(main_text(count, arguments, "--least-exact", "0"), NULL), "too few exact");
  wrong |= main_complain(counts->verdicts[TRUTH_SKIPPED] > main_number(count, arguments, "--most-skipped", "0"),
                         "too many in which a caller is missing");
  wrong |= main_complain(counts->steps < main_number(count, arguments, "--least-steps", "1"), "too few steps to tell");
  return !wrong;
}

int main(int count, char **arguments) {
  static truth_counts counts;
  if (count == 2 && strcmp(arguments[1], "--subject") == 0) return main_subject();
  truth_plan plan = {main_number(count, arguments, "--every", "1"),
                     main_number(count, arguments, "--max-steps", "18446744073709551615"), subject_whole};
  if (plan.every == 0 || count % 2 == 0) {
    fprintf(stderr, "usage: %s [--every N] [--max-steps N] [--places N], see tests/truth/main.c\n", arguments[0]);
    return 2;
  }
  if (main_without_randomization(arguments) != 0) {
    fprintf(stderr, "truth: address randomization cannot be turned off here (personality): %s\n", strerror(errno));
    return 77;
  }
  if (!subject_whole) subject_prepare(); /* what it loads is then known here, at the same addresses */
  onstack_modules_refresh(SIZE_MAX);
  bool copy_works;
  onstack_reader_choose(&copy_works); /* notes where stacks begin, as a start does; the walks have a reader of their own */
  onstack_code_map_refresh(NULL);
  pid_t child = main_start_child(arguments[0]);
  if (child < 0) return 77;
  int result = truth_trace(child, &plan, &counts);
  if (counts.steps == 0) {
    fprintf(stderr, "truth: not one step; is ptrace allowed here?\n");
    return 77;
  }
  truth_counts_print(&counts, subject_name, (uint32_t)main_number(count, arguments, "--places", "10"), stdout);
  bool ended = result == 0 || counts.steps >= plan.max_steps;
  if (!ended) fprintf(stderr, "truth: %s ended with %d\n", subject_name, result);
  return main_check(&counts, count, arguments) && ended ? 0 : 1;
}
