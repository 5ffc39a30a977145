/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * onstack: a sampling CPU profiler that lives inside a process of several languages.
 *
 * This is the whole public interface: plain C, no inline functions, no macros that must be used to call
 * something. It can be read by C11, C++11, bindgen and cgo.
 *
 * Words used below
 *   session    one running profiler: a clock, a rate, an unwinder and a sink. Up to ONSTACK_MAX_SESSIONS at once.
 *   tick       one expiry of a session's timer on one thread.
 *   sample     a stack, and what it stands for: of a kind, a weight (events) and a value in the kind's unit. Ticks make the
 *              samples of CPU time and wall time.
 *   sink       the host's function that receives samples, never inside a signal handler.
 *   unwinder   registers -> return addresses, inside the signal handler.
 *
 * Each declaration names its context:
 *   any thread      may be called from every ordinary thread, at any time, but not from a signal handler;
 *   start/stop      takes the control lock; not from a signal handler, a sink or an unwinder
 *                   (from a sink or an unwinder it returns ONSTACK_E_CONTEXT instead of deadlocking);
 *   signal-safe     may be called from a signal handler.
 *
 * Cancellation: onstack_session_start is a cancellation point at its beginning, when it holds nothing. Apart from that,
 * pthread_cancel on a thread that is inside one of these functions takes effect when the function has returned. The host's
 * callbacks (sink, writer, symbolizer and others) run inside such a function with cancellation disabled, so a thread whose
 * callback waits cannot be cancelled until the callback returns.
 *
 * Results: 0 or a count on success, a negative number on failure. A failed system call is -errno;
 * the codes of this library lie from -4096 downwards. There is no last-error state.
 *
 * Sized structures: `size` comes first and is filled in by the caller (onstack_options_init does it). A shorter
 * structure than the library knows means "defaults for the rest"; a longer one is accepted when the part that the
 * library does not know is all zero, otherwise ONSTACK_E_OPTIONS. Zero in a field means "the default".
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
/* Rates in Hz: what frequency 0 means in C, and the largest that is accepted. */
#define ONSTACK_DEFAULT_FREQUENCY 99
#define ONSTACK_MAX_FREQUENCY 10000
/* Frames in a sample: default and largest. */
#define ONSTACK_DEFAULT_DEPTH 128
#define ONSTACK_MAX_DEPTH 1024
/* Room for labels in a sample. */
#define ONSTACK_MAX_LABEL_BYTES 4096

/* ---- errors ------------------------------------------------------------------------------------------------- */

#define ONSTACK_E_FREQUENCY (-4096)   /* rate above ONSTACK_MAX_FREQUENCY, or an explicit 0 where that is refused */
#define ONSTACK_E_OPTIONS (-4097)     /* an option has a value that it cannot have, or an unknown tail is not zero */
#define ONSTACK_E_UNWINDER (-4098)    /* no unwinder of that name, or the given one is incomplete or refused to start */
#define ONSTACK_E_SIGNAL (-4099)      /* the signal cannot be caught, is reserved, or means more than a call */
#define ONSTACK_E_SESSIONS (-4100)    /* all ONSTACK_MAX_SESSIONS sessions are running, or the one of the heap */
#define ONSTACK_E_STOPPED (-4101)     /* the session has been stopped already */
#define ONSTACK_E_OUTPUT (-4102)      /* the writer callback refused the bytes */
#define ONSTACK_E_UNSUPPORTED (-4103) /* not available on this system or in this build */
#define ONSTACK_E_VERSION (-4104) /* header and library, or two copies of the library in this process, do not fit together */
#define ONSTACK_E_CONTEXT (-4105) /* called from a sink, an unwinder, or a forked child that may not */
/* nothing here can tick: the kernel or a filter refuses timers, and signals sent by a thread of ours do not arrive
   either */
#define ONSTACK_E_CLOCK (-4106)
#define ONSTACK_E_KINDS (-4107) /* the profile holds several kinds of samples, and this format has one number: choose one */

/*
 * A sentence that says what an error code means and what can be done.
 * Context: signal-safe. Returns: a static string, never NULL; unknown codes get a general text.
 * -errno values get "a system call failed" (the caller has strerror for the rest).
 */
ONSTACK_API const char *onstack_strerror(int code);

/* The library's version, "0.1.0". Context: signal-safe. Returns a static string. */
ONSTACK_API const char *onstack_version(void);

/* ---- samples ------------------------------------------------------------------------------------------------ */

/* Why a stack could not be followed to its root. The frames that are there are right; what is missing is above. */
typedef uint32_t onstack_truncation;
#define ONSTACK_TRUNCATED_NOT 0        /* followed to its root */
#define ONSTACK_TRUNCATED_DEPTH 1      /* more frames than the session's maximal depth */
#define ONSTACK_TRUNCATED_UNREADABLE 2 /* the next frame lies in memory that cannot be read */
#define ONSTACK_TRUNCATED_MISALIGNED 3 /* the frame pointer is not aligned: no frame pointers in that code */
/* the frame pointer points below the stack pointer or in a circle, or is zero in code that begins no stack */
#define ONSTACK_TRUNCATED_NOT_RISING 4
#define ONSTACK_TRUNCATED_BAD_RETURN 5   /* the return address is not in executable memory, or nobody returns there */
#define ONSTACK_TRUNCATED_STACK_SWITCH 6 /* a switch of stacks (Go) that could not be followed */
#define ONSTACK_TRUNCATED_BY_DESIGN 7    /* the unwinder records no callers (pc_only) */
#define ONSTACK_TRUNCATED_UNWINDER 8     /* the user's unwinder said so */
#define ONSTACK_TRUNCATED_NO_RULE 9      /* code without unwind information: assembly, or generated without frame pointers */
/* code that was loaded or noticed so lately that its unwind information is still being read */
#define ONSTACK_TRUNCATED_PENDING 10
#define ONSTACK_TRUNCATION_COUNT 11

/*
 * What a sample tells of, which also says the unit of its value. The sessions of this version make the first three; whoever
 * makes samples of its own may give any of them to onstack_profile_sink. Sinks must expect kinds that they do not know.
 */
typedef uint32_t onstack_kind;
#define ONSTACK_KIND_CPU 1        /* CPU time: ticks of ONSTACK_CLOCK_CPU; nanoseconds */
#define ONSTACK_KIND_WALL 2       /* real time: ONSTACK_CLOCK_WALL and _WALL_SIGNAL; nanoseconds */
#define ONSTACK_KIND_ALLOCATION 3 /* memory, where it was allocated: sessions of ONSTACK_CLOCK_HEAP; bytes */
#define ONSTACK_KIND_WAIT 4       /* time that a thread waited; nanoseconds */
#define ONSTACK_KIND_DUMP 5       /* a thread's stack at the moment of a question; count, 1 each */

/* What a value is counted in. */
typedef uint32_t onstack_unit;
#define ONSTACK_UNIT_COUNT 1
#define ONSTACK_UNIT_NANOSECONDS 2
#define ONSTACK_UNIT_BYTES 3

