# SPDX-License-Identifier: MIT OR Apache-2.0
"""Builds and runs the hosts."""

import hashlib
import json
import os
import signal
import subprocess
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
BUILD = ROOT / "build"
OUT = BUILD / "matrix"


class RunFailed(Exception):
    """A host did not come to its end; the text says how."""


def build(host):
    """Makes one host; raises RunFailed with the compiler's words."""
    made = subprocess.run(
        ["make", "--no-print-directory", "-f", "tests/matrix/Makefile", "BUILD=build", host],
        cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )
    if made.returncode != 0:
        raise RunFailed(made.stdout[-3000:])


def digest(host):
    """Of the program: results of another one are not its own."""
    names = [host, "libmatrixgo.so"] if host == "c-shared" else [host]
    total = hashlib.sha256()
    for name in names:
        total.update((OUT / name).read_bytes())
    return total.hexdigest()[:16]


def run(host, arguments, timeout):
    """Returns the events that the host printed."""
    return run_program([OUT / host, *arguments], timeout)


def run_program(command, timeout):
    environment = {k: v for k, v in os.environ.items() if not k.startswith(("ONSTACK_", "LD_PRELOAD", "GO"))}
    environment["GOTRACEBACK"] = "all"
    process = subprocess.Popen(
        [str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment
    )
    try:
        out, problems = process.communicate(timeout=timeout)
    except subprocess.TimeoutExpired:
        raise RunFailed(f"hung for {timeout} s: {_put_down(process)}") from None
    if process.returncode != 0:
        how = f"signal {-process.returncode}" if process.returncode < 0 else f"exit {process.returncode}"
        raise RunFailed(f"{how}: {_shorten(problems)}")
    return json.loads(out)["events"]


def _put_down(process):
    """SIGQUIT first: a Go runtime then says what its goroutines wait for."""
    process.send_signal(signal.SIGQUIT)
    try:
        return _shorten(process.communicate(timeout=5)[1])
    except subprocess.TimeoutExpired:
        process.kill()
        return _shorten(process.communicate()[1])


def _shorten(text):
    return text if len(text) < 3000 else text[:2000] + "\n...\n" + text[-900:]
