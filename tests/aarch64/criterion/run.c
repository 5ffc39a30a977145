/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Runs the tests of a program, but those named as an argument (suite/test), one child each, and prints a line for each as
   check.c does. */
#include "criterion.h"

#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#define QUICK_SKIPPED 77
#define QUICK_LIMIT 60u /* seconds for a test that names none */

static const quick_test *quick_first;
static const quick_test **quick_end = &quick_first;

void quick_register(quick_test *test) {
  *quick_end = test;
  quick_end = &test->next;
}

static void quick_print(const char *text, va_list arguments) {
  vfprintf(stderr, text, arguments);
  fputc('\n', stderr);
}

void quick_tell(const char *text, ...) {
  va_list arguments;
  va_start(arguments, text);
  quick_print(text, arguments);
  va_end(arguments);
}

void quick_fail(const char *file, int line, const char *what, const char *text, ...) {
  va_list arguments;
  va_start(arguments, text);
  fprintf(stderr, "%s:%d: %s:", file, line, what);
  quick_print(text, arguments);
  va_end(arguments);
  _exit(1);
}

void quick_skip(const char *text, ...) {
  va_list arguments;
  va_start(arguments, text);
  quick_print(text, arguments);
  va_end(arguments);
  _exit(QUICK_SKIPPED);
}

static void quick_child(const quick_test *test) {
  alarm(test->timeout ? test->timeout : QUICK_LIMIT);
  for (const quick_test *suite = quick_first; suite; suite = suite->next)
    if (!suite->body && suite->init && strcmp(suite->suite, test->suite) == 0) suite->init();
  if (test->init) test->init();
  test->body();
  exit(0);
}

static bool quick_run(const quick_test *test) {
  int status = 0;
  fflush(stdout);
  pid_t child = fork();
  if (child == 0) quick_child(test);
  waitpid(child, &status, 0);
  const bool skipped = WIFEXITED(status) && WEXITSTATUS(status) == QUICK_SKIPPED;
  const bool good = status == 0 || skipped;
  printf("%s %s/%s", skipped ? "skip" : good ? "ok" : "not ok", test->suite, test->name);
  if (WIFSIGNALED(status)) printf(": signal %d%s", WTERMSIG(status), WTERMSIG(status) == SIGALRM ? " (out of time)" : "");
  putchar('\n');
  return good;
}

static bool quick_left_out(const quick_test *test, int count, char **names) {
  char name[300];
  snprintf(name, sizeof(name), "%s/%s", test->suite, test->name);
  for (int i = 0; i < count; i++)
    if (strcmp(name, names[i]) == 0) return true;
  return false;
}

int main(int argc, char **argv) {
  int run = 0, failed = 0;
  for (const quick_test *test = quick_first; test; test = test->next) {
    if (!test->body || quick_left_out(test, argc - 1, argv + 1)) continue;
    run++;
    failed += !quick_run(test);
  }
  if (run == 0) printf("not ok %s: no test in it\n", argv[0]);
  return failed > 0 || run == 0;
}
