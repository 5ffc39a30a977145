/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Generated code: its frames go by frame pointers, and where their chain ends in it the stack does not. */
#include "support.h"

#include <string.h>
#include <sys/mman.h>

TestSuite(generated, .init = t_setup);

/* void enter(void (*function)(double), double argument): clears the frame pointer for what it calls. */
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

typedef struct seen {
  uint64_t samples, whole, marked;
} seen;

/* Stacks that were followed to the generated code and no further. */
static int see(void *data, const onstack_sample *sample) {
  seen *s = data;
  if (sample->frames[sample->frame_count - 1] - code_at > sizeof(enter_code)) return 0;
  s->samples++;
  s->whole += sample->truncation == ONSTACK_TRUNCATED_NOT;
  s->marked += sample->truncation == ONSTACK_TRUNCATED_STACK_SWITCH;
  return 0;
}

static void end_of_the_chain(const char *unwinder) {
  seen s = {0};
  uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(code, MAP_FAILED);
  memcpy(code + 64, enter_code, sizeof(enter_code));
  cr_assert_eq(mprotect(code, 4096, PROT_READ | PROT_EXEC), 0);
  __builtin___clear_cache((char *)code, (char *)code + 4096);
  code_at = (uint64_t)(uintptr_t)code + 64;
  void (*enter)(void (*)(double), double);
  *(void **)&enter = code + 64;
  onstack_options options = t_options(1000, see, &s);
  options.unwinder = unwinder;
  onstack_session *session = t_start(&options);
  enter(t_burn, 0.5);
  t_finish(session);
  cr_assert_gt(s.samples, 20);
  cr_assert_eq(s.whole, 0, "%lu of %lu say that generated code was their root", (unsigned long)s.whole,
               (unsigned long)s.samples);
  cr_assert_eq(s.marked, s.samples);
}

Test(generated, is_no_root_for_rules) { end_of_the_chain("rules"); }
Test(generated, is_no_root_for_frame_pointers) { end_of_the_chain("frame_pointer"); }
