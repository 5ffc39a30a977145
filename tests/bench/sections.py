# SPDX-License-Identifier: MIT OR Apache-2.0
"""What stands on the page docs/BENCHMARKS.md: its tables, what each figure means, and the aims."""

from collections.abc import Callable
from dataclasses import dataclass

import remarks

CAPTIONS = {
    "onstack-rules": "**onstack** (default: rules)",
    "onstack-fp": "onstack, frame pointers",
    "onstack-pc-only": "onstack, PC only",
    "onstack-libunwind": "onstack with libunwind's walk",
    "pprof-rs-default": "pprof-rs, default",
    "pprof-rs-fp": "pprof-rs, frame-pointer",
    "pprof-rs-framehop": "pprof-rs, framehop",
    "gperftools": "gperftools, libunwind",
    "gperftools-fp": "gperftools, frame pointers",
    "framehop": "framehop, bare",
    "libunwind-context": "libunwind, bare: `unw_step`",
    "libunwind-backtrace": "libunwind, bare: `unw_backtrace`",
    "libgcc": "libgcc, bare: `_Unwind_Backtrace`",
    "go-onstack": "onstack, in a Go program",
    "go-pprof": "Go's runtime/pprof, in a Go program",
    "reference-1us": "*a handler that spins for 1 us*",
    "reference-itimer": "*a bare ITIMER_PROF counter*",
    "go-host": "**onstack** under Go",
    "go-pprof-host": "Go's runtime/pprof",
    "go-wasmtime": "**onstack** under Go",
    "rows4": "**4 bytes a row (onstack)**",
    "rows4-coarse": "4 bytes, index of each 64 KiB",
    "rows8": "8 bytes, one search",
    "rows8-chunked": "8 bytes, index of each 64 KiB",
}
OURS = ("onstack-rules", "onstack-fp", "onstack-pc-only", "onstack-libunwind", "go-onstack", "go-host", "go-wasmtime")
# Whose work is another: they are compared with ours in the same program.
RIVALS = {"go-pprof": "go-onstack", "go-pprof-host": "go-host"}
# No profilers, or layouts of the same table: nothing to be ahead of.
NEUTRAL = ("reference-1us", "reference-itimer", "rows4", "rows4-coarse", "rows8", "rows8-chunked")

LESS, MORE, ONE, NEITHER = "less is better", "more is better", "1.00 is right", ""


@dataclass(frozen=True)
class Column:
    case: str
    metric: str
    title: str
    better: str = LESS
    divide: float = 1.0


@dataclass(frozen=True)
class Section:
    title: str
    text: str
    columns: tuple
    remark: Callable | None = None  # lines made of the figures: what chance does
    noise: str = ""  # the subject whose spread is what the run cannot tell apart
    note: str = ""


def _costs(case, metric):
    return tuple(Column(f"{case}/{depth}", metric, f"depth {depth}, us", LESS, 1000) for depth in (20, 100))


IN_GO = (
    ("go-native/go20", "Go 20"),
    ("go-native/go100", "Go 100"),
    ("go-native/cgo", "Go-C"),
    ("go-native/nested", "Go-C-Go-C"),
    ("go-wasmtime/compile", "wasmtime"),
)

