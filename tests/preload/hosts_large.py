# SPDX-License-Identifier: MIT OR Apache-2.0
"""Large programs: compilers, an encoder, a browser, a database with a process for each connection, a library of data frames."""
import os
import pathlib
import pwd
import re
import shutil
import signal
import subprocess
import sys

import hosts_common
from harness import OUT, ROOT, Missing, check, equal
from hosts_common import Server, both, compare, host, need, place, run


def same(files):
    """A checker for compare: each run left the same files, by what `files` gives for a directory."""
    left = []

    def checker(done, directory):
        equal((done.returncode, done.stderr), (0, b""), "the run")
        left.append({path.name: path.read_bytes() for path in files(directory)})
        check(left[-1], "it left no files")
        check(left[0] == left[-1], "the files differ")

    return checker


@host("clang")
def clang():
    """All of the core in one file."""
    source = ROOT / "bindings" / "go" / "onstack_core.c"
    return compare("clang", [need("clang-14"), "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-w", "-c", source, "-o", "out.o"],
                   checker=same(lambda directory: [directory / "out.o"]), share=0.7)


JAVAC_SOURCE = """
import java.util.*;
import java.util.function.*;
public class C{n} {{
  interface Shape {{ double area(); }}
  record Circle(double r) implements Shape {{ public double area() {{ return Math.PI * r * r; }} }}
  record Square(double a) implements Shape {{ public double area() {{ return a * a; }} }}
  static <T extends Comparable<T>> List<T> sorted(Collection<T> in) {{ List<T> out = new ArrayList<>(in); Collections.sort(out); return out; }}
  static Map<String, List<Integer>> group(List<Integer> in) {{
    Map<String, List<Integer>> out = new TreeMap<>();
    in.forEach(i -> out.computeIfAbsent(switch (i % 3) {{ case 0 -> "a"; case 1 -> "b"; default -> "c"; }}, k -> new ArrayList<>()).add(i));
    return out;
  }}
{methods}
}}
"""
JAVAC_METHOD = "  static int m{m}(int x) {{ Function<Integer, Integer> f = y -> y * {m} + x; return f.andThen(y -> y ^ {m}).apply(x); }}"


@host("javac")
def javac():
    """The compiler's own threads and its collector's, in a JVM that begins and ends in a second."""
    tool = need("javac")
    sources = place("javac-source")
    for n in range(40):
        methods = "\n".join(JAVAC_METHOD.format(m=m) for m in range(30))
        (sources / f"C{n}.java").write_text(JAVAC_SOURCE.format(n=n, methods=methods))
    told = compare("javac", [tool, "-d", "out", *sorted(sources.glob("*.java"))], share=0.7,
                   checker=same(lambda directory: (directory / "out").glob("*.class")))
    shutil.rmtree(sources)
    return told


@host("ffmpeg")
def ffmpeg():
    """x264 by eight threads, whose output for so many threads is always the same."""
    return compare("ffmpeg", [need("ffmpeg"), "-nostdin", "-loglevel", "error", "-f", "lavfi", "-i", "testsrc2=size=640x360:rate=30",
                              "-t", "20", "-c:v", "libx264", "-threads", "8", "-bitexact", "-f", "md5", "-"], share=0.7)


POLARS = """
import polars as pl
n = 2_000_000
frame = pl.DataFrame({"key": pl.Series(range(n)) % 1009, "value": (pl.Series(range(n)) * 7919) % 104729})
for _ in range(3):
    sums = frame.group_by("key").agg(pl.col("value").sum(), pl.col("value").median().alias("median")).sort("key")
joined = frame.join(sums, on="key").sort(["value", "key"])
print(sums.sum(), joined.height, joined["median"].sum(), frame["value"].sort().gather_every(1000).sum())
"""


