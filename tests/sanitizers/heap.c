/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* libonstack-heap.a in a program with AddressSanitizer: allocations are counted, and the sanitizer still watches over them. */
#include <onstack/onstack.h>
#include <onstack/profile.h>

#include <sanitizer/asan_interface.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ROUNDS 1000
#define MORE (64 * 1024) /* what libc and the library allocate for themselves meanwhile */

static void *volatile kept;

/* How many bytes are counted. */
static size_t allocate(void) {
  void *aligned = NULL;
  kept = malloc(100);
  free(kept);
  kept = calloc(10, 20);
  kept = realloc(kept, 300);
  free(kept);
  if (posix_memalign(&aligned, 64, 400) == 0) free(aligned);
  kept = strdup("text"); /* made in the sanitizer, which does not count, and freed here */
  free(kept);
  return 100 + 200 + 300 + 400;
}

static int is_watched(void) {
  const char *block = kept = malloc(100);
  const int whole = block && !__asan_address_is_poisoned(block + 99) && __asan_address_is_poisoned(block + 100);
  free(kept);
  return whole && __asan_address_is_poisoned((const char *)kept + 50);
}

int main(void) {
  onstack_options options;
  onstack_session *session;
  onstack_profile *profile;
  uint64_t bytes = 0;
  size_t wanted = 0;
  onstack_options_init(&options, sizeof(options));
  options.clock = ONSTACK_CLOCK_HEAP;
  options.heap_interval = 1;
  options.buffer_bytes = 16u << 20;
  options.sink = onstack_profile_sink;
  if (onstack_profile_new(NULL, &profile) != 0) return 1;
  options.sink_data = profile;
  if (onstack_session_start(&options, &session) != 0) return 1;
  for (int i = 0; i < ROUNDS; i++) wanted += allocate();
  const int watched = is_watched();
  onstack_session_stop(session);
  onstack_profile_totals(profile, ONSTACK_KIND_ALLOCATION, NULL, NULL, &bytes);
  printf("%lu bytes of %lu in the heap profile; blocks are %swatched\n", (unsigned long)bytes, (unsigned long)wanted,
         watched ? "" : "not ");
  onstack_session_free(session);
  onstack_profile_free(profile);
  return !watched || bytes < wanted || bytes > wanted + MORE;
}