SECTIONS = (
    Section(
        "A sample, warm",
        "Time inside the signal handler, delivery not included: on each tick the handler is called 50 times in a row with "
        "the tick's own siginfo and context; median of the last 40 calls, median over the ticks. The code below has frame "
        "pointers, so that all can walk it. *Bare* unwinders run in a handler that does nothing else: no check of the "
        "memory that they read, no other threads, no overruns; the profilers do their whole work.",
        _costs("handler-cost", "warm"),
    ),
    Section(
        "A sample on a real tick",
        "The same handler, called once a tick at 250 Hz over a small busy loop: what a program pays. The machine's caches "
        "are partly cold by then, and these figures swing most with other load.",
        _costs("handler-cost", "tick"),
    ),
    Section(
        "The first sample of a stack",
        "Each tick meets a chain of functions that no sample has met before (8,192 generated functions). *Cold* also reads "
        "48 MiB between the calls and the tick, so that code, tables and the stack itself are out of the inner caches.",
        (
            Column("handler-cold/20", "new", "new, depth 20, us", LESS, 1000),
            Column("handler-cold/20", "cold", "cold, depth 20, us", LESS, 1000),
            Column("handler-cold/100", "new", "new, depth 100, us", LESS, 1000),
            Column("handler-cold/100", "cold", "cold, depth 100, us", LESS, 1000),
        ),
    ),
    Section(
        "Whole stacks in code without frame pointers",
        "C compiled by `gcc -O2`, RBP used for data; chains of 20 functions of different frames, a leaf in libc and a "
        "callback from it, interrupted anywhere, prologues and epilogues included. Function n is only ever called by "
        "n - 1, so the true stack of every sample is known to the address. *Exact*: all frames from the interrupted PC to "
        "`main`. *Truncated*: right as far as it goes. *No leaf*: it does not begin with the interrupted PC. *Wrong*: a "
        "caller is missing in the middle or one is invented. Frames of the handler itself are not held against anybody.",
        (
            Column("exact/20", "exact", "exact, %", MORE),
            Column("exact/20", "truncated", "truncated, %", NEITHER),
            Column("exact/20", "no-leaf", "no leaf, %", NEITHER),
            Column("exact/20", "wrong", "wrong, %", LESS),
        ),
        note="What frame pointers get wrong here are callers left out, none invented: interrupted where the first function of a "
        "chain has not yet taken, or has already given back, the frame pointer, both walkers follow what is still the record of "
        "the last framed function, further out, and the callers between are missing. That record is genuine, and a walker "
        "without rules cannot see that it is not the next one. Wherever the frame pointer holds "
        "data the stack ends. For code without frame pointers there is the default.",
    ),
    Section(
        "In Go and across languages, warm",
        "Go burning in Go under 20 and under 100 frames (of its own; nearly thirty of Go and C lie further out), Go calling C, Go "
        "calling C calling Go calling C, and Go calling wasmtime's compiler in Rust; below, the frames that were recorded. "
        "Of the profilers measured here only onstack follows C and Go in one stack; Go's own records the Go frames among them, at "
        "most 64. OpenTelemetry's eBPF profiler follows both since 2026, on x86_64 by the frame pointer that Go keeps across the "
        "change of stacks. It samples from outside of the process and needs privileges, and is not measured here.",
        tuple(Column(case, "warm", f"{title}, us", LESS, 1000) for case, title in IN_GO)
        + tuple(Column(case, "warm-frames", f"{title}: frames", NEITHER) for case, title in IN_GO),
    ),
    Section(
        "In Go and across languages, on a real tick",
        "The same, called once a tick.",
        tuple(Column(case, "tick", f"{title}, us", LESS, 1000) for case, title in IN_GO),
    ),
    Section(
        "Weight",
        "CPU time that the profile accounts for, over the true CPU time of that many busy threads, all alive for the whole "
        "session, 100 Hz. Profilers without weights: samples x period.",
        tuple(Column(f"weights/{n}", "weight", f"{n:,} thread{'s' if n > 1 else ''}", ONE) for n in (1, 8, 64, 1000))
        + (Column("short-threads", "weight", "threads of 20 ms", ONE),),
        remark=remarks.weights,
    ),
    Section(
        "In one process with Go's profiler",
        "A C program with Go linked in (c-archive): every order of start and stop of the coexistence matrix once, with the "
        "profiler in onstack's place; two goroutines burn in Go (*pure*), or in C calls (*native*). *Crashed*: the process died, "
        "or Go's runtime ended it; *hung*: it took 20 s for some seconds' work; *refused*: it lived, but a start or stop answered "
        "an error, or the work got no further. *Keeps*: over the runs that came to their end, the sampled part of the CPU "
        "time, over that of the same profiler alone; what is missing is lost, and what is more was counted twice. Go's own profile of C calls swings "
        "between nothing and all by itself, and is not asked there. A profiler that crashes beside Go's threads without any "
        "other profile has no such figure. Two rounds. One kind of host, in which Go installs its handler anew for each profile: "
        "every further one needs every neighbour's program again; onstack's own seven are in [MATRIX.md](MATRIX.md).",
        tuple(
            Column(f"coexist/{mix}", metric, f"{mix}: {title}", better, 100 if better == ONE else 1)
            for mix in ("pure", "native")
            for metric, title, better in (
                ("crashed", "crashed, %", LESS),
                ("hung", "hung, %", LESS),
                ("refused", "refused, %", LESS),
                ("go-keeps", "Go's profile keeps", ONE),
                ("own-keeps", "its own keeps", ONE),
            )
        ),
    ),
    Section(
        "Back on top",
        "Another handler is installed over onstack's 100 times in a busy process, at most six times a second; until onstack's is "
        "on top again. None of the other profilers measured here reinstalls its handler. onstack looks each 50 ms at a process "
        "that has only begun to work.",
        tuple(Column("displacement", metric, f"{metric}, ms") for metric in ("median", "p99", "longest")),
    ),
    Section(
        "From stop to flame graph",
        "A Rust program (regular expressions, built with debug information), 4 s at 250 Hz: from the call that ends sampling "
        "to the finished SVG in memory: symbols, inlined functions, picture; and the memory that this takes at its peak. "
        "gperftools and Go write files, of which other programs make pictures.",
        (
            Column("flame-graph", "picture", "picture, ms"),
            Column("flame-graph", "peak", "memory, KiB"),
            Column("flame-graph", "stacks", "stacks", NEITHER),
        ),
    ),
    Section(
        "From stop to a finished profile",
        "A Go program (regular expressions), 4 s of CPU time at 250 Hz: from the call that ends sampling to the finished pprof "
        "file in memory, with names and inlined functions; and the memory that this takes at its peak.",
        (
            Column("finished-profile", "finished", "profile, ms"),
            Column("finished-profile", "peak", "memory, KiB"),
            Column("finished-profile", "stacks", "stacks", NEITHER),
        ),
    ),
    Section(
        "The whole program",
        "CPU time of the same work without, with and again without the profiler, in turns of 0.1 s in one process; the "
        "middle against the mean of its neighbours, median over the turns. Most of it is the kernel's timer interrupt and "
        "signal delivery, of which the bare counter has as much as anybody. The two in a Go program do Go's work.",
        (
            Column("overhead/99", "overhead", "99 Hz, %"),
            Column("overhead/250", "overhead", "250 Hz, %"),
        ),
        remark=remarks.overhead,
        noise=remarks.COUNTER,
    ),
    Section(
        "Memory",
        "Resident memory that a running profiler adds: one second after the start, and after 5 s of CPU time at 250 Hz.",
        (
            Column("memory/start", "added", "after start, KiB"),
            Column("memory/busy", "added", "busy, KiB"),
        ),
    ),
    Section(
        "Start and stop",
        "The first start of a process (tables, self-tests), and later starts and stops, with one thread and with 64.",
        (
            Column("start-stop/1", "first-start", "first start, us"),
            Column("start-stop/1", "start", "start, us"),
            Column("start-stop/1", "stop", "stop, us"),
            Column("start-stop/64", "start", "start, 64 threads, us"),
            Column("start-stop/64", "stop", "stop, 64 threads, us"),
        ),
    ),
) + tuple(
    Section(
        f"Rule tables of {library}",
        "CPU time to derive onstack's table from .eh_frame, its size, and one look-up without the PC cache: of 64 addresses "
        "again and again, of 4,096 random ones, and of 20 random ones after 48 MiB have been read. The same rules in "
        "other layouts beside it.",
        tuple(
            Column(f"tables/{library}", metric, title)
            for metric, title in (
                ("derive", "derive, ms"),
                ("size", "size, KiB"),
                ("look-up-hot", "hot, ns"),
                ("look-up-random", "random, ns"),
                ("look-up-cold", "cold, ns"),
            )
        ),
    )
    for library in ("libc.so.6", "libLLVM-14.so.1")
)