/* One sample, valid only during the sink call that receives it. */
typedef struct onstack_sample {
  uint32_t size;                 /* of this structure, in bytes */
  onstack_kind kind;             /* ONSTACK_KIND_* */
  uint64_t time_ns;              /* CLOCK_MONOTONIC, nanoseconds, when it was taken; of a wait when it ended or went on */
  uint64_t value;                /* what it stands for, in `unit`; of ticks weight x period */
  uint64_t period;               /* in `unit`, from one sample to the next, of the session's clock for ticks; 0: each event
                                    has a sample */
  onstack_unit unit;             /* ONSTACK_UNIT_* */
  uint32_t weight;               /* events that it stands for, at least 1: a tick and its overruns, allocations, waits */
  int32_t tid;                   /* kernel thread id */
  onstack_truncation truncation; /* ONSTACK_TRUNCATED_* */
  const char *thread_name;       /* NUL-terminated, "" when unknown; at most 15 bytes */
  const uint64_t *frames;        /* frame_count addresses, leaf first. frames[0] is the interrupted PC, exactly; if the
                                    thread is blocked in a system call, the address of that call's instruction. The
                                    others are return addresses: the call is at address - 1 */
  uint32_t frame_count;          /* at least 1; 0 with ONSTACK_SAMPLE_FREED */
  uint32_t label_bytes;          /* of `labels` */
  const char *labels;            /* pairs of NUL-terminated strings, key and value, one behind the other: at most
                                    options.label_bytes. NULL when there are none */
  uint32_t flags;                /* ONSTACK_SAMPLE_* */
  uint32_t reserved;             /* 0 */
  uint64_t object;               /* of an allocation: its number in this process, under which its end will come; 0: none */
} onstack_sample;

#define ONSTACK_SAMPLE_LABELS_CUT 1u /* there were more labels than the session had room for */
/* the allocation `object` has been freed: value and weight are those that its sample had; frames, labels and name are empty */
#define ONSTACK_SAMPLE_FREED 2u
#define ONSTACK_SAMPLE_UNTRACKED 4u /* an allocation whose end will not be told: the table was full (heap_untracked) */

/*
 * Receives a sample. Called on the session's drain thread, or inside onstack_session_poll; never in a signal handler,
 * never twice at the same time for one session, never after onstack_session_stop has returned.
 * Returns 0, or anything else to refuse the sample (it is counted in `dropped_sink`).
 * On the drain thread every signal is blocked, and what the sink forks or spawns there inherits that mask.
 * It may be slow: samples that find the buffer full are counted in `dropped_ring_full`; the program never waits.
 * C++: no exception passes through this library. One that leaves a sink, a writer, a symbolizer or any other function that
 * is handed in ends the program by std::terminate, even where a catch stands around the call: write them as noexcept.
 */
typedef int (*onstack_sink)(void *data, const onstack_sample *sample);

/* ---- unwinders ---------------------------------------------------------------------------------------------- */

/* Registers at the interrupted instruction, the same for every architecture. */
typedef struct onstack_registers {
  uint64_t pc;
  uint64_t sp;
  uint64_t fp;          /* x86_64: RBP; aarch64: x29 */
  uint64_t lr;          /* aarch64: x30 as found (it may carry pointer authentication bits); x86_64: 0 */
  uint64_t reserved[2]; /* what one architecture needs besides, ONSTACK_REGISTER_*; those without a meaning are 0 */
} onstack_registers;

/* Words of `reserved` in use. aarch64: none. */
#define ONSTACK_REGISTER_RBX 0 /* x86_64: RBX, the CFA of the dynamic linker's lazy resolver and of functions like it */

/* What a walk found. */
typedef struct onstack_walk_result {
  uint32_t frame_count;          /* frames written; 0 refuses the sample (counted in `dropped_unwinder`) */
  onstack_truncation truncation; /* ONSTACK_TRUNCATED_* */
} onstack_walk_result;

/*
 * A user's own unwinder. The structure and what it points to must live until the session is freed.
 * `walk` runs inside the signal handler, with every signal blocked, on the interrupted thread: it must not lock,
 * allocate, touch errno, use thread-local storage, or read memory that may fault. Several threads run it at once.
 * `ucontext` is the kernel's (ucontext_t *) of the *interrupted* code. A walker that ignores it (backtrace(),
 * _Unwind_Backtrace) sees the signal handler on the alternate stack in place of the program. For samples that no signal
 * takes it is NULL; in samples of CPU and wall time it never is.
 */
typedef struct onstack_unwinder {
  uint32_t size;        /* sizeof(onstack_unwinder) */
  uint32_t stack_bytes; /* signal stack that `walk` needs at most; where less is left the sample is dropped and
                           counted in `dropped_no_stack`. 0 means 1024 */
  const char *name;     /* for messages; not NULL */
  void *data;           /* handed to both functions */
  /* Called once in onstack_session_start, outside the signal; may be NULL. Non-zero refuses the start (a negative
     errno or ONSTACK_E_* is handed to the caller, anything else becomes ONSTACK_E_UNWINDER). */
  int (*init)(void *data);
  /* Writes at most `capacity` (at least 1) addresses, leaf first, frames[0] = registers->pc. */
  onstack_walk_result (*walk)(void *data, const onstack_registers *registers, void *ucontext, uint64_t *frames,
                              uint32_t capacity);
} onstack_unwinder;

/* ---- interpreters --------------------------------------------------------------------------------------------- */

/*
 * Frames of interpreted languages. An interpreter runs its language's functions in one function of its own, the loop, whose
 * frame says nothing of them. A provider knows one interpreter: it finds it, copies the language's frames in the signal
 * handler, and names them later. In samples they stand in the place of the loop's frame, with addresses whose top byte is
 * ONSTACK_INTERPRETED_BYTE: no addresses of memory, to be named by onstack_interpreted_describe. Profiles name them.
 */
#define ONSTACK_INTERPRETED_BYTE 0xC0

/* A frame as it is copied. */
typedef struct onstack_interpreted_frame {
  uint64_t function; /* which function, in the provider's words: the address of a code object */
  uint32_t position; /* where in it, in the provider's words */
  uint32_t flags;    /* ONSTACK_INTERPRETED_* */
} onstack_interpreted_frame;

#define ONSTACK_INTERPRETED_ENTRY 1u /* native code called it: its callers are behind the loop's native frame */
#define ONSTACK_INTERPRETED_EMPTY 2u /* no frame: the loop's native frame, which ENTRY ends, runs none at this moment */

/* What onstack_frame_provider.copy works with. */
typedef struct onstack_frame_memory {
  /* Copies memory of the process and cannot fault: true, if all of it could be read. Takes a microsecond, for 4 KiB hardly
     more. Signal-safe. */
  uint32_t (*read)(uint64_t address, void *to, uint32_t bytes);
  /* Reads an aligned word of memory that is the calling thread's as long as it lives: its stack, its thread-local storage. A
     tenth of the time. Where nothing is mapped, false. Signal-safe. */
  uint32_t (*read_own)(uint64_t address, uint64_t *word);
  void *scratch;          /* for what is read; its content is anything */
  uint32_t scratch_bytes; /* ONSTACK_FRAME_SCRATCH at least */
  int32_t tid;            /* the calling thread, or for copy_of the other */
} onstack_frame_memory;
#define ONSTACK_FRAME_SCRATCH 8192

/* What a frame is called. */
typedef struct onstack_frame_text {
  uint32_t size;       /* sizeof(onstack_frame_text), by the caller */
  uint32_t line;       /* 0: unknown */
  uint32_t start_line; /* of the function; 0: unknown */
  uint32_t flags;      /* ONSTACK_TEXT_* */
  char function[256];  /* UTF-8, cut where it is longer */
  char file[512];
  char language[16]; /* the provider's name; by the library */
} onstack_frame_text;
#define ONSTACK_TEXT_NATIVE 1u /* a function in native code, as the language calls it: no frame of the loop is its own */

/* Code of an interpreter's loop. */
typedef struct onstack_loop_code {
  uint64_t low, high;
} onstack_loop_code;
#define ONSTACK_LOOP_CODES 4

