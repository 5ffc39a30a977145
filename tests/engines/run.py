#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What of the code that engines make and interpret has names and callers: the same work in JavaScript, Java, PHP and Python under
the preload, in each engine that is installed, and in PHPs that ONSTACK_PHPS names. Called by `make stress`; with --write, by `make engines`, makes docs/ENGINES.md.

Of the CPU time of the thread that does the work: *named* is in a stack with one of the program's functions, *whole* in a stack
that also leads to its outermost one, `program`, and to the thread's start. Fails where an engine has less than it is known for.
"""
import collections
import glob
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(ROOT / "tests/preload"))
sys.dont_write_bytecode = True

from profiles import Profile

BUILD = ROOT / os.environ.get("BUILD", "build")
LIBRARY = BUILD / "lib/libonstack-preload.so"
FUNCTIONS = re.compile(r"(?<![A-Za-z_])(digest|sorted|sorted_by|walk|tree|serve|program)(?![a-z_])")
OUTERMOST = re.compile(r"(?<![A-Za-z_])program(?![a-z_])")
NO_FRAME_POINTERS = "its code keeps no frame pointers, and the stack ends there"

# How it is started, what is lost and why; the least of named, whole and rooted in per cent.
Engine = collections.namedtuple("Engine", "title command version lost named whole rooted", defaults=("", 85, 85, 95))
JIT = "-n -d display_startup_errors=0 -d zend_extension=opcache -d opcache.enable=1 -d opcache.enable_cli=1 -d opcache.jit_buffer_size=64M -d opcache.jit=tracing"


def installed(places):
    return sorted(found for place in places for found in glob.glob(os.path.expanduser(place)) if os.access(found, os.X_OK))


def engines(work):
    node, java, php = (shutil.which(name, path="/usr/bin:" + os.environ["PATH"]) for name in ("node", "java", "php"))
    if node:
        script = [HERE / "work.js"]
        for option in ("--perf-basic-prof", "--perf-prof"):
            yield Engine(f"V8, `node {option} --interpreted-frames-native-stack`",
                         [node, option, "--interpreted-frames-native-stack", *script], [node, "--version"])
        yield Engine("V8, `node --perf-basic-prof`", [node, "--perf-basic-prof", *script], [node, "--version"],
                     "interpreted functions are one name, `Builtins_InterpreterEntryTrampoline`", 85, 0)
        yield Engine("V8, `node`", [node, *script], [node, "--version"], "without these options V8 tells no names", 0, 0)
    if java and shutil.which("javac"):
        subprocess.run(["javac", "-d", work, HERE / "Work.java"], check=True)
        lists = ["-XX:+UnlockDiagnosticVMOptions", "-XX:+DumpPerfMapAtExit", "-cp", work, "Work"]
        yield Engine("HotSpot, `java -XX:+PreserveFramePointer -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit`", [java, "-XX:+PreserveFramePointer", *lists],
                     [java, "--version"], "interpreted methods are one name, `Interpreter`", 85, 0, 95 if platform.machine() == "x86_64" else 0)
        yield Engine("HotSpot, `java -XX:+UnlockDiagnosticVMOptions -XX:+DumpPerfMapAtExit`", [java, *lists], [java, "--version"], NO_FRAME_POINTERS, 0, 0, 0)
    for php in filter(None, [php, *os.environ.get("ONSTACK_PHPS", "").split()]):
        version = subprocess.run([php, "-n", "-r", "echo PHP_VERSION, PHP_ZTS ? ' thread-safe' : '';"], capture_output=True, text=True, check=True).stdout
        for title, how in (("PHP, `php`", ["-n"]), ("PHP with its JIT, `opcache.jit=tracing`", JIT.split()),
                           ("PHP with its JIT, `opcache.jit=function`", JIT.replace("tracing", "function").split())):
            yield Engine(title, [php, *how, HERE / "work.php"], ["echo", version])
    if luajit := shutil.which("luajit"):
        yield Engine("LuaJIT, `luajit`", [luajit, HERE / "work.lua"], [luajit, "-v"],
                     "it tells no names, and its code and its interpreter keep no frame pointers", 0, 0, 0)
    for python in installed(["/usr/bin/python3", "~/.pyenv/versions/3.9*/bin/python3", "~/.pyenv/versions/3.1[0-3]*/bin/python3"]):
        yield Engine("CPython, `python3`", [python, HERE / "work.py"], [python, "--version"])


def share(profile, wanted):
    return sum(ns for (_, ns, stack) in profile if wanted(stack))


def measure(engine, work):
    output = work / "profile.pb.gz"
    environment = {**os.environ, "LD_PRELOAD": str(LIBRARY), "ONSTACK_PROFILE": str(output), "ONSTACK_FREQUENCY": "250"}
    with subprocess.Popen(engine.command, env=environment, cwd=work, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        output_text, errors = process.communicate(timeout=120)
    pathlib.Path(f"/tmp/perf-{process.pid}.map").unlink(missing_ok=True)
    if (process.returncode, output_text) != (0, "true\n"):
        sys.exit(f"{engine.title}: status {process.returncode}: {output_text}{errors}")
    profile = Profile(output)
    threads = collections.Counter()
    for (_, ns, stack), labels in zip(profile.samples, profile.labels):
        threads[labels.get("thread", "")] += ns * (10 if any(map(FUNCTIONS.search, stack)) else 1)
    worker = threads.most_common(1)[0][0]
    samples = [sample for sample, labels in zip(profile.samples, profile.labels) if labels.get("thread", "") == worker]
    total = share(samples, lambda _: True)
    named = share(samples, lambda stack: any(map(FUNCTIONS.search, stack)))
    whole = share(samples, lambda stack: any(map(OUTERMOST.search, stack)) and not stack[-1].startswith("[truncated"))
    rooted = share(samples, lambda stack: not stack[-1].startswith("[truncated"))
    return total / 1e9, 100 * named / total, 100 * whole / total, 100 * rooted / total


def main():
    failed, rows = 0, []
    with tempfile.TemporaryDirectory(dir=BUILD) as directory:
        for engine in engines(directory):
            version = subprocess.run(engine.version, capture_output=True, text=True, check=True).stdout.split("\n")[0]
            version = re.search(r"\d+(\.\d+)+( thread-safe)?", version)[0]
            seconds, named, whole, rooted = measure(engine, pathlib.Path(directory))
            rows.append(f"| {engine.title} | {version} | {named:.1f} % | {whole:.1f} % | {rooted:.1f} % | {engine.lost} |")
            short = named < engine.named or whole < engine.whole or rooted < engine.rooted
            failed += short
            print(f"{'not ok' if short else 'ok'} {engine.title} {version}: of {seconds:.2f} s {named:.1f} % named, {whole:.1f} % to program, "
                  f"{rooted:.1f} % to the thread's start", flush=True)
    print(f"engines: {len(rows)} tried, {failed} failed")
    if "--write" in sys.argv:
        (ROOT / "docs/ENGINES.md").write_text(PAGE + "\n".join(rows) + "\n")
    return 1 if failed or not rows else 0


PAGE = """# Engines

For people whose code is compiled at run time, or interpreted. Made by `make engines`.

The same work under the preload at 250 Hz: a hash over a text, a sort with a comparison of the program's own, trees made and
walked. Of the CPU time of the thread that does it: *named*, in a stack with one of the program's functions; *to `program`*, in a
stack that leads to its outermost function and to the thread's start; *to the start*, in a stack that leads to the thread's start.

| engine | version | named | to `program` | to the start | what is lost |
| --- | --- | --- | --- | --- | --- |
"""

if __name__ == "__main__":
    sys.exit(main())
