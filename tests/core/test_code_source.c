/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* A source of code that no module describes (platform/code_source_ops.h): asked to step, to name, and told of ranges. */
#include "support.h"

#include "sampler/session/code_map_update.h"
#include "sampler/unwind/code_map.h"
#include "sampler/unwind/code_source.h"

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

TestSuite(code_source, .init = t_setup);

/* void enter(void (*function)(double), double argument): clears the frame pointer, so that only a source of its own knows
   its caller. */
#if defined(__x86_64__)
static const uint8_t enter_code[] = {
    0x55,       /* push %rbp */
    0x31, 0xed, /* xor %ebp, %ebp */
    0xff, 0xd7, /* call *%rdi */
    0x5d, 0xc3, /* pop %rbp; ret */
};
#else
static const uint32_t enter_code[] = {
    0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
    0xd280001d, /* mov x29, #0 */
    0xd63f0000, /* blr x0 */
    0xa8c17bfd, /* ldp x29, x30, [sp], #16 */
    0xd65f03c0, /* ret */
};
#endif

static uint64_t code_at;
static uint32_t steps, told;
static bool told_of_it;

static bool is_in_code(uint64_t address) { return address - code_at < sizeof(enter_code); }

static onstack_truncation step(onstack_code_frame *frame, onstack_memory *memory) {
  uint64_t record[2];
  __atomic_add_fetch(&steps, 1u, __ATOMIC_RELAXED);
  if (frame->exact || !is_in_code(frame->pc - 1)) return onstack_code_source_frame_pointers.step(frame, memory);
  /* Behind the call SP is at what was pushed: the caller's frame pointer, and the return address above it. */
  if (!onstack_memory_read_pair(memory, frame->sp, record)) return ONSTACK_TRUNCATED_UNREADABLE;
  frame->sp += 16;
  frame->fp = record[0];
  frame->pc = record[1];
  return ONSTACK_TRUNCATED_NOT;
}

static void ranges_changed(const onstack_code_range *ranges, uint32_t count) {
  told++;
  told_of_it = false;
  for (uint32_t i = 0; i < count; i++) told_of_it |= code_at >= ranges[i].low && code_at < ranges[i].high;
}

static bool symbol(uint64_t address, char *name, size_t size) {
  if (!is_in_code(address)) return false;
  snprintf(name, size, "enter<double>");
  return true;
}

static const onstack_code_source source = {"test", step, ranges_changed, symbol, "[generated]"};

static void (*make_code(void))(void (*)(double), double) {
  uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(code, MAP_FAILED);
  memcpy(code + 64, enter_code, sizeof(enter_code));
  cr_assert_eq(mprotect(code, 4096, PROT_READ | PROT_EXEC), 0);
  __builtin___clear_cache((char *)code, (char *)code + 4096);
  code_at = (uint64_t)(uintptr_t)code + 64;
  void (*enter)(void (*)(double), double);
  *(void **)&enter = code + 64;
  return enter;
}

typedef struct seen {
  uint64_t within, whole;
} seen;

static int see(void *data, const onstack_sample *sample) {
  seen *s = data;
  bool within = false;
  for (uint32_t i = 1; i < sample->frame_count; i++) within |= is_in_code(sample->frames[i] - 1);
  s->within += within;
  s->whole += within && sample->truncation == ONSTACK_TRUNCATED_NOT;
  return 0;
}

Test(code_source, leads_on_where_frame_pointers_end) {
  seen s = {0};
  onstack_code_source_used = &source;
  void (*enter)(void (*)(double), double) = make_code();
  onstack_options options = t_options(1000, see, &s);
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 100 && s.within < 20; i++) enter(t_burn, 0.1);
  t_finish(session);
  cr_assert_geq(s.within, 20);
  cr_assert_geq(s.whole * 100, s.within * 95, "%lu of %lu", (unsigned long)s.whole, (unsigned long)s.within);
  cr_assert_gt(steps, 0);
}

static bool read_here(onstack_memory *memory, uint64_t address, uint64_t words[2]) {
  (void)memory;
  memcpy(words, (const void *)(uintptr_t)address, 16);
  return true;
}

/* Code that leaves the frame pointer as Go set it, as wazero's guests do on aarch64: its record is that of the Go function
   that entered it, and whoever called it on the stack of its own is not there. */
