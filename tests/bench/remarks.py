# SPDX-License-Identifier: MIT OR Apache-2.0
"""What chance alone does to a figure, by the figures of the run itself."""

from math import erfc, sqrt

import plan

OWN = {"onstack-rules": "onstack", "onstack-fp": "onstack, frame pointers", "onstack-pc-only": "onstack, PC only"}
COUNTER = "reference-itimer"


def span(record):
    return record["high"] - record["low"]


def overhead(figures, columns):
    """How far apart the rounds of a counter lie that costs next to nothing."""
    lines = []
    for column in columns:
        counter = figures.find(column, COUNTER)
        if counter:
            lines.append(
                f"- {column.title}: the rounds of the bare counter lie between {counter['low']:.1f} and {counter['high']:.1f}; what "
                f"differs by less than these {span(counter):.1f} points this run cannot tell apart."
            )
    return lines


def ticks_of_short_threads(about):
    case = next(c for c in plan.CASES if c.name == "short-threads")
    settings = dict(word.split("=") for word in case.runs[0][1:])
    seconds = case.seconds(about.get("form", plan.LONG))
    cores = int(about["machine"]["cores"].split()[0])
    return int(seconds * min(int(settings["threads"]), cores) * int(settings["hz"]))


def weights(figures, columns):
    """Which of our own figures of short threads are off, in standard deviations of so many ticks."""
    column = next(c for c in columns if c.case == "short-threads")
    records = {subject: figures.find(column, subject) for subject in OWN}
    if not any(records.values()):
        return []
    ticks = ticks_of_short_threads(figures.about)
    lines = [
        f"- {column.title}: a round is at most {ticks:,} ticks, each thread's with a random phase; counts of so many independent events "
        f"scatter by {100 / sqrt(ticks):.1f} % from round to round."
    ]
    for subject, record in records.items():
        off = standard_deviations(record, ticks) if record else 0
        if off > 1:
            odds = 1 / erfc(off / sqrt(2))
            chance = f"as far as chance takes one median in {odds:,.0f}" if odds < 1e6 else "which chance does not bring about"
            lines.append(
                f"- {OWN[subject]}, {record['median']:.2f} there: {off:.1f} standard deviations of the median of {record['rounds']} such "
                f"rounds, {chance}."
            )
    return lines


def standard_deviations(record, ticks):
    """How far a weight's median is from 1; a median scatters by 1.25 of what a mean does."""
    return abs(record["median"] - 1) * sqrt(ticks) * sqrt(record["rounds"]) / 1.25
