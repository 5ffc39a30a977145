# SPDX-License-Identifier: MIT OR Apache-2.0
"""Works for so many seconds in what CPython's own library has in Python."""
import colorsys
import difflib
import fractions
import html.parser
import io
import json
import random
import statistics
import sys
import textwrap
import time
import tokenize

SOURCE = open(textwrap.__file__, encoding="utf-8").read()
LINES = SOURCE.splitlines()[:120]
PAGE = "<html>" + "".join(f"<p class='c{i}'>text {i} <b>bold</b></p>" for i in range(300)) + "</html>"


def compare():
    difflib.SequenceMatcher(None, "".join(LINES)[:1500], "".join(reversed(LINES))[:1500]).ratio()


def tokens():
    sum(1 for _ in tokenize.generate_tokens(io.StringIO(SOURCE).readline))


def parse():
    html.parser.HTMLParser().feed(PAGE)


def encode():
    "".join(json.JSONEncoder(indent=1).iterencode({str(i): [i, [i]] for i in range(400)}))


def sums():
    statistics.fmean([float(sum((fractions.Fraction(1, i) for i in range(1, 60)), fractions.Fraction(0)))])


def wrap():
    textwrap.wrap(SOURCE[:6000], 60)


def shuffle():
    numbers = list(range(2500))
    random.shuffle(numbers)


def colors():
    for i in range(1500):
        colorsys.hsv_to_rgb(*colorsys.rgb_to_hsv(i / 1500, 0.3, 0.7))


def main():
    end = time.time() + float(sys.argv[1])
    while time.time() < end:
        for work in (compare, tokens, parse, encode, sums, wrap, shuffle, colors):
            work()


main()
