/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/interpreter/known.h"

#include "platform/process.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#define KNOWN_FRAMES 1024u         /* a power of two; a newer one takes the place of an older one */
#define KNOWN_STANDS_NS 50000000u  /* how long what was seen tells of samples after it: some rounds of the consumer */
#define KNOWN_KEEPS_NS 1000000000u /* how long a function keeps its place from others */
#define KNOWN_DOUBT_NS                                                                                                      \
  ((uint64_t)10000000000u) /* how long frames are copied with a hash, after another one had come there */

/* Where a function's address is in onstack_fingerprint_named. */
typedef struct known_function {
  const onstack_known_reader *reader; /* NULL: nobody's */
  uint64_t function, identity[ONSTACK_IDENTITY];
  uint64_t seen_ns;  /* it was there */
  uint64_t doubt_ns; /* until then it is not among onstack_fingerprint_named */
} known_function;

typedef struct known_frame {
  const onstack_known_reader *reader; /* NULL: nothing is known here */
  uint64_t function, identity[ONSTACK_IDENTITY];
  uint32_t position;
  onstack_frame_text text;
} known_frame;

typedef struct known_memory {
  known_function functions[ONSTACK_FINGERPRINT_PLACES];
  known_frame frames[KNOWN_FRAMES];
  uint8_t scratch[ONSTACK_KNOWN_SCRATCH];
} known_memory;

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static known_memory *known; /* under the lock; mapped, as the names are (platform/interpreted.c) */

static uint32_t known_read(uint64_t address, void *to, uint32_t bytes) {
  return onstack_process_memory_read(address, to, bytes);
}

static uint32_t known_read_own(uint64_t address, uint64_t *word) { return known_read(address, word, sizeof(*word)); }

ONSTACK_INTERNAL_DEFINE const onstack_frame_memory onstack_known_memory = {.read = known_read, .read_own = known_read_own};

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

static bool known_same(const uint64_t one[ONSTACK_IDENTITY], const uint64_t other[ONSTACK_IDENTITY]) {
  return memcmp(one, other, ONSTACK_IDENTITY * sizeof(*one)) == 0;
}

/* What the function at a frame's address is, if it is the one that the frame was of. */
static bool known_prove(const onstack_known_reader *reader, const onstack_interpreted_frame *frame, known_function *place,
                        uint64_t identity[ONSTACK_IDENTITY], bool *there) {
  const uint32_t fingerprint = frame->flags >> ONSTACK_FINGERPRINT_SHIFT, number = (uint32_t)(place - known->functions);
  const bool mine = place->reader == reader && place->function == frame->function;
  const uint64_t now = onstack_monotonic_ns();
  *there = reader->identify(frame, identity);
  if (!*there) {
    if (!mine) return false;
    memcpy(identity, place->identity, sizeof(place->identity));
    return fingerprint == ONSTACK_FINGERPRINT_NAMED ? now - place->seen_ns < KNOWN_STANDS_NS
                                                    : fingerprint == onstack_fingerprint_of(identity);
  }
  if (fingerprint != ONSTACK_FINGERPRINT_NAMED ? fingerprint != onstack_fingerprint_of(identity)
                                               : !mine || !known_same(place->identity, identity)) {
    if (!mine || known_same(place->identity, identity)) return false;
    place->reader = NULL; /* samples that are on their way may be of either */
    place->doubt_ns = now + KNOWN_DOUBT_NS;
    onstack_publish(&onstack_fingerprint_named[number], (uint64_t)0);
    return false;
  }
  if (!mine && place->reader && now - place->seen_ns < KNOWN_KEEPS_NS) return true;
  *place = (known_function){.reader = reader, .function = frame->function, .seen_ns = now, .doubt_ns = place->doubt_ns};
  memcpy(place->identity, identity, sizeof(place->identity));
  /* Pairs with the observe in interpreter.h. */
  onstack_publish(&onstack_fingerprint_named[number], now < place->doubt_ns ? (uint64_t)0 : frame->function);
  return true;
}

/* With the lock held. */
static int known_describe(const onstack_known_reader *reader, const onstack_interpreted_frame *frame,
                          onstack_frame_text *text) {
  uint64_t identity[ONSTACK_IDENTITY] = {0}, again[ONSTACK_IDENTITY] = {0};
  bool there;
  if (!known_prove(reader, frame, &known->functions[onstack_fingerprint_place(frame->function)], identity, &there))
    return -ESRCH;
  known_frame *place = known_place(frame);
  if (place->reader == reader && place->function == frame->function && place->position == frame->position &&
      known_same(place->identity, identity)) {
    *text = place->text;
    return 0;
  }
  if (!there || !reader->read(frame, identity, known->scratch, text)) return -ESRCH;
  if (!reader->identify(frame, again) || !known_same(identity, again)) return -ESRCH; /* it went meanwhile */
  *place = (known_frame){.reader = reader, .function = frame->function, .position = frame->position, .text = *text};
  memcpy(place->identity, identity, sizeof(identity));
  return 0;
}

int onstack_known_describe(const onstack_known_reader *reader, const onstack_interpreted_frame *frame,
                           onstack_frame_text *text) {
  pthread_mutex_lock(&known_lock);
  const int result = known_open() ? known_describe(reader, frame, text) : -ENOMEM;
  pthread_mutex_unlock(&known_lock);
  return result;
}

void onstack_known_after_fork(void) { known_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER; }
