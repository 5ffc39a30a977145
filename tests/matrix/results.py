# SPDX-License-Identifier: MIT OR Apache-2.0
"""What has been run so far, in build/matrix.json after every run, and what it says over all runs."""

import json
import os
from collections import defaultdict

import judge
from cells import BASELINES, EXACT

KEEPS = "keeps its weight"


class Results:
    def __init__(self, path, fresh):
        self.path = path
        self.records = {}
        if not fresh and path.exists():
            self.records = json.loads(path.read_text())["runs"]

    def has(self, key, digest):
        """Passed with the same program. What failed is run again."""
        record = self.records.get(key)
        return bool(record) and record["digest"] == digest and not record["problems"]

    def add(self, key, record):
        self.records[key] = record
        temporary = self.path.with_suffix(".tmp")
        temporary.write_text(json.dumps({"runs": self.records}, indent=1))
        os.replace(temporary, self.path)


def _share(records, which):
    """Sampled part of the CPU time over all runs, or None where nothing was burnt."""
    sampled = sum(r[which][0] for r in records)
    burnt = sum(r[which][1] for r in records)
    if which == "theirs":
        sampled *= judge.THEIR_PERIOD_MS
    return sampled / burnt if burnt > 0 else None


def weight_of(records, baseline, which):
    """Share of the CPU time relative to the same profile alone, and how far chance may lower it (two standard deviations
    of a count of independent ticks, which ticks are not quite). None where nothing was burnt."""
    beside, alone = _share(records, which), _share(baseline, which)
    if beside is None or not alone:
        return None
    # Both counted in ticks of theirs, the rarer ones.
    counts = [max(sum(r[which][1] for r in rs) / judge.THEIR_PERIOD_MS, 1) for rs in (records, baseline)]
    return beside / alone, 2 * sum(1 / n for n in counts) ** 0.5


class Pool:
    """The records of this invocation, by host and mix."""

    def __init__(self):
        self.by_order = defaultdict(list)

    def add(self, cell, record):
        if record["theirs"] and cell.flavour != EXACT:
            self.by_order[cell.host.name, cell.mix, cell.order.name].append(record)

    def baseline(self, host, mix, which):
        return self.by_order[host, mix, "go-alone" if which == "theirs" else "ours-alone"]

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
