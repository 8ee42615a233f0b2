"""Views that stay, as people have them: terminals, pipes that are closed, Ctrl-C."""

from __future__ import annotations

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from select import select

import pytest

from tests.cli.processes import COMMAND, on_terminal
from tests.support.open_spaces import SAFETY_S, STAYING, end, running, tell

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[a-zA-Z]")


class Screen:
    """A terminal with a command on it. Waiting for a text to appear is all that takes time."""

    def __init__(self, ours: int, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self.seen = ""
        self._ours = ours

    def read(self) -> bool:
        ready, _, _ = select([self._ours], [], [], SAFETY_S)
        assert ready, f"nothing more came:\n{ESCAPE.sub('', self.seen)}"
        try:
            chunk = os.read(self._ours, 65536)
        except OSError:
            return False  # how Linux says that the other side has closed
        self.seen += chunk.decode(errors="replace")
        return bool(chunk)

    def until(self, text: str) -> None:
        while text not in ESCAPE.sub("", self.seen):
            assert self.read(), f"it ended without {text!r}:\n{ESCAPE.sub('', self.seen)}"

    def rest(self) -> str:
        while self.read():
            pass
        return ESCAPE.sub("", self.seen).replace("\r\n", "\n")


@contextmanager
def screen(*args: str, columns: int = 80) -> Iterator[Screen]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    env = {name: value for name, value in os.environ.items() if name not in ("COLUMNS", "LINES", "NO_COLOR")}
    env["TERM"] = "xterm-256color"
    process = subprocess.Popen([*COMMAND, *args], stdin=theirs, stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    try:
        yield Screen(ours, process)
    finally:
        process.kill()
        process.wait(SAFETY_S)
        os.close(ours)


def test_live_graph_is_drawn_anew_when_something_changes_until_ctrl_c() -> None:
    with running(STAYING, "shop.db") as program, screen("graph", "--live") as view:
        view.until("receipt  sink · clean · 1 run ·")
        assert "\x1b[?1049h" in view.seen, "on a screen of its own"
        tell(program, 20)
        view.until("receipt  sink · clean · 2 runs ·")
        view.process.send_signal(signal.SIGINT)
        text = view.rest()
        assert view.process.wait(SAFETY_S) == 130
        assert "\x1b[?1049l" in view.seen, "and back"
        assert "\x1b[?25h" in view.seen, "with a cursor"
        assert "receipt  sink · clean · 2 runs" in text.rpartition("shop, live in process")[2], "the last one stays"
        assert "Traceback" not in text
        end(program)


def test_live_view_ends_when_the_space_is_closed() -> None:
    for command in (["graph", "--live"], ["top"]):
        with running(STAYING, "shop.db") as program, screen(*command) as view:
            view.until("receipt")
            end(program)
            assert view.rest().endswith("it was closed\n")
            assert view.process.wait(SAFETY_S) == 0


def test_top_stays_on_a_terminal_and_follows() -> None:
    with running(STAYING, "shop.db") as program, screen("top", "--sort", "name") as view:
        view.until("gross(…)      2     2            0")
        tell(program, 20)
        view.until("gross(…)      2     4            2")
        view.process.send_signal(signal.SIGINT)
        view.rest()
        assert view.process.wait(SAFETY_S) == 130


def test_trace_is_told_as_it_happens() -> None:
    with running(STAYING, "shop.db") as program, screen("trace", "--follow", "--kind", "started") as view:
        view.until("live in process")
        tell(program, 20)
        view.until("because gross(0), gross(1) changed")
        end(program)
        assert view.rest().endswith("it was closed\n")
        assert view.process.wait(SAFETY_S) == 0


def test_once_on_a_terminal_is_a_table() -> None:
    with running(STAYING, "shop.db"):
        text, code = on_terminal(*COMMAND, "top", "--once", "--sort", "name", env={"NO_COLOR": "1"})
        assert code == 0
        assert [line.split()[:4] for line in text.splitlines()[1:3]] == [
            ["function", "nodes", "runs", "invalidated"],
            ["gross(…)", "2", "2", "0"],
        ]
        text, code = on_terminal(*COMMAND, "stats", env={"NO_COLOR": "1"})
        assert re.search(r"effects +1  nodes that run for what they do", text)
        text, code = on_terminal(*COMMAND, "trace")
        assert "no records were kept; --follow shows what happens from now on" in text


@pytest.mark.parametrize("columns", [40, 80, 200])
def test_graph_fits_the_terminal(columns: int) -> None:
    with running(STAYING, "shop.db"):
        text, code = on_terminal(*COMMAND, "graph", columns=columns, env={"NO_COLOR": "1"})
        assert code == 0
        assert max(map(len, text.splitlines()[1:])) <= columns


# --- pipes ------------------------------------------------------------------------------------------------


def piped(*args: str) -> subprocess.Popen[str]:
    return subprocess.Popen([*COMMAND, *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def test_changes_are_written_as_lines_of_json() -> None:
    with running(STAYING, "shop.db") as program, piped("graph", "--live", "--json") as view:
        assert view.stdout is not None and view.stderr is not None
        runs = 0
        for number in range(20, 22):
            runs = json.loads(view.stdout.readline())["nodes"][0]["runs"]
            tell(program, number)
        while runs < 3:
            runs = json.loads(view.stdout.readline())["nodes"][0]["runs"]
        end(program)
        view.stdout.read()
        assert (view.wait(SAFETY_S), view.stderr.read()) == (0, "")


def test_reader_that_has_seen_enough_of_a_trace_is_no_error() -> None:
    with running(STAYING, "shop.db") as program, piped("trace", "--follow", "--jsonl") as view:
        assert view.stdout is not None and view.stderr is not None
        number = 20
        while not view.stdout.readable() or not _ready(view):
            number += 1
            tell(program, number)
        assert json.loads(view.stdout.readline())["app"] == "shop"
        view.stdout.close()
        while view.poll() is None:
            number += 1
            tell(program, number)
        assert (view.wait(SAFETY_S), view.stderr.read()) == (0, "")
        end(program)


def _ready(view: subprocess.Popen[str]) -> bool:
    """Something can be read."""
    assert view.stdout is not None
    return bool(select([view.stdout], [], [], 0.05)[0])


def test_ctrl_c_ends_following_with_130_and_the_program_goes_on() -> None:
    with running(STAYING, "shop.db") as program, piped("trace", "--follow") as view:
        assert view.stdout is not None and view.stderr is not None
        assert "live in process" in view.stderr.readline()
        view.send_signal(signal.SIGINT)
        assert view.wait(SAFETY_S) == 130
        assert view.stderr.read().strip() == "interrupted"
        tell(program, 20)
        end(program)
    assert not Path("shop.db-runtime").exists()
