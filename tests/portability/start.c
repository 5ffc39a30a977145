/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * For every system that the core is built for. With EXPECT_UNSUPPORTED a start must be refused in the named way;
 * otherwise a session must sample this program. A profile of samples that come from elsewhere works on all of them.
 */
#include <onstack/onstack.h>
#include <onstack/profile.h>

#include <stdio.h>
#include <string.h>
#include <time.h>

static char text[1 << 20];

static int append(void *data, const void *bytes, size_t length) {
  (void)data;
  if (length > sizeof(text) - strlen(text) - 1) return 1;
  strncat(text, bytes, length);
  return 0;
}

static int fail(const char *what, int code) {
  printf("not ok: %s (%d: %s)\n", what, code, onstack_strerror(code));
  return 1;
}

#ifndef EXPECT_UNSUPPORTED
/* Hardly any of it in libc: musl's has no unwind tables, so that stacks that begin there are cut. */
__attribute__((noinline)) static unsigned burn_visibly(clock_t ticks) {
  unsigned sum = 1;
  for (clock_t end = clock() + ticks; clock() < end;)
    for (int i = 0; i < 1000000; i++) __asm__ volatile("" : "+r"(sum));
  return sum;
}

/* Until enough samples have come: how fast depends on the machine. */
static int sample_this_program(onstack_session *session, onstack_profile *profile) {
  uint64_t samples = 0;
  for (int i = 0; i < 200 && samples < 20; i++) {
    burn_visibly(CLOCKS_PER_SEC / 10);
    onstack_profile_totals(profile, ONSTACK_KIND_CPU, &samples, NULL, NULL);
  }
  int error = onstack_session_free(session);
  if (error < 0 || samples < 20) return fail("fewer than 20 samples", error);
  error = onstack_profile_write_folded(profile, NULL, append, NULL);
  if (error < 0 || !strstr(text, ";burn_visibly")) return fail("the profile does not show what ran", error);
  return 0;
}
#endif

static int profile_a_sample_from_elsewhere(void) {
  static const uint64_t frames[] = {0x1234, 0x5678};
  onstack_sample sample;
  onstack_profile *profile;
  int error = onstack_profile_new(NULL, &profile);
  if (error < 0) return fail("profile_new", error);
  memset(&sample, 0, sizeof(sample));
  sample.size = sizeof(sample);
  sample.kind = ONSTACK_KIND_CPU;
  sample.unit = ONSTACK_UNIT_NANOSECONDS;
  sample.weight = 3;
  sample.period = 1000;
  sample.value = 3000;
  sample.tid = 7;
  sample.thread_name = "elsewhere";
  sample.frames = frames;
  sample.frame_count = 2;
  text[0] = 0;
  error = onstack_profile_sink(profile, &sample);
  if (error == 0) error = onstack_profile_write_folded(profile, NULL, append, NULL);
  onstack_profile_free(profile);
  if (error < 0 || strcmp(text, "elsewhere;0x5677;0x1234 3\n") != 0) {
    printf("%s", text);
    return fail("the folded profile is not what it should be", error);
  }
  return 0;
}

int main(void) {
  onstack_options options;
  onstack_session *session = (onstack_session *)text;
  onstack_profile *profile;
  int error = onstack_options_init(&options, sizeof(options));
  if (error == 0) error = onstack_profile_new(NULL, &profile);
  if (error < 0) return fail("init", error);
  options.frequency = 200;
  options.sink = onstack_profile_sink;
  options.sink_data = profile;
  error = onstack_session_start(&options, &session);
#ifdef EXPECT_UNSUPPORTED
  if (error != ONSTACK_E_UNSUPPORTED || session) return fail("the start was not refused as unsupported", error);
  printf("refused: %s\n", onstack_strerror(error));
#else
  if (error < 0) return fail("start", error);
  if (sample_this_program(session, profile) != 0) return 1;
#endif
  onstack_profile_free(profile);
  if (profile_a_sample_from_elsewhere() != 0) return 1;
  printf("ok: %s\n", onstack_version());
  return 0;
}
