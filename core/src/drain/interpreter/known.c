/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "drain/interpreter/known.h"

#include "base/clock_ns.h"
#include "base/own_memory.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define KNOWN_FRAMES 1024u        /* a power of two; a newer one takes the place of an older one */
#define KNOWN_STANDS_NS 50000000u /* how long what was seen tells of samples after it: some rounds of the consumer */

typedef struct known_frame {
  const onstack_known_reader *reader; /* NULL: nothing is known here */
  uint64_t function, identity[ONSTACK_KNOWN_IDENTITY];
  uint64_t seen_ns; /* the function was there */
  uint32_t position;
  onstack_frame_text text;
} known_frame;

typedef struct known_memory {
  known_frame frames[KNOWN_FRAMES];
  uint8_t scratch[ONSTACK_KNOWN_SCRATCH];
} known_memory;

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static known_memory *known; /* under the lock; mapped, as the names are (names.c) */

static bool known_open(void) {
  if (known) return true;
  void *memory = mmap(NULL, sizeof(*known), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return false;
  onstack_own_memory_keeps(memory, sizeof(*known));
  known = memory;
  return true;
}

static known_frame *known_place(const onstack_interpreted_frame *frame) {
  const uint64_t mixed = (frame->function >> 4) * 0x9e3779b97f4a7c15u + frame->position * 0x85ebca6bu;
  return &known->frames[mixed >> 40 & (KNOWN_FRAMES - 1)];
}

/* With the lock held. */
static int known_describe(const onstack_known_reader *reader, const onstack_interpreted_frame *frame,
                          onstack_frame_text *text) {
  known_frame *place = known_place(frame);
  uint64_t identity[ONSTACK_KNOWN_IDENTITY] = {0};
  const bool mine = place->reader == reader && place->function == frame->function && place->position == frame->position;
  const bool there = reader->identify(frame, identity);
  const uint64_t now = onstack_monotonic_ns();
  if (mine && (there ? memcmp(place->identity, identity, sizeof(identity)) == 0 : now - place->seen_ns < KNOWN_STANDS_NS)) {
    if (there) place->seen_ns = now;
    *text = place->text;
    return 0;
  }
  place->reader = NULL;
  if (!there || !reader->read(frame, identity, known->scratch, text)) return -ESRCH;
  *place = (known_frame){
      .reader = reader, .function = frame->function, .seen_ns = now, .position = frame->position, .text = *text};
  memcpy(place->identity, identity, sizeof(identity));
  return mine ? -ESRCH : 0;
}

int onstack_known_describe(const onstack_known_reader *reader, const onstack_interpreted_frame *frame,
                           onstack_frame_text *text) {
  pthread_mutex_lock(&known_lock);
  const int result = known_open() ? known_describe(reader, frame, text) : -ENOMEM;
  pthread_mutex_unlock(&known_lock);
  return result;
}

void onstack_known_after_fork(void) { known_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }
