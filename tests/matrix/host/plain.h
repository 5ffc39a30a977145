/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A host without Go, whose threads are C's (threads.c) or Rust's (../rust/plain.rs): whoever defines them. */
#ifndef MATRIX_PLAIN_H
#define MATRIX_PLAIN_H

/* Runs the driver with owner.c as the other owner, on two threads that live as long as it does. The exit status. */
int matrix_plain_main(int argc, char **argv);

#endif
