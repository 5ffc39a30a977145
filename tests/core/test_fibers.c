/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * Stacks that a program makes for itself. Some lead back to whoever entered them, by call frame information in the forms of
 * corosensei, wasmtime and psm; others begin where a program wrote a return address by hand, and that is their root.
 */
#include "support.h"

#include <sys/mman.h>
#include <ucontext.h>

TestSuite(fibers, .init = t_setup);

#define STACK ((size_t)64 << 10)

typedef void fiber_enter(void *top, void (*body)(void));

/* Each of them runs `body` on the stack that ends at `top`. */
fiber_enter fiber_linked, fiber_held, fiber_added, fiber_called, fiber_jumped, fiber_pushed;

#if defined(__x86_64__)
__asm__(".text\n"
        /* corosensei: a link to the parent's stack lies where RBP points to; the return address is pushed, and RBX saved. */
        ".type fiber_linked,@function\nfiber_linked:\n.cfi_startproc\n.cfi_signal_frame\n"
        "push %rbx\n.cfi_def_cfa_offset 16\n.cfi_offset rbx,-16\n"
        "push %rbp\n.cfi_def_cfa_offset 24\n.cfi_offset rbp,-24\n"
        "mov %rsp,-16(%rdi)\nlea -16(%rdi),%rbp\n"
        ".cfi_remember_state\n.cfi_escape 0x0f,5,0x76,0x00,0x06,0x23,0x18\n"
        "lea -32(%rdi),%rsp\nlea 1f(%rip),%rcx\npush %rcx\njmp *%rsi\n"
        "1: mov (%rbp),%rsp\n"
        ".cfi_restore_state\n"
        "pop %rbp\n.cfi_def_cfa_offset 16\n.cfi_restore rbp\npop %rbx\n.cfi_def_cfa_offset 8\n.cfi_restore rbx\nret\n"
        ".cfi_endproc\n.size fiber_linked,.-fiber_linked\n"
        /* wasmtime: the same by RSP, as DW_OP_reg7. */
        ".type fiber_held,@function\nfiber_held:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp,-16\n"
        "mov %rsp,-16(%rdi)\nlea -16(%rdi),%rsp\n"
        ".cfi_remember_state\n.cfi_escape 0x0f,4,0x57,0x06,0x23,0x10\n"
        "call *%rsi\nmov (%rsp),%rsp\n"
        ".cfi_restore_state\n"
        "pop %rbp\n.cfi_def_cfa_offset 8\n.cfi_restore rbp\nret\n"
        ".cfi_endproc\n.size fiber_held,.-fiber_held\n"
        /* SBCL: the words behind the link's are added in two operations. */
        ".type fiber_added,@function\nfiber_added:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp,-16\n"
        "mov %rsp,-16(%rdi)\nlea -16(%rdi),%rbp\n"
        ".cfi_remember_state\n.cfi_escape 0x0f,5,0x76,0x00,0x06,0x40,0x22\n"
        "mov %rbp,%rsp\ncall *%rsi\nmov (%rbp),%rsp\n"
        ".cfi_restore_state\n"
        "pop %rbp\n.cfi_def_cfa_offset 8\n.cfi_restore rbp\nret\n"
        ".cfi_endproc\n.size fiber_added,.-fiber_added\n"
        /* psm, which stacker uses: RBP stays on the caller's stack. */
        ".type fiber_called,@function\nfiber_called:\n.cfi_startproc\n"
        "push %rbp\n.cfi_def_cfa_offset 16\n.cfi_offset rbp,-16\n"
        "mov %rsp,%rbp\n.cfi_def_cfa_register rbp\nmov %rdi,%rsp\ncall *%rsi\nmov %rbp,%rsp\n"
        "pop %rbp\n.cfi_def_cfa rsp,8\nret\n"
        ".cfi_endproc\n.size fiber_called,.-fiber_called\n"
        /* boost.context: the return address is that behind the jump, and nothing describes the code. */
        ".type fiber_jumped,@function\nfiber_jumped:\n"
        "push %rbp\npush %rbx\nmov %rsp,-16(%rdi)\nlea -16(%rdi),%rbx\nlea -32(%rdi),%rsp\n"
        "lea 1f(%rip),%rbp\npush %rbp\njmp *%rsi\n"
        "1: mov (%rbx),%rsp\npop %rbx\npop %rbp\nret\n.size fiber_jumped,.-fiber_jumped\n"
        /* libco, makecontext: it is where a function begins. */
        ".type fiber_pushed,@function\nfiber_pushed:\n"
        "push %rbp\npush %rbx\nmov %rsp,-16(%rdi)\nlea -16(%rdi),%rbx\nlea -32(%rdi),%rsp\n"
        "lea fiber_ends(%rip),%rbp\npush %rbp\njmp *%rsi\n.size fiber_pushed,.-fiber_pushed\n"
        ".p2align 4\n.type fiber_ends,@function\nfiber_ends:\n.cfi_startproc\n"
        "mov (%rbx),%rsp\npop %rbx\npop %rbp\nret\n.cfi_endproc\n.size fiber_ends,.-fiber_ends\n");
