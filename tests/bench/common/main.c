/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Command line: PROGRAM VARIANT CASE [key=value ...]. tests/bench/plan.py knows which combinations make sense. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "bench.h"

static const struct {
  const char *name;
  bench_case run;
} cases[] = {
    {"handler-cost", bench_case_handler_cost},
    {"handler-cold", bench_case_handler_cold},
    {"exact", bench_case_exact},
    {"memory", bench_case_memory},
    {"weights", bench_case_weights},
    {"short-threads", bench_case_short_threads},
    {"start-stop", bench_case_start_stop},
    {"overhead", bench_case_overhead},
    {"displacement", bench_case_displacement},
};

void bench_start(const bench_options *options, const bench_needs *needs) {
  const char *why = bench_subject_linked.start(options, needs);
  if (why) bench_fail("%s does not start: %s", bench_subject_linked.name, why);
}

void bench_stop(bench_counts *counts) {
  const char *why = bench_subject_linked.stop(counts);
  if (why) bench_fail("%s does not stop: %s", bench_subject_linked.name, why);
}

static bench_case find_case(const char *name) {
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
    if (strcmp(cases[i].name, name) == 0) return cases[i].run;
  return NULL;
}

static int parse_number(const char *text, double *out) {
  char *end;
  *out = strtod(text, &end);
  return end != text && *end == '\0' && *out >= 0 && *out < 1e9 ? 0 : -1;
}

static int parse_setting(char *argument, bench_options *options) {
  char *value = strchr(argument, '=');
  double number;
  if (!value) return -1;
  *value++ = '\0';
  if (strcmp(argument, "mode") == 0) {
    options->mode = value;
    return 0;
  }
  if (parse_number(value, &number) < 0) return -1;
  if (strcmp(argument, "seconds") == 0)
    options->seconds = number;
  else if (strcmp(argument, "hz") == 0)
    options->hz = (uint32_t)number;
  else if (strcmp(argument, "depth") == 0)
    options->depth = (uint32_t)number;
  else if (strcmp(argument, "threads") == 0)
    options->threads = (uint32_t)number;
  else if (strcmp(argument, "life_ms") == 0)
    options->life_ms = (uint32_t)number;
  else if (strcmp(argument, "repeats") == 0)
    options->repeats = (uint32_t)number;
  else
    return -1;
  return 0;
}

static int usage(const char *program, const char *problem) {
  fprintf(stderr,
          "%s\nusage: %s VARIANT CASE [mode=tick|warm|new|cold] [seconds=S] [hz=N] [depth=N] [threads=N] [life_ms=N] "
          "[repeats=N]\ncases:",
          problem, program);
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) fprintf(stderr, " %s", cases[i].name);
  fputc('\n', stderr);
  return BENCH_EXIT_USAGE;
}

int bench_run(int argc, char **argv) {
  bench_options options = {.mode = "tick", .hz = 100, .depth = 20, .threads = 1, .life_ms = 20, .repeats = 20, .seconds = 1};
  if (argc < 3) return usage(argv[0], "a variant and a case are needed");
  options.variant = argv[1];
  bench_case run = find_case(argv[2]);
  if (!run) return usage(argv[0], "no such case");
  for (int i = 3; i < argc; i++) {
    char *copy = strdup(argv[i]); /* argv stays whole: prepare may start the program again with it */
    if (!copy || parse_setting(copy, &options) < 0) return usage(argv[0], argv[i]);
  }
  if (!options.hz || !options.depth || !options.threads || !options.life_ms || options.repeats < 2)
    return usage(argv[0], "hz, depth, threads and life_ms start at 1, repeats at 2");
  if (bench_subject_linked.prepare) bench_subject_linked.prepare(argv, &options);
  return run(&options);
}
