/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * onstack: a sampling profiler that runs inside a process of several languages.
 *
 * This header has errors, samples, unwinders, options, sessions and statistics. The other headers are
 *   onstack/profile.h      a sink that adds samples up, and writers for pprof and folded stacks
 *   onstack/heap.h         calls for allocators, for profiles of memory
 *   onstack/labels.h       labels that a thread's samples carry
 *   onstack/interpreter.h  frames of interpreted languages
 *   onstack/traceback.h    stacks without a session, for language runtimes (experimental)
 * All of them are plain C11 and C++11. The man page onstack(3) explains the whole with an example.
 *
 * Terms
 *   session    a running profiler: it has a clock, a rate, an unwinder and a sink.
 *   tick       one expiry of a session's timer on one thread.
 *   sample     a stack with a weight (the number of events) and a value (in the unit of its kind).
 *   sink       the host's function that receives samples. It never runs inside a signal handler.
 *   unwinder   a function that turns registers into return addresses inside the signal handler.
 *
 * Contexts
 *   any thread      Any ordinary thread may call the function at any time, but a signal handler must not.
 *   start/stop      As "any thread". The function takes the control lock. If a sink or an unwinder calls it, it returns
 *                   ONSTACK_E_CONTEXT, because it would deadlock.
 *   signal-safe     A signal handler may call the function.
 *
 * Results: a function returns 0 or a count on success and a negative number on failure. The number is -errno if a system call
 * failed, or one of ONSTACK_E_*. The library sets neither errno nor a last error.
 *
 * Sized structures: the caller sets `size` to sizeof the structure; onstack_options_init does it for options. If the structure
 * is shorter than the library's, the missing members have their defaults. If it is longer, the unknown rest must be zero, or
 * the function returns ONSTACK_E_OPTIONS. Zero in a member means its default.
 */
#ifndef ONSTACK_ONSTACK_H
#define ONSTACK_ONSTACK_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define ONSTACK_VERSION_MAJOR 0
#define ONSTACK_VERSION_MINOR 1
#define ONSTACK_VERSION_PATCH 0

#ifndef ONSTACK_API
#if defined(__GNUC__)
#define ONSTACK_API __attribute__((visibility("default")))
#else
#define ONSTACK_API
#endif
#endif

/* Sessions that can run at the same time in one process and one copy of the library. */
#define ONSTACK_MAX_SESSIONS 8
/* Rates in Hz: the default, and the highest that a start accepts. */
#define ONSTACK_DEFAULT_FREQUENCY 99
#define ONSTACK_MAX_FREQUENCY 10000
/* Frames in a sample: the default, and the most that a start accepts. */
#define ONSTACK_DEFAULT_DEPTH 128
#define ONSTACK_MAX_DEPTH 1024
/* The most bytes of labels in a sample. */
#define ONSTACK_MAX_LABEL_BYTES 4096

/* ---- errors ------------------------------------------------------------------------------------------------- */

#define ONSTACK_E_FREQUENCY (-4096)   /* the rate is above ONSTACK_MAX_FREQUENCY, or 0 in a binding that refuses 0 */
#define ONSTACK_E_OPTIONS (-4097)     /* an option has an invalid value, or the unknown rest of a structure is not zero */
#define ONSTACK_E_UNWINDER (-4098)    /* no unwinder has that name, or the given one is incomplete or failed to start */
#define ONSTACK_E_SIGNAL (-4099)      /* the signal cannot be caught, is reserved, or has side effects in the kernel */
#define ONSTACK_E_SESSIONS (-4100)    /* ONSTACK_MAX_SESSIONS sessions are running, or a heap session is running already */
#define ONSTACK_E_STOPPED (-4101)     /* the session has been stopped already */
#define ONSTACK_E_OUTPUT (-4102)      /* the writer callback refused the bytes */
#define ONSTACK_E_UNSUPPORTED (-4103) /* not available on this system or in this build */
#define ONSTACK_E_VERSION (-4104)     /* the header and the library, or two copies of the library, have different versions */
#define ONSTACK_E_CONTEXT (-4105)     /* called from a sink, an unwinder, or a forked child that may not call it */
#define ONSTACK_E_CLOCK (-4106) /* the kernel or a filter refuses timers, and signals from a thread do not arrive either */
#define ONSTACK_E_KINDS (-4107) /* the profile holds several kinds of samples and the format has one number: choose one */

