/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Records samples of this Go program for tests/aarch64/fixtures; with the build tag `record` only. */
#ifndef ONSTACK_AARCH64_GO_RECORD_H
#define ONSTACK_AARCH64_GO_RECORD_H

#include <stdint.h>

int record_start(void); /* 0, or an error of the library */
void record_stop(void);

/* The frames of the i-th sample, at most 64; 0: it is not whole, or no such sample. */
int record_frames(int sample, uint64_t *frames);
int record_count(void);

void record_keep(int sample); /* writes it */

/* The address of the i-th special function of the Go runtime, and a call of record_special for each. 0: no more. */
uint64_t record_special_at(int index);
void record_special(const char *name, uint64_t low);

void record_print(void);

#endif
