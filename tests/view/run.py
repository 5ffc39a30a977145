#!/usr/bin/env python3
# SPDX-License-Identifier: MIT OR Apache-2.0
"""
The page of `onstack view` in a real Chromium, used as a person does: by mouse, by keyboard, by a screen reader's names.
Usage: run.py ONSTACK DIRECTORY [WORD...]   ONSTACK is the command, DIRECTORY for pages and pictures; only cases with a WORD
Others' viewers are in the directory `viewers` beside DIRECTORY (see run.sh).
"""

import os
import pathlib
import random
import subprocess
import sys
import traceback

import browser as browsers
import profiles
import viewers

MS = 1_000_000
TYPES = [("samples", "count"), ("cpu", "nanoseconds")]
SAMPLES = [
    (["main", "serve", ("parse", "parse.go")], [3, 30 * MS], {"thread": "worker-1", "route": "/buy"}),
    (["main", "serve", "render"], [5, 50 * MS], {"thread": "worker-2", "route": "/list"}),
    (["main", "serve"], [1, 10 * MS], {"thread": "worker-2"}),
    (["start", ("parse", "parse.go")], [1, 10 * MS], {"thread": "main"}),
]
cases = []


def case(function):
    cases.append(function)
    return function


def equal(got, wanted, what):
    if got != wanted:
        raise AssertionError(f"{what}: {got!r}, not {wanted!r}")


class Place:
    def __init__(self, command, directory):
        self.command, self.directory = command, directory

    def page(self, name, *arguments):
        made = self.directory / f"{name}.html"
        subprocess.run([self.command, "view", *arguments, "-o", made], check=True)
        return made

    def profile(self, name, samples=SAMPLES, types=TYPES):
        made = self.directory / f"{name}.pb.gz"
        profiles.write(made, types, samples)
        return made


def rows(browser):
    """Row after row, each box's name and width in thousandths of all."""
    return browser.run(
        """const { rows, scroll } = window.onstackPage.graph;
        return rows.map((boxes) => boxes.map(({ item, left, right }) =>
          `${item.name} ${Math.round((1000 * (right - left)) / scroll.clientWidth)}`))"""
    )


def middle_of(browser, name):
    return browser.run(
        """const { rows, canvas } = window.onstackPage.graph;
        const row = rows.findIndex((boxes) => boxes.some((box) => box.item.name === arguments[0]));
        const box = rows[row].find((known) => known.item.name === arguments[0]);
        const place = canvas.getBoundingClientRect();
        return [place.left + (box.left + box.right) / 2, place.top + row * 18 + 9]""",
        name,
    )


WHOLE = [
    ["all 1000"],
    ["main 900", "start 100"],
    ["serve 900", "parse 100"],
    ["parse 300", "render 500"],
]


@case
def boxes_are_as_wide_as_their_values(place, browser):
    browser.open(place.page("whole", place.profile("whole"), "--title", "Shop & <b>more</b>"))
    equal(browser.text("h1"), "Shop & <b>more</b>", "headline")
    equal(browser.text("#total"), "cpu 100.00 ms", "total")
    equal(rows(browser), WHOLE, "boxes")
    browser.choose("#type", "samples")
    equal(browser.text("#total"), "samples 10", "total of the other value")
    loaded = "return performance.getEntriesByType('resource').length"
    equal(browser.run(loaded), 0, "things that it loads")


@case
def a_click_zooms_in_and_escape_out(place, browser):
    browser.open(place.page("click", place.profile("click")))
    browser.click_at(*middle_of(browser, "render"))
    equal(rows(browser), [["all 1000"], ["main 1000"], ["serve 1000"], ["render 1000"]], "boxes of what was clicked")
    said = browser.text("#chosen")
    for part in ["render", "50.00 ms", "50.00 % of what is shown", "55.56 % of serve", "itself 50.00 ms"]:
        assert part in said, f"{part} is not in {said}"
    browser.keys("#canvas", "Escape")
    equal(rows(browser)[-1], ["parse 333", "render 556"], "boxes of its caller")
    browser.keys("#canvas", "Escape", "Escape")
    equal(rows(browser), WHOLE, "all boxes")