Test(code_source, a_record_of_generated_code_that_leads_into_go) {
  static uint64_t stack[8];
  stack[2] = (uint64_t)(uintptr_t)&stack[6];
  stack[3] = 0x500010;
  onstack_code.go[0].text = (onstack_code_range){0x500000, 0x600000};
  onstack_code.go_count = 1;
  const onstack_reader here = {.name = "here", .read_pair = read_here};
  onstack_memory memory = {.reader = &here};
  const uint64_t sp = (uint64_t)(uintptr_t)stack;
  const onstack_code_frame begin = {.pc = 0x700000, .sp = sp, .fp = sp + 16, .low = sp, .exact = true};
  onstack_code_frame frame = begin;
  onstack_truncation result = onstack_code_source_frame_pointers.step(&frame, &memory);
#if defined(__aarch64__)
  cr_assert_eq(result, ONSTACK_TRUNCATED_STACK_SWITCH, "reason %u", result);
#else
  cr_assert_eq(result, ONSTACK_TRUNCATED_NOT, "reason %u", result);
#endif
  stack[3] = 0x700100; /* an ordinary caller */
  frame = begin;
  result = onstack_code_source_frame_pointers.step(&frame, &memory);
  cr_assert_eq(result, ONSTACK_TRUNCATED_NOT, "reason %u", result);
  cr_assert_eq(frame.pc, 0x700100);
  cr_assert_eq(frame.fp, stack[2]);
}

/* Guile, qemu and BEAM keep other things in that register: no stack of ours, and no fault of a frame pointer. */
Test(code_source, a_register_that_is_no_frame_pointer_means_that_nothing_describes_the_code) {
  static uint64_t stack[8];
  const onstack_reader here = {.name = "here", .read_pair = read_here};
  onstack_memory memory = {.reader = &here};
  const uint64_t sp = (uint64_t)(uintptr_t)(stack + 4);
  const uint64_t others[] = {sp - 8, sp + 4, 0x1234567, 0x1234560};
  for (int exact = 0; exact < 2; exact++) {
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
      onstack_code_frame frame = {.pc = 0x700000, .sp = sp, .fp = others[i], .low = sp, .exact = exact};
      cr_assert_eq(onstack_code_source_frame_pointers.step(&frame, &memory), ONSTACK_TRUNCATED_NO_RULE, "%#lx",
                   (unsigned long)others[i]);
    }
  }
}

static int gather(void *data, const void *bytes, size_t size) {
  strncat(data, bytes, size);
  return 0;
}

Test(code_source, names_its_code) {
  static char text[1 << 16];
  onstack_profile *profile;
  onstack_code_source_used = &source;
  make_code();
  cr_assert_eq(onstack_profile_new(NULL, &profile), 0);
  onstack_options options = t_options(100, onstack_profile_sink, profile);
  onstack_session *session = t_start(&options);
  uint64_t frames[2] = {code_at + 2, code_at + 4096 * 1000};
  onstack_sample sample = {.size = sizeof(sample),
                           .kind = ONSTACK_KIND_CPU,
                           .unit = ONSTACK_UNIT_NANOSECONDS,
                           .weight = 1,
                           .value = 1000000,
                           .period = 1000000,
                           .tid = 1,
                           .frames = frames,
                           .frame_count = 2};
  cr_assert_eq(onstack_profile_sink(profile, &sample), 0);
  t_finish(session);
  cr_assert_eq(onstack_profile_write_folded(profile, NULL, gather, text), 0);
  cr_assert_not_null(strstr(text, "enter<double> "), "%s", text);
  onstack_profile_free(profile);
}

Test(code_source, hears_of_ranges_that_come_and_go) {
  onstack_code_source_used = &source;
  make_code();
  cr_assert_eq(onstack_code_map_refresh(NULL), 0);
  cr_assert(told_of_it);
  uint32_t before = told;
  cr_assert_eq(onstack_code_map_refresh(NULL), 0);
  cr_assert_eq(told, before, "nothing has changed");
  munmap((void *)(uintptr_t)(code_at - 64), 4096);
  cr_assert_eq(onstack_code_map_refresh(NULL), 0);
  cr_assert_gt(told, before);
  cr_assert_not(told_of_it);
}
