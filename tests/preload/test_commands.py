# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that end before a session would have begun: what a build and a script execute."""
import re

from harness import LIBRARY, PROGRAM, STATUS, Run, Skip, about, built, case, check, equal, in_real_time, kernel, program, rarer

RUNS = 120


def many(seconds, end, *arguments, rate=500):
    """The program, one after another in a shell that is not profiled itself."""
    words = " ".join(str(word) for word in (PROGRAM, seconds, end, *arguments))
    script = f"for i in $(seq {RUNS}); do LD_PRELOAD={LIBRARY} ONSTACK_FREQUENCY={rate} {words}; done"
    return Run(*in_real_time(), "bash", "-c", script, LD_PRELOAD="", ONSTACK_PROFILE="out.%p", ONSTACK_STATUS="status.%p")


def counted(run, line, key):
    """The sum over all processes."""
    texts = [(run.directory / name).read_text() for name in run.names if name.startswith("status.")]
    return sum(int(found[1]) for text in texts for found in re.finditer(rf"^onstack\.{line} .*?\b{key}=(\d+)", text, re.M))


@case
def commands_of_milliseconds_have_their_samples():
    """Those of 16 ms end shortly before the CPU time that makes a session, between two ticks at 99 Hz."""
    for seconds, end, rate in ((0.004, "exit", 500), (0.006, "_exit", 500), (0.016, "exit", 99)):
        with many(seconds, end, rate=rate) as run:
            equal((run.status, run.errors), (STATUS, ""), "status, errors")
            profiles = run.profiles()
            worked = sum(profile.seconds("program_parent_work") for profile in profiles)
            about(worked, RUNS * seconds, f"work of commands of {seconds} s at {rate} Hz", 0.6, 1.35)
            cut = [stack for profile in profiles for _, _, stack in profile.samples if "program_spin" in stack and "main" not in stack]
            equal(cut, [], "stacks without their callers")
            ticks = sum(ticks for profile in profiles for ticks, _, _ in profile.samples)
            equal((counted(run, "stats", "recorded"), counted(run, "first_ticks", "weight")), (ticks, ticks),
                  "ticks in the counters and in the profiles")
            equal(counted(run, "first_ticks", "dropped"), 0, "ticks that were lost")


@case
def a_command_that_becomes_another_keeps_what_it_had():
    """By exec, in its first milliseconds; what it becomes ends without a sample, and writes over no file."""
    with many(0.01, "exec-true") as run:
        worked = sum(profile.seconds("program_parent_work") for profile in run.profiles())
        about(worked, RUNS * 0.01, "work before the exec", 0.7, 1.3)


@case
def a_command_that_forks_before_its_session():
    """Its child begins with a timer as well."""
    with many(0.01, "fork") as run:
        equal(run.errors, "", "errors")
        for function in ("program_parent_work", "program_child_work"):
            worked = sum(profile.seconds(function) for profile in run.profiles())
            about(worked, RUNS * 0.01, function, 0.6, 1.3)


@case
def a_command_that_has_closed_a_library():
    """What lies at an address may be another's since: ticks before are lost, and counted."""
    made = built("first_closes", "first_closes.c")
    with Run(made, ONSTACK_PROFILE="out.%p", ONSTACK_STATUS="status.%p", ONSTACK_FREQUENCY="500") as run:
        equal((run.status, run.errors), (0, ""), "status and errors")
        check(counted(run, "first_ticks", "dropped") > 0, "ticks that were lost are counted")
        equal(counted(run, "first_ticks", "weight"), 0, "ticks that were believed")


@case
def a_command_at_rest_is_saved():
    """One that has worked for a moment, waits, and is killed."""
    with program(0.012, "kill-later", ONSTACK_PROFILE="out.%p", ONSTACK_FREQUENCY="500") as run:
        worked = sum(profile.seconds("program_parent_work") for profile in run.profiles())
        about(worked, 0.012, "work before it waited", 0.4, 1.7)


@rarer
def a_program_at_rest_is_not_interrupted():
    """What the keeper uses of the process's CPU time lets a tick fall due: on the keeper, not in the program's poll. Before
    Linux 6.4 the kernel gives it to the program, and so many programs have ten."""
    if kernel() < (6, 4):
        raise Skip("the kernel gives a process's tick to any thread")
    made = built("rests", "rests.c")
    counts = []
    # Without the keeper's part each run has ten and more. A machine that others use has some by itself.
    while len(counts) < 3 and min(counts, default=5) > 4:
        with Run("bash", "-c", f"for i in $(seq 30); do LD_PRELOAD={LIBRARY} {made} & done; wait", LD_PRELOAD="",
                 ONSTACK_PROFILE="out.%p", ONSTACK_FREQUENCY="1000") as run:
            equal((run.status, run.errors), (0, ""), "status, errors")
            counts.append(sum(int(line) for line in run.output.split()))
    check(min(counts) <= 4, f"{counts} of 450 polls were interrupted")
