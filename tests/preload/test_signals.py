# SPDX-License-Identifier: MIT OR Apache-2.0
"""A host's own handlers for SIGPROF are called as the kernel would have called them, sampled or not."""
from harness import SIGNALS, STATUS, Run, case, equal, one_line

OPTIONS = dict(ONSTACK_PROFILE="out", ONSTACK_FREQUENCY="250")


def as_without(kind):
    with Run(SIGNALS, kind) as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors without a profile")
    with Run(SIGNALS, kind, **OPTIONS) as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors while sampled")
    with Run(SIGNALS, kind, CPUPROFILESIGNAL="12", **OPTIONS) as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors before it is sampled")


@case
def a_handler_has_the_stack_that_it_asked_for():
    as_without("stack")


@case
def a_handler_says_whether_system_calls_restart():
    as_without("restart")


@case
def why_there_are_no_samples_is_said_in_one_line():
    for kind, words in (("blocked", ("block the profiling signal", "pthread_sigmask")), ("small", ("sigaltstack", "larger"))):
        for name, files in (("out", ["out"]), ("out.%p", [])):
            with Run(SIGNALS, kind, **dict(OPTIONS, ONSTACK_PROFILE=name)) as run:
                equal((run.status, run.names), (STATUS, files), f"status and files of {kind}")
                one_line(run, "no samples", *words)
