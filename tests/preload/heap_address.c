/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Built at fixed addresses: malloc's address is then one of this program's own PLT, which is no definition. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static void *(*volatile allocate)(size_t);
static void *kept[300];

__attribute__((noinline)) static void keep(void) {
  for (size_t i = 0; i < sizeof(kept) / sizeof(kept[0]); i++) kept[i] = memset(allocate(1000), 1, 1000);
}

int main(void) {
  allocate = malloc;
  keep();
  puts("at exit");
  return 0;
}
