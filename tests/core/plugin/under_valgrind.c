/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A small profiled program, which test_valgrind.c runs under valgrind. */
#include "onstack/onstack.h"
#include "onstack/profile.h"

#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#define WANTED 10u /* samples */

static volatile unsigned spent;

/* Most of its frame is never written: memcheck knows those bytes as uninitialised. */
__attribute__((noinline)) static unsigned descend(unsigned depth) {
  volatile char rest[1500];
  rest[0] = (char)depth;
  if (depth > 0) return descend(depth - 1) + (unsigned)rest[0];
  for (unsigned i = 0; i < 20000; i++) spent += i;
  return spent;
}

static int writes(void *data, const void *bytes, size_t length) {
  (void)bytes;
  *(size_t *)data += length;
  return 0;
}

static uint64_t samples_of(const onstack_session *session) {
  onstack_stats stats = {.size = sizeof(stats)};
  onstack_session_poll((onstack_session *)(uintptr_t)session, 0);
  return onstack_session_stats(session, &stats) == 0 ? stats.samples : 0;
}

static int profile_with(const char *unwinder) {
  onstack_profile *profile;
  onstack_session *session;
  onstack_options options;
  size_t bytes = 0;
  if (onstack_profile_new(NULL, &profile) != 0) return 1;
  onstack_options_init(&options, sizeof(options));
  options.sink = onstack_profile_sink;
  options.sink_data = profile;
  options.frequency = 1000;
  options.unwinder = unwinder;
  if (onstack_session_start(&options, &session) != 0) return 2;
  while (samples_of(session) < WANTED) descend(30);
  if (onstack_session_free(session) != 0) return 3;
  if (onstack_profile_write_pprof(profile, NULL, writes, &bytes) != 0 || bytes == 0) return 4;
  onstack_profile_free(profile);
  return 0;
}

static void *profile_all(void *result) {
  int *status = result;
  *status = profile_with("rules");
  if (*status == 0) *status = profile_with("frame_pointer");
  return NULL;
}

/* In a thread, because valgrind itself cannot always make the first thread's stack larger for a signal. */
int main(void) {
  pthread_t thread;
  int status = 8;
  if (pthread_create(&thread, NULL, profile_all, &status) == 0) pthread_join(thread, NULL);
  return status;
}