/*
 * Returns a sentence that explains an error code and says what to do.
 * Context: signal-safe.
 * Ownership: the string is static.
 * Returns: never NULL. A code of -errno gets "a system call failed"; strerror explains it.
 */
ONSTACK_API const char *onstack_strerror(int code);

/* Returns the library's version, such as "0.1.0". Context: signal-safe. Ownership: the string is static. */
ONSTACK_API const char *onstack_version(void);

/* ---- samples ------------------------------------------------------------------------------------------------ */

/* Why a stack does not reach its root. The frames that it has are right; the missing ones are callers of the last frame. */
typedef uint32_t onstack_truncation;
#define ONSTACK_TRUNCATED_NOT 0          /* the stack reaches its root */
#define ONSTACK_TRUNCATED_DEPTH 1        /* the stack has more frames than the session's max_depth */
#define ONSTACK_TRUNCATED_UNREADABLE 2   /* the next frame's memory cannot be read */
#define ONSTACK_TRUNCATED_MISALIGNED 3   /* the frame pointer is not aligned: the code has no frame pointers */
#define ONSTACK_TRUNCATED_NOT_RISING 4   /* the frame pointer does not point above the last one */
#define ONSTACK_TRUNCATED_BAD_RETURN 5   /* the return address is not behind a call in executable memory */
#define ONSTACK_TRUNCATED_STACK_SWITCH 6 /* Go switched stacks, and the walk could not follow */
#define ONSTACK_TRUNCATED_BY_DESIGN 7    /* the unwinder records no callers ("pc_only") */
#define ONSTACK_TRUNCATED_UNWINDER 8     /* the host's unwinder reported it */
#define ONSTACK_TRUNCATED_NO_RULE 9      /* the code has no unwind information: assembly, or generated code */
#define ONSTACK_TRUNCATED_PENDING 10     /* the code is new, and the library is still reading its unwind information */
#define ONSTACK_TRUNCATION_COUNT 11

/* What a sample measures. A sink must skip kinds that it does not know. */
typedef uint32_t onstack_kind;
#define ONSTACK_KIND_CPU 1        /* CPU time, in nanoseconds */
#define ONSTACK_KIND_WALL 2       /* real time, in nanoseconds */
#define ONSTACK_KIND_ALLOCATION 3 /* allocated memory, in bytes */
#define ONSTACK_KIND_DUMP 4       /* a thread's stack in onstack_dump_take (onstack/profile.h); count, 1 for each thread */

/* The unit of a sample's value and period. */
typedef uint32_t onstack_unit;
#define ONSTACK_UNIT_COUNT 1
#define ONSTACK_UNIT_NANOSECONDS 2
#define ONSTACK_UNIT_BYTES 3

/* One sample. The structure and its pointers are valid until the sink returns. */
typedef struct onstack_sample {
  uint32_t size;                 /* bytes in this structure */
  onstack_kind kind;             /* ONSTACK_KIND_* */
  uint64_t time_ns;              /* CLOCK_MONOTONIC when the sample was taken, in nanoseconds */
  uint64_t value;                /* the amount that the sample represents, in `unit`; weight * period for ticks */
  uint64_t period;               /* the distance between two samples, in `unit`; 0 if each event has its sample */
  onstack_unit unit;             /* ONSTACK_UNIT_*, given by the kind */
  uint32_t weight;               /* the number of events that the sample represents, at least 1: ticks or allocations */
  int32_t tid;                   /* the kernel's thread id */
  onstack_truncation truncation; /* ONSTACK_TRUNCATED_* */
  const char *thread_name;       /* NUL-terminated, at most 15 bytes; "" if unknown */
  const uint64_t *frames;        /* frame_count addresses, innermost first: the interrupted instruction, then return
                                    addresses. A call's instruction is at its return address - 1 */
  uint32_t frame_count;          /* at least 1; 0 if `flags` has ONSTACK_SAMPLE_FREED */
  uint32_t label_bytes;          /* bytes in `labels` */
  const char *labels;            /* NUL-terminated strings, key and value in turn; NULL if there are none */
  uint32_t flags;                /* ONSTACK_SAMPLE_* */
  uint32_t reserved;             /* 0 */
  uint64_t object;               /* the number of a sampled allocation, which the sample of its free repeats; else 0 */
} onstack_sample;

#define ONSTACK_SAMPLE_LABELS_CUT 1u /* the sample had no room for some labels */
#define ONSTACK_SAMPLE_FREED 2u      /* the allocation `object` was freed; value and weight repeat those of its sample */
#define ONSTACK_SAMPLE_UNTRACKED 4u  /* no sample will report the free of this allocation: the table was full */

