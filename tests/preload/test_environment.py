# SPDX-License-Identifier: MIT OR Apache-2.0
"""Variables: ours, gperftools', and what is wrong with them."""
import ctypes.util
import os
import pathlib
import re
import shutil
import tempfile

from harness import LIBRARY, OUT, PROGRAM, STATUS, STUB, Missing, Run, about, built, case, check, equal, one_line, program

WORK = 0.3


@case
def wrong_values_are_named():
    wrong = [
        (dict(ONSTACK_FREQUENCY="0"), "ONSTACK_FREQUENCY=0", "1 to 10000"),
        (dict(ONSTACK_FREQUENCY="10001"), "ONSTACK_FREQUENCY=10001", "1 to 10000"),
        (dict(ONSTACK_FREQUENCY="99x"), "ONSTACK_FREQUENCY=99x", "1 to 10000"),
        (dict(ONSTACK_FREQUENCY="", CPUPROFILE_FREQUENCY="-1"), "CPUPROFILE_FREQUENCY=-1", "1 to 10000"),
        (dict(ONSTACK_CLOCK="sun"), "ONSTACK_CLOCK=sun", "cpu, wall and wall-signal"),
        (dict(ONSTACK_UNWINDER="magic"), "ONSTACK_UNWINDER=magic", "unwinder"),
        (dict(ONSTACK_FORK="maybe"), "ONSTACK_FORK=maybe", "follow"),
        (dict(ONSTACK_FORK="follow"), "ONSTACK_FORK=follow", "%p"),
        (dict(ONSTACK_PROFILE="out.%q"), "ONSTACK_PROFILE=out.%q", "%"),
        (dict(ONSTACK_PROFILE="x" * 5000), "ONSTACK_PROFILE=xxx", "too long"),
        (dict(ONSTACK_TIMELINE="yes"), "ONSTACK_TIMELINE=yes", "give 1"),
        (dict(ONSTACK_TIMELINE="1", ONSTACK_HEAP="1"), "ONSTACK_TIMELINE=1", "heap profile"),
        (dict(ONSTACK_ON_STACK="off"), "ONSTACK_ON_STACK=off", "give 0"),
        (dict(CPUPROFILESIGNAL="9"), "CPUPROFILESIGNAL=9", "signal"),
    ]
    for variables, name, advice in wrong:
        with program(0.05, "exit", **variables) as run:
            equal((run.status, run.names), (STATUS, []), f"status and files of {name}")
            one_line(run, name, advice, "not profiled")


@case
def a_wrong_value_is_told_once_for_all_children():
    with program(0.05, "spawn", PROGRAM, ONSTACK_FREQUENCY="0") as run:
        one_line(run, "ONSTACK_FREQUENCY=0")


@case
def a_heap_profile_without_a_name_is_told_once():
    with Run(PROGRAM, "0.05", "spawn", PROGRAM, ONSTACK_HEAP="1") as run:
        equal(run.names, [], "files")
        one_line(run, "ONSTACK_HEAP=1", "ONSTACK_PROFILE says where", "not profiled")
    for variables in (dict(ONSTACK_HEAP="0"), dict(ONSTACK_HEAP="1", ONSTACK_PROFILE="")):
        with Run(PROGRAM, "0.05", "exit", **variables) as run:
            equal(run.errors, "", f"what is said with {variables}")


@case
def unwinders_can_be_chosen():
    for name, depth in (("pc_only", 1), ("frame_pointer", 3), ("rules", 3)):
        with program(WORK, "exit", ONSTACK_UNWINDER=name) as run:
            deepest = max(len(stack) for _, _, stack in run.profile().samples)
            check(deepest == 1 if depth == 1 else deepest >= depth, f"{name}: {deepest} frames")


@case
def a_timeline_is_kept_where_it_is_asked_for():
    kept = lambda run: [line for line in run.profile().comments if line.startswith("onstack.timeline")]
    with program(WORK, "exit", ONSTACK_TIMELINE="1") as run:
        ((line,), samples) = kept(run), run.profile().comments
        samples = int(re.search(r" samples=(\d+)", samples[0])[1])
        equal(line, f"onstack.timeline kept={samples} lost=0", "what is kept")
    with program(WORK, "exit", ONSTACK_TIMELINE="0") as run:
        equal(kept(run), [], "what is kept unless it is asked for")


