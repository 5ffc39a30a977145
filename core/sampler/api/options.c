/* SPDX-License-Identifier: MIT OR Apache-2.0 */
#include "sampler/api/options.h"

#include "platform/atomics.h"
#include "platform/calls.h"
#include "platform/defs.h"
#include "platform/proc.h"
#include "platform/process.h"
#include "platform/sys.h"
#include "sampler/modules/go_runtime.h"
#include "sampler/session/code_map_update.h"
#include "sampler/signal/action.h"
#include "sampler/unwind/generated_code.h"

#include <errno.h>
#include <link.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>

#define OPTIONS_UNWINDER_SIZE_0_1 ((size_t)40)
_Static_assert(offsetof(onstack_unwinder, walk) + sizeof(void *) == OPTIONS_UNWINDER_SIZE_0_1, "grows at the end");
_Static_assert(offsetof(onstack_options, frame_provider) + sizeof(void *) == 112, "grows at the end");

/* our own frames around the unwinder's, with a margin; measured by tests/core/test_stack_use.c */
#define OPTIONS_HANDLER_STACK 640u
#define OPTIONS_CUSTOM_STACK 1024u /* when a user's unwinder does not say */
#define OPTIONS_STACK_MAX (1u << 30)
#define OPTIONS_ENTRY 1024u /* of an entry, besides frames and labels: those of a source, too */
#define OPTIONS_ENTRIES 4u
#define OPTIONS_BUFFER_DEFAULT ((size_t)1 << 20)
#define OPTIONS_BUFFER_MIN ((size_t)1 << 16)
#define OPTIONS_BUFFER_MAX ((size_t)1 << 28)

/* Each text begins with the option's name, and has no other in it: wrappers put theirs in its place. */
static int options_refuse(const char **fault, int code, const char *text) {
  *fault = text;
  return code;
}
#define OPTIONS_TEXT(number) OPTIONS_TEXT_OF(number)
#define OPTIONS_TEXT_OF(number) #number

static int options_copy(const onstack_options *from, onstack_options *to, const char **fault) {
  memset(to, 0, sizeof(*to));
  const int error = from ? onstack_sized_copy(to, sizeof(*to), ONSTACK_OPTIONS_SIZE_0_1, from) : 0;
  if (error != 0)
    return options_refuse(fault, error,
                          "size: the structure is too short, or asks for what this library does not know: call "
                          "onstack_options_init first, and build with the library's own header");
  for (size_t i = 0; i < sizeof(to->reserved0); i++)
    if (to->reserved0[i] != 0)
      return options_refuse(fault, ONSTACK_E_OPTIONS, "reserved0: must be zero: call onstack_options_init first");
  for (size_t i = 0; i < sizeof(to->reserved1); i++)
    if (to->reserved1[i] != 0)
      return options_refuse(fault, ONSTACK_E_OPTIONS, "reserved1: must be zero: call onstack_options_init first");
  return 0;
}

static int options_check_choices(const onstack_options *options, const char **fault) {
  const struct {
    bool fits;
    const char *text;
  } checks[] = {
      {options->on_stack <= ONSTACK_OFF, "on_stack: give on, off, or nothing"},
      {options->threads <= ONSTACK_OFF, "threads: give on, off, or nothing"},
      {options->own_threads <= ONSTACK_OFF, "own_threads: give on, off, or nothing"},
      {options->interpreters <= ONSTACK_OFF, "interpreters: give on, off, or nothing"},
      {options->restore <= ONSTACK_RESTORE_IGNORE, "restore: there is no such choice"},
      {options->fork <= ONSTACK_FORK_FOLLOW, "fork: there is no such choice"},
      {onstack_source_find(options->clock), "clock: there is no such clock"},
      {options->label_bytes <= ONSTACK_MAX_LABEL_BYTES,
       "label_bytes: give " OPTIONS_TEXT(ONSTACK_MAX_LABEL_BYTES) " at most"},
      {options->max_depth <= ONSTACK_MAX_DEPTH, "max_depth: give 1 to " OPTIONS_TEXT(ONSTACK_MAX_DEPTH) " frames"},
      {options->buffer_bytes <= OPTIONS_BUFFER_MAX, "buffer_bytes: give 256 MiB at most"},
  };
  for (size_t i = 0; i < ONSTACK_COUNT_OF(checks); i++)
    if (!checks[i].fits) return options_refuse(fault, ONSTACK_E_OPTIONS, checks[i].text);
  return 0;
}