/*
 * Receives a sample.
 * Context: the session's drain thread, or the thread inside onstack_session_poll or onstack_session_stop. The library calls a
 *   session's sink once at a time, and never after onstack_session_stop has returned. On the drain thread all signals are
 *   blocked, and threads and processes that the sink creates inherit that mask. A C++ exception that leaves the sink ends the
 *   program: write the sink as noexcept.
 * Returns: 0, or another number to refuse the sample, which `dropped_sink` counts.
 * A slow sink does not slow the program: `dropped_ring_full` counts the ticks that find the buffer full.
 */
typedef int (*onstack_sink)(void *data, const onstack_sample *sample);

/* Receives bytes of text or of a profile, in order. Returns 0, or another number to end the call with ONSTACK_E_OUTPUT. */
typedef int (*onstack_writer)(void *data, const void *bytes, size_t length);

/* ---- unwinders ---------------------------------------------------------------------------------------------- */

/* Registers at the interrupted instruction. */
typedef struct onstack_registers {
  uint64_t pc;          /* the program counter */
  uint64_t sp;          /* the stack pointer */
  uint64_t fp;          /* x86_64: RBP; aarch64: x29 */
  uint64_t lr;          /* aarch64: x30, which may carry pointer authentication bits; x86_64: 0 */
  uint64_t reserved[2]; /* x86_64: RBX at index ONSTACK_REGISTER_RBX; all others are 0 */
} onstack_registers;

#define ONSTACK_REGISTER_RBX 0

/* The result of a walk. */
typedef struct onstack_walk_result {
  uint32_t frame_count;          /* frames written; 0 drops the sample, which `dropped_unwinder` counts */
  onstack_truncation truncation; /* ONSTACK_TRUNCATED_* */
} onstack_walk_result;

/*
 * An unwinder of the host's own; see onstack_unwinder(3).
 * Ownership: keep the structure and its pointers alive until the session is freed.
 */
typedef struct onstack_unwinder {
  uint32_t size;        /* sizeof(onstack_unwinder) */
  uint32_t stack_bytes; /* the most signal stack that `walk` uses; 0: 1024. `dropped_no_stack` counts ticks with less room */
  const char *name;     /* for messages; not NULL */
  void *data;           /* the first argument of both functions */
  /*
   * Prepares the unwinder; may be NULL.
   * Context: onstack_session_start, outside the signal handler.
   * Returns: 0, or another number to refuse the start. The start returns -errno or ONSTACK_E_* as given, and
   *   ONSTACK_E_UNWINDER for any other number.
   */
  int (*init)(void *data);
  /*
   * Writes at most `capacity` addresses, innermost first; frames[0] is registers->pc. `capacity` is at least 1.
   * Context: the signal handler of the interrupted thread, with all signals blocked; several threads run it at once. It must
   *   not lock, allocate, change errno, use thread-local storage, or read memory that may fault.
   * `ucontext` is the kernel's ucontext_t of the interrupted code, and NULL for samples that no signal takes (allocations).
   */
  onstack_walk_result (*walk)(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                              uint32_t capacity);
} onstack_unwinder;

/* ---- options ------------------------------------------------------------------------------------------------ */

/* A switch whose zero value means the option's default. */
typedef uint8_t onstack_switch;
#define ONSTACK_DEFAULT 0
#define ONSTACK_ON 1
#define ONSTACK_OFF 2

/* What a session samples; see onstack_session(3). */
typedef uint8_t onstack_clock;
#define ONSTACK_CLOCK_CPU 1         /* each thread's CPU time (default) */
#define ONSTACK_CLOCK_WALL 2        /* real time of each thread, running or blocked; it interrupts no blocked thread */
#define ONSTACK_CLOCK_HEAP 3        /* allocations that allocators report (onstack/heap.h); one such session at a time */
#define ONSTACK_CLOCK_WALL_SIGNAL 4 /* real time by signals: they end poll, nanosleep and others with EINTR */

/* What onstack_session_stop leaves installed if the action before the start was SIG_DFL or a handler. */
typedef uint8_t onstack_restore;
#define ONSTACK_RESTORE_EXACT 1  /* the previous action with its handler, flags and mask (default) */
#define ONSTACK_RESTORE_IGNORE 2 /* SIG_IGN, as older profilers do */

