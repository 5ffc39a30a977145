/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/* Every bad value has its code, and a refused start leaves nothing: no descriptor, thread, timer, action. */
#include "support.h"

#include <stdio.h>
#include <string.h>

TestSuite(options, .init = t_setup);

static int start_code(const onstack_options *options) {
  t_traces before = t_traces_now();
  struct onstack_kernel_sigaction action = t_action(SIGPROF);
  onstack_session *session = (void *)&before;
  int result = onstack_session_start(options, &session);
  if (result == 0) {
    cr_assert_eq(onstack_session_free(session), 0);
  } else {
    cr_assert_null(session);
    cr_assert_gt(strlen(onstack_strerror(result)), 20);
  }
  t_traces after = t_traces_now();
  struct onstack_kernel_sigaction now = t_action(SIGPROF);
  t_same_traces(&before, &after, "start");
  cr_assert(t_same_action(&action, &now));
  return result;
}

/* Whether the text names an option that `change` sets. */
static bool names_the_option(const char *fault, const char *change) {
  char name[64];
  return fault && snprintf(name, sizeof(name), "o.%.*s", (int)strcspn(fault, ":"), fault) < (int)sizeof(name) &&
         strstr(change, name) && strlen(fault) > strlen(name) + 10;
}

/* `change` is applied to fresh options called `o`. */
#define EXPECT(change, code)                                                                                                \
  do {                                                                                                                      \
    onstack_options o = t_options(0, NULL, NULL);                                                                           \
    change;                                                                                                                 \
    int result = start_code(&o);                                                                                            \
    cr_expect_eq(result, (code), "%s: %d, expected %s", #change, result, #code);                                            \
    const char *fault = onstack_options_fault(&o);                                                                          \
    cr_expect(result == 0 ? !fault : names_the_option(fault, #change), "%s: %s", #change, fault);                           \
  } while (0)

Test(options, rates) {
  EXPECT(o.frequency = 10001, ONSTACK_E_FREQUENCY);
  EXPECT(o.frequency = UINT32_MAX, ONSTACK_E_FREQUENCY);
  EXPECT(o.frequency = 10000, 0);
  EXPECT(o.frequency = 1, 0);
  EXPECT(o.frequency = 0, 0);
}

Test(options, default_rate_is_99) {
  onstack_session *session = t_start(NULL);
  cr_assert_eq(t_stats(session).period, 1000000000u / 99);
  t_finish(session);
}

Test(options, depth_and_buffer) {
  EXPECT(o.max_depth = 1025, ONSTACK_E_OPTIONS);
  EXPECT(o.max_depth = 1024, 0);
  EXPECT(o.max_depth = 1, 0);
  EXPECT(o.buffer_bytes = (256u << 20) + 1, ONSTACK_E_OPTIONS);
  EXPECT(o.buffer_bytes = 256u << 20, 0);
  EXPECT(o.buffer_bytes = 1, 0);
}

Test(options, switches_and_choices) {
  EXPECT(o.on_stack = 3, ONSTACK_E_OPTIONS);
  EXPECT(o.threads = 3, ONSTACK_E_OPTIONS);
  EXPECT(o.own_threads = 255, ONSTACK_E_OPTIONS);
  EXPECT(o.restore = 3, ONSTACK_E_OPTIONS);
  EXPECT(o.clock = 5, ONSTACK_E_OPTIONS);
  EXPECT(o.fork = 3, ONSTACK_E_OPTIONS);
  EXPECT(o.clock = ONSTACK_CLOCK_WALL_SIGNAL, 0);
  EXPECT(o.fork = ONSTACK_FORK_FOLLOW, 0);
  EXPECT(o.clock = ONSTACK_CLOCK_CPU, 0);
  EXPECT(o.on_stack = ONSTACK_OFF, 0);
  EXPECT(o.threads = ONSTACK_OFF, 0);
  EXPECT(o.own_threads = ONSTACK_ON, 0);
}

Test(options, reserved_bytes) {
  EXPECT(o.reserved0[0] = 1, ONSTACK_E_OPTIONS);
  EXPECT(o.reserved0[1] = 1, ONSTACK_E_OPTIONS);
  EXPECT(o.label_bytes = ONSTACK_MAX_LABEL_BYTES + 1, ONSTACK_E_OPTIONS);
}

Test(options, signals) {
  static const int refused[] = {-1,      65,     1000,    SIGKILL, SIGSTOP, SIGSEGV, SIGBUS,  SIGFPE,  SIGILL,
                                SIGTRAP, SIGSYS, SIGABRT, SIGCHLD, 32,      33,      SIGCONT, SIGTSTP, SIGTTIN,
                                SIGTTOU, SIGHUP, SIGINT,  SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU, SIGXFSZ};
  for (size_t i = 0; i < sizeof(refused) / sizeof(refused[0]); i++) EXPECT(o.signal = refused[i], ONSTACK_E_SIGNAL);
  EXPECT(o.signal = SIGUSR1, 0);
  EXPECT(o.signal = SIGVTALRM, 0);
  EXPECT(o.signal = SIGURG, 0);
  EXPECT(o.signal = SIGRTMIN, 0);
  EXPECT(o.signal = SIGRTMAX, 0);
}

static onstack_walk_result no_walk(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                                   uint32_t capacity) {
  (void)data;
  (void)ucontext;
  (void)capacity;
  frames[0] = registers->pc;
  return (onstack_walk_result){1, 0};
}

Test(options, unwinders) {
  const onstack_unwinder whole = {.size = sizeof(whole), .name = "mine", .walk = no_walk};
  onstack_unwinder u = whole;
  EXPECT(o.unwinder = "rules", 0);
  EXPECT(o.unwinder = "frame_pointer", 0);
  EXPECT(o.unwinder = "pc_only", 0);
  EXPECT(o.unwinder = "", ONSTACK_E_UNWINDER);
  EXPECT(o.unwinder = "dwarf", ONSTACK_E_UNWINDER);
  EXPECT(o.custom_unwinder = &u, 0);
  EXPECT((o.custom_unwinder = &u, o.unwinder = "pc_only"), ONSTACK_E_UNWINDER);
  EXPECT((u.walk = NULL, o.custom_unwinder = &u), ONSTACK_E_UNWINDER);
  u = whole;
  EXPECT((u.name = NULL, o.custom_unwinder = &u), ONSTACK_E_UNWINDER);
  u = whole;
  EXPECT((u.size = 0, o.custom_unwinder = &u), ONSTACK_E_UNWINDER);
  EXPECT((u.size = sizeof(u) - 1, o.custom_unwinder = &u), ONSTACK_E_UNWINDER);
  u = whole;
  EXPECT((u.stack_bytes = 1u << 31, o.custom_unwinder = &u), ONSTACK_E_UNWINDER);
}

/* ---- sized structures ---- */

typedef struct longer_options {
  onstack_options known;
  uint8_t tail[24];
} longer_options;

Test(options, a_start_that_asks_for_nothing_has_no_fault) { cr_assert_null(onstack_options_fault(NULL)); }

static int start_longer(uint32_t size, int tail_at) {
  longer_options longer;
  memset(&longer, 0, sizeof(longer));
  cr_assert_eq(onstack_options_init(&longer.known, sizeof(longer)), 0);
  cr_assert_eq(longer.known.size, sizeof(longer));
  longer.known.size = size;
  if (tail_at >= 0) longer.tail[tail_at] = 1;
  return start_code(&longer.known);
}

Test(options, a_longer_structure_is_taken_when_its_tail_is_zero) {
  cr_expect_eq(start_longer(sizeof(longer_options), -1), 0);
  cr_expect_eq(start_longer(sizeof(longer_options), 0), ONSTACK_E_OPTIONS);
  cr_expect_eq(start_longer(sizeof(longer_options), 23), ONSTACK_E_OPTIONS);
  cr_expect_eq(start_longer(sizeof(onstack_options), 0), 0, "beyond the size nobody looks");
}

typedef struct longer_unwinder {
  onstack_unwinder known;
  uint64_t tail;
} longer_unwinder;

Test(options, a_longer_unwinder_too) {
  longer_unwinder longer = {{.size = sizeof(longer), .name = "longer", .walk = no_walk}, 0};
  EXPECT(o.custom_unwinder = &longer.known, 0);
  longer.tail = 1;
  EXPECT(o.custom_unwinder = &longer.known, ONSTACK_E_OPTIONS);
}

#define FIRST_SIZE offsetof(onstack_options, fork_sink_data) /* of the first header */
#define FIRST_STATS offsetof(onstack_stats, clock)

Test(options, a_structure_of_the_first_header_is_taken) {
  onstack_options options;
  memset(&options, 0x55, sizeof(options)); /* what lies behind it is not ours to read */
  cr_expect_eq(onstack_options_init(&options, FIRST_SIZE), 0);
  cr_expect_eq(options.size, FIRST_SIZE);
  cr_expect_eq(start_code(&options), 0);
}

Test(options, a_short_structure_is_refused) {
  onstack_options options;
  cr_expect_eq(onstack_options_init(&options, FIRST_SIZE - 1), ONSTACK_E_VERSION);
  cr_expect_eq(onstack_options_init(&options, 0), ONSTACK_E_VERSION);
  cr_expect_eq(onstack_options_init(NULL, sizeof(options)), ONSTACK_E_VERSION);
  EXPECT(o.size = FIRST_SIZE - 1, ONSTACK_E_OPTIONS);
  EXPECT(o.size = 0, ONSTACK_E_OPTIONS);
}

Test(options, statistics_are_sized_too) {
  struct {
    onstack_stats known;
    uint64_t tail;
  } longer;
  onstack_session *session = t_start(NULL);
  memset(&longer, 0x55, sizeof(longer));
  longer.known.size = sizeof(longer);
  cr_expect_eq(onstack_session_stats(session, &longer.known), 0);
  cr_expect_eq(longer.tail, 0, "what this library does not know is zero");
  cr_expect_eq(longer.known.size, sizeof(onstack_stats));
  cr_expect_str_eq(longer.known.reader, "probe");
  cr_expect_str_eq(longer.known.clock, "cpu");
  longer.known.size = FIRST_STATS;
  longer.known.clock = NULL;
  cr_expect_eq(onstack_session_stats(session, &longer.known), 0);
  cr_expect_null(longer.known.clock, "a shorter structure is not written behind its end");
  longer.known.size = FIRST_STATS - 1;
  cr_expect_eq(onstack_session_stats(session, &longer.known), ONSTACK_E_OPTIONS);
  cr_expect_eq(onstack_session_stats(NULL, &longer.known), ONSTACK_E_OPTIONS);
  cr_expect_eq(onstack_session_stats(session, NULL), ONSTACK_E_OPTIONS);
  t_finish(session);
}

Test(options, the_callers_copy_is_not_kept) {
  char name[] = "pc_only";
  onstack_options options = t_options(100, NULL, NULL);
  options.unwinder = name;
  onstack_session *session = t_start(&options);
  memset(&options, 0xff, sizeof(options));
  memset(name, 'x', sizeof(name) - 1);
  cr_assert_str_eq(t_stats(session).unwinder, "pc_only");
  t_finish(session);
}

Test(options, every_code_has_a_text_of_its_own) {
  static const int codes[] = {0,
                              ONSTACK_E_FREQUENCY,
                              ONSTACK_E_OPTIONS,
                              ONSTACK_E_UNWINDER,
                              ONSTACK_E_SIGNAL,
                              ONSTACK_E_SESSIONS,
                              ONSTACK_E_STOPPED,
                              ONSTACK_E_OUTPUT,
                              ONSTACK_E_UNSUPPORTED,
                              ONSTACK_E_VERSION,
                              ONSTACK_E_CONTEXT,
                              ONSTACK_E_CLOCK,
                              ONSTACK_E_KINDS,
                              -1,
                              12345};
  for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++)
    for (size_t j = 0; j < i; j++)
      cr_expect_str_neq(onstack_strerror(codes[i]), onstack_strerror(codes[j]), "%d and %d", codes[i], codes[j]);
  cr_expect_str_eq(onstack_strerror(-1), onstack_strerror(-4095));
  cr_expect_str_eq(onstack_strerror(-4108), onstack_strerror(99));
  cr_expect_str_eq(onstack_version(), "0.1.0");
}
