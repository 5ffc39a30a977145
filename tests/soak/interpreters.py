#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
What could be read while it goes away: each Python and PHP that tests/engines knows runs for SECONDS, two at a time, at 997 ticks
a second of both clocks, while threads come and go by the thousand, functions are made, called and freed, and garbage collected.
None may crash, and what it works out may not change.

Usage: tests/soak/interpreters.py [SECONDS] (20 each). Called by `make soak`.
"""
import concurrent.futures
import os
import pathlib
import re
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "engines"))
sys.dont_write_bytecode = True

import run

PYTHON = """
import gc, sys, threading, time
end = time.monotonic() + float(sys.argv[1])
made = [0]
def make(number):
    place = {}
    exec(f"def f{number % 97}(n):\\n  return n if n < 2 else f{number % 97}(n - 1) + f{number % 97}(n - 2)", place)
    made[0] += 1
    return place[f"f{number % 97}"]
def generate(n):
    if n: yield from generate(n - 1)
    yield n
def live(number):
    assert make(number)(9) == 34
    assert sum(generate(20)) == 210
    time.sleep(number % 7 / 10000)
def collect():
    while time.monotonic() < end:
        cycle = [make(i) for i in range(50)]
        cycle.append(cycle)
        del cycle
        gc.collect()
        time.sleep(0.002)
threading.Thread(target=collect).start()
started = 0
while time.monotonic() < end:
    threads = [threading.Thread(target=live, args=(started + i,)) for i in range(100)]
    for thread in threads: thread.start()
    for thread in threads: thread.join()
    started += len(threads)
print("done", started)
"""

PHP = """<?php
$end = microtime(true) + (float) $argv[1];
function numbers($n) { if ($n) yield from numbers($n - 1); yield $n; }
function deep($n) { return $n ? 1 + deep($n - 1) : 0; }
class Held { public $self; public $do; function __destruct() { ($this->do)(3); } }
for ($made = 0; microtime(true) < $end; $made++) {
    eval("class C$made { static function f(\\$n) { return \\$n < 2 ? \\$n : self::f(\\$n - 1) + self::f(\\$n - 2); } }");
    if ("C$made"::f(9) !== 34 || array_sum(iterator_to_array(numbers(20), false)) !== 210) exit(3);
    $held = new Held; $held->self = $held; $held->do = fn($n) => usort($GLOBALS['all'], fn($a, $b) => $a <=> $b);
    $all = [3, 1, 2]; unset($held);
    $fiber = new Fiber(fn() => deep(50) + Fiber::suspend(deep(20)));
    if ($fiber->start() !== 20) exit(4);
    $fiber->resume(1);
    if ($fiber->getReturn() !== 51) exit(5);
    if ($made % 50 == 0) gc_collect_cycles();
    if ($made >= 40000) break;
}
echo "done $made";
"""


def endure(title, command, seconds, clock, work):
    """PHP never gives its classes back: it is started again and again."""
    output, runs, told, named, left = work / f"{abs(hash((title, clock)))}.pb.gz", 0, 0, 0, seconds
    environment = {**os.environ, "LD_PRELOAD": str(run.LIBRARY), "ONSTACK_PROFILE": str(output), "ONSTACK_FREQUENCY": "997", "ONSTACK_CLOCK": clock}
    began = os.times().elapsed
    while left > 0:
        done = subprocess.run([*command, f"{left:.1f}"], env=environment, capture_output=True, text=True, timeout=seconds + 120, check=False)
        counted = re.fullmatch(r"done (\d+)\n?", done.stdout)
        if done.returncode != 0 or not counted or not output.exists():
            return f"not ok {title}, {clock}: status {done.returncode}: {done.stdout[-300:]}{done.stderr[-600:]}"
        profile = run.Profile(output)
        named += sum(any(re.search(r"\b(f\d*|deep|numbers|generate|live)$", frame) for frame in stack) for _, _, stack in profile.samples)
        runs, told, left = runs + 1, told + int(counted[1]), seconds - (os.times().elapsed - began)
    lost = next((text for text in profile.comments if text.startswith("onstack.interpreted ")), "onstack.interpreted: none")
    good = named or clock == "wall"  # what waits is native before CPython 3.11
    return f"{'ok' if good else 'not ok'} {title}, {clock}: {told} lives in {runs} runs; {named} stacks have its functions; of the last run: {lost}"


def main():
    seconds = int(sys.argv[1]) if len(sys.argv) > 1 else 20
    with tempfile.TemporaryDirectory(dir=run.BUILD) as directory, concurrent.futures.ThreadPoolExecutor(2) as pool:
        work = pathlib.Path(directory)
        (work / "lives.py").write_text(PYTHON)
        (work / "lives.php").write_text(PHP)
        asked = []
        for engine in run.engines(directory):
            name = "lives.py" if "CPython" in engine.title else "lives.php" if "PHP" in engine.title else None
            if name is None:
                continue
            title = engine.title + " " + subprocess.run(engine.version, capture_output=True, text=True, check=True).stdout.splitlines()[0].strip()
            for clock in ("cpu", "wall"):
                asked.append(pool.submit(endure, title, [engine.command[0], *(["-d", "memory_limit=1G"] if name == "lives.php" else []), *engine.command[1:-1], work / name], seconds, clock, work))
        told = [future.result() for future in asked]
    print(*told, sep="\n")
    failed = sum(text.startswith("not ok") for text in told)
    print(f"interpreters: {len(told)} endured {seconds} s each, {failed} failed")
    return 1 if failed or not told else 0


sys.exit(main())
