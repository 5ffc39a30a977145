/* SPDX-License-Identifier: MIT OR Apache-2.0 */
/*
 * A slot is what the handler sees of a running session. Slots are static; a session takes a free one at start and gives
 * it back at stop. Control writes the plain fields while the slot is not running; `state` publishes them.
 *
 * Stop and the handler synchronize by a dekker pair: the handler raises its record's `busy`, or is inside of its process clock
 * or of `visits`, and then reads `state`; stop changes `state` and then waits until no living thread is inside. So after that
 * wait no handler touches the ring or the unwinder of the session, and none will: a later one sees the state (or a newer
 * generation) and only counts.
 */
#ifndef ONSTACK_SAMPLER_SESSION_SLOT_H
#define ONSTACK_SAMPLER_SESSION_SLOT_H

#include "platform/calls.h"
#include "platform/sys.h"
#include "sampler/interpreter/interpreter.h"
#include "sampler/ring/kept.h"
#include "sampler/unwind/memory.h"
#include "sampler/ring/ring.h"
#include "sampler/threads/thread_table.h"
#include "sampler/session/worker.h"
#include "sampler/unwind/unwinder.h"

#define ONSTACK_SLOT_FREE 0u
#define ONSTACK_SLOT_STARTING 1u
#define ONSTACK_SLOT_RUNNING 2u
#define ONSTACK_SLOT_STOPPING 3u

#define ONSTACK_PAUSE_SHORT 0u /* while the process works, */
#define ONSTACK_PAUSE_LONG 1u  /* for longer, */
#define ONSTACK_PAUSE_REST 2u  /* and until it works again: the first sample ends it */

/* Events, and what they stand for in their kind's unit (ticks: nanoseconds). */
typedef struct onstack_sum {
  uint64_t weight, value;
} onstack_sum;

/* What record_handler.c could not take. */
typedef struct onstack_lost {
  onstack_sum ring_full, unwinder;
} onstack_lost;

/* What the drain can tell from the entries is counted there: each count here is a locked instruction a tick. */
typedef struct onstack_counters {
  uint64_t ticks, unattributed;
  uint64_t dropped_no_stack, dropped_stopping;
  uint64_t waiting; /* of threads that block the signal, as of the last look */
  uint64_t blocked; /* of dropped_stopping */
  uint64_t threads_seen, threads_unarmed, process_ticks;
  uint64_t process_ticks_looked; /* at the last look for threads that block the signal; its consumer alone */
  uint64_t cpu_ns;               /* at stop, by a clock that knows it */
} onstack_counters;

/* clock_gettime in the vDSO, found at start (sampler/api/slots.c): no PLT, no lazy binding in the handler. */
typedef int (*onstack_vdso_clock_gettime)(int clock, struct onstack_timespec *time);

/*
 * The mapping of the ring and, after it, of the kept stacks. It stays with its slot for ever, and later sessions use it again.
 * A session that needs more makes a new one, and the old one stays mapped without pages. Sizes are powers of two and only
 * grow, so all mappings of a slot together are less than twice the largest.
 */
typedef struct onstack_slot_memory {
  void *memory;
  size_t bytes;
} onstack_slot_memory;

/* What the ticker keeps, where there are no timers (sampler/source/wall_signal.c). */
typedef struct onstack_ticker {
  const char *name;                  /* in statistics; NULL: the session has timers */
  bool from_birth;                   /* the clock counts from each thread's own birth on */
  struct onstack_ticker_mark *marks; /* by record; they stay with the slot until its session leaves */
  bool started;                      /* one round is over: threads that are new now began after the session did */
} onstack_ticker;

#define ONSTACK_HAND_ON_MOST 32u /* threads that were sent a process tick and have no record yet */

/* What the consumer knows of the process ticks that it sends (sampler/source/discovery.c). Stop reads `tids` after the consumer
   has ended. */
typedef struct onstack_hand_on_state {
  uint64_t next_ns;       /* monotonic: no look before that, */
  uint64_t vain_until_ns; /* and none before that while no more is unaccounted for than a look in vain has seen */
  uint64_t vain_pause_ns, vain_ticks;
  bool looked, foreign; /* /proc numbers the threads otherwise than the calls do */
  uint32_t count, sent; /* of these the last ones by this look */
  uint32_t tids[ONSTACK_HAND_ON_MOST];
} onstack_hand_on_state;

/* What the consumer knows of the search for new threads (sampler/source/discovery.c). */
typedef struct onstack_discovery {
  uint64_t
      scan_age_ns; /* CPU time after which a scan takes a thread that has no timer; 0: hardly anything else finds threads, so
                           they take each */
  uint64_t next_scan_ns;
  uint64_t scanned_cpu_ns; /* the process's CPU time at the last scan */
  onstack_hand_on_state hand_on;
} onstack_discovery;

/*
 * What the source `wall` keeps (sampler/source/wall.c). Its memory is one mapping, which stays with the slot and has no
 * pages while no session runs. It is not allocated, because a thread that allocated while a session runs would leave its
 * allocator's lock to a child of fork.
 */
typedef struct onstack_wall_state {
  uint8_t *memory;
  size_t bytes;
  struct onstack_wall_mark *marks;  /* by record; the looking thread's alone, until it has ended */
  struct onstack_wall_armed *armed; /* by record (atomic) */
  uint8_t *reborn; /* by record: another thread has the id since, and no timer (wall_source_doubts; atomic) */
  struct onstack_look *look;
  uint8_t *stacks;                        /* by record */
  size_t stride;                          /* bytes of one */
  uint64_t held_ns;                       /* how long time may be held back */
  uint32_t looking;                       /* somebody does a round, or the session is over */
  uint32_t threads;                       /* of this round */
  uint64_t joined_ns;                     /* when the session began */
  uint64_t round_ns;                      /* when it began; 0: the last one, at each thread */
  uint64_t next_ns, took_ns;              /* the next round; what one takes, on average */
  uint64_t rounds, looks, moved, refused; /* atomic */
  uint64_t unseen_ns; /* CPU time that new threads had used before they had a timer, and that is not counted yet (atomic) */
} onstack_wall_state;

