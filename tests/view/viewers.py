# SPDX-License-Identifier: MIT OR Apache-2.0
"""Timelines in the viewer that they are for: the Firefox Profiler's own loader."""

import contextlib
import functools
import json
import os
import pathlib
import subprocess


FIREFOX = "node_modules/@firefox-devtools/profiler-cli/dist"


def wanted(viewer):
    """A case that needs it; without it the case says that it tries nothing."""

    def decorate(test):
        @functools.wraps(test)
        def tried(place, browser):
            if (place.directory.parent / "viewers" / viewer).is_dir():
                return test(place, browser)
            print(f"skip {test.__name__}: the viewer is not here")

        return tried

    return decorate


def convert(place, profile, form):
    made = profile.with_suffix(f".{form}.json")
    subprocess.run([place.command, "convert", "--format", form, profile, "-o", made], check=True)
    return made


@contextlib.contextmanager
def firefox(place, profile):
    """Asks the profiler's command for its JSON."""
    viewers = place.directory.parent / "viewers"
    (node,) = viewers.glob("node_modules/node-linux-*/bin/node")
    home = place.directory / "home"
    home.mkdir(exist_ok=True)
    command = [node, viewers / FIREFOX / "profiler-cli.js"]
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
