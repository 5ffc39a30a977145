/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/keeper.h"

#include "onstack/onstack.h"
#include "onstack/profile.h"
#include "platform/atomics.h"
#include "platform/process.h"
#include "platform/sys.h"
#include "sampler/signal/own_threads.h"
#include "sampler/threads/task.h"
#include "sampler/source/threads.h"
#include "sampler/unwind/generated_code.h"
#include "preload/first_ticks.h"
#include "preload/descriptors.h"
#include "preload/sampling.h"
#include "preload/interpose_thread.h"

#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>

#define KEEPER_STACK_BYTES ((size_t)1 << 20)
#define KEEPER_GRACE_NS 1000000u
#define KEEPER_BEGIN_SECONDS 1u
#define KEEPER_STATUS_NS 1000000000u
#define KEEPER_LOOK_NS 50000000u   /* between two looks whether the host's threads have all ended; */
#define KEEPER_REST_NS 500000000u  /* twice as long each time, up to here, while nobody has heard of such an end */
#define KEEPER_ENOUGH_NS 40000000u /* of CPU time, in which first ticks should have said that they are over */
/* Saves: the first early for programs that end uncaught after a second, then at most a hundredth of the time goes into
   them, and no more than ten seconds are ever lost unless a save takes long. */
#define KEEPER_SAVE_FIRST_NS 500000000u
#define KEEPER_SAVE_MOST_NS 10000000000u
#define KEEPER_SAVE_SHARE 100u
#define KEEPER_ASK_NS 100000000u /* while a thread waits: how often it asks whether the keeper is still there */
#define KEEPER_END 1u
#define KEEPER_END_AT_ONCE 2u

/* Written by who asks and read by the keeper, and the other way round; reset in the child of a fork. */
static struct {
  const onstack_environment *settings;
  int32_t pid;           /* 0: no keeper */
  int32_t tid;           /* the keeper's; 0: it has not run yet */
  uint32_t *mark;        /* 1, and 0 in a child that was made by a raw clone (platform/process.h); NULL: cannot be had */
  uint32_t wake;         /* futex; raised by each request */
  uint32_t finished;     /* futex; raised when something asked for is done */
  bool awaited;          /* the thread that made the keeper waits until the session has begun */
  uint32_t begun;        /* it has, or was refused */
  uint32_t saves, saved; /* requests, and how many of them are done */
  uint32_t end, ended;
  uint32_t toggles;
  uint32_t dumps;
  uint32_t written; /* the last save left a profile */
  uint32_t left;    /* the first thread has ended, and the process has not */
  uint32_t rests;   /* the session is to begin when this is 0 */
} keeper;

/* The keeper's own. */
typedef struct keeper_state {
  uint32_t toggles, dumps; /* followed so far */
  bool started;            /* there is something to end */
  bool rests;              /* it is to begin yet */
  bool alone;              /* the host has no thread any more */
  bool outlived;           /* a thread of the host has outlived the first one */
  int next_number;
  uint64_t save_at_ns, save_pause_ns, tell_at_ns;
  uint64_t look_ns; /* the last pause */
} keeper_state;

static void keeper_raise(uint32_t *word) {
  onstack_dekker_add(word, 1u);
  onstack_sys_call3(SYS_futex, (long)word, ONSTACK_FUTEX_WAKE_PRIVATE, INT32_MAX);
}

static void keeper_wait(uint32_t *word, uint32_t seen, uint64_t ns) {
  struct onstack_timespec pause = {(int64_t)(ns / 1000000000u), (int64_t)(ns % 1000000000u)};
  onstack_sys_futex_wait(word, seen, &pause);
}

static void keeper_begin(keeper_state *state, int number) {
  onstack_first_ticks_end(); /* what is done from here on is no work of the host's */
  onstack_guard_take_own_table();
  /* While one waits there is no exec in another thread, for which more tries are. */
  const uint32_t tries = keeper.awaited ? 0 : ONSTACK_SAMPLING_TRIES;
  state->started = onstack_sampling_start(keeper.settings, number, tries) == 0;
  uint64_t now = onstack_monotonic_ns();
  state->save_pause_ns = KEEPER_SAVE_FIRST_NS;
  state->save_at_ns = now + state->save_pause_ns;
  state->tell_at_ns = now + KEEPER_STATUS_NS;
}

/* If a filter has killed a thread of the session, that may have left a lock taken: the session is given up. */
static void keeper_check(keeper_state *state) {
  if (onstack_own_forget_killed()) state->started = false;
}

static void keeper_finish(keeper_state *state) {
  keeper_check(state);
  if (state->started) onstack_sampling_end(keeper.settings, onstack_observe(&keeper.end) != KEEPER_END_AT_ONCE);
  state->started = false;
}

