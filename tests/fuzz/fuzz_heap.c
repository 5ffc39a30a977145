/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * The table of sampled allocations in use against a model, by any order of begins, ends and rounds of the consumer, and the
 * arithmetic of samples for any size and interval. Promises: an end is told once, with its own note, of what is in use alone;
 * the marks say so of no address that is; when all has ended nothing is left.
 * Input: eight bytes (a size), four (an interval), then pairs of an operation and an address.
 */
#include "fuzz.h"

#include "sampler/source/live.h"

#define ADDRESSES 64
#define OBJECTS 32

typedef struct model {
  bool live;
  uint64_t position, bytes;
} model;

static model models[ADDRESSES];
static uint64_t positions, pending, told;

static uint64_t address_of(uint32_t number) {
  /* Neighbours, whole pages apart, and such that differ in the highest bits alone. */
  return number % 3 == 0   ? 16 * (number + 1)
         : number % 3 == 1 ? (uint64_t)4096 * (number + 1)
                           : (uint64_t)(number + 1) << 40;
}

static void forget(model *of) {
  of->live = false;
  pending++;
}

static void begin(uint32_t number, bool room) {
  model *of = &models[number];
  const uint64_t untracked = onstack_live.untracked;
  const bool was = of->live;
  const uint32_t place = onstack_live_claim(address_of(number));
  if (was) forget(of);
  fuzz_check((place == ONSTACK_LIVE_NONE) == (onstack_live.untracked != untracked));
  if (place == ONSTACK_LIVE_NONE) return;
  fuzz_check(onstack_live_may_have(address_of(number)));
  if (!room) {
    onstack_live_release(place);
    return;
  }
  const onstack_live_note note = {positions, positions * 3 + 1, 1, (int32_t)number};
  onstack_live_begin(place, &note);
  *of = (model){true, positions, note.bytes};
  positions++;
}

static void end(uint32_t number) {
  fuzz_check(!models[number].live || onstack_live_may_have(address_of(number)));
  fuzz_check(onstack_live_end(address_of(number)) == models[number].live);
  if (models[number].live) forget(&models[number]);
}

static void consume(uint64_t below) {
  for (uint32_t place = 0; (place = onstack_live_next_freed(place, below)) != ONSTACK_LIVE_NONE; place++) {
    const onstack_live_note *note = &onstack_live.notes[place];
    fuzz_check(note->position < below && note->bytes == note->position * 3 + 1);
    fuzz_check(onstack_live.addresses[place] == address_of((uint32_t)note->tid));
    fuzz_check(!models[note->tid].live || models[note->tid].position != note->position);
    onstack_live_release(place);
    fuzz_check(pending-- > 0);
    told++;
  }
}

static void operate(uint32_t operation, uint32_t number) {
  switch (operation % 5) {
  case 0:
  case 1:
    begin(number, true);
    break;
  case 2:
    end(number);
    break;
  case 3:
    begin(number, false);
    break;
  default:
    consume(positions > number ? positions - number : 0);
  }
}

static void check_empty(void) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < ADDRESSES; i++) bytes += models[i].live ? models[i].bytes : 0;
  fuzz_check(onstack_live_bytes() == bytes);
  for (uint32_t i = 0; i < ADDRESSES; i++) end(i);
  consume(UINT64_MAX);
  fuzz_check(pending == 0 && onstack_live.freed == told && onstack_live_bytes() == 0);
  for (uint32_t i = 0; i <= onstack_live_filter_mask(); i++) fuzz_check(onstack_live.filter[i] == 0);
  for (uint32_t i = 0; i <= onstack_live.mask; i++) fuzz_check(onstack_live.states[i] == 0);
}

static void check_draw(uint64_t size, uint32_t interval) {
  uint64_t random = onstack_draw_mix(size ^ interval);
  if (interval == 0) return;
  const onstack_draw_weight weight = onstack_draw_weight_of(&random, size, interval);
  fuzz_check(weight.objects >= 1 && (size == 0 || weight.bytes >= size));
  fuzz_check(interval > 1 || (weight.objects == 1 && weight.bytes == size));
  fuzz_check(onstack_draw_distance(&random, interval) <= (uint64_t)interval * 37);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  const uint64_t block = fuzz_take(&input, 8);
  check_draw(block >> 1, (uint32_t)fuzz_take(&input, 4));
  memset(models, 0, sizeof(models));
  positions = pending = told = 0;
  if (onstack_live_make(OBJECTS) != 0) return 0;
  while (input.left > 1) {
    const uint32_t operation = (uint32_t)fuzz_take(&input, 1);
    operate(operation, (uint32_t)fuzz_take(&input, 1) % ADDRESSES);
  }
  check_empty();
  return 0;
}