#elif defined(__aarch64__)
__asm__(
    ".text\n"
    ".type fiber_linked,@function\nfiber_linked:\n.cfi_startproc\n.cfi_signal_frame\n"
    "stp x29,x30,[sp,#-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset x29,-16\n.cfi_offset x30,-8\n"
    "mov x3,sp\nstr x3,[x0,#-16]!\nmov x29,x0\n"
    ".cfi_remember_state\n.cfi_escape 0x0f,5,0x8d,0x00,0x06,0x23,0x10\n"
    "sub sp,x0,#16\nadr x30,1f\nbr x1\n"
    "1: ldr x3,[x29]\nmov sp,x3\n"
    ".cfi_restore_state\n"
    "ldp x29,x30,[sp],#16\n.cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\nret\n"
    ".cfi_endproc\n.size fiber_linked,.-fiber_linked\n"
    ".type fiber_held,@function\nfiber_held:\n.cfi_startproc\n"
    "stp x29,x30,[sp,#-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset x29,-16\n.cfi_offset x30,-8\n"
    "mov x3,sp\nstr x3,[x0,#-16]!\nmov sp,x0\n"
    ".cfi_remember_state\n.cfi_escape 0x0f,4,0x6f,0x06,0x23,0x10\n"
    "blr x1\nldr x3,[sp]\nmov sp,x3\n"
    ".cfi_restore_state\n"
    "ldp x29,x30,[sp],#16\n.cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\nret\n"
    ".cfi_endproc\n.size fiber_held,.-fiber_held\n"
    ".type fiber_added,@function\nfiber_added:\n.cfi_startproc\n"
    "stp x29,x30,[sp,#-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset x29,-16\n.cfi_offset x30,-8\n"
    "mov x3,sp\nstr x3,[x0,#-16]!\nmov x29,x0\n"
    ".cfi_remember_state\n.cfi_escape 0x0f,5,0x8d,0x00,0x06,0x40,0x22\n"
    "mov sp,x29\nblr x1\nldr x3,[x29]\nmov sp,x3\n"
    ".cfi_restore_state\n"
    "ldp x29,x30,[sp],#16\n.cfi_def_cfa_offset 0\n.cfi_restore x29\n.cfi_restore x30\nret\n"
    ".cfi_endproc\n.size fiber_added,.-fiber_added\n"
    ".type fiber_called,@function\nfiber_called:\n.cfi_startproc\n"
    "stp x29,x30,[sp,#-16]!\n.cfi_def_cfa_offset 16\n.cfi_offset x29,-16\n.cfi_offset x30,-8\n"
    "mov x29,sp\n.cfi_def_cfa_register x29\nmov sp,x0\nblr x1\nmov sp,x29\n"
    "ldp x29,x30,[sp],#16\n.cfi_def_cfa sp,0\n.cfi_restore x29\n.cfi_restore x30\nret\n"
    ".cfi_endproc\n.size fiber_called,.-fiber_called\n"
    ".type fiber_jumped,@function\nfiber_jumped:\n"
    "stp x29,x30,[sp,#-32]!\nstr x19,[sp,#16]\nmov x3,sp\nstr x3,[x0,#-16]!\nmov x19,x0\nmov sp,x0\n"
    "adr x30,1f\nbr x1\n"
    "1: ldr x3,[x19]\nmov sp,x3\nldr x19,[sp,#16]\nldp x29,x30,[sp],#32\nret\n.size fiber_jumped,.-fiber_jumped\n"
    ".type fiber_pushed,@function\nfiber_pushed:\n"
    "stp x29,x30,[sp,#-32]!\nstr x19,[sp,#16]\nmov x3,sp\nstr x3,[x0,#-16]!\nmov x19,x0\nmov sp,x0\n"
    "adr x30,fiber_ends\nbr x1\n.size fiber_pushed,.-fiber_pushed\n"
    ".p2align 4\nnop\n.type fiber_ends,@function\nfiber_ends:\n.cfi_startproc\n"
    "ldr x3,[x19]\nmov sp,x3\nldr x19,[sp,#16]\nldp x29,x30,[sp],#32\nret\n.cfi_endproc\n.size fiber_ends,.-fiber_ends\n");
#endif

T_BURNER(burn_fiber)

/* A function in a section of its own, so that an address tells it. */
#define FUNCTION_OF(name) __attribute__((noinline, noclone, section("text_" #name)))
#define IS_IN(name)                                                                                                         \
  extern const char __start_text_##name[], __stop_text_##name[];                                                            \
  static bool in_##name(uint64_t pc) {                                                                                      \
    return pc >= (uint64_t)(uintptr_t)__start_text_##name && pc < (uint64_t)(uintptr_t)__stop_text_##name;                  \
  }
IS_IN(fiber_body)
IS_IN(fiber_owner)

static uint8_t *fiber_lower, *fiber_upper; /* where two stacks end */

