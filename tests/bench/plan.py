# SPDX-License-Identifier: MIT OR Apache-2.0
"""What is measured: the subjects, the cases, and the command line of every single run."""

from dataclasses import dataclass

BASELINE = "onstack-fp"  # ratios are against this subject


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
    seconds: float  # 0: the case does not take a time
    quick_seconds: float

    @property
    def family(self):
        return self.name.split("/")[0]

    def commands(self, quick):
        seconds = self.quick_seconds if quick else self.seconds
        timed = [f"seconds={seconds:g}"] if seconds else []
        return [list(run) + timed for run in self.runs]


SUBJECTS = (
    Subject("onstack-rules", "onstack", "rules"),
    Subject("onstack-fp", "onstack", "frame_pointer"),
    Subject("onstack-pc-only", "onstack", "pc_only"),
    Subject("pprof-rs-fp", "pprof-rs-fp", "-"),
    Subject("pprof-rs-default", "pprof-rs-default", "-"),
    Subject("pprof-rs-framehop", "pprof-rs-framehop", "-"),
    Subject("gperftools", "gperftools", "libunwind"),
    Subject("gperftools-fp", "gperftools", "generic_fp"),
    # Known quantities: a handler that spins for 1 us, and a bare ITIMER_PROF counter.
    Subject("reference-1us", "reference", "spin", ("handler-cost",)),
    Subject("reference-itimer", "reference", "counter", ("memory", "weights", "short-threads", "start-stop")),
)


def _handler_cost(depth):
    # 250 Hz is the most that a CPU timer gives on the usual kernel (CONFIG_HZ=250).
    common = ("handler-cost", f"depth={depth}", "hz=250")
    return Case(f"handler-cost/{depth}", (common + ("mode=tick",), common + ("mode=warm",)), 2, 0.5)


def _weights(threads):
    return Case(f"weights/{threads}", (("weights", f"threads={threads}", "hz=100"),), 3, 1)


def _start_stop(threads):
    return Case(f"start-stop/{threads}", (("start-stop", f"threads={threads}", "repeats=20"),), 0, 0)


CASES = (
    _handler_cost(20),
    _handler_cost(100),
    Case("memory/start", (("memory", "hz=100"),), 0.1, 0.1),
    # A thousand samples: enough for onstack to have used every page of its buffer once.
    Case("memory/busy", (("memory", "hz=250"),), 5, 1),
    _weights(1),
    _weights(8),
    _weights(64),
    Case("short-threads", (("short-threads", "threads=2", "life_ms=20", "hz=100"),), 10, 1),
    _start_stop(1),
    _start_stop(64),
)


class PlanError(Exception):
    """A selection that names nothing."""


def choose_cases(names):
    """Cases by full name ("weights/8") or family ("weights"), in the order of the plan; all where nothing is named."""
    for name in names:
        if not any(name in (c.name, c.family) for c in CASES):
            raise PlanError(f"no case '{name}'; there are: {', '.join(c.name for c in CASES)}")
    return [c for c in CASES if not names or c.name in names or c.family in names]


def choose_subjects(names):
    for name in names:
        if not any(name == s.name for s in SUBJECTS):
            raise PlanError(f"no subject '{name}'; there are: {', '.join(s.name for s in SUBJECTS)}")
    return [s for s in SUBJECTS if not names or s.name in names]


def takes_part(subject, case):
    return not subject.families or case.family in subject.families
