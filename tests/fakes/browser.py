"""Pages as Chromium renders them, driven over its debugging pipe."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from counterpose_core.images.codecs import Pixels, decode_image

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
SECONDS = 90

FIRST = """(() => {
  const photo = document.querySelector("svg.photo");
  const before = document.createRange();
  before.setStart(document.body, 0);
  before.setEndBefore(photo);
  return {
    top: photo.getBoundingClientRect().top + scrollY,
    words: before.toString().trim().split(/\\s+/).length,
    width: document.documentElement.scrollWidth,
  };
})()"""
"""Where the first image of a report stands, and how many words come before it."""

_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1",
    "--remote-debugging-pipe",
)


class Tab:
    """One page of a browser; sizes are CSS pixels."""

    def __init__(self, to_browser: int, from_browser: int) -> None:
        self._to, self._from = to_browser, from_browser
        self._rest = b""
        self._number = 0
        self._session: str | None = None
        target = self.ask("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.ask("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        self.ask("Page.enable")

    def ask(self, method: str, **params: Any) -> Any:
        """Send a command of the DevTools protocol and wait for its answer."""
        self._number += 1
        number = self._number
        message: dict[str, Any] = {"id": number, "method": method, "params": params}
        if self._session is not None:
            message["sessionId"] = self._session
        os.write(self._to, json.dumps(message).encode() + b"\0")
        while (answer := self._next()).get("id") != number:
            pass
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def _next(self) -> Any:
        while b"\0" not in self._rest:
            more = os.read(self._from, 1 << 16)
            if not more:
                raise RuntimeError("Chromium ended")
            self._rest += more
        message, _, self._rest = self._rest.partition(b"\0")
        return json.loads(message)

    def open(
        self, page: Path | str, width: int, height: int, *, dark: bool = False, script: bool = True
    ) -> None:
        """Show a page of the disk, or of an address, in a window of a size, in light or dark colours."""
        self.ask(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=1,
            mobile=False,
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.ask("Emulation.setEmulatedMedia", features=[scheme])
        self.ask("Emulation.setScriptExecutionDisabled", value=not script)
        self.ask("Page.navigate", url=page if isinstance(page, str) else page.as_uri())
        while self._next().get("method") != "Page.loadEventFired":
            pass

    def value(self, expression: str) -> Any:
        """The value of a JavaScript expression, as JSON."""
        found = self.ask("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise RuntimeError(str(found["exceptionDetails"]))
        return found["result"].get("value")

    def press(self, key: str) -> None:
        """Press and release a key."""
        for kind in ("keyDown", "keyUp"):
            self.ask("Input.dispatchKeyEvent", type=kind, key=key, code=key)

    def pixels(self, *, whole: bool = False) -> Pixels:
        """What is drawn, uint8 (height, width, 3): the window, or the whole page."""
        shot = self.ask("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        return decode_image(base64.b64decode(shot["data"]))

    def printed_pages(self) -> int:
        """How many A4 pages the page prints on."""
        pdf = base64.b64decode(self.ask("Page.printToPDF", paperWidth=8.27, paperHeight=11.69)["data"])
        return pdf.count(b"/Type /Page\n") + pdf.count(b"/Type /Page/")


@contextmanager
def browser(profile: Path) -> Iterator[Tab]:
    """Start Chromium with a profile of its own, and end it."""
    assert CHROMIUM is not None
    commands, to_browser = os.pipe()
    from_browser, answers = os.pipe()
    moved = [os.dup(commands), os.dup(answers)]

    def as_three_and_four() -> None:
        os.dup2(moved[0], 3)
        os.dup2(moved[1], 4)

    process = subprocess.Popen(
        [CHROMIUM, *_FLAGS, f"--user-data-dir={profile}"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        close_fds=False,
        preexec_fn=as_three_and_four,
    )
    for end in (commands, answers, *moved):
        os.close(end)
    try:
        yield Tab(to_browser, from_browser)
    finally:
        process.terminate()
        process.wait(SECONDS)
        os.close(to_browser)
        os.close(from_browser)


def until(tab: Tab, expression: str, seconds: float = 30.0) -> Any:
    """Wait for an expression to be true in the page; its value."""
    deadline = time.monotonic() + seconds
    while not (value := _value(tab, expression)):
        assert time.monotonic() < deadline, (expression, tab.value("document.body.innerText"))
        time.sleep(0.05)
    return value


def _value(tab: Tab, expression: str) -> Any:
    try:
        return tab.value(expression)
    # Between two pages there is nothing to ask.
    except RuntimeError:
        return None


def click(tab: Tab, selector: str) -> None:
    """Click what is meant, and wait for the page behind it."""
    before = tab.value("performance.timeOrigin")
    tab.value(f"document.querySelector({selector!r}).click()")
    until(tab, f"performance.timeOrigin !== {before} && document.readyState === 'complete'")


def share(pixels: Pixels, colour: tuple[int, int, int], slack: int = 3) -> float:
    """Share of the pixels that have a colour."""
    return float(np.mean(np.all(np.abs(pixels.astype(int) - colour) <= slack, axis=-1)))
