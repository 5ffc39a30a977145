/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Options of any content, in a block of exactly the size that they claim (callers' headers may be older or newer).
 * Promises: an error of the documented ones, or settings that are within bounds; never a read behind `size`.
 * Pointers are the caller's word: they are chosen here from a few that exist.
 */
#include "fuzz.h"

#include "sampler/api/options.h"

#include <signal.h>

#define TAIL 64u

static onstack_walk_result walk(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                uint32_t capacity) {
  (void)data, (void)registers, (void)ucontext, (void)frames, (void)capacity;
  return (onstack_walk_result){0, 0};
}

static const char *pick_name(uint64_t bits) {
  static const char *const names[] = {NULL, "rules", "frame_pointer", "pc_only", "", "Rules", "none", "rules "};
  return names[bits & 7];
}

/* A custom unwinder that may be incomplete, in a block of its own size. NULL: none. */
static onstack_unwinder *make_custom(fuzz_input *input) {
  uint64_t bits = fuzz_take(input, 1);
  uint32_t size = (uint32_t)sizeof(onstack_unwinder) + (uint32_t)(bits >> 4 & 3) * 4 - (bits & 128 ? 8u : 0u);
  if (!(bits & 1)) return NULL;
  onstack_unwinder *custom = calloc(1, size);
  if (!custom) abort();
  onstack_unwinder whole = {.size = size, .stack_bytes = (uint32_t)fuzz_take(input, 4)};
  whole.name = bits & 2 ? NULL : "mine";
  whole.walk = bits & 4 ? NULL : walk;
  memcpy(custom, &whole, size < sizeof(whole) ? size : sizeof(whole));
  if (size > sizeof(whole)) ((uint8_t *)custom)[size - 1] = (uint8_t)(bits >> 3 & 1);
  return custom;
}

static int prepare(void *data, const onstack_frame_memory *memory, onstack_loop_code loops[ONSTACK_LOOP_CODES]) {
  (void)data, (void)memory, (void)loops;
  return 0;
}

static uint32_t copy(void *data, const onstack_frame_memory *memory, onstack_interpreted_frame *frames, uint32_t capacity) {
  (void)data, (void)memory, (void)frames, (void)capacity;
  return 0;
}

static int describe(void *data, const onstack_frame_memory *memory, const onstack_interpreted_frame *frame,
                    onstack_frame_text *text) {
  (void)data, (void)memory, (void)frame, (void)text;
  return 0;
}

/* A provider of frames that may be incomplete. NULL: none. */
static onstack_frame_provider *make_provider(fuzz_input *input, onstack_frame_provider *provider) {
  uint64_t bits = fuzz_take(input, 1);
  if (!(bits & 1)) return NULL;
  *provider = (onstack_frame_provider){.size = sizeof(*provider), .stack_bytes = (uint32_t)fuzz_take(input, 4)};
  provider->name = bits & 2 ? NULL : bits & 4 ? "a name of sixteen" : "mine";
  provider->prepare = bits & 8 ? NULL : prepare;
  provider->copy = bits & 16 ? NULL : copy;
  provider->describe = bits & 32 ? NULL : describe;
  if (bits & 64) provider->size -= 8;
  return provider;
}

static void check_settings(const onstack_settings *settings, const onstack_options *options) {
  if (options->clock == ONSTACK_CLOCK_HEAP)
    fuzz_check(settings->period >= 1 && settings->heap_objects >= 1 && settings->heap_objects <= (1u << 20));
  else
    fuzz_check(settings->period >= 1000000000u / ONSTACK_MAX_FREQUENCY && settings->period <= 1000000000u);
  fuzz_check(settings->weight_max >= 1);
  fuzz_check(settings->depth >= 1 && settings->depth <= ONSTACK_MAX_DEPTH);
  fuzz_check(settings->buffer_bytes >= (1u << 16) && settings->buffer_bytes <= (1u << 28));
  fuzz_check((settings->buffer_bytes & (settings->buffer_bytes - 1)) == 0);
  fuzz_check(settings->buffer_bytes >= options->buffer_bytes);
  fuzz_check(settings->signal >= 1 && settings->signal <= SIGRTMAX && settings->signal != SIGKILL);
  fuzz_check(settings->unwinder && settings->unwinder->run && settings->stack_bytes >= 640);
  fuzz_check(settings->stack_bytes < (1u << 31));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  fuzz_input input = {data, size};
  onstack_settings settings;
  onstack_options options;
  /* No header's structure ends within a pointer. */
  uint32_t claimed = (uint32_t)(sizeof(options) - 16 + fuzz_take(&input, 1) % (16 + TAIL)) & ~7u;
  onstack_frame_provider whole;
  onstack_unwinder *custom = make_custom(&input);
  onstack_frame_provider *provider = make_provider(&input, &whole);
  const char *name = pick_name(fuzz_take(&input, 1));
  uint8_t *block = calloc(1, claimed);
  if (!block) abort();
  for (uint32_t i = 0; i < claimed && input.left > 0; i++) block[i] = (uint8_t)fuzz_take(&input, 1);
  memset(&options, 0, sizeof(options));
  memcpy(&options, block, claimed < sizeof(options) ? claimed : sizeof(options));
  options.size = claimed;
  options.unwinder = name;
  options.custom_unwinder = custom;
  options.frame_provider = provider;
  memcpy(block, &options, claimed < sizeof(options) ? claimed : sizeof(options));
  const char *fault;
  int result = onstack_settings_make((const onstack_options *)(void *)block, &settings, &fault);
  fuzz_check((result == 0) == !fault && (!fault || strchr(fault, ':')));
  if (result == 0)
    check_settings(&settings, &options);
  else
    fuzz_check(result <= ONSTACK_E_FREQUENCY && result >= ONSTACK_E_CONTEXT && strlen(onstack_strerror(result)) > 10);
  free(block);
  free(custom);
  return 0;
}
