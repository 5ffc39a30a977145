/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* System calls by name, the errors that a kernel gives for them, and those whose failure says nothing about us. */
#ifndef ONSTACK_FAULTS_CALLS_H
#define ONSTACK_FAULTS_CALLS_H

typedef struct call_kind {
  int number;
  const char *name;
  int error;          /* a failure that a healthy kernel gives, as a positive errno */
  const char *exempt; /* not NULL: why it is never made to fail */
  const char *needed; /* not NULL: why a program that is refused it ends without our help */
} call_kind;

/* Never NULL; an unlisted call has its number as its name and EPERM. Static until the next call. */
const call_kind *call_find(int number);

#endif
