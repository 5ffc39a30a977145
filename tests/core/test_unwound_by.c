/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* By what frames were unwound: return addresses must follow a call, code without unwind information says so, and the
   statistics by module tell which is which. */
#include "support.h"

#include "sampler/unwind/arch.h"

#include <malloc.h>
#include <string.h>
#include <unistd.h>

TestSuite(unwound_by, .init = t_setup);

#if defined(__x86_64__)
static bool ends(const char *code, size_t size) {
  uint8_t bytes[ONSTACK_CALL_BYTES];
  memset(bytes, 0x90, sizeof(bytes));
  memcpy(bytes + sizeof(bytes) - size, code, size);
  return onstack_call_ends(bytes);
}
#define ENDS(code) ends(code, sizeof(code) - 1)

/* As GNU as encodes them. */
Test(unwound_by, every_form_of_a_call_is_known) {
  cr_expect(ENDS("\xe8\x01\x02\x03\x04"), "call rel32");
  cr_expect(ENDS("\xff\xd0"), "call *%%rax");
  cr_expect(ENDS("\x41\xff\xd3"), "call *%%r11");
  cr_expect(ENDS("\xff\x10"), "call *(%%rax)");
  cr_expect(ENDS("\x41\xff\x14\x24"), "call *(%%r12)");
  cr_expect(ENDS("\xff\x14\xc8"), "call *(%%rax,%%rcx,8)");
  cr_expect(ENDS("\xff\x50\x08"), "call *8(%%rax)");
  cr_expect(ENDS("\xff\x54\x24\x08"), "call *8(%%rsp)");
  cr_expect(ENDS("\xff\x15\x01\x02\x03\x04"), "call *x(%%rip)");
  cr_expect(ENDS("\xff\x90\x01\x02\x03\x04"), "call *0x4030201(%%rax)");
  cr_expect(ENDS("\xff\x94\x24\x01\x02\x03\x04"), "call *0x4030201(%%rsp)");
  cr_expect(ENDS("\xff\x14\xc5\x01\x02\x03\x04"), "call *0x4030201(,%%rax,8)");
}

Test(unwound_by, other_instructions_are_not_calls) {
  cr_expect_not(ENDS("\xe9\x01\x02\x03\x04"), "jmp rel32");
  cr_expect_not(ENDS("\xff\xe0"), "jmp *%%rax");
  cr_expect_not(ENDS("\xff\x25\x01\x02\x03\x04"), "jmp *x(%%rip)");
  cr_expect_not(ENDS("\xff\x30"), "push (%%rax)");
  cr_expect_not(ENDS("\x48\x89\xe5"), "mov %%rsp,%%rbp");
  cr_expect_not(ENDS("\x90\x90"), "nop");
}

/*
 * liar: its CFI says that the return address is at SP, where it keeps an address that is code, but follows no call.
 * bare: assembly without any CFI, in a program that has some.
 */
__asm__(".pushsection .text\n"
        ".globl found_liar\n.type found_liar, @function\nfound_liar:\n.cfi_startproc\n"
        "lea 1f(%rip), %rax\n1: push %rax\n"
        "2: pause\nsub $1, %rdi\njnz 2b\n"
        "pop %rax\nret\n.cfi_endproc\n.size found_liar, . - found_liar\n"
        ".globl found_bare\n.type found_bare, @function\nfound_bare:\n"
        "push %rbx\n3: pause\nsub $1, %rdi\njnz 3b\npop %rbx\nret\n"
        ".size found_bare, . - found_bare\n.popsection\n");
extern void found_liar(uint64_t rounds);
extern void found_bare(uint64_t rounds);

typedef struct seen {
  uint64_t low, high; /* the function */
  volatile int samples, frames_above, by_reason[ONSTACK_TRUNCATION_COUNT];
} seen;

static int see(void *data, const onstack_sample *sample) {
  seen *s = data;
  if (sample->frames[0] < s->low || sample->frames[0] >= s->high) return 0;
  s->samples++;
  s->frames_above += (int)sample->frame_count - 1;
  s->by_reason[sample->truncation]++;
  return 0;
}

static void sample_function(void (*function)(uint64_t), uint64_t skip, seen *s) {
  s->low = (uint64_t)(uintptr_t)function + skip;
  s->high = (uint64_t)(uintptr_t)function + 24;
  onstack_options options = t_options(1000, see, s);
  onstack_session *session = t_start(&options);
  double end = t_thread_cpu() + 0.4;
  while (t_thread_cpu() < end) function(1000000);
  cr_assert_eq(onstack_session_free(session), 0);
}

