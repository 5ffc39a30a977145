#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
build/bench.json -> docs/BENCHMARKS.md, with the figures kept beside it as docs/benchmarks.json.

With --check nothing is written: the page must be what the kept figures give.
"""

import argparse
import json
import re
import sys
import tomllib
from collections import namedtuple
from pathlib import Path

sys.dont_write_bytecode = True  # the source tree stays clean

import remarks
from sections import CAPTIONS, LESS, MORE, NEUTRAL, ONE, OURS, RIVALS, SECTIONS

ROOT = Path(__file__).resolve().parent.parent.parent
PAGE = ROOT / "docs" / "BENCHMARKS.md"
KEPT = ROOT / "docs" / "benchmarks.json"
DATA = tomllib.loads(Path(__file__).with_name("aims.toml").read_text())
Aim = namedtuple("Aim", "text case metric subject limit unit divide at_least reason", defaults=(1, False, ""))
AIMS = [Aim(**row) for row in DATA["aims"]]
SAME = 1.02  # figures that differ by less are alike


class Unexplained(Exception):
    """Something is lost without a reason; the text says what and where to write it."""


class Figures:
    def __init__(self, content):
        self.about = content["about"]
        self._records = {(r["case"], r["metric"], r["subject"]): r for r in content["records"]}

    def find(self, column, subject):
        return self._records.get((column.case, column.metric, subject))

    def interval(self, record):
        """Half of that of a figure which has one, as another metric of the same row."""
        half = self._records.get((record["case"], "interval", record["subject"]))
        return half["median"] if half else None

    def subjects(self, columns):
        cells = {(c.case, c.metric) for c in columns}
        here = {s for case, metric, s in self._records if (case, metric) in cells}
        return [s for s in CAPTIONS if s in here]


def number(value):
    if value == 0:
        return "0"
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.1f}".removesuffix(".0")


def cell(record, column):
    if not record:
        return "-"
    middle, low, high = (number(record[key] / column.divide) for key in ("median", "low", "high"))
    return middle if low == high else f"{middle} ({low} .. {high})"


def table(figures, section):
    columns = [c for c in section.columns if any(figures.find(c, s) for s in CAPTIONS)]
    if not columns:
        return ["*Not measured in this run.*"]
    lines = ["| | " + " | ".join(c.title for c in columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for subject in figures.subjects(columns):
        cells = [cell(figures.find(c, subject), c) for c in columns]
        lines.append(f"| {CAPTIONS[subject]} | " + " | ".join(cells) + " |")
    remarks = section.remark(figures, columns) if section.remark else []
    return lines + [""] + losses(figures, section, columns) + remarks


def is_ahead(column, theirs, ours):
    if column.better == ONE:
        return abs(theirs - 1) < abs(ours - 1) - (SAME - 1)
    if column.better == MORE:
        return theirs > ours * SAME
    return theirs < ours / SAME if ours > 0 else theirs < ours


def neighbours(figures, column):
    """Each that is measured, its record and ours in the same program."""
    for subject in CAPTIONS:
        theirs = figures.find(column, subject)
        ours = figures.find(column, RIVALS.get(subject, "onstack-rules"))
        if theirs and ours and subject not in OURS and subject not in NEUTRAL:
            yield subject, theirs, ours


def doubt(figures, section, column, theirs, ours):
    """Why a lead may be none, in words."""
    noise = figures.find(column, section.noise)
    if noise and abs(theirs["median"] - ours["median"]) < remarks.span(noise):
        return " (within the bare counter's spread)"
    halves = [figures.interval(record) for record in (theirs, ours)]
    if all(halves):
        return " (the intervals overlap)" if abs(theirs["median"] - ours["median"]) < sum(halves) else ""
    return "" if are_apart(theirs, ours) else " (the spreads overlap)"


def leads(figures, section, column):
    """Who is ahead of onstack: subject, in words, and whether that is sure."""
    for subject, theirs, ours in neighbours(figures, column):
        if is_ahead(column, theirs["median"] / column.divide, ours["median"] / column.divide):
            unsure = doubt(figures, section, column, theirs, ours)
            yield subject, CAPTIONS[subject] + times(column, theirs["median"], ours["median"]) + unsure, not unsure


def losses(figures, section, columns):
    """Who is ahead, column by column: losses are said like wins."""
    lines = []
    for column in columns:
        if not column.better or not any(neighbours(figures, column)):
            continue
        found = "; ".join(words for _, words, _ in leads(figures, section, column))
        if found:
            lines.append(f"- {column.title}: ahead of onstack: {found}")
    return lines or ["- Nobody is ahead of onstack."] if any(is_compared(figures, column) for column in columns) else []


def is_compared(figures, column):
    return bool(column.better) and any(neighbours(figures, column))


def summary(figures):
    """What the page shows, in a few lines: aims, and who is ahead where."""
    measured = [(aim, figures.find(aim, aim.subject)) for aim in AIMS]
    reached = sum(1 for aim, record in measured if record and is_reached(aim, record))
    lines = [f"- onstack reaches {reached} of its {len(AIMS)} aims."]
    first, behind = [], []
    for section in SECTIONS:
        if not any(is_compared(figures, column) for column in section.columns):
            continue
        found = [lead for column in section.columns if column.better for lead in leads(figures, section, column)]
        ahead = {subject for subject, _, sure in found if sure}
        if ahead:
            behind.append(f"  - {section.title}: {'; '.join(CAPTIONS[s] for s in CAPTIONS if s in ahead)}")
        else:
            first.append(section.title)
    if first:
        lines.append(f"- No neighbour is ahead beyond doubt in: {'; '.join(first)}.")
    if behind:
        lines += ["- A neighbour is ahead in at least one column of:", *behind]
    return lines


def reasons(figures, section):
    """Why those are ahead who are. A lead that is in doubt needs no reason, but has one where there is one."""
    found = [lead for column in section.columns if column.better for lead in leads(figures, section, column)]
    ahead, lines = {subject for subject, _, _ in found}, []
    explanations = [row for row in DATA["leads"] if row["section"] == section.title]
    for row in explanations:
        names = [CAPTIONS[s] for s in CAPTIONS if s in ahead and s in row["of"]]
        if names:
            lines += ["", f"Why ({'; '.join(names)}): {reason(row['reason'])}"]
    explained = {subject for row in explanations for subject in row["of"]}
    for subject, _, sure in found:
        if sure and subject not in explained:
            raise Unexplained(f"{section.title}: {subject} is ahead, and aims.toml does not say why")
    return lines


def are_apart(a, b):
    return a["high"] < b["low"] or b["high"] < a["low"]


def times(column, theirs, ours):
    if column.better == LESS and theirs > 0:
        return f" ({ours / theirs:.1f} times)"
    return ""


def is_reached(aim, record):
    value = record["median"] / aim.divide
    return value >= aim.limit if aim.at_least else value <= aim.limit


def aims(figures):
    lines, missed = ["| aim | figure | |", "|---|---|---|"], []
    for aim in AIMS:
        record = figures.find(aim, aim.subject)
        relation = "at least" if aim.at_least else "at most"
        text = f"{aim.text}: {relation} {aim.limit:g} {aim.unit}"
        if not record:
            lines.append(f"| {text} | - | not measured |")
            continue
        reached = is_reached(aim, record)
        value = number(record["median"] / aim.divide)
        lines.append(f"| {text} | {value} {aim.unit} | {'reached' if reached else '**not reached**'} |")
        if not reached:
            missed.append(aim)
    return lines + [""] + [missed_aim(aim) for aim in missed]


def missed_aim(aim):
    if not aim.reason:
        raise Unexplained(f"{aim.text} ({aim.case}) is not reached, and aims.toml does not say why and what is planned")
    return f"- {aim.text}: {reason(aim.reason)}"


def reason(name):
    found = DATA["reasons"][name]
    return f"{found['why']} Planned: {found['plan']}"


def was_busy(about):
    """Whether other programs wanted the processors too; told by the load, of which the machine's table has the cores."""
    loads = [float(word) for word in re.findall(r"\d+\.\d+", about["machine"].get("load", ""))]
    return any(load > 2 * int(about["machine"]["cores"].split()[0]) for load in loads)


