/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A C program over a Go library that profiles by the Go package: the whole host is Go's. */
void matrixGoHost(void);

int main(void) {
  matrixGoHost();
  return 0;
}
