/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the environment asks for; docs/man/libonstack-preload.7 is the user's view of it. The only code of the project's
 * libraries that reads the environment.
 *
 * A process that keeps its children out empties its own copy of the variable that names the profile, in place: every way
 * to start a child (fork and exec, posix_spawn, the system calls of a runtime) hands on the emptied one, and the child's
 * copy of this library does nothing. Names and order of the variables stay, since hosts keep pointers to them. What the
 * same process becomes by exec gets the variables back (onstack_environment_for_exec).
 */
#ifndef ONSTACK_PRELOAD_ENVIRONMENT_H
#define ONSTACK_PRELOAD_ENVIRONMENT_H

#include "onstack/onstack.h"
#include "preload/new_file.h"

typedef struct onstack_environment {
  bool wanted;                         /* false: nothing is asked for, the rest is void */
  bool follow;                         /* children do the same, each with its own file */
  bool kept_out;                       /* the variables were emptied */
  bool successor;                      /* the program before this one in the process has left a profile: an empty one is
                                        not put in its place */
  int dump;                            /* signal that asks for a dump on stderr; 0: none */
  int toggle;                          /* signal that starts and stops; 0: from the beginning to the end */
  uint32_t frequency;                  /* 0: the library's default; of a heap profile always */
  uint32_t heap_interval;              /* 0: the library's default */
  uint32_t heap_age_s;                 /* younger allocations do not count as in use */
  bool interpreters;                   /* frames of interpreted languages */
  bool timeline;                       /* times of samples */
  bool spans;                          /* of OpenTelemetry, that threads are in */
  bool on_stack;                       /* handlers run on alternate signal stacks */
  onstack_clock clock;                 /* 0: the library's default */
  onstack_kind kind;                   /* of an empty profile; 0: CPU time */
  char unwinder[64];                   /* "": the library's default */
  char profile[ONSTACK_NEW_FILE_NAME]; /* patterns, absolute. "": only dumps are asked for */
  char status[ONSTACK_NEW_FILE_NAME];  /* "": none */
} onstack_environment;

/*
 * Reads them once, in the constructor. Returns false when something is wrong, after one line on stderr; then nothing is
 * wanted. Nothing is read in a set-user-ID program.
 */
ONSTACK_INTERNAL bool onstack_environment_read(onstack_environment *settings);

/*
 * The environment for an exec of this very process: `out` has room for the pointers of `given` and its NULL, and gets
 * them with the emptied variables filled again. `saved`: this program leaves a profile behind. Async-signal-safe.
 */
ONSTACK_INTERNAL void onstack_environment_for_exec(const onstack_environment *settings, bool saved, char *const given[],
                                                   char **out);

#endif