/* The structure and what it points to must live until the process ends: names are asked for after a session, too. */
typedef struct onstack_frame_provider {
  uint32_t size;        /* sizeof(onstack_frame_provider) */
  uint32_t stack_bytes; /* signal stack that `copy` needs at most */
  const char *name;     /* of the language: "python" */
  void *data;           /* handed to the functions */
  /* Looks for the interpreter: at start, and whenever objects were loaded or unloaded. Writes the code of its loop and returns
     how many pieces there are; 0: it is not there; -EAGAIN: it is there and has not begun, ask again soon. What `copy` reads
     must be good as soon as this returns, and stay so. Another -errno or ONSTACK_E_*: it cannot be followed, and this is not
     asked again. Ordinary threads, one at a time. */
  int (*prepare)(void *data, onstack_loop_code loops[ONSTACK_LOOP_CODES]);
  /* In the signal handler, as onstack_unwinder.walk, on the thread whose frames it copies: the innermost first, at most
     `capacity`. Returns their number; 0: this thread runs none. ONSTACK_INTERPRETED_CUT is added where there are more that
     could not be read. */
  uint32_t (*copy)(void *data, const onstack_frame_memory *memory, onstack_interpreted_frame *frames, uint32_t capacity);
  /* The same for another thread, memory->tid, which is blocked, and may go on meanwhile: what was copied is believed if it has
     not run. `read_own` is as `read`. *hint stays with the thread, and is 0 at first. NULL: stacks of blocked time stay native.
     Ordinary threads, perhaps several at a time. */
  uint32_t (*copy_of)(void *data, const onstack_frame_memory *memory, uint64_t *hint, onstack_interpreted_frame *frames,
                      uint32_t capacity);
  /* Names a frame, milliseconds after it was copied: the function may be gone. 0, or not: it cannot be told. Ordinary threads,
     perhaps several at a time. */
  int (*describe)(void *data, const onstack_interpreted_frame *frame, onstack_frame_text *text);
} onstack_frame_provider;
#define ONSTACK_INTERPRETED_CUT 0x80000000u

/* Names a frame of a sample whose top byte is ONSTACK_INTERPRETED_BYTE. Context: any thread. Errors: OPTIONS (a NULL, a size,
   not such an address). */
ONSTACK_API int onstack_interpreted_describe(uint64_t frame, onstack_frame_text *text);

/* ---- options ------------------------------------------------------------------------------------------------ */

/* A three-valued switch: zero is the default of that option. */
typedef uint8_t onstack_switch;
#define ONSTACK_DEFAULT 0
#define ONSTACK_ON 1
#define ONSTACK_OFF 2

/* Who ticks. */
typedef uint8_t onstack_clock;
#define ONSTACK_CLOCK_CPU 1 /* CPU time of each thread (default) */
/*
 * Real time, of every thread of the process or those that `thread_filter` takes, without disturbing any: time on the processor
 * by ticks of each thread's CPU time, and what a thread waits for by a look at it `frequency` times a second (0: 20), from
 * outside: no signal, no system call that ends with EINTR, no wake-up. How long it ran, waited for a processor and was blocked
 * is the kernel's count; the stack of blocked time is the one that the looks find. They come from a thread of ours,
 * "onstack-wall", or with `threads` off from the polls.
 * Samples have labels of their own, for which there is room besides label_bytes: `state` (running, runnable: it waits for a
 * processor, blocked, uninterruptible, stopped), `wait` (the system call), `on` (the lock's address, or what the descriptor is)
 * and `holder` (the thread that has the lock, where its word tells: glibc's mutexes). Needs the unwinder "rules" or "pc_only"
 * and a /proc that tells of blocked threads (/proc/self/task/T/syscall; not to a process that has dropped its privileges
 * without exec). On aarch64 blocked stacks end at the system call's function. New threads are found by a look at
 * /proc/self/task, each 10 ms or, with very many threads, less often.
 */
#define ONSTACK_CLOCK_WALL 2
/*
 * Real time by signals: every thread is interrupted `frequency` times a second, asleep or not. Such a signal ends poll,
 * epoll_wait, select, nanosleep, timed recv and their like with EINTR, which SA_RESTART does not cover: the program must be
 * able to bear that (docs/SIGNALS.md has the list, measured). Threads are found as above.
 */
#define ONSTACK_CLOCK_WALL_SIGNAL 4
/*
 * No time at all: memory, where it is allocated. Allocators report to the session by onstack_heap_allocated and its kin; one
 * allocation in `heap_interval` bytes is sampled, and its end is told. No signal is caught and no timer is made. One such
 * session at a time, until its stop has returned (ONSTACK_E_SESSIONS). `frequency` must be 0. In the statistics a tick is an
 * allocation, as the samples' weights count them.
 */
#define ONSTACK_CLOCK_HEAP 3

/* What stop leaves behind when the previous action was SIG_DFL or a handler and ours is still installed. */
typedef uint8_t onstack_restore;
#define ONSTACK_RESTORE_EXACT 1  /* the previous action, which start met: handler, flags, mask (default) */
#define ONSTACK_RESTORE_IGNORE 2 /* SIG_IGN, as older profilers leave it */

/* What happens in a child of fork(). */
typedef uint8_t onstack_fork;
#define ONSTACK_FORK_STOP 1 /* the child has no session; it may start its own (default) */
/*
 * The child goes on with a session of its own under the same handle: empty statistics, the same options, none of the
 * parent's samples, its own drain thread. The sink gets the child's samples only, with the child's copy of sink_data, or
 * what `fork_sink_data` made of it. If the sink is onstack_profile_sink, the child's copy of the profile begins empty.
 * Where that cannot be had (no thread, no timer) the child is as under ONSTACK_FORK_STOP. So it is, too, where fork() was
 * called inside a sink, and in children that run no atfork handlers (_Fork, clone, vfork).
 */
#define ONSTACK_FORK_FOLLOW 2

typedef struct onstack_options {
  uint32_t size;              /* sizeof(onstack_options) as the caller's header has it */
  uint32_t frequency;         /* ticks a second of the clock, 1 .. ONSTACK_MAX_FREQUENCY; 0: 99, of the clock wall 20. On the
                              CPU clock the kernel ticks at most CONFIG_HZ times a second; above that the weight grows
                              instead */
  onstack_clock clock;        /* ONSTACK_CLOCK_* */
  onstack_switch on_stack;    /* SA_ONSTACK; default on. Off is refused where a Go runtime is in the process, and ends
                              when one is loaded */
  onstack_restore restore;    /* ONSTACK_RESTORE_*; only the session that installs the action has a say */
  onstack_fork fork;          /* ONSTACK_FORK_* */
  onstack_switch threads;     /* default on: a drain thread "onstack-drain". Off: no thread is made, the host calls
                              onstack_session_poll */
  onstack_switch own_threads; /* sample the library's own threads too; default off */
  uint8_t reserved0[2];       /* 0 */
  int32_t signal;             /* 0: SIGPROF, and with a Go runtime no other. Not those that report faults, or end, stop or
                              continue processes; see docs/SIGNALS.md, best is an unused real-time signal */
  uint32_t max_depth;         /* frames a sample, 1 .. ONSTACK_MAX_DEPTH; 0: 128 */
  uint32_t buffer_bytes;      /* sample buffer; 0: 1 MiB. Rounded up to a power of two, 64 KiB .. 256 MiB */
  uint32_t label_bytes;       /* room for labels in each sample, 0 .. ONSTACK_MAX_LABEL_BYTES; 0: samples carry none */
  const char *unwinder;       /* by name: "rules" (default: .eh_frame and Go's tables, frame pointers where there are none),
                              "frame_pointer", "pc_only". NULL: default. Not kept */
  const onstack_unwinder *custom_unwinder; /* the user's own; then `unwinder` must be NULL. Not copied */
  onstack_sink sink;                       /* where samples go; NULL: they are read and thrown away (statistics only) */
  void *sink_data;                         /* handed to the sink */
  /* With ONSTACK_FORK_FOLLOW, in each child: makes the child's own sink_data out of the parent's (another file, say).
     Called where the sink is called, before the child's first sample; never, if it has none. Locks of the host may look
     taken by threads that are not there. NULL: it stays as it was */
  void *(*fork_sink_data)(void *sink_data);
  /* With clocks of real time: non-zero for threads that are to be sampled. Asked once a thread, in start and later in
     housekeeping, where it must not wait long; the name is what the thread has then. As in a sink, starts, stops and polls
     return ONSTACK_E_CONTEXT. NULL: all threads */
  int (*thread_filter)(void *data, int32_t tid, const char *thread_name);
  void *thread_filter_data; /* handed to thread_filter */
  uint32_t heap_interval;   /* with ONSTACK_CLOCK_HEAP: mean bytes between samples; 0: 524,288. 1: each allocation */
  uint32_t heap_objects;    /* sampled allocations that can be in use at a time, at most 1,048,576; 0: 16,384. Later ones are
                              samples, but not counted as in use (heap_untracked). Some 70 bytes each */
  onstack_switch
      interpreters;     /* frames of interpreted languages, by the providers that come with the library: CPython 3.9 to
                                  3.13, PHP 8.1 to 8.5; onstack_interpreted(3) says more. Default off */
  uint8_t reserved1[7]; /* 0 */
  const onstack_frame_provider *frame_provider; /* the user's own, besides; NULL: none */
} onstack_options;