/* What happens in the child of fork(). A child of _Fork, clone or vfork always has no session. */
typedef uint8_t onstack_fork;
#define ONSTACK_FORK_STOP 1   /* the child has no session and may start one (default) */
#define ONSTACK_FORK_FOLLOW 2 /* the child goes on under the same handle, with empty statistics and an own drain thread */

/* Defined in onstack/interpreter.h. */
typedef struct onstack_frame_provider onstack_frame_provider;

/* Options of a session. Fill it with onstack_options_init, then change members. */
typedef struct onstack_options {
  uint32_t size;              /* sizeof(onstack_options) */
  uint32_t frequency;         /* ticks a second, at most ONSTACK_MAX_FREQUENCY; 0: 99, or 20 for ONSTACK_CLOCK_WALL.
                                 ONSTACK_CLOCK_HEAP needs 0. The kernel limits CPU ticks to CONFIG_HZ a second; above that a
                                 sample's weight grows */
  onstack_clock clock;        /* ONSTACK_CLOCK_* */
  onstack_switch on_stack;    /* install the handler with SA_ONSTACK; default on. A process with a Go runtime needs it */
  onstack_restore restore;    /* ONSTACK_RESTORE_*; the session that installs the action decides */
  onstack_fork fork;          /* ONSTACK_FORK_* */
  onstack_switch threads;     /* create a drain thread; default on. If off, the host calls onstack_session_poll */
  onstack_switch own_threads; /* sample the library's own threads too; default off */
  uint8_t reserved0[2];       /* 0 */
  int32_t signal;             /* the signal of the ticks; 0: SIGPROF. A process with a Go runtime needs SIGPROF */
  uint32_t max_depth;         /* frames in a sample, at most ONSTACK_MAX_DEPTH; 0: 128 */
  uint32_t buffer_bytes;      /* the sample buffer, 64 KiB to 256 MiB, rounded up to a power of two; 0: 1 MiB */
  uint32_t label_bytes;       /* room for labels in each sample, at most ONSTACK_MAX_LABEL_BYTES; 0: none */
  const char *unwinder;       /* "rules" (.eh_frame and Go's tables, else frame pointers), "frame_pointer" or "pc_only";
                                 NULL: "rules". The string need not outlive the start */
  const onstack_unwinder *custom_unwinder; /* an unwinder of the host's own; `unwinder` must then be NULL */
  onstack_sink sink;                       /* receives the samples; NULL: they only count in the statistics */
  void *sink_data;                         /* the first argument of `sink` */
  /* Returns the sink_data of a forked child, for ONSTACK_FORK_FOLLOW; NULL: the child keeps the parent's. The library calls it
     in the context of the sink, before the child's first sample. Locks of the parent's other threads may be held for ever. */
  void *(*fork_sink_data)(void *sink_data);
  /* Returns non-zero to sample a thread, for both clocks of real time; NULL: all threads. The library calls it once for each
     thread, in start and later on the drain thread. It must return soon, and follows the rules of a sink. */
  int (*thread_filter)(void *data, int32_t tid, const char *thread_name);
  void *thread_filter_data; /* the first argument of `thread_filter` */
  uint32_t heap_interval;   /* mean bytes between two samples of ONSTACK_CLOCK_HEAP; 0: 524,288. 1 samples all allocations */
  uint32_t heap_objects;    /* sampled allocations that can be in use at once, at most 1,048,576; 0: 16,384. Each takes 70
                               bytes. `heap_untracked` counts those that find the table full */
  onstack_switch interpreters;                  /* add frames by the registered providers; default off. Without a provider
                                                   the start refuses it (onstack_interpreted(3)) */
  uint8_t reserved1[7];                         /* 0 */
  const onstack_frame_provider *frame_provider; /* a provider for this session alone (onstack/interpreter.h); NULL: none */
} onstack_options;

/*
 * Fills `options` with zeros and sets its size. Pass sizeof(onstack_options) as `size`.
 * Context: signal-safe.
 * Errors: VERSION if `size` is smaller than the structure was in any version.
 */
ONSTACK_API int onstack_options_init(onstack_options *options, size_t size);

/*
 * Explains why a start refuses these options: "max_depth: give 1 to 1024 frames". The sentence begins with the option's name
 * and a colon, so that a wrapper can replace the name.
 * Context: any thread.
 * Ownership: the string is static.
 * Returns: NULL if the options are valid.
 */
