# SPDX-License-Identifier: MIT OR Apache-2.0
"""Interpreters and compilers."""
import re
import shutil
import subprocess

import hosts_common
from harness import ROOT, Missing, Skip, check, equal
from profiles import Profile
from hosts_common import compare, host, need, place, profiles, run

PYTHON_SUITES = ["test_signal", "test_threading", "test_subprocess"]


@host("python")
def python():
    """CPython's own tests of what a profiler could disturb. Each test by name with its outcome."""
    interpreter = need("python3")
    if subprocess.run([interpreter, "-c", "import test.test_signal"], capture_output=True, check=False).returncode != 0:
        raise Missing("its tests are not installed (apt-get install libpython3.11-testsuite)")
    directory = place("python")

    def outcomes(preload, *only):
        done = run([interpreter, "-m", "test", "-v", *PYTHON_SUITES, *only], directory, preload, timeout=600)
        text = done.stdout.decode(errors="replace") + done.stderr.decode(errors="replace")
        return done.returncode, dict(re.findall(r"^(test_\w+ \([\w.]+\)).*?\.\.\. (ok|FAIL|ERROR|skipped)", text, re.M | re.S))

    (status, without), (status_under, under) = outcomes(False), outcomes(True)
    check(len(without) > 300, f"only {len(without)} tests ran")
    different = {name: (without.get(name), under.get(name)) for name in without.keys() | under.keys()
                 if without.get(name) != under.get(name)}
    # Some give another program fifths of a second, which are short on a busy machine: each has two more tries, by itself.
    for name, (wanted, _) in list(different.items()):
        if any(outcomes(True, "-m", name.split()[0])[1].get(name) == wanted for _ in range(2)):
            del different[name]
            status_under = status
    equal(different, {}, f"tests with another outcome under the preload (directory {directory})")
    equal(status_under, status, "status")
    told = profiles(directory, least=5, seconds=0.5)
    shutil.rmtree(directory)
    return f"{len(under)} tests as without, {told}"


NODE = """
const { Worker, isMainThread, parentPort } = require('worker_threads');
const { spawnSync, fork } = require('child_process');
const crypto = require('crypto');
const work = () => { let s = 0; for (let i = 0; i < 3e7; i++) s = (s * 31 + i) % 1000003; return s; };
if (!isMainThread) { parentPort.postMessage(work()); }
else if (process.argv[2] === 'child') { console.log('child', work()); process.exit(5); }
else {
  let left = 3;
  const done = () => { if (--left === 0) { process.on('exit', code => console.log('exit', code)); setTimeout(() => process.exit(7), 10); } };
  new Worker(__filename).on('message', m => { console.log('worker', m); crypto.pbkdf2('p', 's', 100000, 32, 'sha256', (e, k) => {
    console.log('pbkdf2', k.toString('hex')); done();
    const r = spawnSync(process.execPath, [__filename, 'child']); console.log(r.stdout.toString().trim(), r.status, r.stderr.length); done(); done(); }); });
}
"""


@host("node")
def node():
    script = place("node-script") / "script.js"
    script.write_text(NODE)
    told = compare("node", [need("node"), script], least=2, share=0.5)
    shutil.rmtree(script.parent)
    return told


GENERATED = """
function innerHot(n) { let s = 0; for (let i = 0; i < n; i++) s += Math.sqrt(i) * (i % 7); return s }
function middleCaller(n) { let t = 0; for (let k = 0; k < 50; k++) t += innerHot(n); return t }
function runAll() { const end = Date.now() + 2000; let x = 0; while (Date.now() < end) x += middleCaller(20000); return x }
console.log(runAll() > 0)
"""


