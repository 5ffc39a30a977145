# SPDX-License-Identifier: MIT OR Apache-2.0
"""
Programs whose CPU time is measured: program(variables, scratch, processor, little) returns seconds, user and system, of it and of
the children that it has waited for. `little`: a run that starts and ends, and hardly works.
"""

import contextlib
import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1] / "heap"))
import tools

ROOT = Path(__file__).resolve().parents[3]


def need(*names):
    for name in names:
        path = shutil.which(name, path="/usr/bin:/usr/sbin:" + os.environ["PATH"])
        if not path:
            raise tools.Missing(f"{name} not found")
        yield path


def on_processor(number):
    return lambda: os.sched_setaffinity(0, {number})


def start(command, variables, scratch, processor, **more):
    return subprocess.Popen([str(part) for part in command], env=tools.environment(variables), cwd=scratch,
                            preexec_fn=on_processor(processor), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **more)


def seconds_of(process):
    """Of a program that has ended, or is about to."""
    errors = process.stderr.read()
    _, status, used = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode not in (0, -signal.SIGTERM):
        raise RuntimeError(f"{process.args[0]}: status {status}: {errors.decode()[-200:]}")
    return used.ru_utime + used.ru_stime


def command(words, variables, scratch, processor):
    return seconds_of(start(words, variables, scratch, processor))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def served(words, variables, scratch, processor, ready, work, stop=signal.SIGTERM, **more):
    """A server's, while `work` asks it."""
    process = start(words, variables, scratch, processor, **more)
    try:
        until = time.monotonic() + 20
        while not ready():
            if time.monotonic() > until or process.poll() is not None:
                raise RuntimeError(f"{words[0]} does not answer")
            time.sleep(0.05)
        work()
    except BaseException:
        process.kill()
        raise
    process.send_signal(stop)
    return seconds_of(process)


def client(words, processor, **more):
    subprocess.run([str(part) for part in words], env=tools.environment({}), preexec_fn=on_processor(processor), check=True,
                   stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, timeout=120, **more)


def answers(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def redis(variables, scratch, processor, little=False):
    """A fixed number of requests. Debian's redis brings jemalloc; under a heap profiler of another allocator it has that."""
    server, bench = need("redis-server", "redis-benchmark")
    port = free_port()

    def work():
        if not little:
            client([bench, "-h", "127.0.0.1", "-p", port, "-n", "120000", "-c", "20", "-P", "16", "-d", "300", "-r", "100000", "-t",
                    "set,get,lpush,hset", "-q"], processor)

    return served([server, "--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", scratch], variables, scratch, processor,
                  lambda: answers(port), work)


def rocksdb(variables, scratch, processor, little=False):
    """RocksDB's own benchmark: fill and read, in C++."""
    (program,) = need("db_bench")
    place = os.path.join(scratch, "db")
    shutil.rmtree(place, ignore_errors=True)
    return command([program, "--benchmarks=fillrandom,readrandom", f"--num={100 if little else 75000}", "--value_size=200", "--threads=2",
                    f"--db={place}", "--compression_type=lz4", "--seed=1"], variables, scratch, processor)


def go_service(variables, scratch, processor, little=False):
    """Go and wasmtime (Rust): modules are compiled on two goroutines."""
    return command([tools.BUILD / "bench" / "heap-go", "service", f"modules={1 if little else 24}"], variables, scratch, processor)


NGINX = """
daemon off; master_process on; worker_processes 1; user root; pid {scratch}/pid; error_log {scratch}/error.log;
events {{ worker_connections 64; }}
http {{ access_log off; gzip on; gzip_types *; gzip_http_version 1.0; {places}
  server {{ listen 127.0.0.1:{port}; keepalive_requests 1000000; location / {{ root {scratch}; }} }} }}
"""


def nginx(variables, scratch, processor, little=False):
    """A page of 20 KB, compressed, by one worker, asked for by eight clients. ab speaks HTTP/1.0, in which a compressed answer has
    no length, so each request has a connection of its own."""
    server, ab = need("nginx", "ab")
    port = free_port()
    places = " ".join(f"{name}_temp_path {scratch}/{name};" for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))
    Path(scratch, "page").write_text("\n".join(f"line {i * 7919 % 10007}" for i in range(2000)), encoding="utf-8")
    Path(scratch, "conf").write_text(NGINX.format(scratch=scratch, places=places, port=port), encoding="utf-8")

    def work():
        with socket.create_connection(("127.0.0.1", port)) as asked:
            asked.sendall(b"GET /page HTTP/1.0\r\nAccept-Encoding: gzip\r\n\r\n")
            if b"Content-Encoding: gzip" not in asked.recv(4096):
                raise RuntimeError("nginx does not compress")
        client([ab, "-q", "-c", "8", "-n", "8" if little else "4000", "-H", "Accept-Encoding: gzip", f"http://127.0.0.1:{port}/page"],
               processor)

    return served([server, "-c", f"{scratch}/conf", "-e", f"{scratch}/error.log"], variables, scratch, processor, lambda: answers(port), work,
                  signal.SIGQUIT)