/*
 * Fills `options` with zeros and the size. `size` is sizeof(onstack_options) in the caller's view.
 * Context: signal-safe. Errors: ONSTACK_E_VERSION when `size` is smaller than any version of the structure was.
 */
ONSTACK_API int onstack_options_init(onstack_options *options, size_t size);

/*
 * Why a start refuses these options: a sentence that begins with the name of the one at fault and a colon, "max_depth: give 1
 * to 1024 frames", for a wrapper to replace the name by its own. NULL: options are not the reason.
 * Context: any thread. Returns a static string.
 */
ONSTACK_API const char *onstack_options_fault(const onstack_options *options);

/* ---- sessions ----------------------------------------------------------------------------------------------- */

typedef struct onstack_session onstack_session;

/*
 * Starts sampling. `options` may be NULL (all defaults) and is not kept. On success *out is a handle that the caller
 * stops and then frees; on failure *out is NULL and nothing is left behind: no action, timer, thread or memory.
 * Context: start/stop. Errors: FREQUENCY, OPTIONS, UNWINDER, SIGNAL, SESSIONS, CLOCK, UNSUPPORTED, VERSION, CONTEXT, -errno.
 */
ONSTACK_API int onstack_session_start(const onstack_options *options, onstack_session **out);

/*
 * Ends sampling: deletes the timers, puts the signal action back if this was the last session on it (unless somebody
 * else has installed a newer one, which then stays), hands the remaining samples to the sink. When it returns, no
 * sink call of this session is running or will begin. The handle and its statistics stay.
 * Context: start/stop. Errors: STOPPED (stopped before; also in the child of a fork), CONTEXT.
 */
ONSTACK_API int onstack_session_stop(onstack_session *session);

/*
 * Frees a handle; stops the session first if it still runs. NULL is allowed.
 * Context: start/stop. Errors: CONTEXT (then the handle is still good).
 */
ONSTACK_API int onstack_session_free(onstack_session *session);

/*
 * Hands waiting samples to the session's sink on the calling thread, at most `max_samples` of them (0: all that wait),
 * and does the housekeeping that the drain thread would do (thread reaping and naming, stack bounds). Does not wait.
 * For sessions with `threads` off. Call it every 20 ms while the process works, every 50 to 200 ms while it rests. When it is
 * called late, samples can find the buffer full (counted), threads that ended keep their timers, stacks are read by slower
 * means, new threads that the process tick has not met wait for theirs, and who installs another handler has our ticks.
 * With the drain thread on it is allowed too, and shares the work with it.
 * Context: any thread, one at a time (a second caller waits). Returns: samples handed over, or STOPPED, CONTEXT.
 */
ONSTACK_API int onstack_session_poll(onstack_session *session, uint32_t max_samples);

/*
 * Statistics. All counters are of this session, of samples of every kind, and since its start. The accounting:
 *   ticks == recorded + unattributed + dropped_ring_full + dropped_no_stack + dropped_unwinder + dropped_stopping
 * in ticks (a sample with 3 overruns counts 4), exact once the session is stopped.
 */
typedef struct onstack_stats {
  uint32_t size;         /* in: what the caller has; out: what was filled in */
  uint32_t running;      /* 1 while sampling */
  uint64_t period;       /* between two ticks of a thread, in `period_unit`; of ONSTACK_CLOCK_HEAP a mean */
  uint64_t ticks;        /* recognized as this session's */
  uint64_t recorded;     /* ticks that have a sample; counted, as the next one, when it is taken out of the buffer */
  uint64_t samples;      /* samples taken out of the buffer (recorded / samples is the mean weight) */
  uint64_t delivered;    /* samples handed to the sink */
  uint64_t unattributed; /* overruns of more than 250 ms: they belong to no stack. Of the heap clock: blocks of which nothing
                                 is taken, for a filter (seccomp) lets nobody block signals */
  uint64_t dropped_ring_full; /* the sink was slower than the ticks */
  uint64_t dropped_no_stack;  /* too little room on the signal stack for the unwinder */
  uint64_t dropped_unwinder;  /* the unwinder returned no frame */
  uint64_t dropped_stopping;  /* due, but not come when the session was stopped, or come meanwhile: of threads that had
                                 not had the processor since, and of those that block the signal (see blocked) */
  uint64_t dropped_sink;      /* samples (not ticks) that the sink refused */
  uint64_t truncated;         /* samples whose stack did not reach its root */
  uint64_t truncated_by[16];  /* the same by ONSTACK_TRUNCATED_* */
  uint64_t threads_seen;      /* threads that got a timer of this session */
  uint64_t threads_armed;     /* of these, alive now as far as known */
  uint64_t threads_unarmed;   /* attempts that found no timer (limits): those threads are sampled by the process tick */
  uint64_t process_ticks;     /* expiries of the process-wide timer that finds new threads; in `ticks` is what of the
                                 process's CPU time was unaccounted for when they hit a thread without a timer */
  /* Of the signal action that this session shares with others, since it was installed: */
  uint64_t forwarded;       /* foreign signals handed to the previous action */
  uint64_t forwarded_timer; /* of these, with si_code SI_TIMER (somebody else's POSIX timer) */
  uint64_t swallowed;       /* foreign signals that met SIG_DFL or SIG_IGN underneath */
  uint64_t late;            /* ticks of sessions that were over already */
  uint64_t looped;          /* foreign signals that came back from the action below while being forwarded; dropped */
  const char *unwinder;     /* name in use; static, or the user's */
  const char *reader;       /* memory reader in use: "probe", "copy", "pipe", "none"; static */
  const char *clock;        /* who ticks: "cpu", "wall", "wall-signal", "heap", or "cpu-ticker", "wall-signal-ticker" where
                                 timers cannot be had (a thread of ours looks at the others' clocks then, and sends the
                                 signals); static */
  uint64_t blocked;         /* of dropped_stopping: of threads that block the signal. They have no samples; let them take
                                 it (pthread_sigmask). Libraries' own threads often block all signals, as jemalloc's do
                                 (background_thread:false). While the session runs: those of the CPU clock that wait, as
                                 of the last look, once a second; no part of `ticks` yet */
  uint64_t heap_untracked;  /* sampled allocations that found no place among heap_objects */
  uint64_t heap_reused;     /* of those in use, freed without a report: their address was given out again */
  uint64_t heap_in_use;     /* bytes that the sampled allocations in use stand for */
  uint64_t cpu_ns;          /* nanoseconds of CPU time that the process used, ours left out: what ticks * period comes to,
                                 give or take a period a thread by chance. Where that is less, threads have ended before a
                                 tick met them. Of the clock "cpu"; 0: not known */
  /* Of the clock "wall"; of others 0. dropped_unwinder has what is not told here by a stack: */
  uint64_t wall_rounds;  /* looks at all threads. With very many threads they come less often than `frequency` says */
  uint64_t wall_looks;   /* at one thread that had run since the last look: the others stand where they stood */
  uint64_t wall_moved;   /* of these, at threads that ran meanwhile: their stacks were not believed */
  uint64_t wall_refused; /* of these, that the kernel refused: the process has dropped its privileges without exec */
  /* Samples by what became of an interpreter's frames: */
  uint64_t interpreted;     /* they are in the sample */
  uint64_t interpreted_cut; /* of these, not all: memory that could not be read, or too many */
  /* They fit no native frames: left out. Begins and ends of calls, mostly; all, where a filter refuses process_vm_readv. */
  uint64_t interpreted_unmatched;
  uint64_t interpreted_unnamed; /* of `interpreted`: with a function that was gone or could not be read, "[function gone]" */
  onstack_unit period_unit;     /* of `period`: ONSTACK_UNIT_NANOSECONDS, of ONSTACK_CLOCK_HEAP ONSTACK_UNIT_BYTES */
  uint32_t reserved0;           /* 0 */
} onstack_stats;

