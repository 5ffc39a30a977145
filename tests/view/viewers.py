# SPDX-License-Identifier: MIT OR Apache-2.0
"""Timelines in the viewers that they are for: the Firefox Profiler's own loader, and speedscope, which reads Chrome's events."""

import base64
import contextlib
import functools
import json
import os
import pathlib
import subprocess
import time


def wanted(test):
    """A case that needs them; without them it says that it tries nothing."""

    @functools.wraps(test)
    def tried(place, browser):
        if (place.directory.parent / "viewers/node_modules/speedscope").is_dir():
            return test(place, browser)
        print(f"skip {test.__name__}: others' viewers are not here")

    return tried


def convert(place, profile, form):
    made = profile.with_suffix(f".{form}.json")
    subprocess.run([place.command, "convert", "--format", form, profile, "-o", made], check=True)
    return made


def when(look, holds):
    end = time.monotonic() + 20
    while not holds(found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"after 20 s still {found!r}")
        time.sleep(0.1)
    return found


@contextlib.contextmanager
def firefox(place, profile):
    """Asks the profiler's command for its JSON."""
    modules = place.directory.parent / "viewers" / "node_modules"
    (node,) = modules.glob("node-linux-*/bin/node")
    home = place.directory / "home"
    home.mkdir(exist_ok=True)
    command = [node, modules / "@firefox-devtools/profiler-cli/dist/profiler-cli.js"]
    environment = {**os.environ, "HOME": str(home)}

    def run(*words, tries=1):
        ran = subprocess.run([*command, *words], capture_output=True, text=True, env=environment, timeout=120)
        if ran.returncode != 0 and tries > 1:
            subprocess.run([*command, "stop", "--all"], capture_output=True, env=environment, timeout=120, check=False)
            return run(*words, tries=tries - 1)
        assert ran.returncode == 0, f"{words}: {ran.stdout}{ran.stderr}"
        return ran.stdout

    # Its second half has half a second to come up, which is short on a busy machine.
    run("load", convert(place, profile, "firefox"), tries=5)
    try:
        yield lambda *words: json.loads(run(*words, "--json"))
    finally:
        run("stop", "--all")


def speedscope(place, profile, browser):
    """Opens its page with the events, as its own command does: a script hands them over."""
    events = convert(place, profile, "chrome")
    letters = base64.b64encode(events.read_bytes()).decode()
    script = place.directory / "speedscope.js"
    script.write_text(f"speedscope.loadFileFromBase64('events.json', '{letters}')")
    page = place.directory.parent / "viewers/node_modules/speedscope/dist/release/index.html"
    browser.ask("/url", {"url": f"{pathlib.Path(page).absolute().as_uri()}#localProfilePath={script}"})
    when(lambda: browser.run("return document.title"), lambda title: "speedscope" in title and title != "speedscope")