@case
def the_keyboard_does_the_same(place, browser):
    browser.open(place.page("keys", place.profile("keys")))
    said = lambda: browser.text("#chosen").split(" · ")[0]
    walked = []
    for key in ["Down", "Down", "Down", "Left", "Right", "Up", "Up", "Right"]:
        browser.keys("#canvas", key)
        walked.append(said())
    equal(walked, ["main", "serve", "render", "parse", "render", "serve", "main", "start"], "where the keys lead")
    browser.keys("#canvas", "Enter")
    equal(rows(browser), [["all 1000"], ["start 1000"], ["parse 1000"]], "boxes behind Enter")
    browser.keys("#canvas", "i")
    equal(browser.run("return document.getElementById('invert').getAttribute('aria-pressed')"), "true", "inverted by a key")


@case
def what_is_searched_is_marked_and_told(place, browser):
    browser.open(place.page("search", place.profile("search")))
    browser.type("#search", "^par")
    equal(browser.text("#found"), "found in 40.00 %", "share")
    color = lambda name: browser.run(
        """const { graph } = window.onstackPage;
        const box = graph.rows.flat().find(({ item }) => item.name === arguments[0]);
        return graph.color(box.item)""",
        name,
    )
    equal((color("parse"), color("serve") == color("parse")), ("rgb(225,90,200)", False), "colours")
    browser.type("#search", "(")
    equal(browser.run("return document.getElementById('search').getAttribute('aria-invalid')"), "true", "a bad expression")
    equal(browser.text("#found"), "", "share of a bad expression")


@case
def samples_are_chosen_by_label_and_function(place, browser):
    browser.open(place.page("labels", place.profile("labels")))
    browser.choose("#key", "route")
    equal(browser.run("return [...document.getElementById('value').options].map((o) => o.text)"), ["/list", "/buy", "[none]"], "values")
    browser.choose("#value", "/buy")
    equal(browser.text("#total"), "cpu 30.00 ms, 30.00 % of all", "total of a label")
    browser.choose("#key", "any")
    browser.choose("#group", "thread")
    equal(rows(browser)[1], ["worker-2 600", "worker-1 300", "main 100"], "threads at the root")
    browser.type("#focus", "parse|render")
    equal(rows(browser)[1], ["worker-2 556", "worker-1 333", "main 111"], "threads of some functions")


@case
def callers_stand_below_when_inverted(place, browser):
    browser.open(place.page("inverted", place.profile("inverted")))
    browser.click("#invert")
    wanted = [["all 1000"], ["parse 400", "render 500", "serve 100"], ["serve 300", "start 100", "serve 500", "main 100"]]
    equal(rows(browser)[:3], wanted, "boxes")
    browser.choose("#group", "route")
    equal(rows(browser)[1], ["/list 500", "/buy 300", "[none] 200"], "labels at the root")


@case
def the_table_has_the_reports_numbers(place, browser):
    profile = place.profile("table")
    browser.open(place.page("table", profile))
    browser.click("[data-view=table]")
    cells = lambda: browser.run(
        "return [...document.getElementById('rows').rows].map((row) => [...row.cells].map((cell) => cell.textContent))"
    )
    wanted = []
    report = subprocess.run([place.command, "report", profile], check=True, capture_output=True, text=True).stdout
    for line in report.splitlines():
        words = line.split()
        if len(words) == 6 and words[0].endswith("ms"):
            flat, flat_share, _, cum, cum_share, name = words
            wanted.append([flat.replace("ms", " ms"), flat_share.replace("%", " %"), cum.replace("ms", " ms"), cum_share.replace("%", " %"), name])
    assert len(wanted) == 5, report
    files = {"parse": "parseparse.go"}
    equal(sorted(cells()), sorted(row[:-1] + [files.get(row[-1], row[-1])] for row in wanted), "rows")
    equal([row[0] for row in cells()], ["50.00 ms", "40.00 ms", "10.00 ms", "0.00 ms", "0.00 ms"], "order")
    browser.click("#columns th:last-child button")
    equal([row[-1] for row in cells()], ["main", "parseparse.go", "render", "serve", "start"], "order by name")
    browser.run("document.querySelector('#rows tr:nth-child(2) button').click()")
    equal(browser.run("return document.getElementById('search').value"), "^parse$", "what a click searches")
    equal(browser.run("return document.getElementById('graph').hidden"), False, "the flame graph is back")


