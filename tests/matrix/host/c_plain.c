/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A C program with C's threads. */
#include "plain.h"

int main(int argc, char **argv) { return matrix_plain_main(argc, argv); }
