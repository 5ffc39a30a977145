# SPDX-License-Identifier: MIT OR Apache-2.0
"""Children: each into its own file, or none; never over the parent's."""
import os
import pathlib
import resource
import subprocess
import time

from harness import LIBRARY, OUT, PROGRAM, STATUS, Run, Skip, about, built, by_itself, case, check, equal, in_real_time, program, wait_for

WORK = 0.4


def alone(end, *arguments, **options):
    """Only the parent is profiled."""
    with program(WORK, end, *arguments, **options) as run:
        equal((run.status, run.errors, len(run.names)), (STATUS, "", 1), "status, errors, number of files")
        about(run.profile(run.names[0]).seconds("program_parent_work"), WORK, "the parent's work")
        about(run.profile(run.names[0]).seconds(), WORK, "all work in the parent's profile")


def both(end, *arguments, child="program_child_work", work=WORK):
    with program(WORK, end, *arguments, ONSTACK_PROFILE="out.%p") as run:
        equal((run.status, run.errors, len(run.names)), (STATUS, "", 2), "status, errors, number of files")
        ours = sorted(run.profiles(), key=lambda profile: profile.seconds(child))
        equal(ours[0].seconds(child), 0, "the child's work in the parent's profile")
        about(ours[0].seconds("program_parent_work"), WORK, "the parent's work")
        about(ours[1].seconds(child), work, "the child's work")
        equal(ours[1].seconds("program_parent_work"), 0, "the parent's work in the child's profile")


@case
def without_a_pattern_children_are_left_out():
    alone("fork")
    alone("fork-_exit")
    alone("spawn", PROGRAM)
    alone("orphan", PROGRAM)


@case
def with_a_pattern_each_has_its_file():
    both("fork")
    both("fork-_exit")
    both("fork-return")
    both("spawn", PROGRAM, child="program_after_exec", work=0.3)


@case
def children_can_be_left_out_by_option():
    alone("fork", ONSTACK_PROFILE="out.%p", ONSTACK_FORK="stop")
    alone("spawn", PROGRAM, ONSTACK_PROFILE="out.%p", ONSTACK_FORK="stop")


@case
def a_child_of_vfork_ends_nothing():
    with program(WORK, "vfork") as run:
        equal((run.status, run.errors, run.names), (STATUS, "", ["out"]), "status, errors, files")
        about(run.profile().seconds("program_child_work"), WORK, "work after the child's end")


@case
def the_first_process_of_a_namespace_and_its_like():
    as_first = ("unshare", "--pid", "--fork", "env")
    if Run(*as_first, "true", LD_PRELOAD="").status != 0:
        raise Skip("no PID namespaces for us")
    with Run(*as_first, f"LD_PRELOAD={LIBRARY}", PROGRAM, WORK, "first", LD_PRELOAD="", ONSTACK_PROFILE="out",
             ONSTACK_FREQUENCY="250") as run:
        equal((run.status, run.errors, run.names), (STATUS, "", ["out"]), "status, errors, files")
        equal(run.output, "\n", "the profile's name in the environment of a child's exec")
        about(run.profile().seconds("program_child_work"), WORK, "work after the children's ends")


@case
def a_daemon_has_its_profile():
    with program(WORK, "daemon", "done", ONSTACK_PROFILE="out.%p") as run:
        wait_for(run.directory / "done")
        pid = (run.directory / "done").read_text().strip()
        wait_for(run.directory / f"out.{pid}")
        # The same name as its last save: wait until it has all.
        for _ in range(100):
            found = run.profile(f"out.{pid}").seconds("program_child_work")
            if found > 0.6 * WORK:
                break
            time.sleep(0.1)
        about(found, WORK, "the daemon's work")


@case
def a_parent_that_became_a_daemon_has_left_its_profile():
    with program(WORK, "daemon", "done") as run:
        wait_for(run.directory / "done")
        about(run.profile().seconds("program_parent_work"), WORK, "the parent's work")
        equal(run.profile().seconds("program_child_work"), 0, "the daemon's work in the parent's profile")


@case
def a_percent_sign_can_be_written():
    with program(0.2, "exit", ONSTACK_PROFILE="out%%p") as run:
        check("out%p" in run.names, f"files: {run.names}")


@by_itself
def short_processes_are_in_the_books():
    """The sum of many: what no stack could be had for is counted all the same. What they use is asked of the same processes
    alone: profiled, the writing of their files is most of it, which is ours and no tick's."""
    spent = lambda: sum(resource.getrusage(resource.RUSAGE_CHILDREN)[:2])
    many = ["/bin/sh", "-c", f"for i in $(seq 60); do {PROGRAM} 0.006 _exit; done"]
    before = spent()
    subprocess.run(many, check=False, cwd=OUT)
    used = spent() - before
    with Run(*many, ONSTACK_PROFILE="out.%p", ONSTACK_STATUS="status.%p", ONSTACK_FREQUENCY="1000") as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors")
        lines = [(run.directory / name).read_text() for name in run.names if name.startswith("status.")]
        ticks = sum(int(word.split("=")[1]) for line in lines for word in line.split() if word.startswith("ticks="))
        about(ticks / 1000, used, "ticks of many short processes", 0.75, 1.6)