/*
 * Context: any thread. The numbers are read one by one while ticks go on; they fit together once stopped.
 * Errors: OPTIONS (size too small), never for a stopped session.
 */
ONSTACK_API int onstack_session_stats(const onstack_session *session, onstack_stats *stats);

/*
 * How the frames that lay in one module (executable, library) led to their callers. Tells which library lacks what when
 * stacks are cut: `lost` is where walks ended without a root, by reason in `lost_by`.
 */
typedef struct onstack_module_stats {
  uint32_t size;          /* of this structure */
  uint32_t reserved;      /* 0 */
  const char *path;       /* as the loader names it; "" for code in no module (generated at run time). Valid for ever */
  uint64_t rules;         /* frames left by .eh_frame */
  uint64_t go;            /* by Go's own tables and conventions */
  uint64_t frame_pointer; /* by the chain of frame pointers */
  uint64_t unwinder;      /* by the user's unwinder */
  uint64_t ended;         /* stacks that were followed to their root, which lies here */
  uint64_t lost;          /* stacks that were cut behind a frame of this module */
  uint64_t lost_by[16];   /* the same by ONSTACK_TRUNCATED_* */
} onstack_module_stats;

/*
 * Calls `visit` for each module that samples of this session were in, the ones that lost most first, until it returns
 * non-zero, which is then returned. Counts samples that have been handed to the sink; they stay after stop.
 * Context: any thread; from a sink of the same session it returns CONTEXT. Errors: OPTIONS, CONTEXT, -ENOMEM.
 */
ONSTACK_API int onstack_session_modules(onstack_session *session,
                                        int (*visit)(void *data, const onstack_module_stats *module), void *data);

/*
 * Hands the counters to `writer` as lines of text, for the comments of a profile: one with all of them,
 *   onstack.stats ticks=123 recorded=123 ... reader=probe
 * and one for each module that stacks were cut in, the worst first, at most 20,
 *   onstack.module lost=12 misaligned=10 no_rule=2 path=/usr/lib/liby.so
 * Keys may be added, none is taken away. `path` comes last and goes to the end of the line; in it each byte of a control
 * character, of U+2028 and U+2029, of a backslash and of what is not UTF-8 is \ooo, in octal.
 * Where memory is short, and in a sink of the same session, modules have no lines.
 * Context: any thread. Errors: OPTIONS, OUTPUT (the writer returned non-zero), -ENOMEM.
 */
ONSTACK_API int onstack_session_stats_text(onstack_session *session,
                                           int (*writer)(void *data, const void *bytes, size_t length), void *data);

/*
 * What a key of these lines ("misaligned", "dropped_ring_full") or the reason in a frame "[truncated: ...]" means and what
 * helps, a sentence that goes on after the key and a colon. Options have their names in onstack_options, for a wrapper to
 * replace by its own. Context: signal-safe. Returns a static string; NULL where nothing has to be done, or nothing is known.
 */
ONSTACK_API const char *onstack_advice(const char *key);

/* ---- memory: calls for allocators ------------------------------------------------------------------------------ */

/*
 * An allocator, an arena or a pool tells of each block that it hands out and takes back. While no session of
 * ONSTACK_CLOCK_HEAP runs this costs a load and a predictable branch. Only blocks that are sampled are remembered.
 *
 * Context: any thread, also where the host allocates in a signal handler; no lock, no allocation, errno stays. A sample
 * needs 8 KiB of stack.
 */

/* A block of `size` bytes begins at `address`, which the caller of this function's caller is about to get. NULL: nothing. */
ONSTACK_API void onstack_heap_allocated(const void *address, size_t size);

/* The block at `address` ends: before it can be given out again. Of any address, NULL too. */
ONSTACK_API void onstack_heap_freed(const void *address);

/* A block has a new size, and perhaps a new place. Counts as an end and an allocation. Where another thread can be given
   `from` before this call, use onstack_heap_freed before and onstack_heap_allocated after the move. */
ONSTACK_API void onstack_heap_moved(const void *from, const void *to, size_t size);

/* What a runtime with memory of its own says of it, in bytes in memory. */
typedef struct onstack_runtime_memory {
  uint32_t size;     /* sizeof(onstack_runtime_memory) as the caller's header has it */
  uint32_t reserved; /* 0 */
  const char *name;  /* as lines shall have it: "Go" */
  uint64_t address;  /* of some object: its heap is the anonymous memory around it, which is measured. 0: not known */
  uint64_t in_use;   /* objects. Of Go (runtime.MemStats): HeapAlloc */
  uint64_t stacks;   /* StackInuse */
  uint64_t other;    /* the runtime's own: MSpanSys, MCacheSys, BuckHashSys, GCSys and OtherSys */
  uint64_t idle;     /* free for later objects: HeapInuse - HeapAlloc + HeapIdle - HeapReleased */
} onstack_runtime_memory;

/*
 * Hands the account of the process's memory to `writer` as lines of text, for the comments of a heap profile:
 *   onstack.memory bytes=12345678 of=resident
 *   onstack.memory bytes=2345678 of=native, in use, in the profile
 *   ...
 *   onstack.memory bytes=123456 of=unexplained
 * All lines but the first add up to the first, the resident size (/proc/self/smaps, proc(5)). `of` comes last and goes to the
 * end of the line. `session`: of ONSTACK_CLOCK_HEAP, which knows what is in use; NULL: none. `runtime` NULL: none, or one that
 * says nothing. malloc is asked by mallinfo2 (glibc 2.33) or mallctl (jemalloc), and so are jemallocs beside it that are linked
 * with this library under the prefixes je_, _rjem_ (the crate tikv-jemallocator, with its feature `stats`) and duckdb_je_;
 * without an answer free memory is unexplained, and with an allocator beside malloc all that it has.
 * Context: any thread; not in a signal handler. Takes milliseconds for each GiB. Errors: OPTIONS, OUTPUT, -errno where smaps
 * cannot be read.
 */
