"""Chromium without a window, driven over the WebDriver protocol (https://www.w3.org/TR/webdriver2), which is JSON."""

from __future__ import annotations

import base64
import json
import re
import shutil
import subprocess
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"  # what the protocol calls references to elements
_DIRECTLY = urllib.request.build_opener(urllib.request.ProxyHandler({}))
ARROWS = {"Left": "\ue012", "Up": "\ue013", "Right": "\ue014", "Down": "\ue015"}
KEYS = {"Enter": "\ue007", "Escape": "\ue00c", "End": "\ue010", "Home": "\ue011", **ARROWS}


def missing() -> str | None:
    """Why there is no browser, or None if there is one."""
    if not shutil.which("chromedriver"):
        return "needs chromedriver: apt-get install chromium chromium-driver"
    return None if _binary() else "needs chromium: apt-get install chromium"


def _binary() -> str | None:
    return next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)


class Browser:
    """One window. What fails in the browser is an error here, with what the browser said."""

    def __init__(self, width: int = 1400, height: int = 860):
        self.driver = subprocess.Popen(["chromedriver", "--port=0"], stdout=subprocess.PIPE, text=True)
        self.address = f"http://localhost:{self._port()}/session"
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars"]
        options = {"binary": _binary(), "args": [*arguments, f"--window-size={width},{height}"]}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL"}}
        try:
            session = self._call("", {"capabilities": {"alwaysMatch": wanted}})
        except BaseException:
            self.close()
            raise
        self.address += "/" + session["sessionId"]

    def _port(self) -> int:
        assert self.driver.stdout is not None
        for line in self.driver.stdout:
            if found := re.search(r"successfully on port (\d+)", line):
                return int(found[1])
        raise RuntimeError("chromedriver did not start")

    def _call(self, what: str, body: dict[str, Any] | None = None, method: str = "POST") -> Any:
        data = json.dumps(body or {}).encode() if method == "POST" else None
        request = urllib.request.Request(self.address + what, data, {"Content-Type": "application/json"}, method=method)
        try:
            with _DIRECTLY.open(request, timeout=60) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise RuntimeError(json.load(error)["value"]["message"].split("\n")[0]) from None

    def close(self) -> None:
        if self.address.count("/") > 3:
            self._call("", method="DELETE")
        self.driver.terminate()
        self.driver.wait(20)
        if self.driver.stdout:
            self.driver.stdout.close()

    def go(self, path: Path) -> None:
        self._call("/url", {"url": path.resolve().as_uri()})

    def run(self, script: str, *args: Any) -> Any:
        """What a function body gives; `arguments` are its arguments."""
        return self._call("/execute/sync", {"script": script, "args": list(args)})

    def texts(self, selector: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def wait(self, condition: str, seconds: float = 10.0) -> Any:
        """Until an expression of JavaScript is true; gives its value."""
        end = time.monotonic() + seconds
        while not (value := self.run(f"return {condition}")):
            assert time.monotonic() < end, f"waited {seconds} s for: {condition}"
            time.sleep(0.03)
        return value

    def keys(self, *keys: str) -> None:
        """Types texts, and the keys that have names."""
        pressed = [KEYS[key]] if (key := keys[0]) in KEYS else list(key)
        steps = [{"type": kind, "value": each} for each in pressed for kind in ("keyDown", "keyUp")]
        self._call("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": steps}]})
        if keys[1:]:
            self.keys(*keys[1:])

    def point(self, element: dict[str, str], click: bool = False) -> None:
        """Moves the mouse to the middle of an element (or of one found by `run`), and clicks there if asked to."""
        self._move(element, 0, 0, click)

    def point_at(self, x: float, y: float, click: bool = False) -> None:
        """The same at a position in the window."""
        self._move("viewport", x, y, click)

    def _move(self, origin: Any, x: float, y: float, click: bool) -> None:
        steps = [{"type": "pointerMove", "duration": 0, "origin": origin, "x": int(x), "y": int(y)}]
        if click:
            steps += [{"type": "pointerDown", "button": 0}, {"type": "pointerUp", "button": 0}]
        self._call("/actions", {"actions": [{"type": "pointer", "id": "mouse", "actions": steps}]})

    def find(self, selector: str, index: int = 0) -> dict[str, str]:
        found = self.run("return document.querySelectorAll(arguments[0])[arguments[1]]", selector, index)
        assert found, f"nothing matches {selector} at {index}"
        return found

    def prefer(self, scheme: str) -> None:
        """Light or dark."""
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._call("/goog/cdp/execute", {"cmd": "Emulation.setEmulatedMedia", "params": {"features": features}})

    def problems(self) -> list[str]:
        """What the console has said since the last time."""
        return [entry["message"] for entry in self._call("/se/log", {"type": "browser"})]

    def screenshot(self, path: Path) -> Path:
        path.write_bytes(base64.b64decode(self._call("/screenshot", method="GET")))
        return path
