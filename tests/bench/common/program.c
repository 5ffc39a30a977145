/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* The entry of the programs in C; a host of another language has its own. */
#include "bench.h"

int main(int argc, char **argv) {
  int status = bench_run(argc, argv);
  __asm__ volatile("" ::: "memory"); /* a jump would take this frame off the stacks */
  return status;
}