static void keeper_follow_toggles(keeper_state *state) {
  uint32_t toggles = onstack_observe(&keeper.toggles);
  for (; state->toggles != toggles; state->toggles++) {
    if (state->toggles % 2 == 0)
      keeper_begin(state, state->next_number++);
    else
      keeper_finish(state);
  }
}

static int keeper_say_dump(void *data, const void *bytes, size_t length) {
  (void)data;
  return onstack_say(bytes, length) ? 0 : 1;
}

/* ONSTACK_DUMP_SIGNAL: writes to the host's stderr where every thread is, or one line that says why there is no dump. */
static void keeper_write_dump(void) {
  const int result = onstack_dump(NULL, keeper_say_dump, NULL);
  if (result == 0)
    onstack_say("\n", 1);
  else if (result != ONSTACK_E_OUTPUT) /* that would go the same way */
    onstack_complain("no dump: %s", result > -4096 ? strerror(-result) : onstack_strerror(result));
}

static void keeper_follow_dumps(keeper_state *state) {
  const uint32_t dumps = onstack_observe(&keeper.dumps);
  if (state->dumps == dumps) return;
  onstack_guard_take_own_table();
  keeper_write_dump();
  state->dumps = dumps;
}

static void keeper_save(keeper_state *state) {
  uint64_t begun = onstack_monotonic_ns();
  onstack_publish(&keeper.written, (uint32_t)onstack_sampling_save(keeper.settings));
  uint64_t ended = onstack_monotonic_ns(), share = (ended - begun) * KEEPER_SAVE_SHARE;
  state->save_pause_ns *= 2;
  if (state->save_pause_ns > KEEPER_SAVE_MOST_NS) state->save_pause_ns = KEEPER_SAVE_MOST_NS;
  state->save_at_ns = ended + (share > state->save_pause_ns ? share : state->save_pause_ns);
}

static void keeper_finish_saves(keeper_state *state) {
  uint32_t saves = onstack_observe(&keeper.saves);
  if (saves == keeper.saved) return;
  if (state->rests && onstack_first_ticks_are_held())
    return; /* they came in this round: in the next one there is a session */
  if (state->started) {
    onstack_sampling_collect(true);
    keeper_save(state);
    onstack_sampling_tell(keeper.settings); /* an exec or an abort: there may be no other time */
  }
  onstack_publish(&keeper.saved, saves);
  keeper_raise(&keeper.finished);
}

static uint64_t keeper_look_pause(keeper_state *state) {
  const uint64_t longer = state->look_ns * 2 < KEEPER_REST_NS ? state->look_ns * 2 : KEEPER_REST_NS;
  /* Once the first thread has ended any other may be the last. It may also end without a word, by the system call. */
  state->look_ns = longer == 0 || onstack_observe(&keeper.left) ? KEEPER_LOOK_NS : longer;
  return state->look_ns;
}

/* Where the signal is blocked, or does not reach us, no tick says so. What nobody else takes is saved like all samples. */
static bool keeper_is_enough(const keeper_state *state) {
  if (!onstack_observe(&keeper.rests) || onstack_first_ticks_used_ns() > KEEPER_ENOUGH_NS) return true;
  if (!onstack_first_ticks_are_held()) return false;
  return onstack_observe(&keeper.saves) != keeper.saved || onstack_monotonic_ns() >= state->save_at_ns;
}

/* Of a process that ends at rest: its first ticks, or counters that were asked for, are written by a session. Not the counters
   of one among many that has no sample. */
static bool keeper_has_to_write(void) {
  const char *status = keeper.settings->status;
  return onstack_first_ticks_are_alone() &&
         (onstack_first_ticks_are_held() || (status[0] && !onstack_new_file_has_pid(status)));
}

/* Does what is due; returns how long there is nothing to do. */
static uint64_t keeper_work(keeper_state *state) {
  if (state->rests && keeper_is_enough(state)) {
    const bool saves = onstack_monotonic_ns() >= state->save_at_ns;
    state->rests = false;
    keeper_begin(state, -1);
    if (saves) state->save_at_ns = 0;
  }
  keeper_follow_toggles(state);
  keeper_finish_saves(state);
  keeper_follow_dumps(state);
  if (!state->started) return KEEPER_SAVE_MOST_NS;
  if (onstack_sampling_collect(false)) state->look_ns = 0; /* children work: soon again */
  if (onstack_monotonic_ns() >= state->save_at_ns) {
    onstack_sampling_find_unseen(keeper.settings);
    keeper_save(state);
  }
  uint64_t now = onstack_monotonic_ns();
  if (now >= state->tell_at_ns) {
    onstack_sampling_tell(keeper.settings);
    state->tell_at_ns = now + KEEPER_STATUS_NS;
  }
  bool telling = keeper.settings->status[0] != 0 && state->tell_at_ns < state->save_at_ns;
  uint64_t next = telling ? state->tell_at_ns : state->save_at_ns;
  return next > now ? next - now : 0;
}

/*
 * A process ends when its last thread does, without any call of exit: main was left by pthread_exit or by the system call, a
 * filter has killed it, or it is the child of a fork in another thread. If the threads cannot be counted, the keeper leaves
 * when the first one has ended: the rest of the profile is lost, but the process ends.
 */
static bool keeper_leaves(keeper_state *state) {
  const int all = onstack_threads_are_all_ours();
  const bool gone = onstack_observe(&keeper.left) || onstack_task_is_gone((uint32_t)onstack_sys_getpid());
  state->alone = all > 0;
  state->outlived |= all == 0 && gone;
  return all > 0 || (all < 0 && gone);
}

/* Does not return unless the system refuses: a signal that kills, or the status. */
static void keeper_end_process(int status) {
  const int signal = status & 0x7f;
  const onstack_kernel_sigset set = signal ? ONSTACK_SIGBIT(signal) : 0;
  const struct onstack_kernel_sigaction deadly = {0};
  if (signal == 0) onstack_sys_call1(SYS_exit_group, status >> 8);
  onstack_sys_sigaction(signal, &deadly, NULL);
  onstack_sys_call3(SYS_tgkill, onstack_sys_getpid(), onstack_sys_gettid(), signal);
  onstack_sys_sigprocmask(SIG_UNBLOCK, &set, NULL);
}

/*
 * The host has no thread any more, and our threads end as well. If the first thread has ended by libc, libc counts the threads
 * and calls exit() in the last one (descriptors.h). Otherwise libc calls nothing, and the process has the status of its first
 * thread: on newer kernels because it was the last one. There the status of a later one would be the last of ours, which is 0.
 */
static void keeper_end_host(const keeper_state *state) {
  if (!state->alone || state->outlived || onstack_observe(&keeper.left)) return;
  const int status = onstack_task_end((uint32_t)onstack_sys_getpid());
  if (status >= 0) keeper_end_process(status);
}

static void *keeper_main(void *argument) {
  keeper_state state = {0};
  (void)argument;
  onstack_store_relaxed(&keeper.tid, onstack_sys_gettid());
  onstack_own_enter();
  ONSTACK_CHAIN_THREAD_BEGINS();
  onstack_sys_call2(SYS_prctl, PR_SET_NAME, (long)"onstack-keeper");
  state.rests = onstack_observe(&keeper.rests) != 0;
  state.save_at_ns = onstack_monotonic_ns() + KEEPER_SAVE_FIRST_NS;
  if (state.rests) {
    onstack_guard_take_own_table();               /* and a copy of stderr: many programs close theirs as they end */
    keeper_wait(&keeper.wake, 0, KEEPER_LOOK_NS); /* most have ended by then */
  }
  if (!keeper.settings->toggle && keeper.settings->profile[0] && !state.rests) {
    if (!keeper.awaited) keeper_wait(&keeper.wake, 0, KEEPER_GRACE_NS);
    /* An end that came meanwhile still wants its (empty) profile. */
    if (onstack_observe(&keeper.end))
      state.started = true;
    else
      keeper_begin(&state, -1);
    onstack_publish(&keeper.begun, 1u);
    keeper_raise(&keeper.finished);
  }
  for (;;) {
    uint32_t seen = onstack_observe(&keeper.wake);
    if (state.rests)
      onstack_own_open_stood_in(SIGPROF); /* there, too, its work wakes nobody: first ticks pass over it */
    else
      onstack_own_open(SIGPROF);
    if (onstack_observe(&keeper.end) || keeper_leaves(&state)) break;
    onstack_host_stderr_follow();
    keeper_check(&state);
    const uint64_t pause = keeper_work(&state);
    onstack_own_account(); /* the process's time that is left is the host's */
    const uint64_t look = keeper_look_pause(&state);
    onstack_own_close();
    keeper_wait(&keeper.wake, seen, pause < look ? pause : look);
  }
  onstack_own_close();
  keeper_follow_toggles(&state);
  if (state.rests && keeper_has_to_write())
    keeper_begin(&state, -1);
  else if (state.rests && !onstack_new_file_has_pid(keeper.settings->profile))
    state.started = true; /* an empty profile */
  keeper_finish(&state);
  onstack_publish(&keeper.ended, 1u);
  keeper_raise(&keeper.finished);
  onstack_own_leave();
  keeper_end_host(&state);
  onstack_guard_end(state.alone);
  return NULL;
}