ONSTACK_API int onstack_session_memory_text(onstack_session *session, const onstack_runtime_memory *runtime,
                                            int (*writer)(void *data, const void *bytes, size_t length), void *data);

/*
 * Experimental: the same in parts, for allocators that look before they call. Any thread, signal-safe as the above.
 *
 * `number` is 0 while no heap session runs, else the session's own. A thread that meets another number than before draws a
 * distance: so many bytes pass by it, and the block with the next one is sampled (an empty block counts as a byte). Then it
 * draws again, and calls onstack_heap_take with the block, if it could be allocated.
 *
 * At a free: while a session runs, onstack_heap_freed is to be called for a block at address a whose mark is not 0, and need
 * not be for others: marks[(a >> 6 ^ a >> 12) & mask]. Read `mask` before `marks`, with acquire order.
 */
typedef struct onstack_heap_state {
  uint32_t number;
  uint32_t mask;
  const uint8_t *marks; /* mapped for good, once there has been a session */
} onstack_heap_state;

/* It lives for ever. */
ONSTACK_API const onstack_heap_state *onstack_heap_state_get(void);
ONSTACK_API uint64_t onstack_heap_distance(void);
ONSTACK_API void onstack_heap_take(const void *address, size_t size);

/* ---- labels ------------------------------------------------------------------------------------------------------ */

/*
 * What a thread works for. A thread's samples carry its labels, in every session that has room for them
 * (options.label_bytes) and of this copy of the library: those of the interrupted goroutine (pprof.Do), then those of the set
 * in ONSTACK_LABELS_TASK, of the set in ONSTACK_LABELS_SPAN, and of onstack_thread_label_set. Of labels with one key the
 * first counts: profiles leave the others out.
 *
 * A key matches [a-zA-Z_][a-zA-Z0-9_./-]* and is not "thread" or "thread_id". A value is any text without a NUL. All labels of
 * a set together, a NUL behind each key and value included, take at most ONSTACK_MAX_LABEL_BYTES.
 */

typedef struct onstack_label {
  const char *key;
  const char *value;
} onstack_label;

/* A set of labels, which never changes and lives as long as somebody holds it. */
typedef struct onstack_labels onstack_labels;

/*
 * Makes a set of `count` labels, whose strings are copied; of labels with one key the last counts. The caller holds *out, and
 * lets it go by onstack_labels_release. *out is NULL on failure.
 * Context: any thread. Errors: OPTIONS (a NULL, a key, or too long), -ENOMEM.
 */
ONSTACK_API int onstack_labels_new(const onstack_label *labels, size_t count, onstack_labels **out);

/*
 * Makes a set of the labels of `inner` and of those of `outer` whose key `inner` does not have. What of `outer` has no room is
 * left out, and samples say so (ONSTACK_SAMPLE_LABELS_CUT). The caller holds *out.
 * Context: any thread. Errors: OPTIONS (a NULL), -ENOMEM.
 */
ONSTACK_API int onstack_labels_merge(const onstack_labels *inner, const onstack_labels *outer, onstack_labels **out);

/* Another holds the set, or no more; the last to let it go frees it. NULL: nothing. Context: any thread. */
ONSTACK_API void onstack_labels_retain(const onstack_labels *labels);
ONSTACK_API void onstack_labels_release(const onstack_labels *labels);

/* The labels as a sample has them: pairs of NUL-terminated strings, *bytes in all, valid as long as the set.
   Context: any thread. */
ONSTACK_API const char *onstack_labels_text(const onstack_labels *labels, uint32_t *bytes);

/* The places for sets that each thread has: a tracing library need not know of the host's tasks. */
#define ONSTACK_LABELS_TASK 0 /* the host's own: the request or the task in work */
#define ONSTACK_LABELS_SPAN 1 /* a tracing library's: the innermost span */
#define ONSTACK_LABELS_PLACES 2

/*
 * Puts a set into a place of the calling thread, or takes it out (`labels` NULL), and hands over what was there before in
 * *before, which is to be put back when the work is over; `before` may be NULL. Nobody is made to hold either: `labels` must
 * be held until it is out of the place again. Takes a few nanoseconds, no lock and no system call, but for a thread's first
 * time, which takes what onstack_thread_label_set does.
 *
 * The places are empty when a thread begins, and when it ends: after the destructor of this library's pthread key nothing is
 * put into them (CONTEXT). The child of a fork keeps what the forking thread had. In the child of _Fork or clone they are empty
 * where another thread of the child was the first to call this library.
 * Context: any thread made by libc, running session or not; not in a signal handler. Errors: OPTIONS (no such place),
 * -ENOMEM (also: more than 16,384 threads with labels), CONTEXT, UNSUPPORTED; nothing is changed then, and *before is NULL.
 */
ONSTACK_API int onstack_thread_labels_swap(uint32_t place, const onstack_labels *labels, const onstack_labels **before);

/*
 * What is in a place of the calling thread, NULL: nothing; whoever has put it there holds it. For sets that are to add to it:
 * onstack_labels_merge first, then the swap, so that no sample has the inner labels alone.
 * Context: any thread, running session or not; not in a signal handler.
 */
ONSTACK_API const onstack_labels *onstack_thread_labels_get(uint32_t place);

/*
 * Gives the calling thread a label of its own, behind those of its places: a name of the thread, say. `value` NULL takes the
 * label away. Costs allocations; a thread's first one some system calls as well. The strings are copied. The labels end with
 * the thread; in the child of a fork the forking thread keeps its own.
 * Context: as above. Errors: OPTIONS (the key, or too long; nothing is changed), -ENOMEM (also: more than 16,384 threads with
 * labels), CONTEXT (as above), UNSUPPORTED.
 */
ONSTACK_API int onstack_thread_label_set(const char *key, const char *value);

/* Takes the calling thread's own labels away. Context: as above. */
ONSTACK_API void onstack_thread_labels_clear(void);

/* ---- profiles: a sink that aggregates, and writers ---------------------------------------------------------- */

/* Names and mappings are those of the file that lay at an address when the sample was taken, also where another has come
   into its place. What cannot be told, since it was taken while they changed, has the frame "[library just replaced]". */
typedef struct onstack_profile onstack_profile;

typedef struct onstack_profile_options {
  uint32_t size;
  onstack_switch thread_names; /* label "thread" and the first frame of folded stacks; default on */
  onstack_switch thread_ids;   /* label "thread_id" in pprof (threads are told apart); default on */
  uint8_t reserved0[2];        /* 0 */
  uint32_t max_stacks;         /* distinct stacks that are kept; 0: 1,048,576. Later ones are counted in the
                                  stack "[onstack: too many stacks]" */
  uint32_t timeline_bytes;     /* of memory for the times of samples, some four bytes each and 64 a stack, as
                                  ONSTACK_TIMELINE_BYTES; 0: they are not kept. Only of CPU and real time; what finds no
                                  room is counted as lost */
} onstack_profile_options;

/* Room for the times of an hour of 16 busy threads at 99 Hz. */
#define ONSTACK_TIMELINE_BYTES (64u << 20)

/* Makes an empty profile; `options` may be NULL. Context: any thread. Errors: OPTIONS, -ENOMEM. */
ONSTACK_API int onstack_profile_new(const onstack_profile_options *options, onstack_profile **out);

/* Frees it. No session may have it as its sink any more. NULL is allowed. Context: any thread. */
ONSTACK_API void onstack_profile_free(onstack_profile *profile);