def machine(about):
    quick = " This was the quick form, for a first look only." if about["quick"] else ""
    busy = " Other programs kept the processors busy for a part of the run." if was_busy(about) else ""
    least = about.get("least_rounds", about["rounds"])
    rounds = f"{least} to {about['rounds']}" if least < about["rounds"] else about["rounds"]
    lines = [f"{rounds} rounds in {about['minutes']:g} minutes.{quick}{busy}", "", "| | |", "|---|---|"]
    return lines + [f"| {name} | {value} |" for name, value in about["machine"].items() if name != "load"]


def missing(about):
    if not about["missing"]:
        return []
    return ["", "## Not measured", ""] + [f"- {what}: {why}" for what, why in about["missing"].items()]


def page(figures):
    lines = [
        "# Benchmarks",
        "",
        "<!-- Made by tests/bench/page.py from docs/benchmarks.json; do not edit. -->",
        "",
        "For readers who compare onstack with other profilers: costs, right stacks and weights, side by side, in one run of",
        "`make bench`. Losses are said like wins, each with its reason.",
        "",
        "## Summary",
        "",
        *summary(figures),
        "",
        "## How to read it",
        "",
        "A figure is the median of the rounds, with the lowest and the highest in brackets. Each run is a process of its own, and",
        "in each round all subjects run in turn, so ratios hold better than absolute figures. *Ahead* is who is better by more than",
        f"{SAME - 1:.0%} (of weights: nearer to 1 by more than {SAME - 1:.2f}). Where two spreads overlap, or a difference lies within the noise that a",
        "section names, the page says so. [tests/bench/README.md](../tests/bench/README.md) has subjects and cases.",
        "",
        *machine(figures.about),
        "",
        "## Aims",
        "",
        *aims(figures),
    ]
    for section in SECTIONS:
        lines += ["", f"## {section.title}", "", section.text, "", *table(figures, section)]
        lines += ["", section.note] if section.note else []
        lines += reasons(figures, section)
    return "\n".join(lines + missing(figures.about)).rstrip() + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("figures", type=Path, nargs="?", help="what run.py wrote (default: build/bench.json)")
    parser.add_argument("--check", action="store_true", help="is the page what the kept figures give?")
    arguments = parser.parse_args()
    source = KEPT if arguments.check else arguments.figures or ROOT / "build" / "bench.json"
    try:
        text = source.read_text()
    except OSError as error:
        sys.exit(f"page.py: {source}: {error.strerror}; run `make bench` first")
    try:
        made = page(Figures(json.loads(text)))
    except Unexplained as error:
        sys.exit(f"page.py: {error}")
    if arguments.check:
        if not PAGE.is_file() or PAGE.read_text() != made:
            sys.exit(f"{PAGE.name} is not what {KEPT.name} gives: python3 tests/bench/page.py docs/{KEPT.name}")
        return
    KEPT.write_text(text)
    PAGE.write_text(made)


if __name__ == "__main__":
    main()
