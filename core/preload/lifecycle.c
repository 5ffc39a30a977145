/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "preload/lifecycle.h"

#include "platform/process.h"
#include "sampler/interpreter/interpreter.h"
#include "platform/atomics.h"
#include "platform/loader.h"
#include "platform/sys.h"
#include "platform/calls.h"
#include "sampler/api/session.h"
#include "sampler/signal/own_threads.h"
#include "preload/first_ticks.h"
#include "preload/descriptors.h"
#include "preload/host_action.h"
#include "preload/interpose_thread.h"
#include "preload/keeper.h"
#include "preload/next.h"
#include "preload/sampling.h"

#include "onstack/interpreters.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

/* The linker's note with the build id of a Go program (cmd/link/internal/ld/elf.go). */
#define HOST_GO_NOTE "Go"
#define HOST_NOTES 4096u /* bytes of notes that are looked through */

static bool host_has_go_note(const uint8_t *notes, size_t size) {
  const ElfW(Nhdr) * note;
  for (size_t at = 0; size - at >= sizeof(*note);) {
    note = (const ElfW(Nhdr) *)(const void *)(notes + at);
    const size_t name = (note->n_namesz + 3u) & ~(size_t)3, description = (note->n_descsz + 3u) & ~(size_t)3;
    at += sizeof(*note);
    if (name > size - at || description > size - at - name) return false;
    if (note->n_namesz == sizeof(HOST_GO_NOTE) + 1 && memcmp(notes + at, HOST_GO_NOTE, sizeof(HOST_GO_NOTE)) == 0)
      return true;
    at += name + description;
  }
  return false;
}

/* The program itself comes first. In a library Go's runtime leaves SIGPROF alone until its profiler is started. */
static int host_look_for_go(struct dl_phdr_info *info, size_t size, void *data) {
  (void)size;
  for (uint32_t i = 0; i < info->dlpi_phnum; i++) {
    const ElfW(Phdr) *segment = &info->dlpi_phdr[i];
    _Alignas(ElfW(Nhdr)) uint8_t notes[HOST_NOTES];
    if (segment->p_type != PT_NOTE) continue;
    const size_t wanted = segment->p_memsz < sizeof(notes) ? segment->p_memsz : sizeof(notes);
    if (host_has_go_note(notes, onstack_process_memory_copy(info->dlpi_addr + segment->p_vaddr, notes, wanted)))
      *(bool *)data = true;
  }
  return 1;
}

/*
 * Programs that begin with a session at once, as their first ticks would say less or go astray: an interpreter's functions are
 * read while they run; and Go's runtime installs its handler for SIGPROF by the system call, which takes ticks of ours until a
 * session is there. In the constructor, when what the program is linked with is loaded.
 */
static bool host_needs_session(void) {
  bool go = false;
  onstack_loader_each(host_look_for_go, &go);
  return go || onstack_interpreters_are_there();
}

static onstack_environment lifecycle_settings;
static int32_t lifecycle_owner; /* the process whose constructor ran: its exec stays the same process */
static bool lifecycle_forked;   /* a child that wants a keeper and has none yet */
static pthread_key_t lifecycle_first;
static struct { sighandler_t toggle, dump; /* the actions of those signals that were there */ } lifecycle_before;
static bool lifecycle_first_made;

static void lifecycle_on_signal(int signal) {
  if (signal == lifecycle_settings.dump)
    onstack_keeper_dump();
  else
    onstack_keeper_toggle();
}

/* `ignored`: a signal that is ignored may be taken, as a shell without job control lets its background jobs ignore SIGQUIT. */
static bool lifecycle_listen(const char *name, int signal, bool ignored, sighandler_t *before) {
  struct sigaction action = {.sa_handler = lifecycle_on_signal, .sa_flags = SA_RESTART}, now;
  if (lifecycle_settings.on_stack) action.sa_flags |= SA_ONSTACK;
  sigfillset(&action.sa_mask);
  if (signal == 0) return true;
  if (sigaction(signal, NULL, &now) == 0 && (now.sa_handler == SIG_DFL || (ignored && now.sa_handler == SIG_IGN)) &&
      sigaction(signal, &action, NULL) == 0) {
    *before = now.sa_handler;
    return true;
  }
  onstack_complain("%s=%d: the signal is in use; this process is not profiled", name, signal);
  return false;
}

static bool lifecycle_listen_all(const onstack_environment *settings) {
  return lifecycle_listen("CPUPROFILESIGNAL", settings->toggle, false, &lifecycle_before.toggle) &&
         lifecycle_listen("ONSTACK_DUMP_SIGNAL", settings->dump, true, &lifecycle_before.dump);
}

static void lifecycle_put_back(int signal, sighandler_t before) {
  struct sigaction now;
  if (signal != 0 && sigaction(signal, NULL, &now) == 0 && now.sa_handler == lifecycle_on_signal) {
    now.sa_handler = before;
    sigaction(signal, &now, NULL);
  }
}

/* Where there is no keeper the signals mean what they did. Async-signal-safe. */
static void lifecycle_unlisten(void) {
  lifecycle_put_back(lifecycle_settings.toggle, lifecycle_before.toggle);
  lifecycle_put_back(lifecycle_settings.dump, lifecycle_before.dump);
}

/* A destructor of thread-local data: it runs where a thread ends, and not where the process does. */
static void lifecycle_first_ends(void *value) {
  (void)value;
  if (onstack_sys_gettid() == onstack_sys_getpid()) onstack_keeper_left();
}