/* What is asked for and never used would be a silent loss. */
static int options_check_company(const onstack_options *options, const char **fault) {
  const struct {
    bool fits;
    const char *text;
  } checks[] = {
      {!options->fork_sink_data || options->fork == ONSTACK_FORK_FOLLOW,
       "fork_sink_data: needs a session that children follow"},
  };
  for (size_t i = 0; i < ONSTACK_COUNT_OF(checks); i++)
    if (!checks[i].fits) return options_refuse(fault, ONSTACK_E_OPTIONS, checks[i].text);
  return 0;
}

/*
 * Signals that are more than a call of a handler: the kernel continues and stops processes by them, and takes back the
 * opposite, when they are generated (kernel/signal.c, prepare_signal); and over SIG_DFL, where we swallow what is
 * foreign, nobody could end the process by them any more.
 */
static int options_check_meaning(int signal) {
  static const int refused[] = {SIGCONT, SIGTSTP, SIGTTIN, SIGTTOU, SIGHUP, SIGINT,
                                SIGQUIT, SIGTERM, SIGPIPE, SIGXCPU, SIGXFSZ};
  for (size_t i = 0; i < ONSTACK_COUNT_OF(refused); i++)
    if (signal == refused[i]) return ONSTACK_E_SIGNAL;
  return 0;
}

static int options_set_signal(const onstack_options *options, onstack_settings *settings, const char **fault) {
  settings->signal = options->signal ? options->signal : SIGPROF;
  int result = onstack_action_check_signal(settings->signal);
  if (result == 0) result = options_check_meaning(settings->signal);
  if (result == 0) return 0;
  return options_refuse(fault, result,
                        "signal: it cannot be caught, is reserved, reports faults, or ends, stops or continues processes: "
                        "leave it out, or take a real-time signal that nobody uses");
}

static int options_set_unwinder(const onstack_options *options, onstack_settings *settings, const char **fault) {
  const onstack_unwinder *custom = options->custom_unwinder;
  settings->custom = custom;
  if (!custom) {
    settings->unwinder = onstack_unwinder_find(options->unwinder);
    if (!settings->unwinder)
      return options_refuse(fault, ONSTACK_E_UNWINDER, "unwinder: give rules, frame_pointer or pc_only");
    settings->stack_bytes = settings->unwinder->stack_bytes + OPTIONS_HANDLER_STACK;
    return 0;
  }
  *fault =
      "custom_unwinder: its size, name and walk are needed, stack_bytes of 1 GiB at most, and no unwinder by name beside it";
  if (options->unwinder || custom->size < OPTIONS_UNWINDER_SIZE_0_1 || !custom->name || !custom->walk)
    return ONSTACK_E_UNWINDER;
  if (onstack_sized_check(custom, sizeof(*custom), OPTIONS_UNWINDER_SIZE_0_1) < 0) return ONSTACK_E_OPTIONS;
  if (custom->stack_bytes > OPTIONS_STACK_MAX) return ONSTACK_E_UNWINDER;
  *fault = NULL;
  settings->unwinder = &onstack_unwinder_custom;
  settings->stack_bytes = (custom->stack_bytes ? custom->stack_bytes : OPTIONS_CUSTOM_STACK) + OPTIONS_HANDLER_STACK;
  return 0;
}

