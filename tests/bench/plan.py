# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is measured: the subjects, the cases, and the command line of every single run."""

from dataclasses import dataclass

BASELINE = "onstack-rules"  # ratios are against this subject, our default
BASELINES = {"tables": "rows4", "finished-profile": "go-onstack", "go-native": "go-host", "go-wasmtime": "go-wasmtime",
             "python": "python-native", "heap": "heap-onstack", "whole": "whole-onstack"}  # except in these families
RIVALS = {"go-pprof": "go-onstack", "go-onstack": "go-onstack"}  # and for these subjects, whose work is another


# How long each run takes, and how many rounds there are at least and at most.
LONG, USUAL, QUICK = "long", "usual", "quick"
ROUNDS = {LONG: (5, 5), USUAL: (2, 5), QUICK: (2, 2)}
MINUTES = 25  # with building: after these no row is measured beyond its least rounds
# A row is measured once more as long as its rounds lie further apart than this part of their median (percentages: than so
# many points). Two rounds that agree by chance are likelier than three.
NARROW, NARROW_AFTER_TWO = 0.1, 0.03
POINTS, POINTS_AFTER_TWO = 1.0, 0.3


@dataclass(frozen=True)
class Subject:
    name: str
    program: str  # a target of tests/bench/Makefile
    variant: str
    families: tuple = ()  # cases that it takes part in; empty: all


@dataclass(frozen=True)
class Case:
    name: str
    runs: tuple  # argument lists without the time, one process each
    long: float  # seconds of a run in each form; 0: the case does not take a time
    usual: float
    quick: float | None  # None: not in the quick form
    subjects: tuple = ()  # that take part; empty: those that say so, or all
    program: str = ""  # of this case alone: "coexist-" before the subject's
    rounds: int = 1000  # at most
    together: bool = False  # nothing is timed by the clock on the wall: two runs at once, given two cores

    @property
    def family(self):
        return self.name.split("/")[0]

    def seconds(self, form):
        if form == LONG:
            return self.long
        return self.usual if form == USUAL or self.quick is None else self.quick

    def commands(self, form):
        seconds = self.seconds(form)
        timed = [f"seconds={seconds:g}"] if seconds else []
        return [list(run) + timed for run in self.runs]


WALKS = ("handler-cost", "handler-cold", "exact")
PPROF_RS = ("pprof-rs-default", "pprof-rs-fp", "pprof-rs-framehop")
IN_GO = ("weights", "short-threads", "overhead", "memory", "start-stop", "finished-profile")

SUBJECTS = (
    Subject("onstack-rules", "onstack", "rules"),
    Subject("onstack-fp", "onstack", "frame_pointer"),
    Subject("onstack-pc-only", "onstack", "pc_only"),
    Subject("onstack-libunwind", "onstack-libunwind", "-", WALKS),
    Subject("pprof-rs-fp", "pprof-rs-fp", "-"),
    Subject("pprof-rs-default", "pprof-rs-default", "-"),
    Subject("pprof-rs-framehop", "pprof-rs-framehop", "-"),
    Subject("gperftools", "gperftools", "libunwind"),
    Subject("gperftools-fp", "gperftools", "generic_fp"),
    # Bare unwinders in a handler that does nothing else: no safety, no other threads, no weights.
    Subject("framehop", "framehop", "-", WALKS),
    Subject("libunwind-context", "libunwind", "context", WALKS),
    Subject("libunwind-backtrace", "libunwind", "backtrace", WALKS),
    Subject("libgcc", "libgcc", "-", WALKS),
    # Known quantities: a handler that spins for 1 us, and a bare ITIMER_PROF counter.
    Subject("reference-1us", "reference", "spin", ("handler-cost",)),
    Subject("reference-itimer", "reference", "counter", ("memory", "weights", "short-threads", "start-stop", "overhead")),
    # Profilers for Go, in the same Go program.
    Subject("go-onstack", "goprofilers", "onstack", IN_GO),
    Subject("go-pprof", "goprofilers", "pprof", IN_GO),
    # The same two under the cases in C, called by Go.
    Subject("go-pprof-host", "go-pprof", "-", ("go-native",)),
    Subject("go-host", "go-host", "rules", ("go-native",)),
    Subject("go-wasmtime", "go-wasmtime", "rules", ("go-wasmtime",)),
    # Python's frames, and the interpreter's own alone.
    Subject("python-native", "python-host", "rules", ("python",)),
    Subject("python-frames", "python-host", "rules+interpreters", ("python",)),
    # Heap profilers, each over the allocator that it comes with, or libc's.
    Subject("heap-onstack", "heap", "onstack", ("heap",)),
    Subject("heap-jemalloc", "heap", "jemalloc", ("heap",)),
    Subject("heap-tcmalloc", "heap", "tcmalloc", ("heap",)),
    Subject("heap-gperftools", "heap", "gperftools", ("heap",)),
    Subject("heap-heaptrack", "heap", "heaptrack", ("heap",)),
    # CPU profilers that are preloaded.
    Subject("whole-onstack", "whole", "onstack", ("whole",)),
    Subject("whole-gperftools", "whole", "gperftools", ("whole",)),
    # Layouts of the rule tables; rows4 is onstack's.
    Subject("rows4", "tables", "rows4", ("tables",)),
    Subject("rows4-coarse", "tables", "rows4-coarse", ("tables",)),
    Subject("rows8", "tables", "rows8", ("tables",)),
    Subject("rows8-chunked", "tables", "rows8-chunked", ("tables",)),
)
# Families that only the subjects take part in which name them.
CLOSED = ("go-native", "go-wasmtime", "python", "tables", "finished-profile", "heap", "whole")


