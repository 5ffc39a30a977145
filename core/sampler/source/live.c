/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/source/live.h"

#include "platform/process.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>

#define LIVE_FREE 0u
#define LIVE_CLAIMED 1u
#define LIVE_LIVE 2u
#define LIVE_FREED 3u

#define LIVE_FILTER_FULL UINT8_MAX
#define LIVE_PLACE_BYTES (sizeof(uint64_t) + sizeof(onstack_live_note) + sizeof(uint8_t) + ONSTACK_LIVE_FILTER)
#define LIVE_WORD (sizeof(uint64_t)) /* states that are looked at together */
typedef uint64_t __attribute__((may_alias)) live_word;

/* A start may move the table on while a thread that is late looks at the marks: both are whole, and mapped. */
#define LIVE(part) onstack_load_relaxed(&onstack_live.part)

ONSTACK_INTERNAL_DEFINE onstack_live_table onstack_live;

/* Twice as many places as objects: with all of those in use three windows of ten thousand are full. */
int onstack_live_make(uint32_t objects) {
  onstack_live_table *live = &onstack_live;
  size_t places = 2 * ONSTACK_LIVE_WINDOW;
  while (places < 2 * (size_t)objects) places *= 2;
  const size_t bytes = places * LIVE_PLACE_BYTES;
  void *memory = live->memory;
  if (live->bytes < bytes) {
    /* A smaller one stays mapped, without pages: a thread that was late may still read it. */
    memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return -ENOMEM;
    onstack_own_memory_keeps(memory, bytes);
  } else {
    places = live->mask + (size_t)1;
    madvise(memory, live->bytes, MADV_DONTNEED); /* in the child of a fork it has the parent's */
  }
  uint64_t *addresses = memory;
  onstack_live_note *notes = (onstack_live_note *)(void *)(addresses + places);
  uint8_t *states = (uint8_t *)(notes + places);
  onstack_store_relaxed(&live->addresses, addresses);
  onstack_store_relaxed(&live->notes, notes);
  onstack_store_relaxed(&live->states, states);
  onstack_store_relaxed(&live->filter, states + places);
  onstack_store_relaxed(&live->freed, (uint64_t)0);
  onstack_store_relaxed(&live->reused, (uint64_t)0);
  onstack_store_relaxed(&live->untracked, (uint64_t)0);
  onstack_publish(&live->mask, (uint32_t)places - 1);
  live->memory = memory; /* last: a fork copies a table that is whole, or makes its own */
  if (live->bytes < bytes) live->bytes = bytes;
  return 0;
}

void onstack_live_drop(void) {
  if (onstack_live.memory) madvise(onstack_live.memory, onstack_live.bytes, MADV_DONTNEED);
}

/* Sampled addresses are often those of pages, at even distances: one multiplication would crowd them. */
static uint32_t live_home(uint64_t address) {
  const uint32_t mask = onstack_observe(&onstack_live.mask); /* before the pointers: each has as many places at least */
  return (uint32_t)onstack_draw_mix(address) & mask & ~(ONSTACK_LIVE_WINDOW - 1);
}

static void live_filter_add(uint64_t address, uint8_t difference) {
  uint8_t *count = onstack_live_filter(address);
  uint8_t had = onstack_load_relaxed(count);
  while (had != LIVE_FILTER_FULL && !onstack_cas(count, &had, (uint8_t)(had + difference))) continue;
}

/* The state first: of a place that is found live this address is that of then or of later, when only who calls may have put
   it there. The other way round another block, which has come to the place since, would be taken for it. */
static uint32_t live_find(uint64_t address) {
  const uint32_t home = live_home(address);
  for (uint32_t place = home; place < home + ONSTACK_LIVE_WINDOW; place++)
    if (onstack_observe(&LIVE(states)[place]) == LIVE_LIVE && onstack_load_relaxed(&LIVE(addresses)[place]) == address)
      return place;
  return ONSTACK_LIVE_NONE;
}

bool onstack_live_has(uint64_t address) { return live_find(address) != ONSTACK_LIVE_NONE; }

bool onstack_live_end(uint64_t address) {
  const uint32_t place = live_find(address);
  uint8_t expected = LIVE_LIVE;
  if (place == ONSTACK_LIVE_NONE || !onstack_cas(&LIVE(states)[place], &expected, (uint8_t)LIVE_FREED)) return false;
  live_filter_add(address, UINT8_MAX); /* less one: whoever gets the address next frees it without a search */
  onstack_add_relaxed(&onstack_live.freed, (uint64_t)1);
  return true;
}

uint32_t onstack_live_claim(uint64_t address) {
  const uint32_t home = live_home(address);
  /* Given out again: whoever freed it did not say so. */
  if (onstack_live_may_have(address) && onstack_live_end(address)) onstack_add_relaxed(&onstack_live.reused, (uint64_t)1);
  for (uint32_t place = home; place < home + ONSTACK_LIVE_WINDOW; place++) {
    uint8_t expected = LIVE_FREE;
    if (onstack_load_relaxed(&LIVE(states)[place]) != LIVE_FREE) continue;
    if (!onstack_cas(&LIVE(states)[place], &expected, (uint8_t)LIVE_CLAIMED)) continue;
    onstack_store_relaxed(&LIVE(addresses)[place], address);
    live_filter_add(address, 1);
    return place;
  }
  onstack_add_relaxed(&onstack_live.untracked, (uint64_t)1);
  return ONSTACK_LIVE_NONE;
}

