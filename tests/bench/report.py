# SPDX-License-Identifier: MIT OR Apache-2.0
"""From single figures to medians, the table and build/bench.json."""

import json
from itertools import groupby
from statistics import median

from plan import baseline


class Figures:
    """All values of a run of the benchmark: (case, metric) -> subject -> round -> value."""

    def __init__(self):
        self._values = {}
        self._units = {}

    def add(self, case, subject, round_number, metric, unit, value):
        self._units[case, metric] = unit
        self._values.setdefault((case, metric), {}).setdefault(subject, {})[round_number] = value

    def of(self, case, subject):
        """(metric, unit, values) of one row."""
        for (of_case, metric), subjects in self._values.items():
            if of_case == case and subject in subjects:
                yield metric, self._units[case, metric], list(subjects[subject].values())

    def records(self):
        """One record for each case, metric and subject, in the order of measuring."""
        for (case, metric), subjects in self._values.items():
            for subject, rounds in subjects.items():
                values = list(rounds.values())
                yield {
                    "case": case,
                    "subject": subject,
                    "metric": metric,
                    "unit": self._units[case, metric],
                    "median": median(values),
                    "low": min(values),
                    "high": max(values),
                    "rounds": len(values),
                    "ratio": self.ratio(case, metric, subject),
                }

    def ratio(self, case, metric, subject):
        """
        The median over rounds of value / baseline's value in the same round, so that a busy minute weighs on both;
        None where there is nothing to divide by.
        """
        subjects = self._values[case, metric]
        base = subjects.get(baseline(case, subject), {})
        pairs = [value / base[n] for n, value in subjects[subject].items() if base.get(n, 0) > 0]
        return median(pairs) if pairs else None


def _number(value):
    if value == 0 or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"


def _row(record):
    ratio = record["ratio"]
    numbers = "".join(f"{_number(record[key]):>12}" for key in ("median", "low", "high"))
    return f"  {record['subject']:20}{numbers}{'-' if ratio is None else f'{ratio:.2f}':>17}"


def table(figures):
    lines = []
    for (case, metric), group in groupby(figures.records(), key=lambda r: (r["case"], r["metric"])):
        group = list(group)
        lines += ["", f"{case}: {metric} ({group[0]['unit']})"]
        if not any(record["low"] or record["high"] for record in group):
            lines.append("  0 for all")
            continue
        lines.append(f"  {'':20}{'median':>12}{'low':>12}{'high':>12}{'x ' + baseline(case):>17}")
        lines += [_row(record) for record in group]
    return "\n".join(lines)


def write_json(about, figures, path):
    """Replaces the file in one step: a run that is broken off leaves the former one."""
    temporary = path.with_suffix(".tmp")
    records = ",\n".join("    " + json.dumps(r) for r in figures.records())
    temporary.write_text('{\n  "about": ' + json.dumps(about) + ',\n  "records": [\n' + records + "\n  ]\n}\n")
    temporary.replace(path)
