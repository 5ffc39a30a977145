#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""onstack beside its neighbours in one run: medians, spread and ratios. README.md says how to read them."""

import argparse
import os
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from statistics import median

sys.dont_write_bytecode = True  # the source tree stays clean

import machine
import plan
import programs
from report import Figures, table, write_json
from sections import SECTIONS

OURS = "onstack"
PATIENCE = 400  # seconds for one run; the longest, coexist, is sixteen that may all hang for 8


def progress(text, end="\n"):
    print(text, end=end, file=sys.stderr, flush=True)


def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    form = parser.add_mutually_exclusive_group()
    form.add_argument("--quick", action="store_const", dest="form", const=plan.QUICK, help="short runs, two rounds: a first look")
    form.add_argument("--long", action="store_const", dest="form", const=plan.LONG, help="long runs, five rounds of everything")
    parser.add_argument("--rounds", type=int, help="just so many rounds over all cases and subjects")
    parser.add_argument("--minutes", type=float, default=plan.MINUTES, help=f"no further rounds after these ({plan.MINUTES})")
    parser.add_argument("--only", action="append", default=[], metavar="CASE", help="a case or family; repeatable")
    parser.add_argument("--subject", action="append", default=[], metavar="NAME", help="a subject; repeatable")
    parser.add_argument("--output", type=Path, default=programs.BUILD / "bench.json", help="build/bench.json")
    parser.add_argument("--list", action="store_true", help="name cases and subjects, and end")
    arguments = parser.parse_args()
    arguments.form = arguments.form or plan.USUAL
    if arguments.rounds is not None and arguments.rounds < 1:
        parser.error("--rounds starts at 1")
    if not arguments.output.parent.is_dir() and arguments.output.parent != programs.BUILD:
        parser.error(f"--output: there is no directory {arguments.output.parent}")
    return parser, arguments


def build_one(program):
    begin = time.monotonic()
    reason = programs.build(program)
    progress(f"built {program} in {time.monotonic() - begin:.0f} s" + (f": not available: {reason}" if reason else ""))
    return reason


def build_all(cases, subjects):
    """The reasons why programs are not available, by program."""
    needed = dict.fromkeys(plan.program_of(s, c) for c in cases for s in subjects if plan.takes_part(s, c))
    # What two of them build at once must not be one file: the flame graphs' have all of their own but the library.
    lanes = [[p for p in needed if p.startswith("flame-") is flame] for flame in (True, False)]
    with ThreadPoolExecutor(len(lanes)) as pool:
        built = pool.map(lambda lane: [(program, build_one(program)) for program in lane], lanes)
        return {program: reason for lane in built for program, reason in lane if reason}


def unavailable(cases, subjects, reasons):
    """The same by subject; by subject and case, where that has a program of its own."""
    return {
        f"{s.name} in {c.name}" if c.program else s.name: reasons[plan.program_of(s, c)]
        for c in cases
        for s in subjects
        if plan.takes_part(s, c) and plan.program_of(s, c) in reasons
    }


def pairs_of(cases, subjects, reasons, number):
    """A B C, B C A, ...: neighbours in time are compared, and nobody is always first."""
    first = number % len(subjects)
    for case in (case for case in cases if number < case.rounds):
        chosen = [s for s in subjects[first:] + subjects[:first] if plan.takes_part(s, case) and plan.program_of(s, case) not in reasons]
        if chosen:
            yield case, chosen


SHOWN = {(column.case, column.metric) for section in SECTIONS for column in section.columns}


def breadth(figures, case, subject):
    """How far apart a row's rounds lie, in what is allowed: 1 and less is narrow enough."""
    broadest = 0
    for metric, unit, values in figures.of(case.name, subject.name):
        if (case.name, metric) in SHOWN and max(values) > min(values):
            two = len(values) < 3
            if unit.startswith("%"):
                allowed = plan.POINTS_AFTER_TWO if two else plan.POINTS
            else:
                allowed = abs(median(values)) * (plan.NARROW_AFTER_TWO if two else plan.NARROW)
            broadest = max(broadest, (max(values) - min(values)) / allowed if allowed else float("inf"))
    return broadest


def still_broad(figures, pairs):
    """Rows whose rounds lie far apart, with what their ratio is against; the broadest case first."""
    chosen = []
    for case, subjects in pairs:
        widths = {s.name: breadth(figures, case, s) for s in subjects}
        broad = {name for name, width in widths.items() if width > 1}
        if broad:
            broad |= {plan.baseline(case.name, name) for name in broad}
            chosen.append((max(widths.values()), case, [s for s in subjects if s.name in broad]))
    return [(case, subjects) for _, case, subjects in sorted(chosen, key=lambda c: -c[0])]


