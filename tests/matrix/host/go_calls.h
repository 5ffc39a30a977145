/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What the Go library exports (archive/main.go), however it comes into the process. */
#ifndef MATRIX_GO_CALLS_H
#define MATRIX_GO_CALLS_H

#include "driver.h"

typedef struct go_calls {
  int (*profile_start)(void);
  long long (*profile_stop)(void);
  long long (*external)(void); /* samples that this left out */
  int (*load_start)(char *mix);
  void (*load_stop)(void);
  int (*health)(void);
  void (*spin)(void);
} go_calls;

/* Runs the driver with Go as the other owner; `calls` must live until then. */
int matrix_go_main(int argc, char **argv, const go_calls *calls);

#endif
