#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""Figures by directory out of gcovr's JSON, and the lines that were never run, by function.

Usage: report.py COVERAGE.json UNCOVERED.txt
"""
import collections
import json
import os
import sys


def is_code(line):
    return not line.get("gcovr/noncode") and not line.get("gcovr/excluded")


def ranges(numbers):
    """[3, 4, 5, 9] -> "3-5 9"."""
    found = []
    for number in numbers:
        if found and number - found[-1][1] <= 2:
            found[-1][1] = number
        else:
            found.append([number, number])
    return " ".join(f"{first}" if first == last else f"{first}-{last}" for first, last in found)


def functions(file):
    """The function that each line lies in: the last one that begins at or before it."""
    starts = sorted((function["lineno"], function["name"]) for function in file.get("functions", []))

    def name(line):
        before = [start for start in starts if start[0] <= line]
        return before[-1][1] if before else "?"

    return name


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    with open(sys.argv[1], encoding="utf-8") as text:
        files = json.load(text)["files"]
    sums = collections.defaultdict(lambda: [0, 0])
    with open(sys.argv[2], "w", encoding="utf-8") as out:
        for file in sorted(files, key=lambda file: file["file"]):
            counts = collections.defaultdict(int)
            for line in filter(is_code, file["lines"]):
                counts[line["line_number"]] += line["count"]
            missed = sorted(number for number, count in counts.items() if count == 0)
            directory = os.path.dirname(file["file"])
            for key in (directory + "/", "all"):
                sums[key][0] += len(counts) - len(missed)
                sums[key][1] += len(counts)
            name = functions(file)
            by_function = collections.defaultdict(list)
            for number in missed:
                by_function[name(number)].append(number)
            for function, numbers in by_function.items():
                print(f"{file['file']} {function}: {ranges(numbers)}", file=out)
    for directory, (run, lines) in sorted(sums.items(), key=lambda item: (item[0] == "all", item[0])):
        print(f"{directory:24} {run:5} of {lines:5} lines  {100 * run / lines:5.1f} %")


main()