/* A sink: options.sink = onstack_profile_sink, options.sink_data = the profile. Several sessions may share one.
   Returns 0, -ENOMEM, or ONSTACK_E_OPTIONS for a malformed sample or one of a kind that this version does not know (it is
   then counted in `dropped_sink`).
   Context: any thread. In the child of a fork only with a profile that was made there, or after
   onstack_profile_after_fork: the parent's may be locked. */
ONSTACK_API int onstack_profile_sink(void *profile, const onstack_sample *sample);

/* Forgets all samples. For report-and-clear take them instead: what comes between a write and a clear is lost.
   Context: any thread. */
ONSTACK_API void onstack_profile_clear(onstack_profile *profile);

/*
 * Report-and-clear without a loss: moves all samples into a new profile, which the caller writes and frees; `profile`
 * goes on empty, with the same options. Each sample is in exactly one of the two. *out is NULL on failure.
 * Context: any thread; sinks and writers may be at work. Errors: OPTIONS (a NULL), -ENOMEM (nothing is taken).
 */
ONSTACK_API int onstack_profile_take(onstack_profile *profile, onstack_profile **out);

/*
 * In the child of a fork: makes the child's copy of a profile usable there, and empty. A lock that some thread of the
 * parent held at that instant is given up, together with the memory that it guarded. Sessions with ONSTACK_FORK_FOLLOW
 * call it for their own profile.
 * Context: a child of fork, before another thread there uses the profile.
 */
ONSTACK_API void onstack_profile_after_fork(onstack_profile *profile);

/* Sums over the samples of one kind (ONSTACK_KIND_*) that are held: their number, weights, and values in the kind's unit.
   Any pointer may be NULL. Context: any thread. */
ONSTACK_API void onstack_profile_totals(const onstack_profile *profile, onstack_kind kind, uint64_t *samples,
                                        uint64_t *weight, uint64_t *value);

/* One function at an address. Strings need to live only during the call that hands them over; NULL means unknown. */
typedef struct onstack_symbol_line {
  uint32_t size;
  uint32_t reserved;       /* 0 */
  const char *name;        /* for people (demangled); NULL: the system name */
  const char *system_name; /* as in the symbol table; NULL: the name */
  const char *file;
  int64_t line;       /* 0: unknown */
  int64_t start_line; /* of the function; 0: unknown */
} onstack_symbol_line;

typedef struct onstack_symbol_table onstack_symbol_table; /* what a symbolizer fills */

/*
 * Adds a function for addresses[index]: the innermost inlined one first, the function that holds the code last.
 * Context: only inside a symbolizer call, on its thread. Errors: OPTIONS (index out of range), -ENOMEM.
 */
ONSTACK_API int onstack_symbol_add(onstack_symbol_table *table, size_t index, const onstack_symbol_line *line);

/*
 * A symbolizer: names a batch of addresses by onstack_symbol_add; an address without a name is left to the ELF
 * symbols that the library reads itself, and, outside of programs and libraries, to what engines of generated code leave for
 * perf (jitdump, perf map). It is not asked for code that another file has come into the place of. The addresses are look-up
 * addresses: inside the instruction meant (a caller's return address minus 1). Non-zero ends the write with that code.
 */
typedef int (*onstack_symbolizer)(void *data, const uint64_t *addresses, size_t count, onstack_symbol_table *table);

/*
 * Demangles: writes the name for people of a symbol's name into `out` and returns its length; 0: the name is as good as it
 * is. `capacity` is 16,384; what is longer is cut there. Asked once for each name that has no name for people yet, from the
 * symbolizer or from the ELF symbols.
 */
typedef size_t (*onstack_demangler)(void *data, const char *system_name, char *out, size_t capacity);

/* Receives bytes of the output in order. Non-zero ends the write with ONSTACK_E_OUTPUT. */
typedef int (*onstack_writer)(void *data, const void *bytes, size_t length);

/* How a profile is written. */
typedef struct onstack_write_options {
  uint32_t size;
  onstack_switch symbolize;      /* default on; off: addresses and mappings only (pprof), for servers that symbolize */
  uint8_t reserved0[3];          /* 0 */
  onstack_symbolizer symbolizer; /* asked first; may be NULL */
  void *symbolizer_data;
  int64_t start_time_unix_ns;  /* pprof time_nanos; 0: when the profile was made or cleared */
  int64_t duration_ns;         /* pprof duration_nanos; 0: until now. Allocations alone have none, and the end as time */
  const char *comments;        /* lines, each of which becomes a comment of the pprof profile, as "onstack.stats ticks=12";
                                 NULL: none */
  onstack_demangler demangler; /* NULL: names stay as symbol tables have them */
  void *demangler_data;
  uint64_t period;    /* period of a profile without samples (samples carry their own); nanoseconds, bytes for allocations */
  onstack_kind kind;  /* samples of this kind alone; 0: all that are held */
  uint32_t reserved1; /* 0 */
  uint64_t heap_age_ns; /* of allocations: only those that have been in use for so long count as in use; 0: all */
} onstack_write_options;

/* The field of pprof's Sample that has times of samples, where they are kept. */
#define ONSTACK_PPROF_SAMPLE_TIMES 1000

/*
 * Writes the profile as an uncompressed pprof protobuf (github.com/google/pprof/proto/profile.proto), with these sample
 * types:
 *   ONSTACK_KIND_CPU         samples/count (in ticks: times the period it is the time), cpu/nanoseconds
 *   ONSTACK_KIND_WALL        samples/count (in ticks), wall/nanoseconds
 *   ONSTACK_KIND_ALLOCATION  alloc_objects/count, alloc_space/bytes, inuse_objects/count, inuse_space/bytes
 *   ONSTACK_KIND_WAIT        contentions/count, delay/nanoseconds
 *   ONSTACK_KIND_DUMP        threads/count
 * A profile that holds several kinds has a column for each of their types, in this order; two kinds share samples/count. A
 * sample has 0 in the columns of other kinds. The default sample type, and the period, are then those of the first kind;
 * of allocations inuse_space is the default, and the period type is space/bytes. An
 * empty profile has the types of CPU time, or of the kind that was asked for.
 * Where times are kept (options.timeline_bytes), a Sample has those of its samples in the packed field
 * ONSTACK_PPROF_SAMPLE_TIMES, which other readers pass over: for each one a varint, whose lowest bit says that the sample's
 * weight follows as another varint (it is 1 otherwise), and whose other bits are the microseconds since the one before, for the
 * first since time_nanos, in zigzag form (0, -1, 1, -2: 0, 1, 2, 3). The comment "onstack.timeline kept=N lost=N" counts them.
 * One Location a frame with one Line for each inlined function, mappings with build ids. Servers refuse a profile for a
 * label without a key and for two labels with one key: the former is left out, of the latter the first stands. `options`
 * may be NULL. Compress it with gzip before it goes into a .pb.gz file.
 * Context: any thread; samples may arrive meanwhile. Errors: OPTIONS, OUTPUT, -ENOMEM, the symbolizer's.
 */
ONSTACK_API int onstack_profile_write_pprof(onstack_profile *profile, const onstack_write_options *options,
                                            onstack_writer writer, void *writer_data);

/*
 * Writes folded stacks, root first, "thread;main;f;g 12\n", sorted: the input of flame graph tools. The number is in ticks
 * for CPU and wall time, and the value for other kinds. Semicolons and line ends in names become ':' and ' '.
 * Context and errors as above; also KINDS, where several kinds are held and `options` chooses none.
 */
ONSTACK_API int onstack_profile_write_folded(onstack_profile *profile, const onstack_write_options *options,
                                             onstack_writer writer, void *writer_data);

/* ---- dumps: where is every thread now --------------------------------------------------------------------------- */

