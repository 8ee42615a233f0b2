"""A real browser for tests: Chromium without a window, over the pipe of its DevTools protocol."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
from collections import deque
from pathlib import Path
from typing import Any, Self

FOUND = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
OPTIONS = (
    "--headless=new",
    "--remote-debugging-pipe",
    "--no-sandbox",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
START = """
import fcntl, os, sys
ends = [fcntl.fcntl(int(number), fcntl.F_DUPFD, 5) for number in sys.argv[1:3]]
for number, end in enumerate(ends, start=3):
    os.dup2(end, number)
os.execv(sys.argv[3], sys.argv[3:])
"""
"""The protocol is spoken over the descriptors 3 and 4. Messages end with a zero byte."""


class Chromium:
    """The process. Its pages end with it."""

    def __init__(self, folder: Path) -> None:
        """`folder` is for the profile: nothing of the user's own is read."""
        assert FOUND is not None
        theirs, self._write = os.pipe()
        self._read, ours = os.pipe()
        begin = [sys.executable, "-I", "-c", START, str(theirs), str(ours)]
        command = [*begin, FOUND, *OPTIONS, f"--user-data-dir={folder}", "about:blank"]
        env = {**os.environ, "HOME": str(folder)}
        with (folder / "chromium.log").open("wb") as log:
            self._process = subprocess.Popen(
                command, env=env, pass_fds=(theirs, ours), stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        os.close(theirs)
        os.close(ours)
        self._numbers = itertools.count(1)
        self._messages: deque[dict[str, Any]] = deque()
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.call("Browser.close")
        self._process.wait()
        os.close(self._write)
        os.close(self._read)

    def open(self, url: str) -> Page:
        """A new tab, when its page is loaded."""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = Page(self, session)
        self.call("Page.enable", session=session)
        self.call("Page.navigate", session=session, url=url)
        while not self._take("Page.loadEventFired", session):
            self._messages.append(self._next())
        return page

    def call(self, method: str, session: str | None = None, **params: object) -> dict[str, Any]:
        """The result of one command; events that come before it are kept."""
        number = next(self._numbers)
        message: dict[str, object] = {"id": number, "method": method, "params": params}
        if session is not None:
            message["sessionId"] = session
        os.write(self._write, json.dumps(message).encode() + b"\0")
        while True:
            answer = self._next()
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return dict(answer["result"])
            self._messages.append(answer)

    def _take(self, method: str, session: str) -> bool:
        for message in self._messages:
            if message.get("method") == method and message.get("sessionId") == session:
                self._messages.remove(message)
                return True
        return False

    def _next(self) -> dict[str, Any]:
        while b"\0" not in self._rest:
            more = os.read(self._read, 1 << 16)
            assert more, "the browser has ended"
            self._rest += more
        first, _, self._rest = self._rest.partition(b"\0")
        return dict(json.loads(first))


class Page:
    """One tab."""

    def __init__(self, browser: Chromium, session: str) -> None:
        self._browser = browser
        self._session = session

    def run(self, expression: str) -> Any:
        """The value of an expression of JavaScript; of a promise, when it is kept."""
        found = self._browser.call(
            "Runtime.evaluate", self._session, expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def text(self, selector: str, condition: str) -> str:
        """The text of an element, as soon as it is there and a condition on `text` holds.

        By the changes of the page, not by time.
        """
        return str(
            self.run(
                f"""new Promise(resolve => {{
                    const look = () => {{
                        const text = document.querySelector({json.dumps(selector)})?.textContent
                        if (text !== undefined && ({condition})) {{ resolve(text); return true }}
                    }}
                    const changes = new MutationObserver(() => look() && changes.disconnect())
                    changes.observe(document, {{subtree: true, childList: true, characterData: true}})
                    look()
                }})"""
            )
        )
