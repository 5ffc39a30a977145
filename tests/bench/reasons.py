# SPDX-License-Identifier: MIT OR Apache-2.0
"""Where somebody is ahead of onstack: why, and what is planned. page.py asks for a reason for each who is."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Reason:
    of: tuple  # subjects that it speaks of
    why: str
    plan: str


PPROF_RS = ("pprof-rs-default", "pprof-rs-fp", "pprof-rs-framehop")
GPERFTOOLS = ("gperftools", "gperftools-fp")
BARE = ("framehop", "libunwind-context", "libunwind-backtrace", "libgcc")

_BARE = Reason(
    BARE,
    "a bare walker reads the stack as it comes: nothing asks whether that memory may be read, no other thread is sampled, "
    "and nothing is written for a profile to read. framehop's modules were added before; `unw_backtrace` follows what it "
    "remembers of each return address.",
    "nothing: not to fault is what the question to the kernel is for, and the difference is some hundredths of a per cent of "
    "a processor at 250 Hz.",
)
_FRAME_POINTERS = Reason(
    ("gperftools-fp",),
    "a frame pointer is one read, and no rule has to be found for the return address. gperftools asks the kernel too, with one "
    "msync for each page of the stack, which before 2.13 takes a page without any rights for a readable one. `onstack, frame pointers` "
    "asks in addition whether each return address is code, and notes how each frame was found.",
    "nothing: rules are what makes stacks whole in code without frame pointers (below).",
)
_ONE_TIMER = Reason(
    PPROF_RS + GPERFTOOLS,
    "each start reads the list of threads and makes a timer for each of them, which is what the weights of many threads rest "
    "on; pprof-rs and gperftools start one timer for the process. The first start also derives the tables that the first "
    "samples need; pprof-rs pays when its first guard is built (*first start*).",
    "nothing for the timers; the first start is a matter of the tables (Rule tables, below).",
)

_GO_ALONE = Reason(
    ("go-pprof-host",),
    "Go's profiler walks fewer frames there: only Go's, and at most 64 (*frames*).",
    "nothing: the frames that it leaves out are what onstack is for.",
)

HEAP_SAMPLERS = ("heap-jemalloc", "heap-tcmalloc")

REASONS = {
    "Heap profiles: malloc and free": (
        Reason(
            HEAP_SAMPLERS,
            "the profiler is a part of the allocator: it counts where the allocator counts anyway, and a block's own record says whether "
            "it was sampled. onstack stands before the allocator: a jump more for each call, and one byte that is looked at for each "
            "free. jemalloc's stack in a Go program ends where Go begins, so that it has half of the frames to walk. In memory, both take "
            "what unwinding needs from the libraries that are loaded anyway; onstack derives tables, and has its buffer (1 MiB).",
            "nothing: it is for whatever allocator the program has.",
        ),
        Reason(
            ("heap-heaptrack",),
            "it remembers the stack of the call before and walks to where the two differ, on a stack that it takes for readable; and "
            "writes an index where onstack writes the whole stack. It pays some 90 ns for each pair.",
            "to measure what the last stack of a thread would save.",
        ),
    ),
    "Programs of others": (
        Reason(
            ("whole-gperftools",),
            "it has no tables and no threads of its own, and leaves names to the reader of its file: its start is a timer. Children of "
            "a fork are not profiled, but for the executed ones, each of which costs it its search for libunwind's files.",
            "what Aims says of short runs.",
        ),
    ),
    "Heap profiles: whole programs": (
        Reason(
            HEAP_SAMPLERS,
            "as above: these figures are for another allocator, with a profiler inside.",
            "a whole run on an idle machine, whose interval tells what of it is chance.",
        ),
    ),
    "In Go and across languages, warm": (_GO_ALONE,),
    "In Go and across languages, on a real tick": (
        Reason(
            ("go-pprof-host",),
            "Go's profiler walks fewer frames (above), and reads tables of a runtime that is at work anyway, where onstack's lie "
            "in memory that nothing but the tick touches. Which of the two it is was not measured.",
            "to count the cache misses of a tick.",
        ),
    ),
    "A sample, warm": (_FRAME_POINTERS, _BARE),
    "A sample on a real tick": (
        Reason(
            ("gperftools-fp",) + BARE,
            "as above; on a real tick code and tables are partly cold, of which the smallest walker has the least.",
            "nothing for this by itself.",
        ),
    ),
    "The first sample of a stack": (
        Reason(
            ("gperftools-fp",),
            "each new return address is a look-up in a table of rules (*cold* under Rule tables: a third of a microsecond and "
            "more when it is out of the caches), where a frame pointer is one read of a stack that is touched anyway.",
            "to fetch the caller's row while the frame's words are being read; it is to be measured before it is taken.",
        ),
        _BARE,
    ),
    "Weight": (
        Reason(
            PPROF_RS + GPERFTOOLS,
            "a timer of the process alone counts each tick once, whichever thread it meets; it loses ticks where threads burn side by "
            "side (8 threads and more).",
            "nothing: chance moves so few ticks by some hundredths.",
        ),
        Reason(
            ("go-pprof",),
            "both have a timer for each thread, with a random first period; what is beyond chance is not known.",
            "to run the case for longer.",
        ),
    ),
    "In one process with Go's profiler": (
        Reason(
            PPROF_RS + GPERFTOOLS,
            "only orders that came to their end are looked at, each for a second or two, so what is kept scatters by some "
            "hundredths; and a profiler that takes the signal for itself keeps its own, at the cost of Go's.",
            "nothing: the matrix itself counts each tick of both profiles ([MATRIX.md](MATRIX.md)).",
        ),
    ),
    "From stop to flame graph": (
        Reason(
            PPROF_RS,
            "pprof-rs has read the debug information when its guard was built (*first start* under Start and stop, *after "
            "start* under Memory) and keeps it; onstack reads it when a report is made, and gives it back. It also names more: "
            "see *stacks*.",
            "to keep the index of units between the reports of one process.",
        ),
    ),
    "From stop to a finished profile": (
        Reason(
            ("go-pprof",),
            "Go's profiler sums its samples up while it runs, and names nothing but Go's code, from tables that its runtime "
            "has at hand; onstack names each frame when the profile is written. What takes the time is to unpack the debug "
            "information of the program and of the C library, where the profile has native frames (of its own polls, here).",
            "nothing: Go's linker packs a section as a whole, which can only be read from its beginning.",
        ),
    ),
    "The whole program": (
        Reason(
            PPROF_RS + GPERFTOOLS,
            "onstack takes more than its samples: a second timer, whose ticks look for new threads, and a thread that empties "
            "the buffer and looks after the handler. The others' samples are dearer, and at these rates that weighs little.",
            "to measure the two by themselves: the ticks cost what *without-sample* of `handler-cost` says, the thread is not "
            "measured yet.",
        ),
        Reason(
            ("go-pprof",),
            "not known: both have a timer for each thread and one for the process, and both empty a buffer while they run.",
            "to measure a tick and the emptying by themselves.",
        ),
    ),
    "Memory": (
        Reason(
            ("go-pprof",),
            "Go's profiler uses the tables that every Go program has, and touches as much of its buffer as samples have filled; "
            "onstack derives tables of the C libraries in the process and touches its whole buffer (1 MiB) at the start, so that "
            "no page fault falls into a sample.",
            "nothing: WithBufferSize makes the buffer smaller.",
        ),
    ),
    "Start and stop": (
        _ONE_TIMER,
        Reason(
            ("go-pprof",),
            "Go's profiler is a part of its runtime: a start finds threads, tables and handler there, and a stop has only Go's "
            "code to name. onstack's first start derives the tables of the C libraries in the process, each start reads the "
            "list of threads, and each stop waits for the ticks of threads that are still to come.",
            "to measure what of a later start and stop is whose, before anything is changed.",
        ),
    ),
}