void onstack_live_begin(uint32_t place, const onstack_live_note *note) {
  onstack_live_note *kept = &LIVE(notes)[place];
  kept->position = note->position;
  kept->objects = note->objects;
  kept->tid = note->tid;
  onstack_store_relaxed(&kept->bytes, note->bytes); /* onstack_live_bytes may look at a place that has come again */
  onstack_publish(&LIVE(states)[place], (uint8_t)LIVE_LIVE);
}

void onstack_live_release(uint32_t place) {
  if (onstack_load_relaxed(&LIVE(states)[place]) == LIVE_CLAIMED) live_filter_add(LIVE(addresses)[place], UINT8_MAX);
  onstack_store_relaxed(&LIVE(addresses)[place], (uint64_t)0);
  onstack_publish(&LIVE(states)[place], (uint8_t)LIVE_FREE);
}

/* The next place from `from` on that is not free, or the number of places. What changes meanwhile is seen the next time. */
static uint32_t live_next_taken(uint32_t from) {
  const uint32_t places = LIVE(mask) + 1;
  while (from < places) {
    if (from % LIVE_WORD == 0 && onstack_load_relaxed((const live_word *)(const void *)&LIVE(states)[from]) == 0) {
      from += LIVE_WORD;
      continue;
    }
    if (onstack_load_relaxed(&LIVE(states)[from]) != LIVE_FREE) break;
    from++;
  }
  return from;
}

uint64_t onstack_live_bytes(void) {
  uint64_t bytes = 0;
  if (!onstack_live.memory) return 0;
  for (uint32_t place = live_next_taken(0); place <= LIVE(mask); place = live_next_taken(place + 1))
    if (onstack_observe(&LIVE(states)[place]) == LIVE_LIVE) bytes += onstack_load_relaxed(&LIVE(notes)[place].bytes);
  return bytes;
}

uint32_t onstack_live_next_freed(uint32_t from, uint64_t position) {
  for (uint32_t place = live_next_taken(from); place <= LIVE(mask); place = live_next_taken(place + 1))
    if (onstack_observe(&LIVE(states)[place]) == LIVE_FREED && LIVE(notes)[place].position < position) return place;
  return ONSTACK_LIVE_NONE;
}

/* ---- which bytes are sampled ---- */

#define DRAW_LN2 0.6931471805599453
#define DRAW_TERMS 12     /* of each series: the error is below 1e-12 */
#define DRAW_CERTAIN 36.0 /* exp(-36) is less than what a double tells from 0 beside 1 */

uint64_t onstack_draw_mix(uint64_t from) {
  /* The finalizer of MurmurHash3: neighbouring inputs give unlike states. */
  from ^= from >> 33;
  from *= 0xff51afd7ed558ccdu;
  from ^= from >> 33;
  from *= 0xc4ceb9fe1a85ec53u;
  from ^= from >> 33;
  return from != 0 ? from : 1;
}

/* xorshift64* (Vigna 2016). */
static uint64_t draw_next(uint64_t *random) {
  uint64_t state = *random;
  state ^= state >> 12;
  state ^= state << 25;
  state ^= state >> 27;
  *random = state;
  return state * 0x2545f4914f6cdd1du;
}

/* In (0, 1]. */
static double draw_unit(uint64_t *random) { return ((double)(draw_next(random) >> 11) + 1.0) / 9007199254740992.0; }

/* -ln(unit) for 0 < unit <= 1: exponent and mantissa, ln((1 + t) / (1 - t)) = 2 (t + t^3/3 + ...). */
static double draw_minus_ln(double unit) {
  uint64_t bits;
  double mantissa, sum = 0;
  memcpy(&bits, &unit, sizeof(bits));
  int exponent = (int)(bits >> 52) - 1023;
  bits = (bits & (((uint64_t)1 << 52) - 1)) | (uint64_t)1023 << 52;
  memcpy(&mantissa, &bits, sizeof(mantissa));
  if (mantissa > 1.4142135623730951) {
    mantissa /= 2;
    exponent++;
  }
  const double t = (mantissa - 1) / (mantissa + 1);
  double power = t;
  for (int i = 0; i < DRAW_TERMS; i++) {
    sum += power / (2 * i + 1);
    power *= t * t;
  }
  return -(2 * sum + exponent * DRAW_LN2);
}

/* 1 - exp(-x) for x > 0: by its series up to 1/2, and above by 1 - exp(-2 y) = a (2 - a) with a = 1 - exp(-y). */
static double draw_chance(double x) {
  int halved = 0;
  double sum = 0, term = 1;
  if (x >= DRAW_CERTAIN) return 1;
  for (; x > 0.5; halved++) x /= 2;
  for (int i = 1; i <= DRAW_TERMS; i++) {
    term *= -x / i;
    sum -= term;
  }
  for (; halved > 0; halved--) sum = sum * (2 - sum);
  return sum;
}

uint64_t onstack_draw_distance(uint64_t *random, uint32_t interval) {
  return (uint64_t)(draw_minus_ln(draw_unit(random)) * (double)interval);
}

static uint64_t draw_round(uint64_t *random, double number) {
  const uint64_t whole = (uint64_t)number;
  return whole + (draw_unit(random) <= number - (double)whole);
}

onstack_draw_weight onstack_draw_weight_of(uint64_t *random, size_t size, uint32_t interval) {
  const double bytes = size > 0 ? (double)size : 1;
  const double chance = interval > 1 ? draw_chance(bytes / (double)interval) : 1;
  if (chance >= 1) return (onstack_draw_weight){1, size};
  const uint64_t objects = draw_round(random, 1 / chance);
  return (onstack_draw_weight){objects < UINT32_MAX ? (uint32_t)objects : UINT32_MAX,
                               draw_round(random, (double)size / chance)};
}
