/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A program that loads what it needs with its first line, and keeps it. */
#include <stdlib.h>
#include <string.h>

static char *volatile table;

__attribute__((noinline)) static void load_table(void) {
  table = malloc((size_t)64 << 20);
  memset(table, 1, (size_t)64 << 20);
}

int main(void) {
  load_table();
  return table[7] - 1;
}