# gperftools' profiler takes minutes for what the others do in seconds: 5 us for each pair of malloc and free, under one lock.
HEAP_WHOLE = ("heap-onstack", "heap-jemalloc", "heap-tcmalloc", "heap-heaptrack")


def _handler_cost(depth):
    # 250 Hz is the most that a CPU timer gives on the usual kernel (CONFIG_HZ=250).
    common = ("handler-cost", f"depth={depth}", "hz=250")
    return Case(f"handler-cost/{depth}", (common + ("mode=tick",), common + ("mode=warm",)), 2, 0.5, 0.5)


def _handler_cold(depth, quick):
    common = ("handler-cold", f"depth={depth}", "hz=250")
    return Case(f"handler-cold/{depth}", (common + ("mode=new",), common + ("mode=cold",)), 1.5, 0.5, quick)


def _go(name, host, seconds):
    common = ("handler-cost", f"host={host}", "depth=10", "hz=250")
    return Case(name, (common + ("mode=tick",), common + ("mode=warm",)), seconds, seconds * 0.4, seconds * 0.4)


def _weights(threads, long, usual, quick):
    arguments = (("weights", f"threads={threads}", "hz=100"),)
    return Case(f"weights/{threads}", arguments, long, usual, quick, together=threads == 1)


def _overhead(hz, quick):
    return Case(f"overhead/{hz}", (("overhead", f"hz={hz}"),), 6, 2, quick)


def _start_stop(threads):
    return Case(f"start-stop/{threads}", (("start-stop", f"threads={threads}", "repeats=20"),), 0, 0, 0)


def _coexist(mix):
    subjects = ("onstack-rules", *PPROF_RS, "gperftools", "gperftools-fp")
    # Sixteen runs each, which may all hang for 8 s.
    return Case(f"coexist/{mix}", (("coexist", f"mix={mix}"),), 0, 0, None, subjects, "coexist-", rounds=2, together=True)


# Twenty pairs of runs, with the interval of their mean: rounds of their own.
def _whole(program, quick=None, prefix=""):
    return Case(f"whole/{program}", ((program,),), 0, 0, quick, program=prefix, rounds=1)


