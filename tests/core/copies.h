/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Several copies of the library in one process: the test's own, and copies of libonstack.so.0's file. */
#ifndef ONSTACK_TESTS_COPIES_H
#define ONSTACK_TESTS_COPIES_H

#include "onstack/onstack.h"

#include <stdbool.h>

#define T_COPIES 3

typedef struct t_copy {
  int (*init)(onstack_options *, size_t);
  int (*start)(const onstack_options *, onstack_session **);
  int (*stop)(onstack_session *);
  int (*poll)(onstack_session *, uint32_t);
  int (*release)(onstack_session *);
  int (*stats)(const onstack_session *, onstack_stats *);
  onstack_session *session; /* NULL: stopped */
} t_copy;

extern t_copy t_copies[T_COPIES];

/* Fills t_copies. The others than the first are of a version that cannot talk to it, if that is asked for. */
void t_copies_open(bool of_another_kind);

onstack_stats t_copy_stats(const t_copy *of);

#endif
