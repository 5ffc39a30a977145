# SPDX-License-Identifier: MIT OR Apache-2.0
"""What has been run so far, in build/matrix.json and a journal beside it, and what it says over all runs."""

import json
import math
import os
import statistics
from collections import defaultdict

import checker
from cells import BASELINES, EXACT, GO_ALONE, OURS_ALONE, SAME_STEPS

KEEPS = "keeps its weight"


class Results:
    """Each run is a line of the journal as soon as it has ended: to write ten thousand of them anew after each took longer
    than the runs. `close` makes the file of them."""

    def __init__(self, path, fresh):
        self.path = path
        self.journal = path.with_suffix(".journal")
        self.records = {}
        if fresh:
            self.journal.unlink(missing_ok=True)
        elif path.exists():
            self.records = json.loads(path.read_text())["runs"]
        if self.journal.exists():
            self._read_journal()
        self._lines = self.journal.open("a")

    def _read_journal(self):
        for line in self.journal.read_text().splitlines():
            try:
                key, record = json.loads(line)
            except ValueError:
                continue  # it was broken off there
            self.records[key] = record

    def has(self, key, digest):
        """Passed with the same program. What failed is run again."""
        record = self.records.get(key)
        return bool(record) and record["digest"] == digest and not record["problems"]

    def add(self, key, record):
        self.records[key] = record
        self._lines.write(json.dumps([key, record]) + "\n")
        self._lines.flush()

    def close(self):
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"runs": self.records}, indent=1))
        os.replace(temporary, self.path)
        self._lines.close()
        self.journal.unlink()


def _share(records, which):
    """Sampled part of the CPU time over all runs, or None where nothing was burnt."""
    sampled = sum(r[which][0] for r in records)
    burnt = sum(r[which][1] for r in records)
    if which == "theirs":
        sampled *= checker.THEIR_PERIOD_MS
    return sampled / burnt if burnt > 0 else None


def weight_of(records, baseline, which):
    """Share of the CPU time relative to the same profile alone, and how far chance may lower it (two standard deviations
    of a count of independent ticks, which ticks are not quite). None where nothing was burnt."""
    beside, alone = _share(records, which), _share(baseline, which)
    if beside is None or not alone:
        return None
    # Both counted in ticks of theirs, the rarer ones.
    counts = [max(sum(r[which][1] for r in rs) / checker.THEIR_PERIOD_MS, 1) for rs in (records, baseline)]
    return beside / alone, 2 * sum(1 / n for n in counts) ** 0.5


def _weights_of_runs(records, which):
    return [r[which][0] / r[which][1] for r in records if r[which][1] > 0]


def chance_of_less(beside, alone):
    """How likely values at least as small as `beside` are if both come from one distribution: the rank sum test of Mann and
    Whitney, one-sided, by the normal approximation with ties. None where there are too few for that."""
    small, large = len(beside), len(alone)
    if small < 5 or large < 5:
        return None
    ordered = sorted([(value, 0) for value in beside] + [(value, 1) for value in alone])
    ranks, ties, begin = 0.0, 0, 0
    while begin < len(ordered):
        end = begin
        while end < len(ordered) and ordered[end][0] == ordered[begin][0]:
            end += 1
        ranks += (begin + 1 + end) / 2 * sum(1 for _, side in ordered[begin:end] if side == 0)
        ties += (end - begin) ** 3 - (end - begin)
        begin = end
    total = small + large
    mean = small * (total + 1) / 2
    variance = small * large / 12 * (total + 1 - ties / (total * (total - 1)))
    if variance <= 0:
        return 1.0
    return 0.5 * math.erfc((mean - ranks - 0.5) / math.sqrt(2 * variance))


class Pool:
    """The records of this invocation, by host and mix."""

    def __init__(self):
        self.by_order = defaultdict(list)

    def add(self, cell, record):
        if record["theirs"] and cell.flavour != EXACT:
            self.by_order[cell.host.name, cell.mix, cell.order.name].append(record)

    def baseline(self, host, mix, which):
        return self.by_order[host, mix, (GO_ALONE if which == "theirs" else OURS_ALONE).name]

    def orders(self):
        baselines = {order.name for order in BASELINES}
        return [key for key in self.by_order if key[2] not in baselines]

    def weights(self):
        """(host, mix, order or "all orders") -> (theirs, ours)"""
        table = {}
        for host, mix, order in self.orders():
            together = [r for o in self.orders() if o[:2] == (host, mix) for r in self.by_order[o]]
            for name, records in ((order, self.by_order[host, mix, order]), ("all orders", together)):
                table[host, mix, name] = tuple(
                    weight_of(records, self.baseline(host, mix, which), which) for which in ("theirs", "ours")
                )
        return table

    def distributions(self, least):
        """(host, mix, baseline) -> (runs, mean beside us, mean alone, chance of less than `least` of it) of their weights in
        single runs, of the orders that take the baseline's steps: for mixes whose profile is erratic without us too."""
        table = {}
        for host, mix in sorted({o[:2] for o in self.orders()}):
            for baseline, orders in SAME_STEPS.items():
                beside = [r for name in orders for r in self.by_order.get((host, mix, name), ())]
                alone = self.by_order.get((host, mix, baseline.name), ())
                values = [_weights_of_runs(records, "theirs") for records in (beside, alone)]
                if all(values):
                    means = [statistics.mean(v) * checker.THEIR_PERIOD_MS for v in values]
                    runs = [len(v) for v in values]
                    chance = chance_of_less(values[0], [least * value for value in values[1]])
                    table[host, mix, baseline.name] = (runs, *means, chance)
        return table
