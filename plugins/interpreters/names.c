/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* What frames were called, with the words by which their functions are known again (frames.h). */
#include "frames.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#define KNOWN_FRAMES 1024u         /* a power of two; a newer one takes the place of an older one */
#define KNOWN_STANDS_NS 50000000u  /* how long what was seen tells of samples after it: some rounds of the consumer */
#define KNOWN_KEEPS_NS 1000000000u /* how long a function keeps its place from others */
#define KNOWN_DOUBT_NS                                                                                                      \
  ((uint64_t)10000000000u) /* how long frames are copied with a hash, after another one had come there */

/* Where a function's address is in onstack_fingerprint_named. */
typedef struct known_function {
  const onstack_language *language; /* NULL: nobody's */
  uint64_t function, identity[ONSTACK_IDENTITY];
  uint64_t seen_ns;  /* it was there */
  uint64_t doubt_ns; /* until then it is not among onstack_fingerprint_named */
} known_function;

typedef struct known_frame {
  const onstack_language *language; /* NULL: nothing is known here */
  uint64_t function, identity[ONSTACK_IDENTITY];
  uint32_t position;
  onstack_frame_text text;
} known_frame;

/* Of these, only what is used is memory. One thread at a time names frames. */
static known_function known_functions[ONSTACK_FINGERPRINT_PLACES];
static known_frame known_frames[KNOWN_FRAMES];
static uint8_t known_scratch[ONSTACK_NAMES_SCRATCH];

static uint64_t known_now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static known_frame *known_place(const onstack_interpreted_frame *frame) {
  const uint64_t mixed = (frame->function >> 4) * 0x9e3779b97f4a7c15u + frame->position * 0x85ebca6bu;
  return &known_frames[mixed >> 40 & (KNOWN_FRAMES - 1)];
}

static bool known_same(const uint64_t one[ONSTACK_IDENTITY], const uint64_t other[ONSTACK_IDENTITY]) {
  return memcmp(one, other, ONSTACK_IDENTITY * sizeof(*one)) == 0;
}

/* What the function at a frame's address is, if it is the one that the frame was of. */
static bool known_prove(const onstack_language *language, const onstack_frame_memory *memory,
                        const onstack_interpreted_frame *frame, known_function *place, uint64_t identity[ONSTACK_IDENTITY],
                        bool *there) {
  const uint32_t fingerprint = frame->flags >> ONSTACK_INTERPRETED_OWN_SHIFT, number = (uint32_t)(place - known_functions);
  const bool mine = place->language == language && place->function == frame->function;
  const uint64_t now = known_now_ns();
  uint8_t bytes[ONSTACK_FUNCTION_BYTES];
  *there = language->identify(memory, frame->function, bytes, identity);
  if (!*there) {
    if (!mine) return false;
    memcpy(identity, place->identity, sizeof(place->identity));
    return fingerprint == ONSTACK_FINGERPRINT_NAMED ? now - place->seen_ns < KNOWN_STANDS_NS
                                                    : fingerprint == onstack_fingerprint_of(identity);
  }
  if (fingerprint != ONSTACK_FINGERPRINT_NAMED ? fingerprint != onstack_fingerprint_of(identity)
                                               : !mine || !known_same(place->identity, identity)) {
    if (!mine || known_same(place->identity, identity)) return false;
    place->language = NULL; /* samples that are on their way may be of either */
    place->doubt_ns = now + KNOWN_DOUBT_NS;
    onstack_frames_publish(&onstack_fingerprint_named[number], (uint64_t)0);
    return false;
  }
  if (!mine && place->language && now - place->seen_ns < KNOWN_KEEPS_NS) return true;
  *place = (known_function){.language = language, .function = frame->function, .seen_ns = now, .doubt_ns = place->doubt_ns};
  memcpy(place->identity, identity, sizeof(place->identity));
  onstack_frames_publish(&onstack_fingerprint_named[number], now < place->doubt_ns ? (uint64_t)0 : frame->function);
  return true;
}

int onstack_names_describe(const onstack_language *language, const onstack_frame_memory *memory,
                           const onstack_interpreted_frame *frame, onstack_frame_text *text) {
  uint8_t bytes[ONSTACK_FUNCTION_BYTES];
  uint64_t identity[ONSTACK_IDENTITY] = {0}, again[ONSTACK_IDENTITY] = {0};
  bool there;
  if (!known_prove(language, memory, frame, &known_functions[onstack_fingerprint_place(frame->function)], identity, &there))
    return -ESRCH;
  known_frame *place = known_place(frame);
  if (place->language == language && place->function == frame->function && place->position == frame->position &&
      known_same(place->identity, identity)) {
    *text = place->text;
    return 0;
  }
  if (!there || !language->read(memory, frame, identity, known_scratch, text)) return -ESRCH;
  if (!language->identify(memory, frame->function, bytes, again) || !known_same(identity, again))
    return -ESRCH; /* it went meanwhile */
  *place = (known_frame){.language = language, .function = frame->function, .position = frame->position, .text = *text};
  memcpy(place->identity, identity, sizeof(identity));
  return 0;
}

ONSTACK_API int onstack_interpreters_register(void) {
  const int result = onstack_frame_provider_register(&onstack_python_provider);
  return result < 0 ? result : onstack_frame_provider_register(&onstack_php_provider);
}