@case
def a_change_is_red_or_blue(place, browser):
    after = place.profile("after")
    before = place.profile(
        "before", [(stack, [value * (4 if stack[-1] == "render" else 1) for value in values], labels) for stack, values, labels in SAMPLES]
    )
    browser.open(place.page("change", after, "--before", before))
    equal(browser.text("#total"), "cpu 100.00 ms, compared with 250.00 ms", "totals")
    colors = browser.run(
        """const { graph } = window.onstackPage;
        return Object.fromEntries(graph.rows.flat().map(({ item }) => [item.name, graph.color(item)]))"""
    )
    red, _, blue = map(int, colors["parse"][4:-1].split(","))
    assert red > blue, f"parse has a larger share: {colors}"
    red, _, blue = map(int, colors["render"][4:-1].split(","))
    assert red < blue, f"render has a smaller share: {colors}"
    browser.click("#swap")
    equal(browser.text("#total"), "cpu 250.00 ms, compared with 100.00 ms", "totals when swapped")
    browser.open(place.page("normal", after, "--before", before, "--normalize"))
    equal(browser.text("#total"), "cpu 100.00 ms, compared with 100.00 ms", "totals when normalized")
    few, many = place.directory / "few.folded", place.directory / "many.folded"
    few.write_text("main;a 2\nmain;b 1\n")
    many.write_text("".join(f"main;f{i} 1\n" for i in range(10)))
    browser.open(place.page("fractions", few, "--before", many, "--normalize"))
    equal(browser.text("#total"), "samples 3, compared with 3", "ticks of a third are not lost")


@case
def names_are_text_and_losses_are_told(place, browser):
    evil = "<img src=x onerror=document.title='obeyed'>"
    browser.open(place.page("text", place.profile("text", [([evil, "</script>\u202e"], [1, MS], {evil: evil})])))
    browser.click("[data-view=table]")
    shown = browser.text("#rows")
    assert evil in shown and "\\u{202e}" in shown, shown
    browser.click("[data-view=losses]")
    assert "100.00%  leaf has a name" in browser.text("#losses pre"), browser.text("#losses pre")
    assert browser.run("return document.title") != "obeyed"


@case
def it_is_dark_where_the_system_is(place, browser):
    browser.open(place.page("dark", place.profile("dark")))
    back = lambda: browser.run("return getComputedStyle(document.body).backgroundColor")
    light = back()
    browser.devtools("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": "dark"}])
    dark = back()
    browser.picture(place.directory / "dark.png")
    browser.click("#theme")
    browser.click("#theme")
    equal((light, dark, back()), ("rgb(255, 255, 255)", "rgb(23, 24, 28)", "rgb(255, 255, 255)"), "backgrounds")
    browser.devtools("Emulation.setEmulatedMedia", features=[])


@case
def all_controls_have_names(place, browser):
    browser.open(place.page("names", place.profile("names")))
    nodes = browser.devtools("Accessibility.getFullAXTree")["nodes"]
    named = {}
    for node in nodes:
        role = node.get("role", {}).get("value")
        if role in ("button", "combobox", "searchbox", "application", "main", "navigation", "heading"):
            named.setdefault(role, []).append(node.get("name", {}).get("value", ""))
    assert all(all(names) for role, names in named.items() if role != "main"), named
    equal((len(named["combobox"]), len(named["searchbox"]), len(named["application"])), (3, 2, 1), f"controls {named}")


