/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Samples of the time before the rules are there: their stacks are kept, and walked when the rules are. */
#include "sampler/ring/kept.h"
#include "sampler/api/session.h"
#include "support.h"

#include <sys/mman.h>

TestSuite(pending, .init = t_setup);

T_BURNER(burn_deep)

#if defined(__x86_64__)
/* Its saved registers are popped already, and lie below the stack pointer, where their rule finds them still. */
void popped_spin(uint64_t rounds);
extern const char popped_spin_end[];
__asm__(".pushsection .text\n"
        ".type popped_spin, @function\n"
        "popped_spin: .cfi_startproc\n"
        "push %r12\n.cfi_adjust_cfa_offset 8\n.cfi_offset %r12, -16\n"
        "push %rbp\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbp, -24\n"
        "push %rbx\n.cfi_adjust_cfa_offset 8\n.cfi_offset %rbx, -32\n"
        "pop %rbx\n.cfi_adjust_cfa_offset -8\n"
        "pop %rbp\n.cfi_adjust_cfa_offset -8\n"
        "pop %r12\n.cfi_adjust_cfa_offset -8\n"
        "1: dec %rdi\njnz 1b\n"
        "ret\n"
        ".cfi_endproc\n"
        "popped_spin_end:\n"
        ".size popped_spin, . - popped_spin\n"
        ".popsection\n");

static bool t_in_popped(uint64_t pc) {
  return pc >= (uint64_t)(uintptr_t)popped_spin && pc < (uint64_t)(uintptr_t)popped_spin_end;
}

static void burn_popped(double seconds) {
  const double begin = t_thread_cpu();
  for (uint64_t done = 0, more; (more = t_burn_more(begin, seconds, done)) > 0; done += more) popped_spin(more);
  __asm__ volatile(""); /* no tail call: the frame stays */
}
#else
static bool t_in_popped(uint64_t pc) {
  (void)pc;
  return false;
}
#endif

static void (*burn)(double seconds) = burn_deep;
static volatile int turned;

__attribute__((noinline)) static void deep(int n, double seconds) {
  volatile char room[100];
  room[n % 100] = 1;
  if (n == 0)
    burn(seconds);
  else
    deep(n - 1, seconds);
  turned += room[n % 100]; /* no tail call */
}

__attribute__((noinline)) static void wide(double seconds) {
  volatile char room[100000];
  room[turned & 1] = 1;
  burn_deep(seconds);
  turned += room[1];
}

#define DEEP 20

typedef struct seen {
  uint64_t samples, whole, cut, wrong;
} seen;

static int see(void *data, const onstack_sample *sample) {
  seen *s = data;
  if (!t_in_burn_deep(sample->frames[0]) && !t_in_popped(sample->frames[0])) return 0;
  s->samples++;
  s->whole += sample->truncation == ONSTACK_TRUNCATED_NOT && sample->frame_count > DEEP;
  s->cut += sample->truncation == ONSTACK_TRUNCATED_PENDING;
  s->wrong += sample->truncation == ONSTACK_TRUNCATED_NOT && sample->frame_count <= DEEP;
  return 0;
}

static void *burn_thread(void *data) {
  deep(DEEP, *(const double *)data);
  return NULL;
}

/* Without threads of ours nothing is derived before the first poll: all samples are of the time before. */
static seen sample_first(const double *in_thread, double seconds) {
  seen s = {0};
  onstack_session *session;
  onstack_options options = t_options(200, see, &s);
  options.threads = ONSTACK_OFF;
  cr_assert_eq(onstack_session_start_at_once(&options, &session), 0);
  if (in_thread) {
    pthread_t thread;
    pthread_create(&thread, NULL, burn_thread, (void *)(uintptr_t)in_thread);
    pthread_join(thread, NULL);
  } else {
    deep(DEEP, seconds);
  }
  onstack_session_poll(session, 0);
  t_finish(session);
  return s;
}

static void assert_whole(seen s) {
  cr_assert_gt(s.samples, 10);
  cr_assert_eq(s.wrong, 0);
  cr_assert_geq(s.whole * 100, s.samples * 95, "%lu of %lu, %lu cut", (unsigned long)s.whole, (unsigned long)s.samples,
                (unsigned long)s.cut);
}

Test(pending, stacks_of_the_first_moments_are_whole) { assert_whole(sample_first(NULL, 0.3)); }

/* Sorting and joining keep vectors of their rows on the stack. */
Test(pending, with_frames_of_many_pages_too) {
  burn = wide;
  assert_whole(sample_first(NULL, 0.3));
}

#if defined(__x86_64__)
Test(pending, with_what_is_saved_below_the_stack_pointer_too) {
  burn = burn_popped;
  assert_whole(sample_first(NULL, 0.3));
}
#endif

/* Its stack is unmapped, or another's, when the copy is walked. */
Test(pending, of_a_thread_that_has_ended_too) {
  const double seconds = 0.3;
  assert_whole(sample_first(&seconds, 0));
}

/* More than are kept: what is left over says why it is short, and nothing else suffers. */
Test(pending, what_is_not_kept_stays_cut) {
  seen s = {0};
  onstack_session *session;
  onstack_options options = t_options(1000, see, &s);
  options.threads = ONSTACK_OFF;
  cr_assert_eq(onstack_session_start_at_once(&options, &session), 0);
  deep(DEEP, 1.5); /* at 250 ticks a second, the fewest that a kernel gives */
  onstack_session_poll(session, 0);
  const seen first = s;
  deep(DEEP, 0.2);
  onstack_session_poll(session, 0);
  t_finish(session);
  cr_assert_eq(s.wrong, 0);
  cr_assert_geq(first.whole, 100, "%lu of %lu", (unsigned long)first.whole, (unsigned long)first.samples);
  cr_assert_gt(first.cut, 0);
  cr_assert_eq(first.whole + first.cut, first.samples);
  cr_assert_eq(s.cut, first.cut, "later ones are whole");
}

#define OWN_STACK ((size_t)256 << 10)

/* Memory of another use lies above the stack, in the same mapping. With a userfaultfd the thread may have to serve it. */
static void *keep_own_stack(void *kept) {
  const uint64_t here = (uint64_t)(uintptr_t)__builtin_frame_address(0);
  const onstack_registers registers = {.pc = (uint64_t)(uintptr_t)keep_own_stack, .sp = here, .fp = here};
  return onstack_keep(kept, &registers) == 1 ? kept : NULL;
}

Test(pending, a_kept_stack_ends_where_the_threads_stack_ends) {
  onstack_kept *kept = mmap(NULL, sizeof(*kept) * ONSTACK_KEPT_STACKS, PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  uint8_t *stack = mmap(NULL, OWN_STACK + ONSTACK_KEPT_NATIVE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  pthread_attr_t attributes;
  pthread_t thread;
  void *result;
  cr_assert(kept != MAP_FAILED && stack != MAP_FAILED);
  pthread_attr_init(&attributes);
  cr_assert_eq(pthread_attr_setstack(&attributes, stack, OWN_STACK), 0);
  cr_assert_eq(pthread_create(&thread, &attributes, keep_own_stack, kept), 0);
  pthread_join(thread, &result);
  cr_assert_eq(result, kept, "nothing was kept");
  cr_assert_gt(kept->native.high, kept->native.low);
  cr_assert_leq(kept->native.high, (uint64_t)(uintptr_t)stack + OWN_STACK, "the copy goes on above the stack");
}