/* Waits until *word has reached `wanted`, the time is over, or a filter has killed the keeper. Returns whether it has. */
static bool keeper_await(const uint32_t *word, uint32_t wanted, uint32_t seconds) {
  uint64_t now = onstack_monotonic_ns(), until = now + (uint64_t)seconds * 1000000000u;
  for (; now < until && onstack_keeper_is_here(); now = onstack_monotonic_ns()) {
    uint32_t seen = onstack_observe(&keeper.finished);
    if ((int32_t)(onstack_observe(word) - wanted) >= 0) return true;
    keeper_wait(&keeper.finished, seen, until - now < KEEPER_ASK_NS ? until - now : KEEPER_ASK_NS);
  }
  return (int32_t)(onstack_observe(word) - wanted) >= 0;
}

void onstack_keeper_start(const onstack_environment *settings, bool await, bool rests) {
  keeper.settings = settings;
  if (!keeper.mark) keeper.mark = onstack_wiped_word();
  if (keeper.mark) onstack_store_relaxed(keeper.mark, 1u);
  keeper.pid = onstack_sys_getpid();
  keeper.rests = rests;
  keeper.awaited = await && !settings->toggle && settings->profile[0];
  int error = onstack_preload_thread(KEEPER_STACK_BYTES, keeper_main, NULL);
  if (error == 0) {
    if (keeper.awaited && !keeper_await(&keeper.begun, 1, KEEPER_BEGIN_SECONDS))
      onstack_complain("the heap profile begins late: what the program allocates until then is not in it");
    return;
  }
  keeper.pid = 0;
  onstack_complain("cannot make a thread: %s; this process is not profiled", strerror(error));
}

void onstack_keeper_left(void) {
  if (!onstack_keeper_is_here()) return;
  onstack_guard_make(&keeper.tid);
  onstack_publish(&keeper.left, 1u);
  keeper_raise(&keeper.wake);
}

bool onstack_keeper_is_copied(void) { return keeper.mark && onstack_load_relaxed(keeper.mark) == 0; }

/* In a PID namespace of its own the child of a process 1 is process 1 as well: the mark tells that child by its memory,
   and one that shares ours by the threads that it does not have. */
bool onstack_keeper_is_here(void) {
  const int32_t tid = onstack_load_relaxed(&keeper.tid);
  if (keeper.pid == 0 || keeper.pid != onstack_sys_getpid()) return false;
  if (onstack_keeper_is_copied()) return false;
  return tid == 0 || onstack_sys_call3(SYS_tgkill, keeper.pid, tid, 0) != -ESRCH;
}

void onstack_keeper_begin(void) {
  if (!onstack_keeper_is_here()) return;
  onstack_publish(&keeper.rests, 0u);
  keeper_raise(&keeper.wake);
}

void onstack_keeper_toggle(void) {
  if (!onstack_keeper_is_here()) return;
  onstack_dekker_add(&keeper.toggles, 1u);
  keeper_raise(&keeper.wake);
}

void onstack_keeper_dump(void) {
  if (!onstack_keeper_is_here()) return;
  onstack_dekker_add(&keeper.dumps, 1u);
  keeper_raise(&keeper.wake);
}

bool onstack_keeper_save(uint32_t seconds) {
  if (!onstack_keeper_is_here() || (!onstack_sampling_is_on() && !onstack_first_ticks_are_held())) return false;
  if (onstack_first_ticks_are_alone()) onstack_first_ticks_end();
  uint32_t mine = onstack_dekker_add(&keeper.saves, 1u) + 1;
  keeper_raise(&keeper.wake);
  keeper_await(&keeper.saved, mine, seconds);
  return onstack_observe(&keeper.written) != 0;
}

void onstack_keeper_end(uint32_t seconds, bool at_once) {
  if (!onstack_keeper_is_here()) return;
  if (onstack_first_ticks_are_alone()) onstack_first_ticks_end();
  onstack_publish(&keeper.end, at_once ? KEEPER_END_AT_ONCE : KEEPER_END);
  /* Nothing sampled yet and no empty profile wanted: nobody has to be waited for. */
  const bool none_wanted = keeper.settings->profile[0] == 0 || onstack_new_file_has_pid(keeper.settings->profile);
  if (none_wanted && !onstack_sampling_is_on() && !keeper_has_to_write()) return;
  keeper_raise(&keeper.wake);
  keeper_await(&keeper.ended, 1, seconds);
}

void onstack_keeper_forget(void) {
  const onstack_environment *settings = keeper.settings;
  uint32_t *mark = keeper.mark;
  memset(&keeper, 0, sizeof(keeper));
  keeper.settings = settings;
  keeper.mark = mark;
}