@case
def children_of_milliseconds_are_in_their_parents_profile():
    first = in_real_time()
    for rate in ("99", "500"):
        with Run(*first, "env", f"LD_PRELOAD={LIBRARY}", PROGRAM, 0.003, "short", 400, LD_PRELOAD="", ONSTACK_PROFILE="out.%p",
                 ONSTACK_STATUS="status.%p", ONSTACK_FREQUENCY=rate) as run:
            equal((run.status, run.errors), (STATUS, ""), "status, errors")
            files = [name for name in run.names if name.startswith("out")]
            check(len(files) <= 3, f"files: {run.names}; the first children come before their parent's session")
            profile = run.profile(files[0])
            # Four standard deviations: the kernel's ticks are as many as they are, whatever the rate.
            about(profile.seconds("program_child_work"), 1.2, f"work of the children at {rate} Hz", 0.65, 1.4)
            said = next((line for line in profile.comments if line.startswith("onstack.first_ticks ")), "")
            check("dropped=0" in said, f"{profile.comments}")
            # Of the first children, which begin while their parent's unwind rules are derived: the more, the busier the machine.
            cut = sum(ticks for ticks, _, stack in profile.samples if "program_spin" in stack and "main" not in stack)
            ticks = sum(ticks for ticks, _, _ in profile.samples)
            check(cut <= 0.15 * ticks, f"{cut} of {ticks} ticks have stacks of children without their callers")


@case
def a_child_takes_its_first_ticks_with_it():
    """What it works in its first 20 ms, before it has a session, is in its own file as well."""
    with program(0.06, "short", 10, ONSTACK_PROFILE="out.%p", ONSTACK_FREQUENCY="250") as run:
        equal((run.status, run.errors), (STATUS, ""), "status, errors")
        worked = [profile.seconds("program_child_work") for profile in run.profiles()]
        equal(sum(seconds > 0.03 for seconds in worked), 8, f"files of children, of which two were killed: {worked}")
        about(sum(worked), 0.48, "work of the children", 0.8)


@case
def children_whose_one_thread_ends_at_once():
    made = OUT / "fork_ends"
    source = pathlib.Path(__file__).with_name("fork_ends.c")
    subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", source, "-o", made, "-lpthread"], check=True)
    for clock in ("wall", "cpu"):
        with Run(made, ONSTACK_PROFILE="out.%p", ONSTACK_CLOCK=clock, ONSTACK_FREQUENCY="100") as run:
            equal((run.status, run.output, run.errors), (0, "", ""), f"status, output and errors with the clock {clock}")


@case
def children_that_write_over_what_they_share():
    """A child with a stray pointer, or with fewer rights than its parent, is no danger to it."""
    made = OUT / "fork_scribbles"
    source = pathlib.Path(__file__).with_name("fork_scribbles.c")
    subprocess.run(["cc", "-O1", "-D_GNU_SOURCE", "-Wall", "-Wextra", "-Werror", source, "-o", made], check=True)
    with Run(made, ONSTACK_PROFILE="out.%p", ONSTACK_FREQUENCY="500") as run:
        equal((run.status, run.output, run.errors), (0, "0\n", ""), "status, children that found nothing to write over, and errors")
        check(max(profile.seconds() for profile in run.profiles()) > 0.1, "the parent's work")  # a slow child has a file as well


def shares(*arguments):
    return Run(built("fork_shares", "fork_shares.c"), *arguments, ONSTACK_PROFILE="out.%p", ONSTACK_FREQUENCY="500")


@case
def children_share_no_bytes_of_their_stacks():
    """A sibling may belong to another user by now. While the rules of a large library are derived, no stack is copied there."""
    library = built("fork_shares_large.so", "fork_shares_large.c", "-shared", "-fPIC")
    with shares("secret", library) as run:
        equal((run.status, run.output, run.errors), (0, "0\n", ""), "status, children that found their stacks, and errors")


@case
def children_cannot_claim_more_time_than_there_was():
    begun = time.monotonic()
    with shares("weight") as run:
        equal((run.status, run.errors), (0, ""), "status and errors")
        most = (time.monotonic() - begun + 3) * os.cpu_count()  # three seconds: as the store's bound begins
        claimed = max(profile.seconds() for profile in run.profiles())
        check(claimed <= most, f"{claimed} s of CPU time, of {most} s that all processors had")


@case
def processes_of_two_namespaces_that_have_the_same_id():
    """Each process 2 of its own namespace: the files of both are there, and counters too."""
    inside = f"unshare --pid --fork sh -c 'LD_PRELOAD={LIBRARY} {PROGRAM} {WORK} exit; true'"
    if Run("unshare", "--pid", "--fork", "true", LD_PRELOAD="").status != 0:
        raise Skip("no PID namespaces for us")
    with Run("sh", "-c", f"{inside} & {inside} & wait", LD_PRELOAD="", ONSTACK_PROFILE="out.%p.pb", ONSTACK_STATUS="status.%p",
             ONSTACK_FREQUENCY="250") as run:
        equal((run.status, run.errors), (0, ""), "status and errors")
        equal(run.names, ["out.2-1.pb", "out.2.pb", "status.2", "status.2-1"], "files")
        for profile in run.profiles():
            about(profile.seconds("program_parent_work"), WORK, "work of each")
