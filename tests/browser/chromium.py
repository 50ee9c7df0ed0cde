"""Debian's Chromium over its own pipe: DevTools messages as JSON, nothing to install beside the browser.

https://chromedevtools.github.io/devtools-protocol/ : messages end with a zero byte, the browser reads from file
descriptor 3 and writes to 4 (--remote-debugging-pipe).
"""

import base64
import fcntl
import json
import os
import select
import shutil
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 30.0


def find() -> str | None:
    """The browser on this machine: Debian's name first, then others'."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    return next((path for name in names if (path := shutil.which(name))), None)


class Chromium:
    """One browser for a whole session of tests."""

    def __init__(self, program: str, profile: Path) -> None:
        read_there, self._write = os.pipe()
        self._read, write_there = os.pipe()
        flags = [
            *("--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--remote-debugging-pipe"),
            *("--no-first-run", "--disable-background-networking", "--disable-extensions", "--hide-scrollbars"),
            f"--user-data-dir={profile}",
        ]
        # Out of the way of 3 and 4 first: either pipe may stand there already.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD_CLOEXEC, 10) for end in (read_there, write_there)]
        self._process = subprocess.Popen(
            [program, *flags],
            close_fds=False,  # Python opens its own files so that no child gets them
            preexec_fn=lambda: [os.dup2(end, number) for number, end in enumerate(ends, start=3)],
            **dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL),
        )
        for end in (read_there, write_there, *ends):
            os.close(end)
        self._number, self._rest = 0, b""
        self.listeners: list[Callable[[dict[str, Any]], None]] = []
        self.send("Browser.getVersion")

    def send(self, method: str, session: str | None = None, **parameters: Any) -> dict[str, Any]:
        """Ask, and wait for the answer; events that come in between go to the listeners."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": parameters}
        os.write(self._write, json.dumps(message | ({"sessionId": session} if session else {})).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._next(until)
            if answer.get("id") == self._number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]

    def _next(self, until: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, until - time.monotonic()))
            part = os.read(self._read, 1 << 16) if ready else b""
            if not part:
                raise TimeoutError("Chromium does not answer.")
            self._rest += part
        line, _, self._rest = self._rest.partition(b"\0")
        message = json.loads(line)
        for listener in self.listeners if "method" in message else ():
            listener(message)
        return message

    def open(self, page: Path, **settings: Any) -> "Tab":
        return Tab(self, page, **settings)

    def close(self) -> None:
        try:
            self.send("Browser.close")
            self._process.wait(10)
        finally:
            self._process.kill()
            self._process.wait()
            os.close(self._read)
            os.close(self._write)


class Tab:
    """A page of its own: what it fetched, what it complained about, and a hand to click with."""

    def __init__(self, browser: Chromium, page: Path, width: int = 1280, height: int = 900, dark: bool = False) -> None:
        self.browser, self.fetched, self.complaints = browser, list[str](), list[str]()
        self._loaded = False
        self._target = browser.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = browser.send("Target.attachToTarget", targetId=self._target, flatten=True)["sessionId"]
        browser.listeners.append(self._hear)
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")
        mobile = width < 600
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}  # what moves is hard to hit
        self.send("Emulation.setEmulatedMedia", features=[scheme, still])
        self.send("Page.navigate", url=page.resolve().as_uri())
        until = time.monotonic() + PATIENCE
        while not self._loaded and time.monotonic() < until:
            self.run("0")
        assert self._loaded, f"{page} was not loaded in {PATIENCE:g} s"

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        return self.browser.send(method, self._session, **parameters)

    def _hear(self, event: dict[str, Any]) -> None:
        if event.get("sessionId") != self._session:
            return
        method, told = event["method"], event["params"]
        if method == "Page.loadEventFired":
            self._loaded = True
        elif method == "Network.requestWillBeSent":
            self.fetched.append(told["request"]["url"])
        elif method == "Runtime.exceptionThrown":
            self.complaints.append(str(told["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and told["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(told["args"]))
        elif method == "Log.entryAdded" and told["entry"]["level"] in ("error", "warning"):
            self.complaints.append(told["entry"]["text"])

    def run(self, script: str) -> Any:
        """The value of an expression on the page."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in found:
            raise RuntimeError(f"{script}: {found['exceptionDetails']}")
        return found["result"].get("value")

    def click(self, selector: str) -> None:
        """A real click, in the middle of what is there: it must be on the screen, and nothing may lie over it."""
        where = json.dumps(selector)
        self.run(f"document.querySelector({where}).scrollIntoView({{block: 'center', behavior: 'instant'}})")
        place = f"(() => {{ const r = document.querySelector({where}).getBoundingClientRect(); "
        x, y = self.run(f"{place} return [r.left + r.width / 2, r.top + r.height / 2]; }})()")
        on_top = f"document.querySelector({where}).contains(document.elementFromPoint({x}, {y}))"
        assert self.run(on_top), f"something lies over {selector}"
        for kind in ("mousePressed", "mouseReleased"):
            self.send("Input.dispatchMouseEvent", type=kind, x=x, y=y, button="left", clickCount=1)

    def type(self, selector: str, text: str) -> None:
        self.click(selector)
        self.send("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        text = {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, code=key, windowsVirtualKeyCode=code, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key, code=key, windowsVirtualKeyCode=code)

    def screenshot(self, path: Path, whole: bool = False) -> Path:
        picture = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(picture))
        return path

    def print(self, path: Path) -> Path:
        paper = self.send("Page.printToPDF", printBackground=True, paperWidth=8.27, paperHeight=11.69)["data"]
        path.write_bytes(base64.b64decode(paper))
        return path

    def close(self) -> None:
        self.browser.listeners.remove(self._hear)
        self.browser.send("Target.closeTarget", targetId=self._target)