@host("polars")
def polars():
    """Rust's thread pool, and jemalloc's background threads, which block every signal."""
    interpreter = need("python3")
    wheels = OUT / "polars"
    if not (wheels / "polars").exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--only-binary=:all:", "--target", wheels, "polars"]
        if os.environ.get("ONSTACK_NO_INSTALL") == "1" or subprocess.run(command, capture_output=True, check=False).returncode != 0:
            raise Missing("the polars wheel cannot be had: " + " ".join(str(part) for part in command))
    program = f"import sys; sys.path.insert(0, {str(wheels)!r})" + POLARS
    if subprocess.run([interpreter, "-c", program.split("n =")[0]], capture_output=True, check=False).returncode != 0:
        raise Missing("the polars wheel is not for this python3")
    return compare("polars", [interpreter, "-c", program], share=0.7)


@host("postgresql")
def postgresql():
    """A process for each connection, and pgbench -C makes one for each transaction."""
    found = sorted(pathlib.Path("/usr/lib/postgresql").glob("*/bin/pgbench"))
    if not found:
        raise Missing("postgresql is not installed")
    tools = found[-1].parent
    user = "postgres" if os.geteuid() == 0 else pwd.getpwuid(os.geteuid()).pw_name
    identity = {"user": user, "group": user, "extra_groups": []} if os.geteuid() == 0 else {}

    def serve(directory, preload):
        os.chmod(directory, 0o777)
        data = directory / f"data-{preload}"

        def ask(*command):
            done = run(command, directory, preload and command[0].name == "pgbench", identity=identity)
            check(done.returncode == 0, f"{command[0].name}: {done.stderr.decode()[-500:]}")
            return done.stdout.decode()

        def ready():
            return subprocess.run([tools / "pg_isready", "-q", "-h", directory], check=False).returncode == 0

        ask(tools / "initdb", "-D", data, "-A", "trust", "-N", "-U", "host")
        options = ["-D", data, "-k", directory, "-c", "listen_addresses=", "-c", "fsync=off"]
        with Server([tools / "postgres", *options], directory, preload, ready, identity) as running:
            to = ["-h", directory, "-U", "host"]
            ask(tools / "pgbench", "-i", "-q", *to, "postgres")
            told = ask(tools / "pgbench", "-C", "-n", "-c", "8", "-j", "2", "-t", "40", *to, "postgres")
            check("actually processed: 320/320" in told and "failed transactions: 0 " in told, told)
            sums = "select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)"
            equal(ask(tools / "psql", "-At", *to, "-c", sums, "postgres").strip(), "t", "the sums agree")
            running.end(signal.SIGINT)
        log = running.text()
        check(not re.search(r"terminated by signal|PANIC|crash|connection to client lost", log), f"the server complains: {log[-500:]}")

    return both("postgresql", serve, least=2, seconds=0.2)


CHROMIUM_PAGE = """<!doctype html><title>page</title><body><script>
let s = 0; for (let i = 0; i < 2e7; i++) s = (s * 31 + i) % 1000003;
for (let i = 0; i < 2000; i++) { const e = document.createElement('p'); e.textContent = i + ' ' + s; document.body.append(e); }
</script></body>"""


@host("chromium")
def chromium():
    """Its zygote counts its threads before it forks, and ends if it is not alone. It has an allocator of its own, so that a heap
    profile is refused: in one line, and the script that starts it is profiled."""
    page = place("chromium-page") / "page.html"
    page.write_text(CHROMIUM_PAGE)
    command = [need("chromium"), "--headless", "--no-sandbox", "--disable-gpu", "--user-data-dir=user", "--dump-dom", f"file://{page}"]
    refusals = []

    def clean(text):
        # The log of a browser without a bus; and the script that starts it compares the free space of a disk, wrongly.
        lines = [line for line in text.splitlines() if not re.match(r"\[\d+:\d+:|.*: \[: \d+: unexpected operator", line)]
        refusals.extend(line for line in lines if line.startswith("onstack: ONSTACK_HEAP=1: malloc is that of /usr/lib/chromium"))
        return "\n".join(line for line in lines if line not in refusals)

    told = compare("chromium", command, least=2, share=0.3, clean=clean)
    equal(len(refusals), 1 if hosts_common.heap else 0, "lines that refuse a heap profile")
    shutil.rmtree(page.parent)
    return told