ONSTACK_API const char *onstack_options_fault(const onstack_options *options);

/* ---- sessions ----------------------------------------------------------------------------------------------- */

typedef struct onstack_session onstack_session;

/*
 * Starts sampling all threads of the process, present and future. `options` may be NULL for all defaults; the library copies
 * it. The start is a cancellation point before it takes any resource.
 * Context: start/stop.
 * Ownership: stop and then free *out. If the start fails, *out is NULL and no action, timer, thread or memory remains.
 * Errors: FREQUENCY, OPTIONS, UNWINDER, SIGNAL, SESSIONS, CLOCK, UNSUPPORTED, VERSION, CONTEXT, -errno.
 */
ONSTACK_API int onstack_session_start(const onstack_options *options, onstack_session **out);

/*
 * Ends sampling: deletes the timers, passes the remaining samples to the sink, and restores the signal action if this was the
 * last session on it. An action that the host installed later stays. The handle and its statistics remain valid.
 * Context: start/stop.
 * Errors: STOPPED if the session was stopped before, also in the child of a fork; CONTEXT.
 */
ONSTACK_API int onstack_session_stop(onstack_session *session);

/*
 * Frees a session, and stops it first if it still runs. Ignores NULL.
 * Context: start/stop.
 * Errors: CONTEXT; the handle then remains valid.
 */
ONSTACK_API int onstack_session_free(onstack_session *session);

/*
 * Passes waiting samples to the sink on the calling thread, at most `max_samples` (0: all), and does the work of the drain
 * thread. It does not wait for samples. A session with `threads` off needs it every 20 ms while the process works and every 50
 * to 200 ms while it is idle; onstack_session(3) says what later calls lose.
 * Context: any thread; a second caller waits for the first.
 * Returns: the number of samples passed.
 * Errors: STOPPED, CONTEXT.
 */
ONSTACK_API int onstack_session_poll(onstack_session *session, uint32_t max_samples);

/* ---- statistics --------------------------------------------------------------------------------------------- */

/*
 * Counters of a session since its start. After the stop
 *   ticks == recorded + unattributed + dropped_ring_full + dropped_no_stack + dropped_unwinder + dropped_stopping
 * holds exactly. These seven count ticks: a sample with 3 overruns counts 4. For ONSTACK_CLOCK_HEAP a tick is an allocation.
 */
typedef struct onstack_stats {
  uint32_t size;            /* in: sizeof(onstack_stats); out: the bytes that the library filled */
  uint32_t running;         /* 1 while the session samples */
  uint64_t period;          /* the distance between two ticks of a thread, in `period_unit`; a mean for ONSTACK_CLOCK_HEAP */
  onstack_unit period_unit; /* ONSTACK_UNIT_NANOSECONDS, or ONSTACK_UNIT_BYTES for ONSTACK_CLOCK_HEAP */
  uint32_t reserved0;       /* 0 */
  uint64_t ticks;           /* ticks of this session */
  uint64_t recorded;        /* ticks with a sample that has left the buffer */
  uint64_t samples;         /* samples that have left the buffer */
  uint64_t delivered;       /* samples passed to the sink */
  uint64_t unattributed;    /* ticks without a stack: overruns of more than 250 ms, or allocations while a seccomp filter
                                 keeps the library from blocking signals */
  uint64_t dropped_ring_full; /* ticks that found the buffer full */
  uint64_t dropped_no_stack;  /* ticks with too little signal stack for the unwinder */
  uint64_t dropped_unwinder;  /* ticks for which the unwinder returned no frame */
  uint64_t dropped_stopping;  /* ticks that were due but not delivered when the session stopped */
  uint64_t dropped_sink;      /* samples that the sink refused */
  uint64_t truncated;         /* samples whose stack does not reach its root */
  uint64_t truncated_by[16];  /* the same by ONSTACK_TRUNCATED_* */
  uint64_t threads_seen;      /* threads that got a timer */
  uint64_t threads_armed;     /* of these, threads that are alive */
  uint64_t threads_unarmed;   /* failed attempts to create a timer (limits); the process timer samples those threads */
  uint64_t process_ticks;     /* expiries of the process timer, which finds new threads */
  /* The next five count signals of all sessions that share the action, since it was installed. */
  uint64_t forwarded;       /* signals of others that were passed to the previous action */
  uint64_t forwarded_timer; /* of these, signals of a POSIX timer (SI_TIMER) */
  uint64_t swallowed;       /* signals of others whose previous action was SIG_DFL or SIG_IGN */
  uint64_t late;            /* ticks of sessions that had ended */
  uint64_t looped;          /* signals that the previous action sent back while it received them; dropped */
  const char *unwinder;     /* the unwinder's name: static, or the host's */
  const char *reader;       /* how stacks are read: "probe", "copy" or "none"; static */
  const char *clock;       /* "cpu", "wall", "wall-signal" or "heap"; "cpu-ticker" or "wall-signal-ticker" if a thread of the
                               library sends the signals because timers are refused; static */
  uint64_t blocked;        /* of dropped_stopping: ticks of threads that block the signal; onstack_session(3) has the cure */
  uint64_t heap_untracked; /* sampled allocations that found the table of heap_objects full */
  uint64_t heap_reused;    /* sampled allocations whose address was given out again without a free */
  uint64_t heap_in_use;    /* bytes that the sampled allocations in use represent */
  uint64_t cpu_ns;         /* the process's CPU time without the library's own, in nanoseconds; 0: unknown. If ticks * period
                               is less, threads ended before a tick reached them */
  /* The next four are for ONSTACK_CLOCK_WALL. */
  uint64_t wall_rounds;  /* rounds over all threads; a process with many threads has fewer than `frequency` a second */
  uint64_t wall_looks;   /* observations of a thread that had run since the last round */
  uint64_t wall_moved;   /* of these, observations that were discarded because the thread ran meanwhile */
  uint64_t wall_refused; /* of these, observations that the kernel refused because the process dropped its privileges */
  /* The next four are for frames of interpreters. */
  uint64_t interpreted;           /* samples with such frames */
  uint64_t interpreted_cut;       /* of these, samples that lack some */
  uint64_t interpreted_unmatched; /* samples whose interpreted frames fit no native frames and were left out */
  uint64_t interpreted_unnamed;   /* of `interpreted`: samples with a "[function gone]" */
} onstack_stats;