static void map_stacks(void) {
  uint8_t *all = mmap(NULL, 3 * STACK, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(all, MAP_FAILED);
  cr_assert_eq(mprotect(all + STACK, STACK, PROT_NONE), 0);
  fiber_lower = all + STACK;
  fiber_upper = all + 3 * STACK;
}

FUNCTION_OF(fiber_body) static void fiber_body(void) {
  burn_fiber(0.25);
  __asm__ volatile("");
}

static fiber_enter *fiber_within;
static uint8_t *fiber_within_top;

/* A fiber that enters another one. */
FUNCTION_OF(fiber_body) static void fiber_outer(void) {
  fiber_within(fiber_within_top, fiber_body);
  __asm__ volatile("");
}

FUNCTION_OF(fiber_owner) static void fiber_owner(fiber_enter *enter, void *top, void (*body)(void)) {
  enter(top, body);
  __asm__ volatile("");
}

typedef struct counted {
  uint64_t all, whole,
      owned; /* samples in the burner; that reach their root; in which the owner stands below `bodies` fibers */
} counted;

static counted count(const t_collector *collector, uint32_t bodies) {
  counted c = {0, 0, 0};
  for (size_t i = 0; i < collector->count; i++) {
    const t_sample *sample = &collector->samples[i];
    if (!t_in_burn_fiber(sample->frames[0])) continue;
    uint32_t passed = 0, last = 0;
    for (uint32_t at = 1; at < sample->frame_count && at < T_FRAMES; at++) {
      if (in_fiber_body(sample->frames[at] - 1)) passed++;
      if (in_fiber_owner(sample->frames[at] - 1) && passed == bodies) last = at;
    }
    c.all++;
    c.whole += sample->truncation == ONSTACK_TRUNCATED_NOT && passed == bodies;
    c.owned += last > 0 && last + 1 < sample->frame_count;
  }
  cr_assert_gt(c.all, 30, "%lu samples are too few to say anything", (unsigned long)c.all);
  return c;
}

static counted run(fiber_enter *enter, void *top, void (*body)(void), uint32_t bodies) {
  t_collector *collector = t_collector_new();
  onstack_options options = t_options(1000, t_collect, collector);
  onstack_session *session = t_start(&options);
  fiber_owner(enter, top, body);
  t_finish(session);
  return count(collector, bodies);
}

static void leads_back(fiber_enter *enter, void *top, void (*body)(void), uint32_t bodies) {
  const counted c = run(enter, top, body, bodies);
  cr_assert_geq(c.owned * 100, c.all * 95, "%lu of %lu know who entered the fiber", (unsigned long)c.owned,
                (unsigned long)c.all);
  cr_assert_geq(c.whole * 100, c.all * 95, "%lu of %lu reach their root", (unsigned long)c.whole, (unsigned long)c.all);
}

static void begins_here(fiber_enter *enter) {
  map_stacks();
  const counted c = run(enter, fiber_upper, fiber_body, 1);
  cr_assert_eq(c.owned, 0, "no sample can know who entered the fiber");
  cr_assert_geq(c.whole * 100, c.all * 95, "%lu of %lu reach their root", (unsigned long)c.whole, (unsigned long)c.all);
}

Test(fibers, a_link_by_the_frame_pointer_leads_to_the_parent) {
  map_stacks();
  leads_back(fiber_linked, fiber_upper, fiber_body, 1);
}

Test(fibers, a_link_by_the_stack_pointer_leads_to_the_parent) {
  map_stacks();
  leads_back(fiber_held, fiber_upper, fiber_body, 1);
}

Test(fibers, a_link_and_a_small_number_lead_to_the_parent) {
  map_stacks();
  leads_back(fiber_added, fiber_upper, fiber_body, 1);
}

Test(fibers, a_frame_pointer_on_the_callers_stack_leads_there) {
  map_stacks();
  leads_back(fiber_called, fiber_upper, fiber_body, 1);
}

Test(fibers, within_fibers_on_higher_and_on_lower_stacks) {
  map_stacks();
  fiber_within = fiber_linked;
  fiber_within_top = fiber_lower;
  leads_back(fiber_held, fiber_upper, fiber_outer, 2);
  fiber_within = fiber_held;
  fiber_within_top = fiber_upper;
  leads_back(fiber_linked, fiber_lower, fiber_outer, 2);
}

Test(fibers, a_return_address_behind_a_jump_ends_the_stack) { begins_here(fiber_jumped); }
Test(fibers, a_return_address_at_a_functions_entry_ends_the_stack) { begins_here(fiber_pushed); }

#if defined(__GLIBC__)
static ucontext_t fiber_back, fiber_context;

static void fiber_swapped(void *top, void (*body)(void)) {
  getcontext(&fiber_context);
  fiber_context.uc_stack.ss_sp = (uint8_t *)top - STACK;
  fiber_context.uc_stack.ss_size = STACK;
  fiber_context.uc_link = &fiber_back;
  makecontext(&fiber_context, body, 0);
  swapcontext(&fiber_back, &fiber_context);
}

Test(fibers, of_makecontext_reach_their_root) { begins_here(fiber_swapped); }
#endif
