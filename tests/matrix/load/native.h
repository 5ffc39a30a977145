/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#ifndef MATRIX_LOAD_NATIVE_H
#define MATRIX_LOAD_NATIVE_H

/* Burns about `microseconds` of the calling thread's CPU time. */
void matrix_load_native(int microseconds);

/* A thread that Go does not know, which burns until matrix_load_foreign_stop. 0 or an errno. */
int matrix_load_foreign_start(void);
void matrix_load_foreign_stop(void);

#endif