static int options_set_interpreters(const onstack_options *options, onstack_settings *settings, const char **fault) {
  onstack_interpreter_list *list = &settings->interpreters;
  const onstack_frame_provider *own = options->frame_provider;
  memset(list, 0, sizeof(*list));
  if (options->interpreters == ONSTACK_ON) {
    onstack_providers_list(list);
    if (list->count == 0)
      return options_refuse(fault, ONSTACK_E_OPTIONS,
                            "interpreters: no provider is registered: link libonstack-interpreters and call "
                            "onstack_interpreters_register first");
  }
  if (own) {
    if (!onstack_providers_check(own))
      return options_refuse(
          fault, ONSTACK_E_OPTIONS,
          "frame_provider: its size, a name of at most 15 bytes and its functions are needed, and stack_bytes of 1 GiB "
          "at most");
    list->providers[list->count++] = own;
  }
  uint32_t most = 0;
  for (uint32_t i = 0; i < list->count; i++)
    if (list->providers[i]->stack_bytes > most) most = list->providers[i]->stack_bytes;
  /* Behind the walk, whose stack is free again by then. */
  if (list->count > 0 && most + OPTIONS_HANDLER_STACK > settings->stack_bytes)
    settings->stack_bytes = most + OPTIONS_HANDLER_STACK;
  return 0;
}

static void options_set_sizes(const onstack_options *options, onstack_settings *settings) {
  settings->depth = options->max_depth ? options->max_depth : ONSTACK_DEFAULT_DEPTH;
  settings->label_bytes = options->label_bytes;
  size_t bytes = options->buffer_bytes ? options->buffer_bytes : OPTIONS_BUFFER_DEFAULT;
  settings->buffer_bytes = OPTIONS_BUFFER_MIN;
  /* Frames of interpreters need room in each entry while it is filled, if only then. */
  const size_t more = settings->interpreters.count > 0 ? ONSTACK_INTERPRETED_BYTES(settings->depth) + OPTIONS_ENTRY : 0;
  const size_t least = OPTIONS_ENTRIES * (more + settings->depth * (sizeof(uint64_t) + 1) + settings->label_bytes);
  if (more > 0 && bytes < least) bytes = least;
  while (settings->buffer_bytes < bytes) settings->buffer_bytes *= 2;
}

int onstack_settings_make(const onstack_options *given, onstack_settings *settings, const char **fault) {
  onstack_options options;
  *fault = NULL;
  int result = options_copy(given, &options, fault);
  if (result < 0 || (result = options_check_choices(&options, fault)) < 0) return result;
  if ((result = options_check_company(&options, fault)) < 0) return result;
  settings->source = onstack_source_find(options.clock);
  if ((result = options_set_signal(&options, settings, fault)) < 0) return result;
  if ((result = options_set_unwinder(&options, settings, fault)) < 0) return result;
  if ((result = settings->source->check(&options, settings, fault)) < 0) return result;
  if ((result = options_set_interpreters(&options, settings, fault)) < 0) return result;
  options_set_sizes(&options, settings);
  settings->on_stack = options.on_stack != ONSTACK_OFF;
  settings->threads = options.threads != ONSTACK_OFF;
  settings->own_threads = options.own_threads == ONSTACK_ON;
  settings->restore = options.restore ? options.restore : ONSTACK_RESTORE_EXACT;
  settings->resumed = false;
  settings->fork = options.fork ? options.fork : ONSTACK_FORK_STOP;
  settings->fork_sink_data = options.fork_sink_data;
  settings->thread_filter = options.thread_filter;
  settings->thread_filter_data = options.thread_filter_data;
  settings->sink = options.sink;
  settings->sink_data = options.sink_data;
  return 0;
}

int onstack_settings_check_host(const onstack_settings *settings, const char **fault) {
  onstack_code_map_refresh(NULL);
  if (!onstack_go_runtime_is_present()) return 0;
  if (!settings->on_stack)
    return options_refuse(fault, ONSTACK_E_OPTIONS, "on_stack: a Go runtime is in the process, which needs it on");
  /* A late tick of another signal, on a thread that Go does not know, kills the process (runtime/signal_unix.go,
     raisebadsignal: SIGPROF is the one that is exempted). */
  if (settings->signal == SIGPROF || settings->signal == 0) return 0;
  return options_refuse(fault, ONSTACK_E_SIGNAL, "signal: a Go runtime is in the process: leave it at SIGPROF");
}