# Four seconds: `early` in the first, `burst` in the first tenth of the third, `always` all the time.
TIMED = [
    (["main", "early"], [100, 1000 * MS], {"thread": "a"}, [10_000 * i for i in range(100)]),
    (["main", "burst"], [10, 100 * MS], {"thread": "b"}, [2_000_000 + 10_000 * i for i in range(10)]),
    (["main", "always"], [400, 4000 * MS], {"thread": "c"}, [10_000 * i for i in range(400)]),
]


def heat(browser, script):
    return browser.run("const { heat } = window.onstackPage; return " + script)


@case
def a_range_of_time_has_its_own_flame_graph(place, browser):
    browser.open(place.page("time", place.profile("time", TIMED)))
    equal(heat(browser, "[heat.columns, heat.times.count, heat.times.microseconds]"), [4, 200, 20_000], "columns and cells")
    equal(heat(browser, "[0, 100, 150].map((cell) => heat.cells[cell] / 1e6)"), [40, 40, 20], "values of cells")
    equal(rows(browser)[2], ["always 784", "burst 20", "early 196"], "boxes of all time")
    browser.picture(place.directory / "time.png")
    left, top, wide, high = browser.run(
        "const r = document.getElementById('heat').getBoundingClientRect(); return [r.left, r.top, window.onstackPage.heat.wide, r.height]"
    )
    browser.click_at(left + 2.5 * wide, top + 20)
    equal(browser.text("#range"), "from 2.00 s to 3.00 s", "what a click chooses")
    equal(browser.text("#total"), "cpu 1.10 s, 21.57 % of all", "total of a column")
    equal(rows(browser)[2], ["always 909", "burst 91"], "boxes of a column")
    bottom = top + high - 1
    browser.drag((left + 2.5 * wide, bottom), (left + 2.5 * wide, bottom - 8))
    equal(browser.text("#range"), "from 2.00 s to 2.10 s", "what a drag chooses")
    equal(rows(browser)[2], ["always 500", "burst 500"], "boxes of a tenth of a second")
    browser.click("#always")
    equal((rows(browser)[2], browser.text("#range")), (["always 784", "burst 20", "early 196"], ""), "boxes of all time again")
    browser.type("#focus", "early")
    equal(heat(browser, "[0, 100].map((cell) => heat.cells[cell] / 1e6)"), [20, 0], "cells of one function")


@case
def time_is_chosen_by_keys(place, browser):
    browser.open(place.page("timekeys", place.profile("timekeys", TIMED)))
    walked = []
    for key in ["Right", "Right", "Left"]:
        browser.keys("#heat", key)
        walked.append(browser.text("#range"))
    equal(walked, ["from 0.00 s to 1.00 s", "from 1.00 s to 2.00 s", "from 0.00 s to 1.00 s"], "columns")
    browser.keys("#heat", "\ue008" + "\ue014" + "\ue014")
    equal(browser.text("#range"), "from 0.00 s to 3.00 s", "columns with Shift")
    equal(browser.text("#total"), "cpu 4.10 s, 80.39 % of all", "their total")
    browser.keys("#heat", "Escape")
    equal((browser.text("#range"), browser.text("#total")), ("", "cpu 5.10 s"), "all time")
    browser.open(place.page("timeless", place.profile("timeless")))
    equal(browser.run("return document.getElementById('time').hidden"), True, "no map without times")


# A second in a loop, then half of one behind a lock.
WAITED = [
    (["main", "loop"], [50, 1000 * MS], {"thread": "a", "state": "running"}, [20_000 * i for i in range(1, 51)]),
    (
        ["main", "lock"],
        [25, 500 * MS],
        {"thread": "a", "state": "blocked", "wait": "futex", "on": "0x1000", "holder": "b/7"},
        [1_000_000 + 20_000 * i for i in range(1, 26)],
    ),
]


