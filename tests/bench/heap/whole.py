# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Whole programs: CPU time of the same work with and without a heap profiler, in pairs, with the interval of their mean. Both of a
pair run at once, each on a processor of its own, and then the other way round: what changes with time changes for both.
What a run takes for start and end, as tables and the profile itself, is told apart: by a run that hardly works.
"""

import math
import os
import shutil
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from statistics import mean, stdev

import tools

LEAST_PAIRS, MOST_PAIRS = 3, 16
# Of t, two-sided 95 %, by degrees of freedom.
STUDENT = {2: 4.30, 3: 3.18, 4: 2.78, 5: 2.57, 6: 2.45, 7: 2.36, 8: 2.31, 9: 2.26}
STUDENT_MORE = 2.23
HERTZ = os.sysconf("SC_CLK_TCK")


def need(*names):
    for name in names:
        path = shutil.which(name, path="/usr/bin:/usr/sbin:" + os.environ["PATH"])
        if not path:
            raise tools.Missing(f"{name} not found")
        yield path


def cpu_of(pid):
    with open(f"/proc/{pid}/stat", encoding="utf-8") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / HERTZ


def on_processor(number):
    return lambda: os.sched_setaffinity(0, {number})


def cpu_of_run(command, variables, scratch, processor):
    """User and system time of a program that ends by itself."""
    process = subprocess.Popen([str(part) for part in command], env=tools.environment(variables), cwd=scratch,
                               preexec_fn=on_processor(processor), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    if status != 0:
        raise RuntimeError(f"{command[0]}: status {status}: {errors.decode()[-200:]}")
    return used.ru_utime + used.ru_stime


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def redis(variables, scratch, processor, little=False):
    """The server's CPU time for a fixed number of requests, without its start and end. Debian's redis brings jemalloc, and under the others theirs."""
    if little:
        return None
    server, bench = need("redis-server", "redis-benchmark")
    port = free_port()
    process = subprocess.Popen([server, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", scratch],
                               env=tools.environment(variables), preexec_fn=on_processor(processor), stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)
    try:
        until = time.monotonic() + 20
        while not answers(port):
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError("redis-server does not answer")
            time.sleep(0.05)
        time.sleep(0.5)
        before = cpu_of(process.pid)
        subprocess.run([bench, "-h", "127.0.0.1", "-p", str(port), "-n", "120000", "-c", "20", "-P", "16", "-d", "300", "-r", "100000",
                        "-t", "set,get,lpush,hset", "-q"], env=tools.environment({}), preexec_fn=on_processor(processor),
                       stdout=subprocess.DEVNULL, check=True, timeout=120)
        return cpu_of(process.pid) - before
    finally:
        process.terminate()
        process.wait(20)


def rocksdb(variables, scratch, processor, little=False):
    """RocksDB's own benchmark: fill and read, in C++."""
    (program,) = need("db_bench")
    place = os.path.join(scratch, "db")
    shutil.rmtree(place, ignore_errors=True)
    return cpu_of_run([program, "--benchmarks=fillrandom,readrandom", f"--num={100 if little else 75000}", "--value_size=200", "--threads=2",
                       f"--db={place}", "--compression_type=lz4", "--seed=1"], variables, scratch, processor)


def go_service(variables, scratch, processor, little=False):
    """Go and wasmtime (Rust): modules are compiled on two goroutines."""
    return cpu_of_run([tools.BUILD / "bench" / "heap-go", "service", f"modules={1 if little else 24}"], variables, scratch, processor)


PROGRAMS = {"redis": redis, "rocksdb": rocksdb, "go-service": go_service}


def used_by(program, variables, scratch, processor):
    """CPU time of the work, and of start and end (None: they are not in it)."""
    once = program(variables, scratch, processor, little=True)
    return program(variables, scratch, processor) - (once or 0), once


def at_once(program, settings, scratch, processors):
    """The same for each setting, on its processor."""
    with ThreadPoolExecutor(len(settings)) as pool:
        together = threading.Barrier(len(settings))

        def run(number):
            place = os.path.join(scratch, str(number))
            os.makedirs(place, exist_ok=True)
            together.wait()
            return used_by(program, settings[number], place, processors[number])

        return list(pool.map(run, range(len(settings))))


def measured(program, emit):
    def measure(name, asked, scratch):
        tool = tools.tool(name, tools.RATE, scratch)
        processors = sorted(os.sched_getaffinity(0))
        if len(processors) < 2:
            raise tools.Missing("two processors")
        logs, ends, end = [], [], time.monotonic() + float(asked["seconds"])
        while len(logs) < LEAST_PAIRS or (len(logs) < MOST_PAIRS and time.monotonic() < end):
            both = []
            for pair in (processors[:2], processors[1::-1]):
                (without, once_without), (with_it, once_with_it) = at_once(program, (tool.base, tool.on), scratch, pair)
                both.append(math.log(with_it / without))
                ends += [once_with_it - once_without] if once_without else []
            logs.append(mean(both))
        half = STUDENT.get(len(logs) - 1, STUDENT_MORE) * stdev(logs) / math.sqrt(len(logs))
        emit("adds", "% CPU time", 100 * (math.exp(mean(logs)) - 1))
        emit("interval", "% CPU time", 100 * half)
        if ends:
            emit("once", "ms", 1000 * mean(ends))

    return measure
