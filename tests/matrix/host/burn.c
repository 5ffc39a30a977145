/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "driver.h"

#include <stdint.h>

/* On the thread's own stack: a shared cache line would make the cores wait for each other. */
void matrix_burn(void) {
  volatile uint64_t sink = 1;
  for (int i = 0; i < 10000; i++) sink = sink * 6364136223846793005u + 1442695040888963407u;
}