@case
@viewers.wanted(viewers.FIREFOX)
def the_firefox_profiler_reads_it(place, browser):
    with viewers.firefox(place, place.profile("firefox", TIMED)) as ask:
        threads = {thread["name"]: thread for thread in ask("thread", "list")["threads"]}
        equal({name: round(thread["cpuMs"]) for name, thread in threads.items()}, {"a": 1000, "b": 100, "c": 4000}, "processor time")
        handle = threads["a"]["threadHandle"]
        functions = ask("thread", "functions", "--thread", handle, "--include-idle")["functions"]
        equal({f["name"]: (f["selfSamples"], f["totalSamples"]) for f in functions}, {"early": (100, 100), "main": (0, 100)}, "functions")
    waited = place.profile("waited", WAITED, [("samples", "count"), ("wall", "nanoseconds")])
    with viewers.firefox(place, waited) as ask:
        (thread,) = ask("thread", "list")["threads"]
        equal(round(thread["cpuMs"]), 1000, "processor time of a profile of real time")
        (kind,) = ask("thread", "markers", "--list", "--thread", thread["threadHandle"])["byType"]
        (mark,) = kind["topMarkers"]
        equal((mark["label"], round(mark["start"]), round(mark["duration"])), ("futex 0x1000", 1000, 500), "the wait")
    stack, values, labels, times = TIMED[0]
    with viewers.firefox(place, place.profile("labelled", [(stack, values, labels | {"route": "/buy"}, times)])) as ask:
        (thread,) = ask("thread", "list")["threads"]
        (kind,) = ask("thread", "markers", "--list", "--thread", thread["threadHandle"])["byType"]
        (mark,) = kind["topMarkers"]
        equal((mark["label"], round(mark["duration"])), ("route: /buy", 990), "the label")


def shown_within(browser, page, aim_ms, what):
    """Other programs only make it longer: the best of three tries counts, and three times the aim is a failure."""
    tries, most_ms = [], 3 * aim_ms
    for _ in range(3):
        browser.open(page)
        tries.append(int(browser.run("return document.documentElement.dataset.ready")))
        if tries[-1] <= most_ms:
            break
    print(f"   {what} are shown after {min(tries)} ms (aim: {aim_ms})", flush=True)
    if min(tries) > most_ms:
        raise AssertionError(f"{what}: {tries} ms, each more than {most_ms}")


@case
def a_large_profile_opens_too(place, browser):
    """100,000 stacks of 30 functions, of a million samples: half a second here, and other programs only make it longer."""
    choice = random.Random(1)
    lines = set()
    while len(lines) < 100_000:
        stack = ["main"]
        for level in range(29):
            stack.append(f"module{choice.randrange(3)}::Type{level}::function_{choice.randrange(3)}")
        lines.add(";".join(stack))
    folded = place.directory / "large.folded"
    folded.write_text("".join(f"{line} {choice.randrange(1, 20)}\n" for line in lines))
    page = place.page("large", folded)
    shown_within(browser, page, 1000, "100,000 stacks")
    browser.click("#invert")
    equal(len(rows(browser)[1]), 9, "leaves")
    browser.picture(place.directory / "large.png")


@case
def an_hour_of_times_opens(place, browser):
    """16 threads at 99 Hz, 5.7 million times; the map of time has them all."""
    page = place.page("hour", os.environ["ONSTACK_HOUR_FILE"])
    shown_within(browser, page, 2000, "an hour with its times")
    browser.picture(place.directory / "hour.png")


def main():
    command, directory, words = pathlib.Path(sys.argv[1]).absolute(), pathlib.Path(sys.argv[2]).absolute(), sys.argv[3:]
    directory.mkdir(parents=True, exist_ok=True)
    place, failed, ran = Place(command, directory), 0, 0
    with browsers.started() as browser:
        for test in cases:
            if words and not any(word in test.__name__ for word in words):
                continue
            ran += 1
            try:
                test(place, browser)
                equal(browser.complaints(), [], "the browser's complaints")
                print(f"ok {test.__name__}", flush=True)
            except Exception:
                failed += 1
                traceback.print_exc()
                browser.complaints()  # the next case has its own
                browser.picture(directory / f"{test.__name__}.png")
                print(f"FAILED {test.__name__}", flush=True)
    print(f"view: {ran} cases, {failed} failed")
    return 1 if failed or not ran else 0


if __name__ == "__main__":
    sys.exit(main())
