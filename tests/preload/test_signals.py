# SPDX-License-Identifier: MIT OR Apache-2.0
"""A host's own handlers for SIGPROF are called as the kernel would have called them, sampled or not; and hosts that define
functions that the preload has as well."""
import os
import re
import shutil
import subprocess

from harness import (BUILD, OUT, ROOT, SIGNALS, STATUS, Missing, Run, Skip, TooLittle, about, built, by_itself, case, check, equal,
                     one_line, rarer)

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


@rarer
def system_v_says_the_same_in_other_words():
    as_without("systemv")


@case
def a_host_that_waits_for_all_signals_gets_no_tick():
    with Run(SIGNALS, "waits") as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors without a profile")
    with Run(SIGNALS, "waits", **OPTIONS) as run:
        equal(run.status, STATUS, "status while sampled")
        one_line(run, "no samples", "block the profiling signal")  # the ticks were there


@case
def threads_that_are_made_with_all_signals_blocked_are_sampled():
    for variables, open in (({}, "0"), (OPTIONS, "1"), (dict(OPTIONS, ONSTACK_CLOCK="wall"), "0")):
        with Run(SIGNALS, "created", **variables) as run:
            equal((run.status, run.output, run.errors), (STATUS, open, ""), f"status, output and errors with {variables}")
            if open == "1":
                worked = sum(ns for _, ns, stack in run.profile().samples if "created_work" in stack) / 1e9
                about(worked, 0.5, "CPU time of the thread")


@case
def a_host_may_define_a_function_by_another_name_of_it():
    """The preload's function of that name must not come back to the host's."""
    host = built("own_names", "own_names.c", "-rdynamic")
    for kind in ("sigaction", "fstatat", "exec", "realloc", "aligned"):
        for variables in ({}, OPTIONS):
            with Run(host, kind, **variables) as run:
                equal((run.status, run.output, run.errors), (0, "0\n", ""), f"status, output and errors of {kind} with {variables}")


@case
def an_alternate_stack_that_is_gone_is_not_used_where_all_are_left_alone():
    with Run(SIGNALS, "stale", ONSTACK_ON_STACK="0", **OPTIONS) as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors")
        about(run.profile().seconds(), 0.5, "CPU time")


GO = """
package main

import "C"
import "time"

func main() { time.Sleep(500 * time.Millisecond); println("runs") }
"""


@rarer
def a_go_runtime_refuses_to_leave_alternate_stacks_alone():
    if not shutil.which("go"):
        raise Missing("go is not installed")
    (OUT / "go_host.go").write_text(GO)
    subprocess.run(["go", "build", "-o", OUT / "go_host", OUT / "go_host.go"], check=True)
    with Run(OUT / "go_host", ONSTACK_ON_STACK="0", **OPTIONS) as run:
        equal(run.status, 0, "status")
        check("runs" in run.errors, f"the program's own line: {run.errors}")
        if "onstack: ONSTACK_ON_STACK=0: a Go runtime" not in run.errors:
            raise TooLittle(f"no line of ours: {run.errors}")  # Go ends without a word, perhaps before the session begins


@case
def why_there_are_no_samples_is_said_in_one_line():
    for kind, words in (("blocked", ("block the profiling signal", "pthread_sigmask")), ("small", ("sigaltstack", "larger"))):
        for name, files in (("out", ["out"]), ("out.%p", [])):
            with Run(SIGNALS, kind, **dict(OPTIONS, ONSTACK_PROFILE=name)) as run:
                equal((run.status, run.names), (STATUS, files), f"status and files of {kind}")
                one_line(run, "no samples", *words)


@case
def why_most_of_the_time_has_no_samples_is_said_in_one_line():
    with Run(SIGNALS, "mostly", **OPTIONS) as run:
        equal(run.status, STATUS, "status")
        check(run.profile().samples, "the first part has samples")
        one_line(run, "of CPU time have no sample", "block the profiling signal", "pthread_sigmask")


def pprof_crate():
    """A program with the crate's profiler and without ours, in the place where tests/coexist/run.sh builds it too."""
    if not shutil.which("cargo"):
        raise Skip("cargo is not installed")
    built = BUILD / "coexist" / "cargo"
    environment = dict(os.environ, CARGO_TARGET_DIR=str(built))
    place = dict(cwd=ROOT / "tests" / "coexist" / "pprof-crate", env=environment)
    if subprocess.run(["cargo", "fetch", "--quiet"], check=False, **place).returncode != 0:
        raise Skip("cargo cannot fetch the pprof crate (no registry in reach)")
    subprocess.run(["cargo", "build", "--quiet", "--release", "--locked", "--bin", "alone"], check=True, **place)
    return built / "release" / "alone"


@by_itself
def a_program_with_a_profiler_of_its_own_has_both_profiles():
    program = pprof_crate()
    with Run(program) as run:
        equal((run.status, run.errors), (STATUS, ""), f"status and errors without a profile ({run.output})")
    with Run(program, **OPTIONS) as run:
        equal((run.status, run.errors), (STATUS, ""), f"status and errors while sampled ({run.output})")
        check(int(re.match(r"\d+", run.output)[0]) > 20, f"its own profile: {run.output}")
        burnt = sum(ns for _, ns, stack in run.profile().samples if any("5alone4burn" in name for name in stack)) / 1e9
        check(burnt > 0.5, f"our profile has {burnt} s of 1.5")