@case
def spans_are_named_where_they_are_asked_for():
    """A program that publishes one span for its thread, and one that publishes none."""
    host = built("spans", "spans.c", "-rdynamic")
    for variables in (dict(ONSTACK_SPANS="1"), dict(ONSTACK_SPANS="0"), {}):
        with Run(host, WORK, ONSTACK_PROFILE="out", ONSTACK_FREQUENCY="250", **variables) as run:
            equal((run.status, run.errors), (0, ""), "status and errors")
            named = [word in run.profile().raw for word in (b"trace_id", b"00112233445566778899aabbccddeeff", b"0123456789abcdef")]
            equal(set(named), {variables.get("ONSTACK_SPANS") == "1"}, f"{variables}: whether the span is in the profile")
    with program(WORK, "exit", ONSTACK_SPANS="1") as run:
        equal(run.status, STATUS, "status")
        one_line(run, "ONSTACK_SPANS=1", "no loaded library publishes spans")
        check(run.profile().samples, "no samples")


@case
def the_rate_is_what_was_asked_for():
    for variables in (dict(ONSTACK_FREQUENCY="50"), dict(ONSTACK_FREQUENCY="", CPUPROFILE_FREQUENCY="50")):
        with program(0.6, "exit", **variables) as run:
            periods = {ns // ticks for ticks, ns, _ in run.profile().samples}
            equal(periods, {20_000_000}, "period")


@case
def a_thread_that_cannot_be_made_now_is_made_later():
    """As in a process that executes another program: there is nothing to be told when that ends this one."""
    under = dict(LD_PRELOAD=f"{LIBRARY} {STUB}")
    with program(WORK, "exit", STUB_THREADS="8", **under) as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors")
        check(run.profile().seconds("program_parent_work") > 0, "it was never sampled")
    with program(WORK, "exit", STUB_THREADS="1000000", **under) as run:
        equal(run.status, STATUS, "status")
        one_line(run, "cannot start", "Resource temporarily unavailable", "not profiled")


@case
def a_host_with_little_address_space():
    """Where no session can begin, all of the address space is the host's again."""
    made = built("little_memory", "little_memory.c")
    for limit in (30000, 40000, 60000):
        with Run("sh", "-c", f"ulimit -v {limit}; LD_PRELOAD={LIBRARY} exec {made}", LD_PRELOAD="", ONSTACK_PROFILE="out.%p") as run:
            equal((run.status, run.output), (0, "Success\n"), f"status and output with {limit} KiB, errors {run.errors}")
            one_line(run, "cannot start", "Cannot allocate memory", "not profiled")


@case
def gperftools_variables():
    with program(WORK, "exit", ONSTACK_PROFILE="", ONSTACK_FREQUENCY="", CPUPROFILE="out") as run:
        equal((run.status, run.errors, run.names), (STATUS, "", ["out"]), "status, errors, files")
        about(run.profile().seconds("program_parent_work"), WORK, "work")


@case
def gperftools_keeps_its_own_variable():
    """With ONSTACK_PROFILE, CPUPROFILE is for libprofiler and for children, which are not profiled by us for that."""
    with Run("sh", "-c", f"sh -c '{PROGRAM} {WORK} exit; printenv CPUPROFILE'", ONSTACK_PROFILE="out", CPUPROFILE="other") as run:
        equal((run.output, run.errors, run.names), ("other\n", "", ["out"]), "the variable in a child, errors, files")
        equal(run.profile().seconds("program_parent_work"), 0, "work of a grandchild")
    with Run("sh", "-c", f"true; exec {PROGRAM} {WORK} exit", ONSTACK_PROFILE="out", CPUPROFILE="other") as run:
        equal((run.status, run.errors, run.names), (STATUS, "", ["out"]), "status, errors, files")
        about(run.profile().seconds("program_parent_work"), WORK, "work after exec")


@case
def libprofiler_beside_us():
    """It marks the first byte of CPUPROFILE for its children."""
    with program(WORK, "exit", ONSTACK_PROFILE="", CPUPROFILE="\udcefut") as run:
        equal((run.status, run.errors, run.names), (STATUS, "", ["out"]), "status, errors, files")
    library = ctypes.util.find_library("profiler")
    if not library:
        raise Missing("libprofiler is not installed")
    for both in (f"{library}:{LIBRARY}", f"{LIBRARY}:{library}"):
        with program(WORK, "exit", LD_PRELOAD=both, CPUPROFILE="other") as run:
            check("onstack" not in run.errors, run.errors)
            equal((run.status, run.names), (STATUS, ["other", "out"]), "status and files")


@case
def a_signal_turns_it_on_and_off_into_numbered_files():
    with program(WORK, "toggle", 12, ONSTACK_PROFILE="", CPUPROFILE="out", CPUPROFILESIGNAL="12") as run:
        equal((run.status, run.errors), (STATUS, ""), "status and errors")
        equal(run.names, ["out.0", "out.1", "out.2"], "files")
        for name in run.names:
            about(run.profile(name).seconds("program_child_work"), WORK, f"work while on, in {name}")
            equal(run.profile(name).seconds("program_parent_work"), 0, f"work while off, in {name}")


@case
def the_status_line():
    with program(WORK, "exit", ONSTACK_STATUS="status") as run:
        equal(run.names, ["out", "status"], "files")
        line = (run.directory / "status").read_text().splitlines(keepends=True)[0]
        check(re.fullmatch(r"onstack\.stats( [a-z_]+=[a-z0-9_-]+)+\n", line), f"the line: {line!r}")
        pairs = dict(pair.split("=") for pair in line.split()[1:])
        equal(int(pairs["recorded"]), sum(ticks for ticks, _, _ in run.profile().samples), "ticks in line and profile")
        check(pairs["clock"].startswith("cpu"), f"the clock: {pairs['clock']}")
        equal((pairs["unwinder"], pairs["reader"] in ("probe", "copy")), ("rules", True), "unwinder, reader")
        parts = ("recorded", "unattributed", "dropped_ring_full", "dropped_no_stack", "dropped_unwinder", "dropped_stopping")
        equal(int(pairs["ticks"]), sum(int(pairs[part]) for part in parts), "ticks and what became of them")


@case
def the_wall_clock_works_or_says_so():
    for variables in (dict(ONSTACK_CLOCK="wall"), dict(CPUPROFILE_REALTIME="1")):
        with program(WORK, "exit", **variables) as run:
            equal(run.status, STATUS, "status")
            if run.errors:
                one_line(run, "wall", "not profiled")
                equal(run.names, [], "files")
            else:
                check(b"wall" in run.profile().raw, "the profile does not say that its clock is the wall's")
    with program(WORK, "exit", ONSTACK_CLOCK="wall-signal") as run:
        equal((run.status, run.errors), (STATUS, ""), "status, errors")
        check(b" clock=wall-signal " in run.profile().raw, "the profile does not say that its clock sends signals")


@case
def modules_that_lose_stacks_are_named():
    with program(WORK, "exit", ONSTACK_STATUS="status", ONSTACK_UNWINDER="pc_only") as run:
        lines = (run.directory / "status").read_text().splitlines()[1:]
        losses = {line.split(" path=")[1]: line for line in lines}
        check(lines[0].startswith("onstack.module lost="), f"the lines: {lines}")
        ours = next(line for path, line in losses.items() if path.endswith("/program"))
        check(re.match(r"onstack\.module lost=(\d+) by_design=\1 path=/", ours), f"the line: {ours}")


@case
def paths_of_modules_forge_no_lines():
    place = pathlib.Path(tempfile.mkdtemp(dir=OUT, prefix="case-"))
    name = b"a\\b c\nonstack.module lost=7 path=x\x1b\x7f\xff\xc2\x85\xe2\x80\xa8\xc3\xa9"
    written = rb"/a\134b c\012onstack.module lost=7 path=x\033\177\377\302\205\342\200\250" + b"\xc3\xa9"
    host = os.path.join(os.fsencode(place), name)
    shutil.copy(PROGRAM, host)
    with Run(os.fsdecode(host), WORK, "exit", directory=place, ONSTACK_PROFILE="out", ONSTACK_FREQUENCY="250",
             ONSTACK_STATUS="status", ONSTACK_UNWINDER="pc_only") as run:
        lines = (run.directory / "status").read_bytes().split(b"\n")[1:]
        equal(lines.pop(), b"", "what stands behind the last line")
        check(any(line.endswith(written) for line in lines), f"the lines: {lines}")
        check(not any(line.startswith(b"onstack.module lost=7 path=x") for line in lines), f"a forged line: {lines}")
