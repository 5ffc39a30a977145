# SPDX-License-Identifier: MIT OR Apache-2.0
"""A real Chromium without a window, by way of its driver (https://www.w3.org/TR/webdriver2/), with Python's own library alone."""

import base64
import contextlib
import json
import pathlib
import re
import subprocess
import time
import urllib.error
import urllib.request

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # the key of a reference, as the standard has it
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015"}
ARGUMENTS = ["--headless=new", "--no-sandbox", "--disable-gpu", "--window-size=1280,800", "--force-device-scale-factor=1"]


class Browser:
    def __init__(self, port):
        self.base = f"http://127.0.0.1:{port}"
        wanted = {"goog:chromeOptions": {"args": ARGUMENTS}, "goog:loggingPrefs": {"browser": "ALL"}}
        self.base += "/session/" + self.ask("/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def ask(self, path, body=None):
        request = urllib.request.Request(self.base + path, None if body is None else json.dumps(body).encode())
        request.add_header("Content-Type", "application/json")
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            raise AssertionError(f"{path}: {json.load(error)['value']['message']}") from None

    def open(self, path):
        """Waits until the page has shown its profile."""
        self.ask("/url", {"url": pathlib.Path(path).absolute().as_uri()})
        end = time.monotonic() + 60
        while not self.run("return document.documentElement.dataset.ready || null"):
            if time.monotonic() > end:
                raise AssertionError("the page does not become ready: " + self.text("#total"))
            time.sleep(0.05)

    def run(self, script, *arguments):
        return self.ask("/execute/sync", {"script": script, "args": list(arguments)})

    def devtools(self, command, **parameters):
        return self.ask("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def find(self, selector):
        return self.ask("/element", {"using": "css selector", "value": selector})[ELEMENT]

    def text(self, selector):
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def click(self, selector):
        self.ask(f"/element/{self.find(selector)}/click", {})

    def type(self, selector, text):
        self.ask(f"/element/{self.find(selector)}/clear", {})
        self.ask(f"/element/{self.find(selector)}/value", {"text": text})
        time.sleep(0.3)  # the page waits for the end of typing

    def choose(self, selector, text):
        """An option of a list, by what it says."""
        script = """const list = document.querySelector(arguments[0]);
            list.value = [...list.options].find((option) => option.text === arguments[1]).value;
            list.dispatchEvent(new Event("change"))"""
        self.run(script, selector, text)

    def keys(self, selector, *names):
        for name in names:
            self.ask(f"/element/{self.find(selector)}/value", {"text": KEYS.get(name, name)})

    def click_at(self, x, y):
        pointer = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}}
        move = {"type": "pointerMove", "duration": 0, "x": round(x), "y": round(y)}
        pointer["actions"] = [move, {"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self.ask("/actions", {"actions": [pointer]})

    def drag(self, start, end):
        pointer = {"type": "pointer", "id": "mouse", "parameters": {"pointerType": "mouse"}}
        move = lambda place: {"type": "pointerMove", "duration": 0, "x": round(place[0]), "y": round(place[1])}
        pointer["actions"] = [move(start), {"type": "pointerDown", "button": 0}, move(end), {"type": "pointerUp", "button": 0}]
        self.ask("/actions", {"actions": [pointer]})

    def picture(self, path):
        pathlib.Path(path).write_bytes(base64.b64decode(self.ask("/screenshot")))

    def complaints(self):
        return [entry["message"] for entry in self.ask("/se/log", {"type": "browser"})]


@contextlib.contextmanager
def started():
    driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
    try:
        port = next(found[1] for line in driver.stdout if (found := re.search(r"started successfully on port (\d+)", line)))
        browser = Browser(port)
        yield browser
        urllib.request.urlopen(urllib.request.Request(browser.base, method="DELETE"), timeout=30).close()
    finally:
        driver.terminate()
        driver.wait(30)