/* The calling thread is the process's first one; in the child of a fork that is another one than in its parent. */
static void lifecycle_watch_first(void) {
  if (lifecycle_first_made) pthread_setspecific(lifecycle_first, &lifecycle_first);
}

static void lifecycle_before_fork(void) {
  if (lifecycle_settings.follow) onstack_first_ticks_before_fork();
  onstack_loader_before_fork();
}

/*
 * Only async-signal-safe work. The thread is made later, when fork has returned: an allocator of the host may have its
 * own handlers behind this one, and its locks are still taken here.
 */
static void lifecycle_fork_child(void) {
  onstack_first_ticks_forked();
  onstack_host_action_forked();
  onstack_sampling_forget();
  onstack_keeper_forget();
  onstack_guard_forget();
  /* There may have been no session yet, whose handler does these as well. */
  onstack_own_after_fork();
  onstack_loader_after_fork();
  lifecycle_forked = lifecycle_settings.follow;
  if (!lifecycle_forked) lifecycle_unlisten();
}

/* `rests`: its first ticks have begun, before it is there. */
static void lifecycle_keep(bool await, bool rests) {
  onstack_keeper_start(&lifecycle_settings, await, rests);
  if (onstack_first_ticks_are_over()) onstack_keeper_begin(); /* they were enough before there was a keeper */
  if (onstack_keeper_is_here()) return;
  onstack_first_ticks_end();
  lifecycle_unlisten();
}

void onstack_lifecycle_forked(void) {
  if (!lifecycle_forked) return;
  ONSTACK_UNCANCELLED;
  int saved = errno;
  lifecycle_forked = false;
  lifecycle_watch_first();
  lifecycle_keep(false, !lifecycle_settings.toggle && onstack_first_ticks_begin(onstack_keeper_begin, 0));
  errno = saved;
}

void onstack_lifecycle_save(void) { onstack_keeper_save(ONSTACK_LIFECYCLE_ABRUPT_SECONDS); }

static size_t lifecycle_bytes(char *const environment[]) {
  size_t count = 0;
  while (environment[count]) count++;
  return (count + 1) * sizeof(*environment);
}

/* Not on the stack: an environment may have more entries than a thread's stack has room for. */
char *const *onstack_lifecycle_before_exec(char *const given[]) {
  bool saved = onstack_keeper_save(ONSTACK_LIFECYCLE_ABRUPT_SECONDS) || lifecycle_settings.successor;
  if (onstack_keeper_is_here()) onstack_first_ticks_close();
  if (lifecycle_owner == 0 || lifecycle_owner != onstack_sys_getpid() || onstack_keeper_is_copied()) return given;
  if (!lifecycle_settings.kept_out) return given; /* nothing was emptied */
  void *made = mmap(NULL, lifecycle_bytes(given), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (made == MAP_FAILED) return given;
  onstack_environment_for_exec(&lifecycle_settings, saved, given, made);
  return made;
}

void onstack_lifecycle_failed_exec(char *const given[], char *const made[]) {
  int saved = errno;
  if (made != given) munmap((void *)(uintptr_t)made, lifecycle_bytes(given));
  errno = saved;
}

/* Where nobody needs more of its first moments than stacks of native code. */
static bool lifecycle_begins_small(const onstack_environment *settings) {
  onstack_options options;
  if (settings->toggle || settings->spans || !settings->profile[0] || !onstack_host_action_is_ours(SIGPROF)) return false;
  if (!settings->on_stack) return false; /* only a session finds out whether a Go runtime needs it */
  if (host_needs_session()) return false;
  onstack_sampling_options(settings, &options);
  return onstack_first_ticks_alone(&options) &&
         onstack_first_ticks_begin(onstack_keeper_begin, onstack_clock_ns(CLOCK_PROCESS_CPUTIME_ID));
}

static void lifecycle_quick_exit(void) { onstack_keeper_end(ONSTACK_LIFECYCLE_EXIT_SECONDS, false); }

__attribute__((constructor)) static void lifecycle_begin(void) {
  onstack_environment *settings = &lifecycle_settings;
  int saved = errno;
  onstack_next_find();
  if (onstack_environment_read(settings) && settings->wanted && lifecycle_listen_all(settings)) {
    lifecycle_owner = onstack_sys_getpid();
    onstack_interpreters_register();
    if (settings->profile[0]) onstack_host_action_begin(settings->on_stack);
    if (settings->profile[0] && settings->clock <= ONSTACK_CLOCK_CPU) onstack_new_threads_take_ticks();
    pthread_atfork(lifecycle_before_fork, onstack_loader_forked, lifecycle_fork_child);
    at_quick_exit(lifecycle_quick_exit);
    lifecycle_first_made = pthread_key_create(&lifecycle_first, lifecycle_first_ends) == 0;
    lifecycle_watch_first();
    /* What a program keeps to its end it mostly allocates at its beginning. */
    const bool await = settings->kind == ONSTACK_KIND_ALLOCATION;
    /* Here: in musl dlopen waits in other threads until constructors have returned, and in glibc it runs them once more where
       the program has begun to end (_dl_fini forgets that they have run). */
    onstack_pin_self();
    lifecycle_keep(await, lifecycle_begins_small(settings));
  }
  errno = saved;
}

__attribute__((destructor)) static void lifecycle_end(void) { onstack_keeper_end(ONSTACK_LIFECYCLE_EXIT_SECONDS, false); }