const char *onstack_options_fault(const onstack_options *options) {
  ONSTACK_UNCANCELLED;
  onstack_settings settings;
  const char *fault;
  if (onstack_settings_make(options, &settings, &fault) == 0) onstack_settings_check_host(&settings, &fault);
  return fault;
}

/* Where the variants of a seam are chosen, once, at start. */

const onstack_unwinder_ops *onstack_unwinder_find(const char *name) {
  static const onstack_unwinder_ops *const all[] = {&onstack_unwinder_rules, &onstack_unwinder_frame_pointer,
                                                    &onstack_unwinder_pc_only};
  if (!name) return all[0];
  for (size_t i = 0; i < ONSTACK_COUNT_OF(all); i++)
    if (strcmp(all[i]->name, name) == 0) return all[i];
  return NULL;
}

const onstack_source *onstack_source_find(uint32_t number) {
  static const onstack_source *const all[] = {&onstack_source_cpu, &onstack_source_wall, &onstack_source_wall_signal,
                                              &onstack_source_heap};
  for (size_t i = 0; i < ONSTACK_COUNT_OF(all); i++)
    if (number == 0 || all[i]->number == number) return all[i];
  return NULL;
}

/* Of the loader, which is mapped from its ELF header on; 0: there is none. */
static uint64_t choose_loader_entry(void) {
  const uint64_t base = getauxval(AT_BASE);
  ElfW(Ehdr) header;
  if (base == 0 || onstack_process_memory_copy(base, &header, sizeof(header)) != sizeof(header)) return 0;
  return base + header.e_entry;
}

static void choose_note_roots(void) {
  onstack_chain_roots *roots = &onstack_chain_roots_known;
  onstack_store_relaxed(&roots->entry, (uint64_t)getauxval(AT_ENTRY));
  if (onstack_load_relaxed(&roots->loader_entry) == 0) onstack_store_relaxed(&roots->loader_entry, choose_loader_entry());
  onstack_store_relaxed(&roots->has_libc, (uint32_t)(getauxval(AT_BASE) != 0));
  if (onstack_load_relaxed(&roots->main_sp) == 0) onstack_store_relaxed(&roots->main_sp, onstack_proc_stat_main_sp());
}

#define CHOOSE_LARGEST_PAGE ((size_t)64 << 10) /* of both architectures' kernels */

const onstack_reader *onstack_reader_choose(bool *copy_works) {
  const onstack_reader *chosen = &onstack_reader_none;
  *copy_works = false;
  choose_note_roots();
  /* Above all frames of the main thread, and below the strings of its environment (Linux, fs/binfmt_elf.c). */
  onstack_store_relaxed(&onstack_memory_main_end, (uint64_t)getauxval(AT_RANDOM) & ~(uint64_t)15);
  /* The first half readable, the second not: each at least a page of the kernel's. */
  uint8_t *pages = mmap(NULL, 2 * CHOOSE_LARGEST_PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (pages == MAP_FAILED) return chosen;
  if (mprotect(pages, CHOOSE_LARGEST_PAGE, PROT_READ | PROT_WRITE) == 0) {
    const uint8_t *bad = pages + CHOOSE_LARGEST_PAGE, *good = bad - ONSTACK_PAGE;
    *copy_works = onstack_reader_copy.self_test(good, bad);
    /* memcheck reports each question of `probe` about a bad page, or about a page whose last bytes nobody has written; it does
       not look at the addresses that `copy` reads from. */
    if (*copy_works && onstack_sys_is_valgrind())
      chosen = &onstack_reader_copy;
    else if (onstack_reader_probe.self_test(good, bad))
      chosen = &onstack_reader_probe;
    else if (*copy_works)
      chosen = &onstack_reader_copy;
  }
  munmap(pages, 2 * CHOOSE_LARGEST_PAGE);
  return chosen;
}
