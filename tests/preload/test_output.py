# SPDX-License-Identifier: MIT OR Apache-2.0
"""Files: safe to make, whole or absent, and one line where they cannot be written."""
import contextlib
import os
import pathlib
import select
import shutil
import socket
import subprocess
import tempfile

from harness import LIBRARY, OUT, PROGRAM, STATUS, STUB, Run, Skip, built, case, check, equal, kernel, one_line, program, wait_for

WORK = 0.2


def prepared(make):
    directory = pathlib.Path(tempfile.mkdtemp(dir=OUT, prefix="case-"))
    make(directory)
    return directory


@case
def no_directory_gives_one_line():
    for end in ("exit", "_exit"):
        with program(WORK, end, ONSTACK_PROFILE="missing/out") as run:
            equal(run.status, STATUS, "status")
            one_line(run, "missing/out", "No such file or directory")
            equal(run.names, [], "files")


@case
def no_directory_for_the_counters_gives_one_line():
    with program(WORK, "exit", ONSTACK_STATUS="missing/status") as run:
        equal((run.status, run.names), (STATUS, ["out"]), "status and files")
        one_line(run, "the counters are lost", "missing/status", "No such file or directory")
    with program(WORK, "exit", ONSTACK_STATUS="missing/status", ONSTACK_PROFILE="missing/out") as run:
        one_line(run, "the profile is lost")


@case
def a_full_disk_gives_one_line_and_keeps_the_former_profile():
    directory = prepared(lambda place: (place / "out").write_text("former"))
    with program(WORK, "small-files", directory=directory) as run:
        equal(run.status, STATUS, "status")
        one_line(run, "File too large")
        equal(run.names, ["out"], "files")
        equal((directory / "out").read_text(), "former", "the former file")


@case
def links_and_pipes_are_refused():
    def link(place):
        (place / "victim").write_text("precious")
        (place / "out").symlink_to("victim")

    with program(WORK, "exit", directory=prepared(link)) as run:
        one_line(run, "not a regular file")
        equal((run.directory / "victim").read_text(), "precious", "what the link leads to")
        check((run.directory / "out").is_symlink(), "the link was replaced")
    with program(WORK, "exit", directory=prepared(lambda place: os.mkfifo(place / "out"))) as run:
        one_line(run, "not a regular file")
        check((run.directory / "out").is_fifo(), "the pipe was replaced")


@case
def descriptors_of_the_host_are_not_written_to():
    with program(WORK, "closed", "host", ONSTACK_PROFILE="missing/out") as run:
        equal(run.status, STATUS, "status")
        equal((run.directory / "host").read_text(), "", "the host's file with descriptor 2")
    with program(WORK, "closed", "host") as run:
        equal((run.names, (run.directory / "host").read_text()), (["host", "out"], ""), "files")


@case
def a_program_that_closes_stderr_as_it_ends():
    if kernel() < (5, 9):
        raise Skip("no thread has descriptors of its own")
    with program(WORK, "closes-stderr") as run:
        equal((run.status, run.errors, run.names), (STATUS, "", ["out"]), "status, errors and files")
    with program(WORK, "closes-stderr", ONSTACK_PROFILE="missing/out") as run:
        equal(run.status, STATUS, "status")
        one_line(run, "missing/out", "No such file or directory")
    # Before it has a session, unless it ends before our thread has begun.
    lines = 0
    for _ in range(20):
        with program(0.01, "closes-stderr", ONSTACK_PROFILE="missing/out") as run:
            equal(run.status, STATUS, "status")
            lines += "missing/out" in run.errors
    check(lines > 0, "no line of 20 programs of 10 ms")


@case
def a_pipe_that_a_daemon_has_left_has_its_end():
    place = prepared(lambda _: None)
    environment = dict(os.environ, LD_PRELOAD=str(LIBRARY), ONSTACK_PROFILE="out", ONSTACK_STATUS="status")
    with subprocess.Popen([PROGRAM, "0.1", "detaches-stderr"], env=environment, cwd=place, stdin=subprocess.PIPE,
                          stderr=subprocess.PIPE) as process:
        ended, _, _ = select.select([process.stderr], [], [], 20)
        equal((bool(ended), ended and process.stderr.read()), (True, b""), "whether the pipe has its end, and errors")
        equal(process.poll(), None, "the daemon's status while it goes on")
        process.stdin.close()
        equal(process.wait(), STATUS, "status")
    shutil.rmtree(place)


@case
def a_reader_of_stderr_that_is_gone():
    reader, writer = os.pipe()
    os.close(reader)
    with program(WORK, "exit", ONSTACK_PROFILE="missing/out", stderr=writer) as run:
        equal(run.status, STATUS, "status")
    with program(WORK, "exit", ONSTACK_FREQUENCY="0", stderr=writer) as run:
        equal(run.status, STATUS, "status")
    os.close(writer)


