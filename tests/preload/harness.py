# SPDX-License-Identifier: MIT OR Apache-2.0
"""Runs test programs under the preload, each case in a directory of its own."""
import os
import pathlib
import platform
import re
import shutil
import subprocess
import tempfile
import threading
import time

from profiles import Profile

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = (ROOT / os.environ.get("BUILD", "build")).resolve()
OUT = BUILD / "tests" / "preload"
LIBRARY = BUILD / "lib" / "libonstack-preload.so"
PROGRAM = OUT / "program"
SIGNALS = OUT / "signals"
HEAP = OUT / "heap"
STUB = OUT / "stub.so"
STATUS = 3  # of program.c
FLAGS = ["-O1", "-g", "-Wall", "-Wextra", "-Werror", "-D_GNU_SOURCE", "-fno-omit-frame-pointer", "-fno-optimize-sibling-calls"]

cases = []
programs = set()  # made in this run
making = threading.Lock()  # two cases run at a time


class Skip(Exception):
    """Not possible here; the text says why."""


class Missing(Skip):
    """What it takes is not installed; the text says what."""


class TooLittle(AssertionError):
    """Less than expected, as a starved machine makes it too: the runner tries again, a few times."""


def built(name, source, *flags, compiler="cc", standard="gnu11"):
    """A program of this directory, compiled once a run of the tests; without the compiler whoever asks for it is skipped."""
    program = OUT / name
    if not shutil.which(compiler):
        raise Missing(f"{compiler} is not installed")
    with making:
        if program not in programs:
            source = pathlib.Path(__file__).with_name(source)
            command = [compiler, f"-std={standard}", *FLAGS, *flags, source, "-o", program, "-lpthread", "-ldl"]
            subprocess.run(command, check=True)
            programs.add(program)
    return program


def case(function):
    cases.append(function)
    return function


def by_itself(function):
    """A case that needs an idle machine, or adds up what all children of this process used: nothing runs beside it."""
    function.by_itself = True
    return case(function)


def rarer(function):
    """A case of seconds whose promise another one keeps in a commoner form: `make test` leaves it out."""
    function.rarer = True
    return case(function)


class Run:
    """One run of a program in an empty directory, with what it left there."""

    def __init__(self, *command, directory=None, stderr=subprocess.PIPE, **variables):
        self.directory = pathlib.Path(directory or tempfile.mkdtemp(dir=OUT, prefix="case-"))
        clean = {k: v for k, v in os.environ.items() if not k.startswith(("ONSTACK_", "CPUPROFILE", "LD_PRELOAD"))}
        preload = variables.pop("LD_PRELOAD", str(LIBRARY))
        # Everything in the program's own environment alone: a wrapper would be the one that is profiled.
        environment = dict(clean, **variables)
        if preload:
            environment["LD_PRELOAD"] = preload
        done = subprocess.run([str(part) for part in command], env=environment, cwd=self.directory, stderr=stderr,
                              stdout=subprocess.PIPE, stdin=subprocess.DEVNULL, timeout=60, check=False)
        self.status, self.output = done.returncode, done.stdout.decode()
        self.errors = (done.stderr or b"").decode()

    def __enter__(self):
        return self

    def __exit__(self, failure, *_):
        if failure is None:
            shutil.rmtree(self.directory)

    @property
    def names(self):
        return sorted(os.listdir(self.directory))

    def profile(self, name="out"):
        return Profile(self.directory / name)

    def profiles(self):
        return [Profile(self.directory / name) for name in self.names if name.startswith("out")]


def in_real_time():
    """What a command begins with to have a real-time priority, if we may: on a busy machine the scheduler lets a process begin
    behind a tick of the kernel's, and those of 3 ms are gone before the next."""
    words = ("chrt", "-r", "1")
    return words if Run(*words, "true", LD_PRELOAD="").status == 0 else ()


def program(seconds, end, *arguments, **options):
    options.setdefault("ONSTACK_PROFILE", "out")
    options.setdefault("ONSTACK_FREQUENCY", "250")
    return Run(PROGRAM, seconds, end, *arguments, **options)


def check(condition, text):
    if not condition:
        raise AssertionError(text)


def equal(found, wanted, what):
    check(found == wanted, f"{what}: {found!r}, not {wanted!r}")


def about(found, wanted, what, low=0.6, high=1.25):
    """CPU time against what the program used. Sampling begins some milliseconds late, more on a busy machine."""
    check(found <= wanted * high, f"{what}: {found:.3f} s, more than {wanted} s")
    if found < wanted * low:
        raise TooLittle(f"{what}: {found:.3f} s, less than {wanted} s")


def one_line(run, *words):
    lines = run.errors.splitlines()
    check(len(lines) == 1 and lines[0].startswith("onstack: "), f"not one line of ours on stderr: {run.errors!r}")
    for word in words:
        check(word in lines[0], f"{word!r} is not in {lines[0]!r}")


def kernel():
    """Its version's first two numbers."""
    return tuple(int(number) for number in re.findall(r"\d+", platform.release())[:2])


def wait_for(path, seconds=20):
    """Until there is something in the file."""
    until = time.monotonic() + seconds
    while not path.exists() or path.stat().st_size == 0:
        check(time.monotonic() < until, f"{path.name} did not appear in {seconds} s")
        time.sleep(0.02)
