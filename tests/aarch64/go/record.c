// SPDX-License-Identifier: MIT OR Apache-2.0

//go:build record

/*
 * The unwinder `rules` behind the custom unwinder's interface, by a reader that notes what it reads. Runs in the handler:
 * static memory, and the kernel's copy.
 */
#define _GNU_SOURCE
#include "record.h"

#include "sampler/modules/modules.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/go_stack.h"
#include "sampler/unwind/unwinder.h"

#include "../fixtures/tables.c"
#include "../fixtures/writer.c"

#include <ucontext.h>

#define SAMPLES 4000u
#define FRAMES 64u
#define PAIRS 220u
#define SPECIALS 64u
#define STACK_BELOW 32u /* recorded around SP, whether it was read or not */
#define STACK_ABOVE 64u

typedef struct record_pair {
  uint64_t address, words[2];
} record_pair;

typedef struct record_sample {
  onstack_registers registers;
  uint64_t x2, x3, thread_pointer;
  uint64_t frames[FRAMES];
  uint32_t frame_count, pair_count;
  bool whole;
  record_pair pairs[PAIRS];
} record_sample;

static record_sample samples[SAMPLES];
static uint32_t taken;

typedef struct record_memory {
  onstack_memory memory; /* first: the reader is handed this */
  record_sample *to;
} record_memory;

static bool record_read(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  record_sample *to = ((record_memory *)memory)->to;
  if (!onstack_memory_copy_pair(address, words) || to->pair_count == PAIRS) return false;
  to->pairs[to->pair_count++] = (record_pair){address, {words[0], words[1]}};
  return true;
}
static const onstack_reader record_reader = {"recording", NULL, record_read};

static onstack_walk_result record_walk(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                       uint32_t capacity) {
  static onstack_stack_bounds nobody;
  const ucontext_t *context = ucontext;
  uint32_t number = __atomic_fetch_add(&taken, 1, __ATOMIC_RELAXED);
  uint64_t words[2];
  (void)data;
  if (number >= SAMPLES || capacity < FRAMES) return (onstack_walk_result){0, ONSTACK_TRUNCATED_UNWINDER};
  record_sample *to = &samples[number];
  record_memory memory;
  memset(&memory, 0, sizeof(memory));
  memory.memory.reader = &record_reader;
  memory.memory.bounds = &nobody;
  memory.to = to;
  to->registers = *registers;
  to->x2 = context->uc_mcontext.regs[2];
  to->x3 = context->uc_mcontext.regs[3];
  to->thread_pointer = onstack_thread_pointer();
  for (uint64_t at = (registers->sp & ~(uint64_t)15) - STACK_BELOW; at < registers->sp + STACK_ABOVE; at += 16)
    record_read(&memory.memory, at, words);
  const onstack_walk walk = {
      .registers = registers, .ucontext = ucontext, .memory = &memory.memory, .frames = to->frames, .capacity = FRAMES};
  onstack_walk_result result = onstack_unwinder_rules.run(&walk);
  to->frame_count = result.frame_count;
  to->whole = result.truncation == ONSTACK_TRUNCATED_NOT && to->pair_count < PAIRS;
  memcpy(frames, to->frames, result.frame_count * sizeof(frames[0]));
  return result;
}

static onstack_session *session;

static int record_sink(void *unused, const onstack_sample *sample) {
  (void)unused;
  (void)sample;
  return 0;
}

int record_start(void) {
  static const onstack_unwinder unwinder = {
      .size = sizeof(unwinder), .stack_bytes = 4096, .name = "recording", .walk = record_walk};
  onstack_options options;
  onstack_options_init(&options, sizeof(options));
  options.frequency = 250;
  options.custom_unwinder = &unwinder;
  options.sink = record_sink;
  while (onstack_modules_refresh((size_t)1 << 30)) continue;
  return onstack_session_start(&options, &session);
}

void record_stop(void) {
  onstack_session_stop(session);
  onstack_session_free(session);
}

int record_count(void) { return (int)(taken < SAMPLES ? taken : SAMPLES); }

int record_frames(int sample, uint64_t *frames) {
  const record_sample *from = &samples[sample];
  if (!from->whole) return 0;
  memcpy(frames, from->frames, from->frame_count * sizeof(frames[0]));
  return (int)from->frame_count;
}