/*
 * Fills `stats`, whose `size` the caller has set. While the session runs, the counters are read one after another.
 * Context: any thread.
 * Errors: OPTIONS if the size is too small.
 */
ONSTACK_API int onstack_session_stats(const onstack_session *session, onstack_stats *stats);

/* How the frames in one module (a program, a library) led to their callers. It shows which library cuts stacks. */
typedef struct onstack_module_stats {
  uint32_t size;          /* bytes in this structure */
  uint32_t reserved;      /* 0 */
  const char *path;       /* the loader's name of the file; "" for generated code. Valid for the life of the process */
  uint64_t rules;         /* frames left by .eh_frame */
  uint64_t go;            /* frames left by Go's tables */
  uint64_t frame_pointer; /* frames left by the frame pointer */
  uint64_t unwinder;      /* frames of the host's unwinder */
  uint64_t ended;         /* stacks whose root is in this module */
  uint64_t lost;          /* stacks that were cut in this module */
  uint64_t lost_by[16];   /* the same by ONSTACK_TRUNCATED_* */
} onstack_module_stats;

/*
 * Calls `visit` for each module that samples of this session were in, those with the most cut stacks first, until it returns
 * non-zero. Counts the samples that the sink has received; the counts remain after the stop.
 * Context: any thread. In a sink of the same session it returns CONTEXT.
 * Returns: what `visit` returned last.
 * Errors: OPTIONS, CONTEXT, -ENOMEM.
 */
ONSTACK_API int onstack_session_modules(onstack_session *session,
                                        int (*visit)(void *data, const onstack_module_stats *module), void *data);

/*
 * Writes the counters as lines for the comments of a profile: one with the statistics, and one for each of the 20 modules with
 * the most cut stacks. onstack_session(3) describes the lines. In a sink of the same session the lines of modules are absent.
 * Context: any thread.
 * Errors: OPTIONS, OUTPUT, -ENOMEM.
 */
ONSTACK_API int onstack_session_stats_text(onstack_session *session, onstack_writer writer, void *data);

/*
 * Explains a key of these lines ("misaligned", "dropped_ring_full") or the reason in a frame "[truncated: ...]", and says what
 * to do. The sentence continues the text "KEY: ".
 * Context: signal-safe.
 * Ownership: the string is static.
 * Returns: NULL if there is nothing to do or the key is unknown.
 */
ONSTACK_API const char *onstack_advice(const char *key);

#ifdef __cplusplus
}
#endif

#endif /* ONSTACK_ONSTACK_H */
