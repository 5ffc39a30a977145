# SPDX-License-Identifier: MIT OR Apache-2.0
"""What the hosts' tests share: a run without and one with the preload, and a look at the profiles."""
import os
import pathlib
import re
import resource
import shutil
import subprocess
import tempfile
import time

from harness import LIBRARY, OUT, Missing, check, equal
from profiles import Profile

hosts = {}
heap = False  # heap profiles instead of those of time
wall = False  # real time, at the rate of CPU profiles


def host(name):
    def register(function):
        hosts[name] = function
        return function

    return register


def need(*tools):
    """/usr/bin first: a person's own interpreter may stand before Debian's in PATH."""
    found = [shutil.which(tool, path="/usr/sbin:/usr/bin:/sbin:/bin:" + os.environ["PATH"]) for tool in tools]
    for tool, path in zip(tools, found):
        if not path:
            raise Missing(f"{tool} is not installed")
    return found[0] if len(found) == 1 else found


def place(name):
    return pathlib.Path(tempfile.mkdtemp(dir=OUT, prefix=f"host-{name}-"))


def environment(directory, preload, **more):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(("ONSTACK_", "CPUPROFILE", "LD_PRELOAD"))}
    clean.update(PATH="/usr/sbin:/usr/bin:/sbin:/bin:" + os.environ["PATH"], LC_ALL="C.UTF-8", **more)
    if preload:
        (directory / "profiles").mkdir(exist_ok=True)
        # Servers that give up root write where everybody may.
        os.chmod(directory, 0o777)
        os.chmod(directory / "profiles", 0o777)
        clean.update(LD_PRELOAD=str(LIBRARY), ONSTACK_PROFILE=f"{directory}/profiles/%p.pb.gz")
        if heap:
            clean.update(ONSTACK_HEAP="1", ONSTACK_HEAP_RATE="65536")
        elif wall:
            clean.update(ONSTACK_CLOCK="wall", ONSTACK_FREQUENCY="100")
        else:
            clean.update(ONSTACK_FREQUENCY="250")
    return clean


def unexplained(paths):
    """Of the memory of the largest process; servers and interpreters are to know theirs."""
    parts = [re.findall(r"onstack\.memory bytes=(\d+) of=(.+)", "\n".join(Profile(path).comments)) for path in paths]
    sizes = [{name: int(size) for size, name in part} for part in parts if part]
    largest = max(sizes, key=lambda size: size.get("resident", 0), default={})
    return largest.get("unexplained", 0) / largest["resident"] if largest else 0.0


def profiles(directory, least=1, seconds=0.0):
    """Reads all, some with google/pprof; says how many there are and how much time they tell of."""
    found = sorted((directory / "profiles").iterdir())
    check(not [path for path in found if path.name.endswith(".tmp")], f"half a profile is left in {directory}")
    # A child that allocates next to nothing has no sample, and leaves no profile.
    check(len(found) >= (1 if heap else least), f"{len(found)} profiles in {directory}, not {least}")
    if heap:
        told = f"{sum(Profile(path).sum(1) for path in found) >> 20} MiB, {unexplained(found):.1%} of the memory unexplained"
    else:
        total = sum(Profile(path).seconds() for path in found)
        check(total >= seconds, f"the profiles in {directory} tell of {total:.2f} s, not of {seconds:.2f}")
        told = f"{total:.2f} s"
    if shutil.which("go"):
        for path in sorted(found, key=lambda file: file.stat().st_size)[-3:]:
            shown = subprocess.run(["go", "tool", "pprof", "-top", path], capture_output=True, text=True, check=False)
            check(shown.returncode == 0 and "flat%" in shown.stdout, f"pprof cannot read {path}: {shown.stderr}")
    return f"{len(found)} profiles, {told}"


def children_cpu():
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def run(command, directory, preload, timeout=300, identity=None, **more):
    """`cpu` of what it returns: what the program and its descendants used, as far as they were waited for. `identity`:
    user and group, as Popen takes them."""
    before = children_cpu()
    done = subprocess.run([str(part) for part in command], env=environment(directory, preload, **more), cwd=directory,
                          stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout, check=False, **(identity or {}))
    done.cpu = children_cpu() - before
    return done


def compare(name, command, least=1, timeout=300, clean=lambda text: text, checker=None, share=0.0):
    """The same status and output with and without; `clean` takes away what differs between any two runs. The profiles tell
    of that share of the CPU time at least: each process begins and writes its profile unsampled, and lacks a part of a
    period in the end."""
    directory = place(name)
    told = []
    for preload in (False, True):
        done = run(command, directory, preload, timeout)
        if checker:
            checker(done, directory)
        told.append((done.returncode, clean(done.stdout.decode()), clean(done.stderr.decode())))
    for what, without, under in zip(("status", "stdout", "stderr"), *told):
        equal(under, without, f"{what} under the preload (directory {directory})")
    text = profiles(directory, least, share * done.cpu)
    shutil.rmtree(directory)
    return f"{text} of {done.cpu:.2f} s"


def both(name, serve, least, seconds):
    directory = place(name)
    for preload in (False, True):
        serve(directory, preload)
    told = profiles(directory, least, seconds)
    shutil.rmtree(directory)
    return told


class Server:
    """A server in the foreground; `ready` returns once it answers."""

    def __init__(self, command, directory, preload, ready, identity=None, **more):
        self.log = open(directory / f"log-{preload}", "wb")
        self.process = subprocess.Popen([str(part) for part in command], cwd=directory, stdin=subprocess.DEVNULL,
                                        env=environment(directory, preload, **more), stdout=self.log, stderr=self.log,
                                        start_new_session=True, **(identity or {}))
        until = time.monotonic() + 30
        while not ready():
            check(self.process.poll() is None, f"the server has ended ({self.process.poll()}): {self.text()[-500:]}")
            check(time.monotonic() < until, f"the server does not answer: {self.text()[-500:]}")
            time.sleep(0.05)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        """However the test ended, no server stays."""
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(20)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        try:
            os.killpg(self.process.pid, 9)  # workers that outlived it
        except ProcessLookupError:
            pass
        self.log.close()

    def text(self):
        return pathlib.Path(self.log.name).read_text(errors="replace")

    def end(self, signal, status=0, seconds=60, group=False):
        """`group`: as a terminal does, to the children too."""
        (os.killpg if group else os.kill)(self.process.pid, signal)
        equal(self.process.wait(seconds), status, "the server's exit status")