void record_keep(int sample) {
  static uint64_t x2, x3, thread_pointer;
  const record_sample *from = &samples[sample];
  const onstack_registers *registers = &from->registers;
  fixture_sample out = {registers->pc, registers->sp, registers->fp, registers->lr, from->frames + 1, from->frame_count - 1};
  for (uint32_t i = 0; i < from->pair_count; i++) fixture_words(from->pairs[i].address, from->pairs[i].words);
  if (from->x2 != x2 || from->x3 != x3 || from->thread_pointer != thread_pointer) {
    fixture_tag('R');
    fixture_number(x2 = from->x2);
    fixture_number(x3 = from->x3);
    fixture_number(thread_pointer = from->thread_pointer);
  }
  tables_need(registers->pc);
  for (uint32_t i = 1; i < from->frame_count; i++) tables_need(from->frames[i] - 1);
  fixture_add(&out);
}

/* ---- Go's tables ---- */

static uint32_t half(const uint8_t *at) {
  uint32_t value;
  memcpy(&value, at, sizeof(value));
  return value;
}

static uint64_t function_low(const onstack_go_functions *from, uint32_t i) {
  return from->text + half(from->functab + i * 8);
}

/* The bytes of a pcsp table: pairs of varints, until a value's difference is zero behind the first. */
static size_t pcsp_size(const uint8_t *at) {
  const uint8_t *begin = at;
  for (bool first = true;; first = false) {
    bool ends = *at == 0 && !first;
    for (int number = 0; number < (ends ? 1 : 2); number++)
      while (*at++ & 0x80) continue;
    if (ends) return (size_t)(at - begin);
  }
}

static void write_function(const onstack_go_functions *from, uint32_t i) {
  const uint8_t *record = from->functions + half(from->functab + i * 8 + 4);
  const uint8_t *pcsp = from->pctab + half(record + 16);
  fixture_number(function_low(from, i));
  fixture_number(function_low(from, i + 1));
  fixture_number(record[41]); /* flags */
  size_t size = half(record + 16) ? pcsp_size(pcsp) : 0;
  fixture_number(size);
  fixture_bytes(pcsp, size);
}

static struct {
  char name[40];
  uint64_t low, high;
} specials[SPECIALS];
static uint32_t special_count;

uint64_t record_special_at(int index) {
  const onstack_go_runtime *go = &onstack_code.go[0];
  return (uint32_t)index < go->special_count ? go->specials[index].body.low : 0;
}

void record_special(const char *name, uint64_t low) {
  const onstack_go_functions *from = &onstack_code.go[0].functions;
  for (uint32_t i = 0; i < special_count; i++)
    if (specials[i].low == low) return;
  if (special_count == SPECIALS || strlen(name) >= sizeof(specials[0].name)) exit(2);
  strcpy(specials[special_count].name, name);
  for (uint32_t i = 0; i < from->count; i++)
    if (function_low(from, i) == low) specials[special_count].high = function_low(from, i + 1);
  specials[special_count++].low = low;
}

static void write_code(uint64_t low, uint64_t high) {
  fixture_tag('C');
  fixture_number(low);
  fixture_number(high - low);
  fixture_bytes((const void *)(uintptr_t)low, high - low);
}

/* The code that the layout is read from, and what it calls: save_g is among it. */
static void write_specials(void) {
  for (uint32_t i = 0; i < special_count; i++) {
    write_code(specials[i].low, specials[i].high);
    if (strcmp(specials[i].name, "runtime.morestack") != 0) continue;
    for (uint64_t at = specials[i].low; at < specials[i].high; at += 4) {
      uint32_t word = half((const uint8_t *)(uintptr_t)at);
      uint64_t target = at + (uint64_t)((int64_t)((uint64_t)word << 38) >> 36);
      if ((word & 0xfc000000u) == 0x94000000u) write_code(target, target + 64);
    }
  }
}

static bool is_needed(const onstack_go_functions *from, uint32_t i) {
  return tables_is_needed(function_low(from, i), function_low(from, i + 1));
}

static void write_go(void) {
  const onstack_go_runtime *go = &onstack_code.go[0];
  uint32_t count = 0;
  fixture_tag('G');
  fixture_number(go->text.low);
  fixture_number(go->text.high);
  fixture_number(go->functions.quantum);
  fixture_number(special_count);
  for (uint32_t i = 0; i < special_count; i++) {
    fixture_number(strlen(specials[i].name));
    fixture_bytes(specials[i].name, strlen(specials[i].name));
    fixture_number(specials[i].low);
    fixture_number(specials[i].high);
  }
  for (uint32_t i = 0; i < go->functions.count; i++) count += is_needed(&go->functions, i);
  fixture_number(count);
  for (uint32_t i = 0; i < go->functions.count; i++)
    if (is_needed(&go->functions, i)) write_function(&go->functions, i);
}

void record_print(void) {
  size_t kept = fixture_size();
  tables_write();
  write_go();
  write_specials();
  fixture_to_front(kept);
  printf("ok go/record: %u samples taken, %zu bytes\n", record_count(), fixture_size());
  fixture_print("go");
}
