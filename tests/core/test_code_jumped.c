/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Code made at run time that a function jumps to, in whose frame it runs (sampler/unwind/generated_code.h). */
#include "support.h"

#include "sampler/unwind/generated_code.h"

#include <string.h>
#include <sys/mman.h>

#if defined(__x86_64__)

TestSuite(code_jumped, .init = t_setup);

/* void run_jumped(code, rounds, call): jumps to the code, with the frame pointer at nothing, and has it jump back. */
__asm__(".text\n.globl run_jumped\n.type run_jumped, @function\n"
        "run_jumped:\n.cfi_startproc\n"
        "push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_rel_offset rbp, 0\n"
        "push %rbx\n.cfi_adjust_cfa_offset 8\n"
        "sub $104, %rsp\n.cfi_adjust_cfa_offset 104\n"
        "mov $0x1234567, %ebp\n"
        "mov %rsi, %rbx\n"
        "lea 1f(%rip), %rax\n"
        "mov %rax, (%rsp)\n"
        ".globl run_jumped_middle\nrun_jumped_middle:\n"
        "jmp *%rdi\n"
        "1: add $104, %rsp\n.cfi_adjust_cfa_offset -104\n"
        "pop %rbx\n.cfi_adjust_cfa_offset -8\n"
        "pop %rbp\n.cfi_adjust_cfa_offset -8\n"
        "ret\n.cfi_endproc\n.size run_jumped, .-run_jumped\n");
void run_jumped(const void *code, uint64_t rounds, void (*call)(void));
extern const char run_jumped_middle[];

static const uint8_t spins[] = {
    0x48, 0xff, 0xcb, /* dec %rbx */
    0x75, 0xfb,       /* jne back */
    0xff, 0x24, 0x24, /* jmp *(%rsp) */
};
static const uint8_t calls[] = {
    0xff, 0xd2,       /* call *%rdx */
    0xff, 0x24, 0x24, /* jmp *(%rsp) */
};

static uint64_t code_low, code_size = 4096;

typedef struct seen_stacks {
  uint32_t whole, other;
} seen_stacks;

__attribute__((noinline)) static void caller(const void *code, uint64_t rounds, void (*call)(void)) {
  run_jumped(code, rounds, call);
  __asm__ volatile("");
}

/* Of stacks with the code in them: behind it comes `caller`, as its function's caller. */
static int see(void *data, const onstack_sample *sample) {
  seen_stacks *seen = data;
  const uint64_t low = (uint64_t)(uintptr_t)&caller;
  for (uint32_t i = 0; i + 1 < sample->frame_count; i++) {
    if (sample->frames[i] - code_low >= code_size) continue;
    const bool right = sample->frames[i + 1] - low < 64 && sample->truncation == ONSTACK_TRUNCATED_NOT;
    *(right ? &seen->whole : &seen->other) += 1;
    return 0;
  }
  seen->other += sample->frame_count > 0 && sample->frames[0] - code_low < code_size;
  return 0;
}

static void *make(const uint8_t *bytes, size_t size, int sharing) {
  uint8_t *page = mmap(NULL, code_size, PROT_READ | PROT_WRITE | PROT_EXEC, sharing | MAP_ANONYMOUS, -1, 0);
  cr_assert(page != MAP_FAILED);
  memcpy(page, bytes, size);
  code_low = (uint64_t)(uintptr_t)page;
  return page;
}

static void burn(void) {
  t_burn(0.3);
  __asm__ volatile("");
}

static seen_stacks sample(const void *code, uint64_t rounds, uint64_t times) {
  seen_stacks seen = {0};
  onstack_options options = t_options(500, see, &seen);
  onstack_session *session;
  onstack_code_jumped.from = (uint64_t)(uintptr_t)run_jumped_middle;
  cr_assert_eq(onstack_session_start(&options, &session), 0);
  for (uint64_t i = 0; i < times; i++) caller(code, rounds, burn);
  cr_assert_eq(onstack_session_stop(session), 0);
  onstack_session_free(session);
  return seen;
}

Test(code_jumped, leads_to_the_caller_of_the_function_that_jumps) {
  const seen_stacks seen = sample(make(spins, sizeof(spins), MAP_SHARED), 1u << 20, 1000);
  cr_expect_gt(seen.whole, 30u);
  cr_expect_leq(seen.other, 1u, "%u",
                seen.other); /* it may be interrupted in the first instant of a page that nobody knows */
}

Test(code_jumped, may_call_others) {
  const seen_stacks seen = sample(make(calls, sizeof(calls), MAP_SHARED), 0, 1);
  cr_expect_gt(seen.whole, 30u);
  cr_expect_leq(seen.other, 1u, "%u", seen.other);
}

/* Memory of another kind is another's code: nothing is guessed. */
Test(code_jumped, is_not_any_code) {
  const seen_stacks seen = sample(make(spins, sizeof(spins), MAP_PRIVATE), 1u << 20, 1000);
  cr_expect_eq(seen.whole, 0u);
  cr_expect_gt(seen.other, 30u);
}

#endif
