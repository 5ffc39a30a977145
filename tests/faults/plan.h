/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * What the checker (the parent) and a subject (a child that runs sessions) share: a page that both write. Nothing here may
 * need a system call of the subject, since any of them may be the one that fails.
 */
#ifndef ONSTACK_FAULTS_PLAN_H
#define ONSTACK_FAULTS_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define PLAN_MAX_CALL 512
#define PLAN_NO_CALL (-1)
#define PLAN_FD 200
#define PLAN_EVERY_CALL (-2) /* every call is shown to the checker; to learn which there are */
#define PLAN_MOST_CALLS (-3) /* with `denied`: all but those of a worker that only computes, reads and writes */

/* Where the subject is; it goes on from a BEFORE or AFTER when `go` has that value. */
enum plan_phase {
  PLAN_BEGIN,
  PLAN_BEFORE,
  PLAN_START,
  PLAN_SAMPLING,
  PLAN_WRITE,
  PLAN_STOP,
  PLAN_FREE,
  PLAN_AFTER,
  PLAN_AGAIN,
  PLAN_END
};

typedef struct plan {
  /* Written by the checker before the fork. */
  int call;         /* the system call that fails, or PLAN_* */
  int also[2];      /* calls that are refused (EPERM) besides, so that what takes over is tried; 0: none */
  int error;        /* a positive errno */
  uint64_t nth;     /* the first that fails, from 1; 0: none */
  bool persistent;  /* that one and all later ones */
  bool denied;      /* refused by the kernel itself from the start: the checker is not asked */
  bool midway;      /* ... not from the start, but when the session has ticks */
  bool allocations; /* fails malloc, calloc and realloc in place of a system call */
  int rounds;       /* not 0: a clean session, and then so many that fail, which may leave no allocation and no slot */
  uint8_t ticks_by; /* ONSTACK_CLOCK_*; 0: CPU time */
  bool heap;        /* a heap session, of each allocation that the subject tells of */
  bool polled;      /* no thread of the library's */
  bool owner;       /* the process has a handler of its own for the signal */
  char **command;   /* not NULL: a program in place of the subject; it finds this page at PLAN_FD */
  int status;       /* that it must end with */
  void (*world)(struct plan *);  /* changes the subject's world before its threads are made; may be NULL */
  void (*limits)(struct plan *); /* the same afterwards */

  /* Written by both while it runs. */
  volatile int phase, go;
  volatile int armed;                     /* failures are wanted now */
  volatile int32_t host;                  /* the thread that is in code of the host, whose calls do not fail; 0: none */
  volatile uint64_t seen;                 /* calls (or allocations) of that kind while armed */
  volatile uint64_t injected;             /* of these, failed */
  volatile uint64_t at_start;             /* injected before start returned */
  volatile uint64_t calls[PLAN_MAX_CALL]; /* with PLAN_EVERY_CALL: how often each was made */

  /* What the subject found. */
  volatile int result; /* of start */
  volatile uint64_t ticks, recorded, samples;
  volatile uint64_t at_filter; /* ticks that had come before the filter, with `midway` */
  char clock[16], reader[16];
  char complaint[256]; /* the first thing that was wrong; "": nothing */
  char skipped[128];   /* why this cannot be tried here */
} plan;

#endif
