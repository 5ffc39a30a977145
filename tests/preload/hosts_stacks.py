# SPDX-License-Identifier: MIT OR Apache-2.0
"""Programs that run on stacks of their own making: their stacks reach a root, or say why they do not."""
import shutil

import hosts_common
from harness import Missing, Skip, check, equal
from profiles import Profile
from hosts_common import host, need, place, run

CUT = "[truncated: "
BOOST = """
#include <boost/context/fiber.hpp>
#include <ctime>
static volatile unsigned long sum;
__attribute__((noinline)) static void burn(double seconds) {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  const double end = now.tv_sec + now.tv_nsec * 1e-9 + seconds;
  do {
    for (int i = 0; i < 10000; i++) sum = sum + i;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (now.tv_sec + now.tv_nsec * 1e-9 < end);
}
int main() {
  for (int round = 0; round < 40; round++) {
    boost::context::fiber fiber{[](boost::context::fiber &&back) {
      for (int i = 0; i < 4; i++) {
        burn(0.01);
        back = std::move(back).resume();
      }
      return std::move(back);
    }};
    while (fiber) fiber = std::move(fiber).resume();
  }
}
"""
PHP = """<?php
function work() { $list = range(0, 5000); usort($list, fn($x, $y) => $y <=> $x); }
function body() { while (true) { work(); Fiber::suspend(); } }
$fibers = [];
for ($i = 0; $i < 4; $i++) { $fibers[$i] = new Fiber('body'); $fibers[$i]->start(); }
for ($round = 0; $round < 60; $round++) foreach ($fibers as $fiber) $fiber->resume();
"""
LISP = """
(defun work (n) (if (< n 2) n (+ (work (- n 1)) (work (- n 2)))))
(dotimes (i 6) (work 34))
(let ((list (loop for i below 300000 collect (random 1000000))))
  (dotimes (i 5) (setf list (sort (copy-list list) (if (evenp i) #'< #'>)))))
"""
SCHEME = """
(define (work n) (if (< n 2) n (+ (work (- n 1)) (work (- n 2)))))
(work 34)
(do ((i 0 (+ i 1))) ((= i 5)) (sort (map (lambda (i) (random 1000)) (iota 100000)) <))
"""


def profiled(name, file, text, *command, compiler=()):
    """The largest profile of the program that the command runs in a directory with the file."""
    if hosts_common.heap or hosts_common.wall:
        raise Skip("about CPU profiles")
    directory = place(name)
    (directory / file).write_text(text)
    if compiler:
        compiled = run(compiler, directory, False)
        if compiled.returncode != 0:
            raise Missing(compiled.stderr.decode(errors="replace")[-300:])
    done = run(command, directory, True)
    equal((done.returncode, done.stderr), (0, b""), "status, errors")
    profile = max((Profile(path) for path in (directory / "profiles").iterdir()), key=Profile.seconds)
    check(profile.seconds() > 0.3, f"{profile.seconds():.2f} s are too few to say anything")
    shutil.rmtree(directory)
    return profile


def share(profile, counts):
    return sum(ns for _, ns, stack in profile.samples if counts(stack)) / 1e9 / profile.seconds()


def reach_their_root(profile):
    whole = share(profile, lambda stack: not any(name.startswith(CUT) for name in stack))
    check(whole > 0.9, f"{whole:.1%} of {profile.seconds():.2f} s reach their root")
    return f"{whole:.1%} of {profile.seconds():.2f} s reach their root"


@host("boost-context")
def boost_context():
    compiler = (need("c++"), "-O2", "-std=c++17", "fibers.cc", "-o", "fibers", "-lboost_context")
    return reach_their_root(profiled("boost-context", "fibers.cc", BOOST, "./fibers", compiler=compiler))


@host("php-fibers")
def php_fibers():
    profile = profiled("php-fibers", "fibers.php", PHP, need("php"), "fibers.php")
    named = share(profile, lambda stack: {"work", "body"} <= set(stack))
    check(named > 0.8, f"{named:.1%} of {profile.seconds():.2f} s are in the fiber's functions")
    return reach_their_root(profile)


@host("sbcl")
def sbcl():
    return reach_their_root(profiled("sbcl", "work.lisp", LISP, need("sbcl"), "--script", "work.lisp"))


@host("guile")
def guile():
    """Its compiler uses the frame pointer's register for its own stack."""
    profile = profiled("guile", "work.scm", SCHEME, need("guile"), "--no-auto-compile", "work.scm")
    said = share(profile, lambda stack: f"{CUT}no unwind information]" in stack)
    others = share(profile, lambda stack: any(name.startswith(CUT) for name in stack)) - said
    check(said > 0.3 and others < 0.05, f"{said:.1%} say why they are cut, {others:.1%} give another reason")
    return f"{said:.1%} of {profile.seconds():.2f} s say that nothing describes the code"