/* The clock of process ticks (sampler/source/process_tick.h), for all CPU sessions of a signal. */
typedef struct onstack_process_clock {
  /* What a thread's tick puts it off by, in one cache line. */
  onstack_thread *record;      /* its address is the cookie; of its fields only `timer` is in use */
  struct onstack_slot *leader; /* whose period and ticks it goes by (dekker); NULL: it is being set */
  uint64_t period_ns;
  uint64_t step_ns; /* the longer one of the period and the kernel's tick */
  uint64_t look_at; /* the leader's ticks from which on it may have to be put off */
  uint64_t expires_ns;
  uint64_t unticked_ns; /* `expires_ns` less the periods of the leader's ticks, and what our own threads have used by then */
  uint32_t setting;     /* a handler has all but the constants; who finds it set goes on without */
  bool uncounted;       /* it has expired while it was put off: its tick may be on its way yet */
  bool blind;           /* nobody may read the process's clock: it ticks each period */
  uint32_t generation;  /* counts its timers; the low bits are in the cookie */
  int32_t signal;       /* 0: no session uses it */
  uint64_t spread_ns;   /* what the process can use between two ticks of the kernel */
  uint64_t met_ns;      /* what the process had used at its last tick */
  uint64_t handed_ns;   /* what a tick that is handed on brings at most */
  uint32_t due;         /* the timer is STOPPED: how many of its ticks have been due. Control only */
  uint32_t looks;       /* ticks of this search that have met no new thread */
  uint32_t looks_most;  /* after which it rests */
  uint32_t rests;       /* since the last new thread */
  onstack_inside inside; /* handlers of its ticks, and those that put it off */
} __attribute__((aligned(ONSTACK_CACHE_LINE))) onstack_process_clock;

/*
 * What a tick reads or counts comes first, and lies in as few cache lines as it can: between two ticks the program has put all
 * of it out of the caches. The lines of the ring begin where the processor's do.
 */
typedef struct onstack_slot {
  uint32_t state;      /* ONSTACK_SLOT_* (dekker) */
  uint32_t generation; /* counts the sessions of this slot; its low bits are in the cookies */
  uint32_t index;
  int32_t signal;                             /* 0: its samples come by no signal */
  uint64_t period;                            /* what a tick stands for, in the source's unit */
  const struct onstack_source *source;        /* control only, as the next */
  const struct onstack_thread_timers *timers; /* of a source that arms threads (sampler/source/discovery.h) */
  onstack_kind kind;                          /* of its ticks */
  uint32_t weight_max;                        /* ticks that 250 ms hold, at least 1 */
  uint32_t stack_bytes;                       /* the unwinder's need plus ours */
  uint32_t wake;                              /* futex word: the drain waits on 0, the handler sets 1 */
  uint32_t pauses;                            /* ONSTACK_PAUSE_*: for how long the drain waits */
  uint32_t scanning;         /* control claims records of new threads: handlers leave that alone meanwhile (dekker) */
  uint32_t handing_on;       /* control sends process ticks to threads: stop waits for it (dekker) */
  uint32_t bounds_requested; /* by a record, for its stack */
  int32_t sink_tid;          /* the thread that is inside a sink or thread filter of this session; 0: none */
  bool copy_works;
  bool own_threads;           /* sample our drain threads as well */
  bool says_states;           /* samples say the thread's state in labels of their own */
  uint32_t label_bytes;       /* room for the others */
  uint32_t interpreter_count; /* 0: nobody asks for frames of interpreters */
  uint64_t *runnable_ns;      /* by record (sampler/source/arm.h); NULL: no source measures that */
  const onstack_reader *reader;
  const onstack_unwinder_ops *unwinder;
  const onstack_unwinder *custom;
  onstack_vdso_clock_gettime clock_gettime; /* NULL: system call */
  onstack_process_clock
      *process_clock;        /* that finds its new threads, of any slot; NULL: none does. Written while not running */
  uint32_t meets;            /* its threads are armed: handlers may claim records of new ones (publish / observe) */
  uint64_t process_start_ns; /* of what it has used (onstack_process_read); 0: not known */
  onstack_thread_table threads;
  onstack_inside visits; /* of sources that are no signals */
  onstack_counters counters;
  onstack_ring ring __attribute__((aligned(ONSTACK_CACHE_LINE)));
  onstack_lost lost[ONSTACK_KINDS];
  uint64_t periods[ONSTACK_KINDS]; /* as samples of a kind say it; a source sets its own before its first event */
  uint64_t object_base;            /* a sample's object is this, and its position in the ring, and 1; 0: they have none */
  onstack_kept *kept;              /* ONSTACK_KEPT_STACKS of them; NULL: no stack is walked again */
  onstack_interpreter interpreters[ONSTACK_INTERPRETERS];
  onstack_slot_memory memory;
  onstack_worker worker; /* a thread of the source's own, if it needs one */
  onstack_discovery discovery;
  onstack_ticker ticker;
  onstack_wall_state wall;
  struct onstack_session *follower; /* goes on in children of fork(). Written under the control lock, read in the child */
  /* The sessions of one signal share one clock, which may be the one of another slot, so it can outlive this slot's session. */
  onstack_process_clock own_process_clock;
} onstack_slot;

ONSTACK_INTERNAL_DATA onstack_slot onstack_slots[ONSTACK_MAX_SESSIONS];

#endif
