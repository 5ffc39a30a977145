/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A C program with Go linked in as a c-archive. */
#include "go_calls.h"

#include "libmatrixgo.h"

int main(int argc, char **argv) {
  const go_calls calls = {matrixGoProfileStart, matrixGoProfileStop, matrixGoExternal, matrixGoLoadStart,
                          matrixGoLoadStop,     matrixGoHealth,      matrixGoSpin};
  return matrix_go_main(argc, argv, &calls);
}
