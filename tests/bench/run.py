#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""onstack beside its neighbours in one run: medians, spread and ratios. README.md says how to read them."""

import argparse
import sys
import time
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean

import machine
import plan
import programs
from report import Figures, table, write_json

OURS = "onstack"
PATIENCE = 400  # seconds for one run; the longest, coexist, is sixteen that may all hang for 20


def progress(text, end="\n"):
    print(text, end=end, file=sys.stderr, flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="short runs, three rounds: to see that everything works")
    parser.add_argument("--rounds", type=int, help="rounds over all cases and subjects (5; 3 with --quick)")
    parser.add_argument("--only", action="append", default=[], metavar="CASE", help="a case or family; repeatable")
    parser.add_argument("--subject", action="append", default=[], metavar="NAME", help="a subject; repeatable")
    parser.add_argument("--output", type=Path, default=programs.BUILD / "bench.json", help="build/bench.json")
    parser.add_argument("--list", action="store_true", help="name cases and subjects, and end")
    arguments = parser.parse_args()
    if arguments.rounds is None:
        arguments.rounds = 3 if arguments.quick else 5
    if arguments.rounds < 1:
        parser.error("--rounds starts at 1")
    if not arguments.output.parent.is_dir() and arguments.output.parent != programs.BUILD:
        parser.error(f"--output: there is no directory {arguments.output.parent}")
    return parser, arguments


def build_all(cases, subjects):
    """The reasons why programs are not available, by program."""
    pairs = [(s, c) for c in cases for s in subjects if plan.takes_part(s, c)]
    reasons = {}
    for program in dict.fromkeys(plan.program_of(s, c) for s, c in pairs):
        progress(f"building {program} ...")
        reason = programs.build(program)
        if reason:
            reasons[program] = reason
            progress(f"  not available: {reason}")
    return reasons


def unavailable(cases, subjects, reasons):
    """The same by subject; by subject and case, where that has a program of its own."""
    return {
        f"{s.name} in {c.name}" if c.program else s.name: reasons[plan.program_of(s, c)]
        for c in cases
        for s in subjects
        if plan.takes_part(s, c) and plan.program_of(s, c) in reasons
    }


def schedule(cases, subjects, rounds, reasons):
    """A B C, B C A, ...: neighbours in time are compared, and nobody is always first."""
    for number in range(rounds):
        first = number % len(subjects)
        for case in (case for case in cases if number < case.rounds):
            for subject in subjects[first:] + subjects[:first]:
                if plan.takes_part(subject, case) and plan.program_of(subject, case) not in reasons:
                    yield number, case, subject


def measure(steps, quick, figures):
    """Runs everything; a subject that fails in a case is left out of that case from then on."""
    failures = {}
    for position, (number, case, subject) in enumerate(steps, 1):
        if (case.name, subject.name) in failures:
            continue
        progress(f"[{position}/{len(steps)}] round {number + 1} {case.name} {subject.name} ...", end=" ")
        begin = time.monotonic()
        try:
            for command in case.commands(quick):
                program = plan.program_of(subject, case)
                for metric, unit, value in programs.run(program, subject.variant, command, timeout=PATIENCE):
                    figures.add(case.name, subject.name, number, metric, unit, value)
            progress(f"{time.monotonic() - begin:.1f} s")
        except programs.RunFailed as error:
            failures[case.name, subject.name] = str(error)
            progress(f"failed: {error}")
    return failures


def describe(arguments, load_before, minutes, unbuilt, failures):
    """What the JSON says about the run beside its figures."""
    missing = {name: f"not available: {reason}" for name, reason in unbuilt.items()}
    missing |= {f"{name} in {case}": f"no figures: {reason}" for (case, name), reason in failures.items()}
    return {
        "rounds": arguments.rounds,
        "quick": arguments.quick,
        "minutes": round(minutes, 1),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": dict(machine.facts()) | {"load": f"{load_before} before, {machine.load()} after"},
        "missing": missing,
    }


def print_header(about):
    quick = " (quick: for a first look only)" if about["quick"] else ""
    print(f"onstack and its neighbours: medians of {about['rounds']} rounds{quick}, {about['minutes']} minutes")
    for name, value in about["machine"].items():
        print(f"  {name:14}{value}")


def print_missing(about):
    for what, reason in about["missing"].items():
        print(f"\n{what}: {reason}")


def main():
    parser, arguments = parse_arguments()
    try:
        cases, subjects = plan.choose_cases(arguments.only, arguments.quick), plan.choose_subjects(arguments.subject)
    except plan.PlanError as error:
        parser.error(str(error))
    if arguments.list:
        print("cases:   ", *(c.name for c in cases), "\nsubjects:", *(s.name for s in subjects))
        return 0

    reasons = build_all(cases, subjects)
    if OURS in reasons:
        progress("onstack's own program cannot be built: run `make` in the root first (see build/bench/onstack.log)")
        return 1
    steps = list(schedule(cases, subjects, arguments.rounds, reasons))
    if not steps:
        progress("no subject is available")
        return 1

    figures, load_before, begin = Figures(), machine.load(), time.monotonic()
    failures = measure(steps, arguments.quick, figures)
    unbuilt = unavailable(cases, subjects, reasons)
    about = describe(arguments, load_before, (time.monotonic() - begin) / 60, unbuilt, failures)
    print_header(about)
    print(table(figures))
    print_missing(about)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    write_json(about, figures, arguments.output)
    print(f"\nwritten: {arguments.output}")
    ours = {s.name for s in subjects if s.program == OURS}
    return 1 if any(name in ours for _, name in failures) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nbroken off; nothing was written")