Test(unwound_by, a_return_address_that_follows_no_call_is_no_frame) {
  seen s = {0};
  sample_function(found_liar, 8, &s); /* behind the push */
  cr_assert_gt(s.samples, 20);
  cr_assert_eq(s.frames_above, 0, "%d frames were invented", s.frames_above);
  cr_assert_eq(s.by_reason[ONSTACK_TRUNCATED_BAD_RETURN], s.samples);
}

Test(unwound_by, code_without_unwind_information_says_so) {
  seen s = {0};
  sample_function(found_bare, 0, &s);
  cr_assert_gt(s.samples, 20);
  cr_assert_eq(s.frames_above, 0, "a frame pointer there is anybody's");
  cr_assert_eq(s.by_reason[ONSTACK_TRUNCATED_NO_RULE], s.samples);
}
#endif

typedef struct listed {
  int modules, first_lost;
  onstack_module_stats own, libc;
  bool sorted;
  uint64_t last_lost;
} listed;

static int list(void *data, const onstack_module_stats *module) {
  listed *l = data;
  if (l->modules++ > 0 && module->lost > l->last_lost) l->sorted = false;
  l->last_lost = module->lost;
  if (strstr(module->path, "test_unwound_by")) l->own = *module;
  if (strstr(module->path, "libc.so")) l->libc = *module;
  return 0;
}

static void run_with(const char *unwinder, listed *l, onstack_stats *stats) {
  onstack_options options = t_options(1000, NULL, NULL);
  options.unwinder = unwinder;
  onstack_session *session = t_start(&options);
  t_burn(0.4);
  cr_assert_eq(onstack_session_stop(session), 0);
  *stats = t_stats(session);
  *l = (listed){.sorted = true};
  cr_assert_eq(onstack_session_modules(session, list, l), 0);
  cr_assert(l->sorted, "the worst first");
  cr_assert_eq(onstack_session_free(session), 0);
}

Test(unwound_by, statistics_tell_by_what_each_module_was_walked) {
  listed l;
  onstack_stats stats;
  run_with("rules", &l, &stats);
  cr_assert_gt(l.own.rules, 100);
  cr_assert_eq(l.own.go, 0);
  cr_assert_lt(l.own.frame_pointer, l.own.rules / 10);
  cr_assert_gt(l.own.ended + l.libc.ended, stats.samples / 2, "_start or libc's clone is the root");
  run_with("frame_pointer", &l, &stats);
  cr_assert_eq(l.own.rules, 0);
  cr_assert_gt(l.own.frame_pointer, 100);
  run_with("pc_only", &l, &stats);
  cr_assert_gt(l.own.lost, stats.samples / 2);
  cr_assert_eq(l.own.lost, l.own.lost_by[ONSTACK_TRUNCATED_BY_DESIGN]);
}

/* The loader gives it none. New memory is zero by chance only: an allocator that used it before has left something. */
Test(unwound_by, the_program_has_its_path) {
  char path[4096] = "";
  listed l;
  onstack_stats stats;
  mallopt(M_PERTURB, 0x41); /* a sanitizer's malloc knows nothing of it */
  run_with("rules", &l, &stats);
  cr_assert_gt(readlink("/proc/self/exe", path, sizeof(path) - 1), 0);
  cr_assert_not_null(l.own.path, "no module is this program");
  cr_assert_str_eq(l.own.path, path);
}

static int stop_at_once(void *data, const onstack_module_stats *module) {
  (void)module;
  ++*(int *)data;
  return 7;
}

Test(unwound_by, a_visit_can_end_early_and_bad_input_is_refused) {
  int visits = 0;
  onstack_options options = t_options(1000, NULL, NULL);
  onstack_session *session = t_start(&options);
  t_burn(0.2);
  cr_assert_eq(onstack_session_stop(session), 0);
  cr_assert_eq(onstack_session_modules(session, stop_at_once, &visits), 7);
  cr_assert_eq(visits, 1);
  cr_assert_eq(onstack_session_modules(NULL, stop_at_once, &visits), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_session_modules(session, NULL, &visits), ONSTACK_E_OPTIONS);
  cr_assert_eq(onstack_session_free(session), 0);
}