/*
 * Writes the stacks of all threads as they are now, as text, for programs that hang: who waits is looked at from outside, as
 * by ONSTACK_CLOCK_WALL, and who runs is met by one tick; nobody is stopped. Threads with the same stack stand together:
 *
 *   thread 4711 "shop": blocked wait=futex on=0x55d1c2a0 holder=worker/4714
 *       pthread_mutex_lock in libc.so.6
 *       transfer at bank.c:41
 *
 * A thread that no stack was found for has a line that says so. `options` may be NULL; of its members those count that name
 * things (symbolize, symbolizer, demangler). Takes 30 ms, at most 0.3 s and what names take; a session of its own meanwhile.
 * Context: start/stop. Errors: those of onstack_session_start with ONSTACK_CLOCK_WALL (CLOCK where the kernel tells nothing of
 * blocked threads), OUTPUT, -ENOMEM, the symbolizer's.
 */
ONSTACK_API int onstack_dump(const onstack_write_options *options, onstack_writer writer, void *writer_data);

/*
 * The same into a profile, as samples of ONSTACK_KIND_DUMP, one a thread, with the labels state, wait, on, holder and the
 * thread's own. Context and errors as above. Returns the number of threads that no stack was found for.
 */
ONSTACK_API int onstack_dump_take(onstack_profile *profile);

/* ---- experimental: OpenTelemetry ------------------------------------------------------------------------------- */

typedef struct onstack_attribute {
  const char *key, *value; /* neither is NULL, the key not empty */
} onstack_attribute;

/* For onstack_profile_write_otlp. Fill it with zeros, set size. */
typedef struct onstack_otlp_options {
  uint32_t size;
  uint32_t resource_count;
  const onstack_attribute *resource; /* whose profile it is: "service.name", "deployment.environment.name"; of two with one
                                        key the first stands. Without a service.name it is "unknown_service:PROGRAM" */
  onstack_switch process_context; /* default on: what an OpenTelemetry library has published about this process (OTEP 4719)
                                     says what `resource` does not, in texts, numbers, truth values and lists of texts */
  uint8_t reserved[7];            /* 0 */
} onstack_otlp_options;

/*
 * Experimental, as the signal is: writes the profile for OpenTelemetry, as an uncompressed ExportProfilesServiceRequest
 * (which is also a ProfilesData) of opentelemetry-proto 1.11, package opentelemetry.proto.profiles.v1development.
 * There is one Profile for each sample type of onstack_profile_write_pprof, the default one first; they share stacks. Names,
 * lines, inlined functions, and values are those of pprof. Besides:
 *   labels        attributes of the sample; the thread's are thread.name and thread.id
 *   trace_id and span_id   together, in hexadecimal digits (32 and 16): a link of the sample, and no attributes
 *   build id      process.executable.build_id.gnu of the mapping
 *   language      profile.frame.type of the location: go, rust, or native
 *   comments      pprof.profile.comment of each Profile
 * Values are added up: there are no timestamps. `options` and `otlp` may be NULL.
 * Context: any thread; samples may arrive meanwhile. Errors: OPTIONS, OUTPUT, -ENOMEM, the symbolizer's.
 */
ONSTACK_API int onstack_profile_write_otlp(onstack_profile *profile, const onstack_write_options *options,
                                           const onstack_otlp_options *otlp, onstack_writer writer, void *writer_data);

/*
 * Turns on (ONSTACK_ON) or off that samples name the span of their thread, where an OpenTelemetry library publishes it in the
 * thread-local pointer otel_thread_ctx_v1 (OTEP 4947): as labels trace_id and span_id, in hexadecimal digits, in sessions with
 * 67 bytes of room for them (options.label_bytes). Attributes of the thread are left out. For the whole process; a sample takes
 * some microseconds more then, and each span has its own stacks in a profile. Sessions look for the library again whenever
 * objects were loaded or unloaded.
 * Context: any thread of libc's. Errors: OPTIONS; UNSUPPORTED: no loaded object has that symbol as yet, or this libc is not
 * known (it stays on).
 */
ONSTACK_API int onstack_thread_spans_use(onstack_switch use);

/* ---- experimental: native stacks on demand ------------------------------------------------------------------- */

/*
 * For a host runtime that makes tracebacks of its own, such as Go's runtime.SetCgoTraceback: walks of native code
 * without any session. Experimental: these may change with any minor version.
 *
 * They take no lock, allocate nothing and ask the loader nothing, so they may be called in any signal handler, on any
 * stack with 1.5 KiB left; all that needs more happens in onstack_traceback_prepare.
 */

/*
 * Reads unwind tables and function symbols of all that is loaded now. Until the first call has returned, walks return
 * nothing. Call it again after libraries were opened (onstack_traceback_is_stale says so): code that came since is
 * walked by frame pointers, and has no names. Takes some 10 ms for each MiB of .eh_frame, less the second time; memory
 * is kept (some 20 bytes a function). Two calls at once: the second returns 0 at once.
 * Context: any thread. Errors: CONTEXT, -ENOMEM, -errno (no /proc).
 */
ONSTACK_API int onstack_traceback_prepare(void);

/* 1 if a walk has met code that came after the last preparation. Context: signal-safe. */
ONSTACK_API int onstack_traceback_is_stale(void);

/* The registers of the interrupted code in a signal handler's third argument (ucontext_t *). Context: signal-safe. */
ONSTACK_API void onstack_traceback_interrupted(const void *ucontext, onstack_registers *out);

/*
 * The registers of the caller, or of `skip` frames above the caller (0: the caller itself). The frame meant must still
 * be there when they are used. Context: signal-safe. Errors: UNSUPPORTED (a frame on the way has no simple rule).
 */
ONSTACK_API int onstack_traceback_caller(uint32_t skip, onstack_registers *out);

/*
 * Walks from these registers through native frames, innermost first, to the root or to the first Go function, which is
 * left out. The addresses are look-up addresses, the first one too: nothing is to be subtracted.
 * Context: signal-safe; on the thread whose stack it is, or while that thread does not leave the frame.
 * Returns the number of addresses written, at most 64.
 */
ONSTACK_API uint32_t onstack_traceback_walk(const onstack_registers *from, uint64_t *frames, uint32_t capacity);

/*
 * The function that covers a look-up address: its system name, for the life of the process, and its entry point.
 * Context: signal-safe. NULL: no symbol covers it, or its file was loaded after the last preparation.
 */
ONSTACK_API const char *onstack_traceback_symbol(uint64_t address, uint64_t *entry);

/* ---- experimental: labels of goroutines ------------------------------------------------------------------------ */

/*
 * For the Go package. Sessions with options.label_bytes copy the labels of the interrupted goroutine (pprof.Do) into
 * each sample once onstack_go_labels_use has said where goroutines keep them. That is not promised by Go, so the package
 * finds it out at start: it sets labels of its own on a goroutine that is locked to its thread, finds the word, reads
 * them back and compares. `text` is any code address of the Go runtime meant.
 * Context of all three: a thread of Go's, called from the goroutine in question. Errors: UNSUPPORTED.
 */

/* The offset in the calling goroutine's g of the word that equals `labels`, if there is exactly one. */
ONSTACK_API int onstack_go_labels_find(uint64_t text, uint64_t labels);

/* Copies the calling goroutine's labels as a sample would have them. Returns the bytes written. */
ONSTACK_API int onstack_go_labels_read(uint64_t text, uint32_t offset, char *out, uint32_t bytes);

/* Turns labels on for this runtime; offset 0: off. */
ONSTACK_API int onstack_go_labels_use(uint64_t text, uint32_t offset);

#ifdef __cplusplus
}
#endif

#endif /* ONSTACK_ONSTACK_H */