CASES = (
    _handler_cost(20),
    _handler_cost(100),
    _handler_cold(20, 1),
    _handler_cold(100, None),
    Case("exact/20", (("exact", "depth=20", "hz=250"),), 3, 1.5, 1, together=True),
    _go("go-native/go20", "go20", 2),
    _go("go-native/go100", "go100", 2),
    _go("go-native/cgo", "cgo", 2),
    _go("go-native/nested", "nested", 2),
    _go("go-wasmtime/compile", "wasmtime", 4),
    Case("python/30", (("handler-cost", "hz=250", "mode=tick"), ("handler-cost", "hz=250", "mode=warm")), 2, 1, 0.5),
    Case("tables/libc.so.6", (("tables", "library=libc.so.6"),), 0, 0, 0),
    Case("tables/libLLVM-14.so.1", (("tables", "library=libLLVM-14.so.1"),), 0, 0, 0),
    Case("memory/start", (("memory", "hz=100"),), 0.1, 0.1, 0.1, together=True),
    # A thousand samples: enough for onstack to have used every page of its buffer once.
    Case("memory/busy", (("memory", "hz=250"),), 5, 4, None, together=True),
    _weights(1, 3, 2, 1),
    _weights(8, 3, 1, 1),
    _weights(64, 3, 1.2, None),
    _weights(1000, 4, 1.5, None),
    Case("short-threads", (("short-threads", "threads=2", "life_ms=20", "hz=100"),), 8, 2.5, 1),
    _overhead(99, None),
    _overhead(250, 1.5),
    _start_stop(1),
    _start_stop(64),
    Case("finished-profile", (("finished-profile", "hz=250"),), 4, 4, 1),
    Case("displacement", (("displacement", "repeats=100", "hz=100"),), 0, 0, None, ("onstack-rules",), rounds=2),
    Case("heap/pair", (("pair",),), 0.3, 0.05, 0.05),
    Case("heap/pair-of-64", (("pair", "live=64"),), 0.3, 0.05, 0.05),
    Case("heap/pair-16", (("pair", "threads=16"),), 0.5, 0.2, 0.2),
    Case("heap/sampled", (("sampled",),), 0, 0, 0, rounds=3),
    Case("heap/go-sampled", (("go-sampled",),), 0, 0, 0, program="go-", rounds=3),
    Case("heap/held", (("held",),), 0, 0, 0, rounds=2),
    # Pairs of runs, with the interval of their mean: rounds of their own.
    Case("heap/redis", (("redis",),), 40, 12, 10, HEAP_WHOLE, rounds=1),
    Case("heap/rocksdb", (("rocksdb",),), 40, 12, 10, HEAP_WHOLE, rounds=1),
    Case("heap/go-service", (("go-service",),), 40, 12, 10, HEAP_WHOLE, program="go-", rounds=1),
    _whole("postgresql"),
    _whole("postgresql-connect"),
    _whole("redis"),
    _whole("nginx"),
    _whole("duckdb", prefix="duckdb-"),
    _whole("axum", prefix="axum-"),
    _whole("clang"),
    _whole("javac"),
    _whole("shell", quick=0),
    _whole("clang-version"),
    _coexist("pure"),
    _coexist("native"),
    Case("flame-graph", (("flame-graph",),), 4, 4, 2, ("onstack-rules", *PPROF_RS), "flame-"),
)


class PlanError(Exception):
    """A selection that names nothing."""


def choose_cases(names, form):
    """
    Cases by full name ("weights/8") or family ("weights"), in the order of the plan; where nothing is named all, or
    those of the quick form.
    """
    for name in names:
        if not any(name in (c.name, c.family) for c in CASES):
            raise PlanError(f"no case '{name}'; there are: {', '.join(c.name for c in CASES)}")
    if names:
        return [c for c in CASES if c.name in names or c.family in names]
    return [c for c in CASES if form != QUICK or c.quick is not None]


def choose_subjects(names):
    for name in names:
        if not any(name == s.name for s in SUBJECTS):
            raise PlanError(f"no subject '{name}'; there are: {', '.join(s.name for s in SUBJECTS)}")
    return [s for s in SUBJECTS if not names or s.name in names]


def takes_part(subject, case):
    if case.subjects:
        return subject.name in case.subjects
    if subject.families:
        return case.family in subject.families
    return case.family not in CLOSED


def program_of(subject, case):
    return case.program + subject.program


def baseline(case_name, subject_name=""):
    return RIVALS.get(subject_name) or BASELINES.get(case_name.split("/")[0], BASELINE)
