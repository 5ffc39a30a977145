# SPDX-License-Identifier: MIT OR Apache-2.0
"""A signal asks a process where its threads are, with and without a profile."""
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time

from harness import LIBRARY, OUT, Run, case, check, equal, one_line

# Another thread waits for a lock that the first one has; the child of a fork says how it ended.
PROGRAM = """
import os, signal, sys, threading, time
lock = threading.Lock()
lock.acquire()
threading.Thread(target=lock.acquire, daemon=True).start()
child = os.fork()
if child == 0:
    time.sleep(20)
    os._exit(0)
print(child, flush=True)
sys.stdin.read()
os.kill(child, signal.SIGQUIT)
time.sleep(0.5)
os.kill(child, signal.SIGTERM)
print(os.waitpid(child, 0)[1], flush=True)
"""

# Whether frames of blocked threads are known of the python that runs this.
NAMED = (3, 11) <= sys.version_info[:2] <= (3, 13)


def sleeping(stderr=None, before=None, **variables):
    """The program, once it waits, its child's id, and its directory."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ONSTACK_", "CPUPROFILE", "LD_PRELOAD"))}
    directory = pathlib.Path(tempfile.mkdtemp(dir=OUT, prefix="case-dump-"))
    process = subprocess.Popen(["python3", "-c", PROGRAM], env=dict(clean, LD_PRELOAD=str(LIBRARY), **variables), cwd=directory,
                               stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=stderr or open(directory / "errors", "w"), text=True,
                               preexec_fn=before)
    child = int(process.stdout.readline())
    time.sleep(0.2)
    return process, child, directory


def dump(process, directory, number):
    """Asks, and returns what stderr has once the dump is whole: its last line is empty."""
    os.kill(process.pid, signal.SIGQUIT)
    until = time.monotonic() + 20
    while (text := (directory / "errors").read_text()).count("onstack dump of process") < number or not text.endswith("\n\n"):
        check(time.monotonic() < until and process.poll() is None, f"no dump: {text!r}")
        time.sleep(0.02)
    return text


def end(process):
    output, _ = process.communicate("", timeout=30)
    equal(process.returncode, 0, "the program's status")
    return int(output)


def check_text(text, process, dumps=1):
    check(f"onstack dump of process {process.pid}: 2 threads, 0 without a stack\n" in text, text)
    equal(text.count("\nthread "), 2 * dumps, f"threads in {text}")
    check(f'\nthread {process.pid} "python3": blocked wait=read on=pipe:[' in text, text)
    check("blocked wait=futex on=0x" in text, text)
    if NAMED:
        check(text.count("    <module> at <string>:11\n") == dumps == text.count("    Thread.run at "), text)
    check(("_PyEval_EvalFrameDefault in " in text) != NAMED, text)


@case
def a_signal_asks_for_a_dump():
    process, child, directory = sleeping(ONSTACK_DUMP_SIGNAL="3")
    check_text(dump(process, directory, 1), process)
    check_text(dump(process, directory, 2), process, 2)
    equal(end(process), signal.SIGTERM, "the end of the child, which has dumped")
    check(f"onstack dump of process {child}: 1 threads" in (directory / "errors").read_text(), "the child's dump")
    equal(os.listdir(directory), ["errors"], "files")


@case
def a_signal_asks_for_a_dump_while_a_profile_is_taken():
    process, _, directory = sleeping(ONSTACK_DUMP_SIGNAL="3", ONSTACK_PROFILE="out")
    check_text(dump(process, directory, 1), process)
    # Children are left out where their parent's profile has no %p: there the signal means what it did.
    equal(end(process) & 0x7f, signal.SIGQUIT, "the end of the child, which is left out")
    equal(sorted(os.listdir(directory)), ["errors", "out"], "files")


@case
def an_ignored_signal_asks_too_and_stays_ignored_in_who_is_left_out():
    # As a shell without job control starts its background jobs.
    process, _, directory = sleeping(before=lambda: signal.signal(signal.SIGQUIT, signal.SIG_IGN), ONSTACK_DUMP_SIGNAL="3",
                                     ONSTACK_PROFILE="out")
    check_text(dump(process, directory, 1), process)
    equal(end(process), signal.SIGTERM, "the end of the child, which is left out")


@case
def nobody_waits_for_who_does_not_read():
    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    try:
        while os.write(writer, b"x" * 4096):
            pass
    except BlockingIOError:
        os.set_blocking(writer, True)
    process, _, _ = sleeping(stderr=writer, ONSTACK_DUMP_SIGNAL="3", ONSTACK_PROFILE="out.%p")
    os.kill(process.pid, signal.SIGQUIT)
    time.sleep(0.3)
    begun = time.monotonic()
    end(process)
    check(time.monotonic() - begun < 5, f"its end took {time.monotonic() - begun:.1f} s")
    os.close(reader)
    os.close(writer)


@case
def a_process_without_descriptors_dumps_all_the_same():
    with Run("python3", "-c", "import os, resource, signal, time\n"
             "time.sleep(0.3); resource.setrlimit(resource.RLIMIT_NOFILE, (64, 64))\n"
             "while True:\n  try: os.open('/dev/null', 0)\n  except OSError: break\n"
             "os.kill(os.getpid(), signal.SIGQUIT); time.sleep(2)", ONSTACK_DUMP_SIGNAL="3") as run:
        check("1 threads, 0 without a stack" in run.errors, run.errors)


@case
def a_dumps_signal_can_be_wrong():
    for variables, words in (
        (dict(ONSTACK_DUMP_SIGNAL="QUIT"), ("ONSTACK_DUMP_SIGNAL=QUIT", "number")),
        (dict(ONSTACK_DUMP_SIGNAL="27"), ("ONSTACK_DUMP_SIGNAL=27", "number")),
        (dict(ONSTACK_DUMP_SIGNAL="11"), ("ONSTACK_DUMP_SIGNAL=11", "number")),
        (dict(ONSTACK_DUMP_SIGNAL="12", CPUPROFILESIGNAL="12", ONSTACK_PROFILE="out"), ("CPUPROFILESIGNAL=12", "another")),
    ):
        with Run("true", **variables) as run:
            equal((run.status, run.names), (0, []), "status and files")
            one_line(run, *words)
