#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The same Python process seen by the preload and by py-spy, which looks from outside: the shares of the ten functions that
py-spy saw most often are within chance of ours, as leaves and with what they called.

Usage: tests/engines/py_spy.py [SECONDS] (40). Called by `make engines`. Python programs: those of run.py from 3.9 on.
"""
import collections
import os
import pathlib
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
sys.dont_write_bytecode = True

import run

VERSION = "0.4.3"
VENV = run.BUILD / "py-spy"
RATE = 100


def name(frame):
    return frame.split(" (")[0].split(":")[-1]


def theirs(path):
    """Leaves, and with what was called, by lines `frame;frame count`; without threads that wait, as py-spy leaves them out."""
    return counted((line.rsplit(" ", 1) for line in path.read_text().splitlines()), lambda stack: stack.split(";")[::-1])


def counted(lines, frames):
    flat, whole, total = collections.Counter(), collections.Counter(), 0
    for stack, count in lines:
        functions = [name(frame) for frame in frames(stack)]
        flat[functions[0]] += int(count)
        for function in set(functions):
            whole[function] += int(count)
        total += int(count)
    return flat, whole, total


def ours(path, known):
    """By samples; native leaves are the Python function's that called them, as py-spy has it."""
    profile = run.Profile(path)
    stacks = ([frame for frame in stack if frame in known] for _, _, stack in profile.samples)
    counts = [count for count, _, _ in profile.samples]
    return counted(((stack, count) for stack, count in zip(stacks, counts) if stack), lambda stack: stack)


def compare(what, one, one_total, other, other_total):
    wrong = 0
    for function, count in one.most_common(10):
        a, b = count / one_total, other[function] / other_total
        # Four standard errors: 120 shares are compared. And a two-hundredth, for py-spy stops the process while it looks.
        bound = 4 * (a * (1 - a) / one_total + b * (1 - b) / other_total) ** 0.5 + 0.005
        good = abs(a - b) <= bound
        wrong += not good
        print(f"{'ok' if good else 'not ok'} {what} {function}: py-spy {100 * a:.1f} %, onstack {100 * b:.1f} % (within {100 * bound:.1f})")
    return wrong


def measure(python, seconds, work):
    output, raw = work / "profile.pb.gz", work / "raw"
    environment = {**os.environ, "LD_PRELOAD": str(run.LIBRARY), "ONSTACK_PROFILE": str(output), "ONSTACK_FREQUENCY": str(RATE)}
    with subprocess.Popen([python, HERE / "library.py", str(seconds)], env=environment) as process:
        look = [VENV / "bin/py-spy", "record", "--format", "raw", "--rate", str(RATE), "--output", raw, "--pid", str(process.pid), "--duration", str(seconds - 2)]
        done = subprocess.run(look, capture_output=True, text=True, check=False)
        if process.wait(timeout=120) != 0 or done.returncode != 0:
            sys.exit(f"{python}: {process.returncode}, py-spy {done.returncode}: {done.stderr}")
    flat, whole, total = theirs(raw)
    our_flat, our_whole, our_total = ours(output, set(whole))
    print(f"-- {python}: {total} samples of py-spy, {our_total} of onstack")
    if min(total, our_total) < 0.5 * RATE * (seconds - 2):
        sys.exit("too few samples")
    return compare("alone", flat, total, our_flat, our_total) + compare("with callees", whole, total, our_whole, our_total)


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 40
    if not (VENV / "bin/py-spy").exists():
        subprocess.run([sys.executable, "-m", "venv", VENV], check=True)
        subprocess.run([VENV / "bin/pip", "install", "--quiet", f"py-spy=={VERSION}"], check=True)
    wrong = 0
    with tempfile.TemporaryDirectory(dir=run.BUILD) as directory:
        pythons = sorted({engine.command[0] for engine in run.engines(directory) if "CPython" in engine.title})
        for python in pythons:
            wrong += measure(python, seconds, pathlib.Path(directory))
    print(f"py-spy: {len(pythons)} versions, {wrong} shares differ")
    return 1 if wrong or not pythons else 0


sys.exit(main())