@contextlib.contextmanager
def database(scratch):
    """PostgreSQL's tools, its data and who may run it: it does not run as root."""
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin/pgbench"))
    if not found:
        raise tools.Missing("pgbench not found")
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    identity = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}
    Path(scratch).chmod(0o777)
    yield Path(found[-1]).parent, Path(scratch, "data"), identity


def postgresql(transactions, *more):
    def run(variables, scratch, processor, little=False):
        with database(scratch) as (place, data, identity):
            to = ["-h", scratch, "-U", "host"]
            new = not data.exists()
            if new:
                client([place / "initdb", "-D", data, "-A", "trust", "-N", "-U", "host"], processor, cwd=scratch, **identity)

            def ready():
                return subprocess.run([place / "pg_isready", "-q", "-h", scratch], check=False).returncode == 0

            def work():
                if new:
                    client([place / "pgbench", "-i", "-q", *to, "postgres"], processor, cwd=scratch, **identity)
                if not little:
                    client([place / "pgbench", "-n", "-S", "-c", "2", "-t", transactions, *more, *to, "postgres"], processor, cwd=scratch, **identity)

            options = ["-D", data, "-k", scratch, "-c", "listen_addresses=", "-c", "fsync=off", "-c", "autovacuum=off"]
            return served([place / "postgres", *options], variables, scratch, processor, ready, work, signal.SIGINT, **identity)

    return run


def duckdb(variables, scratch, processor, little=False):
    """Go that asks DuckDB (C++) on two goroutines."""
    return command([tools.BUILD / "bench" / "whole-duckdb", "1" if little else "12"], variables, scratch, processor)


def axum(variables, scratch, processor, little=False):
    """A service in Rust, asked by eight clients that keep their connections."""
    (ab,) = need("ab")
    port = free_port()

    def work():
        client([ab, "-q", "-k", "-c", "8", "-n", "8" if little else "25000", f"http://127.0.0.1:{port}/words/200"], processor)

    return served([tools.BUILD / "bench" / "whole-axum", port], variables, scratch, processor, lambda: answers(port), work)


def clang(variables, scratch, processor, little=False):
    (compiler,) = need("clang-14")
    source = Path(scratch, "made.c")
    if not source.exists():
        body = "".join(f"int f{i}(const char *s, int n) {{ int t = n * {i}; for (; *s; s++) t += *s % {i + 2} ? strlen(s) : *s; return t; }}\n"
                       for i in range(700))
        source.write_text("#include <string.h>\n#include <stdio.h>\n#include <math.h>\n" + body, encoding="utf-8")
    return command([compiler, *(["--version"] if little else ["-O2", "-g", "-c", source, "-o", "/dev/null"])], variables, scratch, processor)


def javac(variables, scratch, processor, little=False):
    (compiler,) = need("javac")
    source = Path(scratch, "Made.java")
    if not source.exists():
        body = "".join(f"  static java.util.List<Integer> f{i}(java.util.List<String> of) {{ return of.stream().map(s -> s.length() + {i})"
                       f".filter(n -> n % {i + 2} != 0).toList(); }}\n" for i in range(150))
        source.write_text("class Made {\n" + body + "}\n", encoding="utf-8")
    return command([compiler, *(["-version"] if little else ["-d", scratch, source])], variables, scratch, processor)


SHELL_COMMANDS = 100


def shell(variables, scratch, processor, little=False):
    """A script of many short commands."""
    loop = f"i=0; while [ $i -lt {SHELL_COMMANDS} ]; do /bin/true; i=$((i + 1)); done"
    return None if little else command(["/bin/sh", "-c", loop], variables, scratch, processor)


CLANG_VERSIONS = 10


def clang_version(variables, scratch, processor, little=False):
    """A large library, and hardly any work."""
    (compiler,) = need("clang-14")
    loop = f"i=0; while [ $i -lt {CLANG_VERSIONS} ]; do {compiler} --version; i=$((i + 1)); done"
    return None if little else command(["/bin/sh", "-c", loop], variables, scratch, processor)


def of_commands(program):
    """Of the programs that run many short ones: how many."""
    return {shell: SHELL_COMMANDS, clang_version: CLANG_VERSIONS}.get(program)