@case
def the_line_comes_to_stderr_whatever_it_is():
    """The thread that writes it has a table of descriptors of its own."""
    missing = dict(ONSTACK_PROFILE="missing/out")
    with program(WORK, "exit", **missing) as run:
        equal(run.status, STATUS, "status")
        one_line(run, "missing/out", "No such file or directory")
    with tempfile.TemporaryFile() as log:
        os.write(log.fileno(), b"begun\n")
        with program(WORK, "exit", stderr=log, **missing) as run:
            os.write(log.fileno(), b"ended\n")
            log.seek(0)
            first, run.errors, last = log.read().decode().splitlines()
            equal((first, last), ("begun", "ended"), "what the host has written")
            one_line(run, "missing/out", "No such file or directory")
    ours, theirs = socket.socketpair()
    with program(WORK, "exit", stderr=theirs, **missing) as run:
        theirs.close()
        run.errors = ours.recv(4096).decode()
        equal(run.status, STATUS, "status")
        one_line(run, "missing/out", "No such file or directory")
    ours.close()


def files_of(task):
    files = {}
    for number in os.listdir(task / "fd"):
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            files[number] = os.readlink(task / "fd" / number)
    return files


@case
def nobody_shares_the_hosts_descriptors():
    """While its first thread lives: each of its calls would cost more."""
    place = prepared(lambda _: None)
    environment = dict(os.environ, LD_PRELOAD=str(LIBRARY), ONSTACK_PROFILE="out", ONSTACK_STATUS="status")
    with subprocess.Popen([PROGRAM, "2", "exit"], env=environment, cwd=place) as process:
        wait_for(place / "status")
        tasks = pathlib.Path(f"/proc/{process.pid}/task")
        names = {task: (task / "comm").read_text().strip() for task in tasks.iterdir()}
        ours = [task for task in tasks.iterdir() if names[task].startswith("onstack-")]
        shared = [names[task] for task in ours if files_of(tasks / str(process.pid)).items() <= files_of(task).items()]
        check(len(ours) > 1 and not shared, f"{sorted(names.values())}, of which share the table: {shared}")
        equal(process.wait(), STATUS, "status")
    shutil.rmtree(place)


@case
def nothing_without_a_variable():
    with Run(PROGRAM, WORK, "exit") as run:
        equal((run.status, run.errors, run.names), (STATUS, "", []), "status, errors, files")


def reachable_by_all():
    """A directory that another user can run a program in: not so where the clone lies in a private directory."""
    private = any(not parent.stat().st_mode & 0o001 for parent in (OUT, *OUT.parents))
    return tempfile.gettempdir() if private else OUT


@case
def nothing_in_a_program_with_set_user_id():
    if os.geteuid() != 0:
        raise Skip("only root can make a set-user-ID program of another user")
    # The loader preloads little into such programs by itself; linked in, the library must decline.
    with tempfile.TemporaryDirectory(dir=reachable_by_all()) as directory:
        os.chmod(directory, 0o777)
        if os.statvfs(directory).f_flag & os.ST_NOSUID:
            raise Skip(f"{directory} is mounted nosuid")
        linked = pathlib.Path(directory) / "linked"
        source = pathlib.Path(__file__).with_name("program.c")
        library = pathlib.Path(directory) / "lib" / LIBRARY.name
        library.parent.mkdir()
        shutil.copy(LIBRARY, library)
        subprocess.run(["cc", "-O1", "-w", "-D_GNU_SOURCE", source, "-o", linked, "-Wl,--no-as-needed", library,
                        f"-Wl,-rpath,{library.parent}"], check=True)
        for mode, wanted in ((0o755, ["lib", "linked", "out"]), (0o4755, ["lib", "linked"])):
            os.chown(linked, 65534, 65534)
            os.chmod(linked, mode)
            run = Run(linked, WORK, "exit", directory=directory, LD_PRELOAD="", ONSTACK_PROFILE="out")
            equal((run.status, run.errors), (STATUS, ""), "status and errors")
            equal(run.names, wanted, f"files with mode {mode:o}")
            (run.directory / "out").unlink(missing_ok=True)


@case
def who_is_killed_while_writing_leaves_nothing_half_written():
    try:
        os.close(os.open(OUT, os.O_TMPFILE | os.O_WRONLY, 0o600))
    except OSError as error:
        raise Skip(f"no files without a name in {OUT}: {error}") from error
    with program(WORK, "exit", LD_PRELOAD=f"{LIBRARY} {STUB}", STUB_KILL="1") as run:
        equal((run.status, run.names), (-9, []), "status and files")
