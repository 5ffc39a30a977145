/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Built several times without frame pointers, with DEPTH frames of WORDS words each. */
#ifndef DEPTH
#define DEPTH 1
#define WORDS 4
#endif

void plugin_burn(unsigned long rounds);

static volatile unsigned long plugin_sum;

__attribute__((noinline)) static void plugin_frame(unsigned long rounds, unsigned depth) {
  volatile unsigned long room[WORDS];
  room[depth % WORDS] = rounds;
  if (depth < DEPTH)
    plugin_frame(rounds, depth + 1);
  else
    for (unsigned long i = 0; i < rounds; i++) plugin_sum += i;
  plugin_sum += room[depth % WORDS]; /* no tail call: the frame stays */
}

void plugin_burn(unsigned long rounds) {
  plugin_frame(rounds, 0);
  plugin_sum++;
#ifdef WANTING
  void nobody_has_this(void);
  nobody_has_this();
#endif
}