class Run:
    """One run of the benchmark: its figures, what failed, and what each row took."""

    def __init__(self, form, begin):
        self.form, self.begin = form, begin
        self.figures, self.failures, self.seconds = Figures(), {}, {}

    def minutes(self):
        return (time.monotonic() - self.begin) / 60

    def step(self, number, case, subject):
        """A subject that fails in a case is left out of that case from then on."""
        if (case.name, subject.name) in self.failures:
            return
        begin, program, how = time.monotonic(), plan.program_of(subject, case), ""
        try:
            for command in case.commands(self.form):
                for metric, unit, value in programs.run(program, subject.variant, command, timeout=PATIENCE):
                    self.figures.add(case.name, subject.name, number, metric, unit, value)
        except programs.RunFailed as error:
            self.failures[case.name, subject.name] = str(error)
            how = f" failed: {error}"
        took = time.monotonic() - begin
        rows = self.seconds.setdefault(case.name, {})
        rows[subject.name] = rows.get(subject.name, 0) + took
        progress(f"[{self.minutes():.1f} min] round {number + 1} {case.name} {subject.name} {took:.1f} s{how}")

    def case(self, number, case, subjects):
        begin = time.monotonic()
        with ThreadPoolExecutor(min(2, len(os.sched_getaffinity(0))) if case.together else 1) as pool:
            list(pool.map(lambda subject: self.step(number, case, subject), subjects))
        self.seconds[case.name]["all"] = self.seconds[case.name].get("all", 0) + time.monotonic() - begin

    def by_family(self, cases):
        families = {}
        for case in cases:
            families[case.family] = families.get(case.family, 0) + self.seconds.get(case.name, {}).get("all", 0)
        return families


def measure(run, cases, subjects, reasons, least, most, minutes):
    for number in range(most):
        pairs = list(pairs_of(cases, subjects, reasons, number))
        for case, chosen in pairs if number < least else still_broad(run.figures, pairs):
            if number >= least and run.minutes() >= minutes:
                return
            run.case(number, case, chosen)


def describe(run, rounds, cases, load_before, unbuilt):
    """What the JSON says about the run beside its figures."""
    missing = {name: f"not available: {reason}" for name, reason in unbuilt.items()}
    missing |= {f"{name} in {case}": f"no figures: {reason}" for (case, name), reason in run.failures.items()}
    return {
        "rounds": rounds[1],
        "least_rounds": rounds[0],
        "form": run.form,
        "quick": run.form == plan.QUICK,
        "minutes": round(run.minutes(), 1),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
        "machine": dict(machine.facts()) | {"load": f"{load_before} before, {machine.load()} after"},
        "missing": missing,
        "seconds": {case: {name: round(value, 1) for name, value in rows.items()} for case, rows in run.seconds.items()},
        "family_seconds": {name: round(value, 1) for name, value in run.by_family(cases).items()},
    }


def print_header(about):
    quick = " (quick: for a first look only)" if about["quick"] else ""
    least, most = about["least_rounds"], about["rounds"]
    rounds = f"{least} to {most}" if least < most else most
    print(f"onstack and its neighbours: medians of {rounds} rounds{quick}, {about['minutes']} minutes")
    for name, value in about["machine"].items():
        print(f"  {name:14}{value}")
    print("  seconds       " + ", ".join(f"{name} {value:.0f}" for name, value in about["family_seconds"].items()))


def print_missing(about):
    for what, reason in about["missing"].items():
        print(f"\n{what}: {reason}")


def main():
    parser, arguments = parse_arguments()
    try:
        cases, subjects = plan.choose_cases(arguments.only, arguments.form), plan.choose_subjects(arguments.subject)
    except plan.PlanError as error:
        parser.error(str(error))
    if arguments.list:
        print("cases:   ", *(c.name for c in cases), "\nsubjects:", *(s.name for s in subjects))
        return 0

    begin = time.monotonic()
    reasons = build_all(cases, subjects)
    if OURS in reasons:
        progress("onstack's own program cannot be built: run `make` in the root first (see build/bench/onstack.log)")
        return 1
    if not any(pairs_of(cases, subjects, reasons, 0)):
        progress("no subject is available")
        return 1

    rounds = (arguments.rounds,) * 2 if arguments.rounds else plan.ROUNDS[arguments.form]
    load_before, run = machine.load(), Run(arguments.form, begin)
    measure(run, cases, subjects, reasons, *rounds, arguments.minutes)
    about = describe(run, rounds, cases, load_before, unavailable(cases, subjects, reasons))
    print_header(about)
    print(table(run.figures))
    print_missing(about)
    arguments.output.parent.mkdir(parents=True, exist_ok=True)
    write_json(about, run.figures, arguments.output)
    print(f"\nwritten: {arguments.output}")
    ours = {s.name for s in subjects if s.program == OURS}
    return 1 if any(name in ours for _, name in run.failures) else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit("\nbroken off; nothing was written")
