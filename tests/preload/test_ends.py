# SPDX-License-Identifier: MIT OR Apache-2.0
"""Ends of a process: each leaves its profile, keeps its status and says nothing."""
import stat

from harness import STATUS, PROGRAM, Run, about, built, case, check, equal, program, rarer

WORK = 0.4


def end(name, status=STATUS, work=WORK, low=0.6, seen=True):
    """`seen`: the end itself was noticed, or the profile is one that was saved before."""
    with program(work, name, ONSTACK_STATUS="status") as run:
        equal(run.status, status, "status")
        equal(run.errors + run.output, "", "output")
        equal([name for name in run.names if name != "status"], ["out"], "files")
        if seen:
            check("running=0" in (run.directory / "status").read_text(), "the session was not ended")
        equal(stat.S_IMODE((run.directory / "out").stat().st_mode), 0o600, "mode")
        about(run.profile().seconds("program_parent_work"), work, "program_parent_work", low)


@case
def exit_writes_the_profile():
    end("exit")


@case
def exit_from_another_thread():
    end("thread")


@case
def bare_exit():
    end("_exit")


@case
def quick_exit():
    end("quick_exit")


@case
def abort():
    end("abort", status=-6, seen=False)


@case
def abort_in_a_fault_handler():
    end("fault", status=-6, seen=False)


@case
def ends_that_cannot_be_seen_lose_the_last_seconds_only():
    end("kill", status=-9, work=1.5, low=0.2, seen=False)
    end("exit_group", work=1.5, low=0.2, seen=False)


@case
def a_host_with_a_handler_of_its_own():
    with program(WORK, "own-handler") as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors")
        about(run.profile().seconds("program_child_work"), WORK, "work under the host's handler")


@case
def stacks_reach_main():
    with program(WORK, "exit") as run:
        profile = run.profile()
        about(profile.seconds("main"), profile.seconds("program_parent_work"), "main", 0.98, 1.02)


@case
def a_host_that_moves_elsewhere():
    with program(0.2, "elsewhere") as run:
        equal(run.names, ["out"], "files")


@case
def the_last_thread_ends_without_exit():
    with program(1.2, "pthread_exit", ONSTACK_STATUS="status") as run:
        equal((run.status, run.output, run.errors), (0, "written at exit", ""), "status, output and errors")
        for function in ("program_parent_work", "program_child_work"):
            about(run.profile().seconds(function), 1.2, function)
        # Code that was loaded then has a file, and stacks through it have their root.
        about(sum(ns for _, ns, stack in run.profile().samples if any("lgamma" in name for name in stack)) / 1e9, 1.2, "libm")
        truncated = int((run.directory / "status").read_text().split(" truncated=")[1].split()[0])
        check(truncated < 20, f"{truncated} stacks are cut")


def ends_alike(program, function, name):
    """The program has the same end with a profile and without the preload, and its session is ended."""
    with Run(program, 0.01, name, LD_PRELOAD="") as run:
        alone = (run.status, run.output, run.errors)
    with Run(program, 0.2, name, ONSTACK_PROFILE="out", ONSTACK_FREQUENCY="250", ONSTACK_STATUS="status") as run:
        equal((run.status, run.output, run.errors), alone, f"status, output and errors of {name}")
        equal(run.names, ["out", "status"], "files")
        check("running=0" in (run.directory / "status").read_text(), "the session was not ended")
        about(run.profile().seconds(function), 0.2, function, high=2)


@case
def ends_by_the_system_call_alone_keep_their_status():
    for name in ("raw", "raw-before-others", "raw-after-others"):
        ends_alike(PROGRAM, "program_parent_work", name)


@case
def ends_by_a_filter_keep_their_signal():
    for name in ("one-call", "strict"):
        ends_alike(built("filtered", "filtered.c"), "filtered_work", name)


@case
def a_filter_that_kills_inside_the_handler():
    """The session ends, and so does the process, although a thread never left the handler."""
    for name in ("in-handler", "in-handler-of-another"):
        ends_alike(built("filtered", "filtered.c"), "filtered_work", name)


@rarer
def a_filter_that_kills_our_threads():
    """No end waits for one of them; the profile is one that was saved before, if there is one."""
    for name in ("all-threads", "all-threads-exit"):
        filtered = built("filtered", "filtered.c")
        with Run(filtered, 0.01, name, LD_PRELOAD="") as run:
            alone = (run.status, run.output, run.errors)
        with Run(filtered, 0.2, name, ONSTACK_PROFILE="out", ONSTACK_FREQUENCY="250") as run:
            equal((run.status, run.output, run.errors), alone, f"status, output and errors of {name}")


@case
def no_descriptor_of_ours_is_met():
    """Sessions, looks around, saves and the status file: all of them open files, and the host never sees a number of theirs."""
    with program(2.5, "descriptors", ONSTACK_STATUS="status") as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors")
        check(run.profile().samples, "no samples")


@case
def exec_writes_before_and_after():
    with program(WORK, "exec-true") as run:
        equal((run.status, run.errors), (0, ""), "status and errors")
        about(run.profile().seconds("program_parent_work"), WORK, "before the exec")
    with program(WORK, "exec", PROGRAM) as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors")
        about(run.profile().seconds("program_after_exec"), 0.3, "after the exec")


@case
def exec_finds_the_program_along_the_path():
    with program(WORK, "exec", PROGRAM.name, PATH=f"/nonexistent:/usr/bin:{PROGRAM.parent}") as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors")
        check(run.profile().seconds("program_after_exec") > 0, "the exec'ed program is not in the profile")


@case
def exec_with_an_environment_larger_than_the_stack():
    with program(WORK, "exec-large", PROGRAM) as run:
        equal((run.status, run.errors, run.names), (STATUS, "", ["out"]), "status, errors and files")
        about(run.profile().seconds("program_after_exec"), 0.3, "after the exec")


@case
def a_host_that_counts_its_threads_counts_its_own():
    for _ in range(4):
        with program(0.3, "count") as run:
            equal((run.status, run.errors, run.names), (STATUS, "", ["out"]), "status, errors and files")