@host("node-names")
def node_names():
    """Generated code has its functions' names, where node writes them for perf: a map, or a dump with lines."""
    if hosts_common.heap or hosts_common.wall:
        raise Skip("about CPU profiles")
    told = []
    for option in ("--perf-basic-prof", "--perf-prof"):
        directory = place("node-names")
        (directory / "script.js").write_text(GENERATED)
        done = run([need("node"), option, directory / "script.js"], directory, True)
        equal((done.returncode, done.stdout, done.stderr), (0, b"true\n", b""), "status, output, errors")
        (profile,) = [Profile(path) for path in (directory / "profiles").iterdir()]
        named = sum(ns for _, ns, stack in profile.samples if any(f"{directory}/script.js" in name for name in stack)) / 1e9
        check(named > 0.7 * profile.seconds() > 0, f"{option}: {named:.2f} of {profile.seconds():.2f} s in the script's functions")
        told.append(f"{named:.2f} of {profile.seconds():.2f} s")
        shutil.rmtree(directory)
    return f"{' and '.join(told)} by name"


LLVM = """
volatile double sink;
double inner_hot(long n) { double s = 0; for (long i = 0; i < n; i++) s += 1.0 / (i + 1); sink = s; return s; }
double middle_caller(long n) { double t = 0; for (int k = 0; k < 300; k++) t += inner_hot(n + k); return t; }
int main(void) { middle_caller(3000000); return 3; }
"""


@host("llvm-names")
def llvm_names():
    """Functions that LLVM compiles have names by the jitdump of its perf listener. They are freed before the profile is written."""
    if hosts_common.heap or hosts_common.wall:
        raise Skip("about CPU profiles")
    directory = place("llvm-names")
    (directory / "hot.c").write_text(LLVM)
    compiler = need("clang" if shutil.which("clang") else "clang-14")
    compiled = run([compiler, "-O1", "-fno-inline", "-fno-omit-frame-pointer", "-S", "-emit-llvm", "hot.c"], directory, False)
    equal(compiled.returncode, 0, compiled.stderr)
    done = run([need("lli"), "--jit-kind=mcjit", "hot.ll"], directory, True, JITDUMPDIR=str(directory))
    equal((done.returncode, done.stdout, done.stderr), (3, b"", b""), "status, output, errors")
    profile = max((Profile(path) for path in (directory / "profiles").iterdir()), key=Profile.seconds)
    named = sum(ns for _, ns, stack in profile.samples if {"inner_hot", "middle_caller", "main"} <= set(stack)) / 1e9
    check(named > 0.7 * profile.seconds() > 0, f"{named:.2f} of {profile.seconds():.2f} s in the functions")
    shutil.rmtree(directory)
    return f"{named:.2f} of {profile.seconds():.2f} s by name"


JAVA = """
import java.util.concurrent.*;
public class Host {
  public static void main(String[] a) throws Exception {
    ExecutorService pool = Executors.newFixedThreadPool(4);
    long sum = 0;
    java.util.List<Future<Long>> all = new java.util.ArrayList<>();
    for (int i = 0; i < 16; i++) { final int n = i; all.add(pool.submit(() -> { long s = n; for (int k = 0; k < 20_000_000; k++) s = s * 31 + k; return s; })); }
    for (Future<Long> f : all) sum += f.get();
    pool.shutdown();
    for (int i = 0; i < 50; i++) { byte[][] b = new byte[100][]; for (int k = 0; k < 100; k++) b[k] = new byte[100_000]; }
    String s = null;
    try { s.length(); } catch (NullPointerException e) { System.out.println("null"); }
    Runtime.getRuntime().addShutdownHook(new Thread(() -> System.out.println("hook")));
    System.out.println(sum);
    System.exit(4);
  }
}
"""


@host("java")
def java():
    """Its collector, its compiler's threads, its own use of SIGSEGV."""
    if shutil.which("javac") is None:
        return compare("java", [need("java"), "-XshowSettings:system", "-version"],
                       clean=lambda text: re.sub(r"(?m)^.*(Limit|Usage|CPU|Memory).*$", "", text))
    source = place("java-source")
    (source / "Host.java").write_text(JAVA)
    subprocess.run(["javac", "Host.java"], cwd=source, check=True)
    told = compare("java", [need("java"), "-cp", source, "Host"], share=0.5)
    shutil.rmtree(source)
    return told


