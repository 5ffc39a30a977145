/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Generated code: its frames go by frame pointers, and where their chain ends in it the stack does not. */
#include "support.h"
#include "onstack/traceback.h"

#include <dlfcn.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

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

static void *code_of(const void *bytes, size_t size) {
  uint8_t *code = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  cr_assert_neq(code, MAP_FAILED);
  memcpy(code + 64, bytes, size);
  cr_assert_eq(mprotect(code, 4096, PROT_READ | PROT_EXEC), 0);
  __builtin___clear_cache((char *)code, (char *)code + 4096);
  code_at = (uint64_t)(uintptr_t)code + 64;
  return code + 64;
}

static void plugin_path(char path[4096]) {
  ssize_t length = readlink("/proc/self/exe", path, 4000);
  cr_assert_gt(length, 0);
  path[length] = 0;
  strcpy(strrchr(path, '/') + 1, "plugin.so");
}

static void end_of_the_chain(const char *unwinder) {
  seen s = {0};
  void (*enter)(void (*)(double), double) = code_of(enter_code, sizeof(enter_code));
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

/* void call(void (*function)(double), double argument): an ordinary frame. */
#if defined(__x86_64__)
static const uint8_t call_code[] = {
    0x55, 0x48, 0x89, 0xe5, /* push %rbp; mov %rsp, %rbp */
    0xff, 0xd7,             /* call *%rdi */
    0x5d, 0xc3,             /* pop %rbp; ret */
};
#else
static const uint32_t call_code[] = {
    0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
    0x910003fd, /* mov x29, sp */
    0xd63f0000, /* blr x0 */
    0xa8c17bfd, /* ldp x29, x30, [sp], #16 */
    0xd65f03c0, /* ret */
};
#endif

/* Stacks with generated code in them. */
static int see_within(void *data, const onstack_sample *sample) {
  seen *s = data;
  bool within = false;
  for (uint32_t i = 0; i < sample->frame_count; i++) within |= sample->frames[i] - code_at < 64;
  s->samples += within;
  s->whole += within && sample->truncation == ONSTACK_TRUNCATED_NOT;
  return 0;
}

/* Between the walk and the delivery a library came, which tells nothing about code that no library held. */
Test(generated, stays_what_it_was_when_a_library_is_opened) {
  seen s = {0};
  char path[4096];
  plugin_path(path);
  void (*call)(void (*)(double), double) = code_of(call_code, sizeof(call_code));
  onstack_options options = t_options(1000, see_within, &s);
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  for (int i = 0; i < 100 && s.samples < 20; i++) {
    call(t_burn, 0.05);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert_not_null(library, "%s", dlerror());
    onstack_session_poll(session, 0);
    cr_assert_eq(dlclose(library), 0);
    onstack_session_poll(session, 0);
  }
  t_finish(session);
  cr_assert_geq(s.samples, 20);
  cr_assert_geq(s.whole * 100, s.samples * 95, "%lu of %lu", (unsigned long)s.whole, (unsigned long)s.samples);
}

/* A frame that burns by itself, for call(): void spin(.., uint64_t rounds). */
#if defined(__x86_64__)
static const uint8_t spin_code[] = {
    0x55, 0x48, 0x89, 0xe5, /* push %rbp; mov %rsp, %rbp */
    0x48, 0xff, 0xce,       /* 1: dec %rsi */
    0x75, 0xfb,             /* jnz 1b */
    0x5d, 0xc3,             /* pop %rbp; ret */
};
#else
static const uint32_t spin_code[] = {
    0xa9bf7bfd, /* stp x29, x30, [sp, #-16]! */
    0x910003fd, /* mov x29, sp */
    0xf1000421, /* 1: subs x1, x1, #1 */
    0x54ffffe1, /* b.ne 1b */
    0xa8c17bfd, /* ldp x29, x30, [sp], #16 */
    0xd65f03c0, /* ret */
};
#endif
#define SPIN_AT 32 /* behind call_code */

/* It came after the last look at the map; that it runs says that it is code, and that the map is to be looked at. */
Test(generated, is_followed_from_its_first_instruction_on) {
  seen s = {0};
  uint8_t both[SPIN_AT + sizeof(spin_code)] = {0};
  memcpy(both, call_code, sizeof(call_code));
  memcpy(both + SPIN_AT, spin_code, sizeof(spin_code));
  onstack_options options = t_options(1000, see_within, &s);
  options.threads = ONSTACK_OFF;
  onstack_session *session = t_start(&options);
  uint8_t *code = code_of(both, sizeof(both));
  void (*call)(void *, uint64_t) = (void (*)(void *, uint64_t))(void *)code;
  const double begin = t_thread_cpu();
  for (uint64_t done = 0, more; (more = t_burn_more(begin, 0.3, done)) > 0; done += more) call(code + SPIN_AT, more);
  onstack_session_poll(session, 0);
  t_finish(session);
  cr_assert_geq(s.samples, 20);
  cr_assert_geq(s.whole * 100, s.samples * 95, "%lu of %lu", (unsigned long)s.whole, (unsigned long)s.samples);
}

#if defined(__x86_64__)
/* Each instruction of the inner function, its prologue and epilogue as well: who called it, and who called that. */
typedef struct stepped {
  uint64_t inside, without_caller;
} stepped;
static stepped steps;

static void step(int signal, siginfo_t *info, void *context) {
  ucontext_t *at = context;
  const uint64_t pc = (uint64_t)at->uc_mcontext.gregs[REG_RIP];
  uint64_t frames[64];
  onstack_registers registers;
  (void)signal, (void)info;
  if (pc - (code_at + SPIN_AT) >= sizeof(spin_code)) return;
  steps.inside++;
  onstack_traceback_interrupted(context, &registers);
  const uint32_t count = onstack_traceback_walk(&registers, frames, 64);
  steps.without_caller += count < 3 || frames[0] != pc || frames[1] - code_at >= sizeof(call_code);
}

Test(generated, keeps_the_caller_of_each_of_its_instructions) {
  uint8_t both[SPIN_AT + sizeof(spin_code)] = {0};
  memcpy(both, call_code, sizeof(call_code));
  memcpy(both + SPIN_AT, spin_code, sizeof(spin_code));
  uint8_t *code = code_of(both, sizeof(both));
  void (*call)(void *, uint64_t) = (void (*)(void *, uint64_t))(void *)code;
  struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
  cr_assert_eq(sigaction(SIGTRAP, &action, NULL), 0);
  cr_assert_eq(onstack_traceback_prepare(), 0);
  __asm__ volatile("pushfq; orq $0x100, (%%rsp); popfq" ::: "memory", "cc");
  call(code + SPIN_AT, 3);
  __asm__ volatile("pushfq; andq $~0x100, (%%rsp); popfq" ::: "memory", "cc");
  cr_assert_gt(steps.inside, 8);
  cr_assert_eq(steps.without_caller, 0, "%lu of %lu", (unsigned long)steps.without_caller, (unsigned long)steps.inside);
}
#endif

Test(generated, is_no_root_for_rules) { end_of_the_chain("rules"); }
Test(generated, is_no_root_for_frame_pointers) { end_of_the_chain("frame_pointer"); }
