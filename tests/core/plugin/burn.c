/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A library that is opened and closed under sampling (test_modules.c). Built without frame pointers. */
void plugin_burn(unsigned long rounds);

static volatile unsigned long plugin_sum;

__attribute__((noinline)) static void plugin_leaf(unsigned long rounds) {
  for (unsigned long i = 0; i < rounds; i++) plugin_sum += i;
}

void plugin_burn(unsigned long rounds) {
  plugin_leaf(rounds);
  plugin_sum++; /* keeps the call from becoming a jump */
}