PERL = r"""
use POSIX; $SIG{ALRM} = sub { $rang++ }; $SIG{CHLD} = sub { while ((my $p = waitpid(-1, WNOHANG)) > 0) { $status{$p} = $? >> 8 } };
sub work { my $s = 0; for my $i (1 .. 2_000_000) { $s = ($s * 31 + $i) % 1000003 } $s }
alarm 1; my @kids; for my $n (1 .. 6) { my $p = fork; if (!$p) { work(); $n % 2 ? exit $n : POSIX::_exit($n) } push @kids, $p }
select undef, undef, undef, 0.1 until keys %status == 6 && $rang;
print join(' ', map { $status{$_} } @kids), " $rang ", work(), "\n"; print `echo from a shell; exit 3`, $? >> 8, "\n"; exit 9;
"""


@host("perl")
def perl():
    return compare("perl", [need("perl"), "-e", PERL], least=7, share=0.6)


BASH = r"""
work() { local i s=0; for ((i = 0; i < 40000; i++)); do s=$(((s * 31 + i) % 1000003)); done; echo "$1 $s"; }
trap 'echo trapped' USR1; trap 'echo leaving' EXIT
work main; work a | sort | tr a-z A-Z; (work sub; exit 3); echo $?
for n in 1 2 3; do (work $n >/dev/null; exit $n) & done; for job in $(jobs -p); do wait $job; echo $?; done
kill -USR1 $$; coproc cat; echo through >&${COPROC[1]}; read -r line <&${COPROC[0]}; echo "$line"; eval "exec ${COPROC[1]}>&-"
exec 3>&1 2>&-; echo three >&3; env -i /bin/echo bare; timeout 0.2 sleep 5; echo $?; exit 6
"""


@host("bash")
def bash():
    return compare("bash", [need("bash"), "-c", BASH], least=4, share=0.5)


@host("gcc")
def gcc():
    """The same object file; driver, compiler and assembler are processes of their own."""
    objects = []
    core = ROOT / "core"

    def checker(done, directory):
        equal((done.returncode, done.stderr), (0, b""), "gcc")
        objects.append((directory / "out.o").read_bytes())

    told = compare("gcc", [need("gcc"), "-O2", "-std=gnu11", "-D_GNU_SOURCE", "-I", core / "src", "-I", core / "include", "-c",
                           core / "src" / "session" / "session.c", "-o", "out.o"], checker=checker, share=0.3)
    check(objects[0] == objects[1], "the object files differ")
    return told


ERLANG = """
Work = fun(I) -> lists:foldl(fun(N, S) -> (S * 31 + N) rem 1000003 end, I, lists:seq(1, 100000)) end,
Self = self(),
[spawn_link(fun() -> Self ! {I, Work(I)} end) || I <- lists:seq(1, 8)],
[receive {I, S} -> io:format("~p ~p~n", [I, S]) end || I <- lists:seq(1, 8)],
[io:format("~s", [os:cmd("echo child " ++ integer_to_list(I))]) || I <- lists:seq(1, 3)],
Port = open_port({spawn, "cat"}, [binary]), Port ! {Self, {command, <<"through">>}},
receive {Port, {data, Text}} -> io:format("~s~n", [Text]) end,
Packed = zlib:gzip(binary:copy(<<"onstack ">>, 1000000)), io:format("~p~n", [byte_size(zlib:gunzip(Packed))]),
timer:sleep(200), os:cmd("kill -TERM " ++ os:getpid()), timer:sleep(infinity).
"""


@host("erlang")
def erlang():
    """Its virtual machine defines sigaction itself, and ends in order at SIGTERM."""
    dated = re.compile(r"^=INFO REPORT.*\n", re.M)
    return compare("erlang", [need("erl"), "-noshell", "-eval", ERLANG], clean=lambda text: dated.sub("", text), share=0.5)
