"""on_error= "raise", "log" or a function: what happens to errors of functions that run by themselves."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path
from typing import Literal

import pytest

import headwater as hw
from headwater.errors import UsageError, UserCodeError
from headwater.testing import SimClock, open_at
from tests.app.shop import run


class Desk:
    """A sink, an eager computed and a handler; each raises if the cell `bad` names it."""

    def __init__(self) -> None:
        self.app = hw.App("desk")
        self.x = self.app.cell("x", 0)
        self.bad = self.app.cell("bad", "")
        self.shown: list[int] = []
        self.app.sink(name="show")(self._show)
        self.app.computed(name="total", eager=True)(self._total)
        self.take = self.app.handler(name="take")(self._take)

    def _fail_in(self, name: str) -> None:
        if name in self.bad.value:
            raise ValueError(name)

    def _show(self) -> None:
        self.shown.append(self.x.value)
        self._fail_in("show")

    def _total(self) -> int:
        self._fail_in("total")
        return self.x.value

    def _take(self) -> int:
        self._fail_in("take")
        self.x.value += 1
        return self.x.value


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.mark.parametrize("name", ["show", "total"])
def test_what_runs_by_itself_and_raises_is_raised_at_the_end_of_the_block(
    desk: Desk, name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Not by the line that woke it, which goes on; it is logged at once; and everything is kept."""
    steps: list[str] = []
    said = rf"HW150: {name}\(\) in space 'desk' raised ValueError"
    with pytest.raises(UserCodeError, match=said) as raised, desk.app.open(tmp_path / "desk.db") as space:
        desk.bad.value = name
        steps.append("written")
        assert f"{name}() in space 'desk' raised ValueError" in caplog.text
        desk.x.value = 7
        space.settle()
        space.sync()
        steps.append("settled")
    assert steps == ["written", "settled"]
    assert isinstance(raised.value.__cause__, ValueError)
    assert 'on_error="log"' in raised.value.__notes__[0]
    with Desk().app.open(tmp_path / "desk.db", on_error="log") as space:
        assert space.cell("desk.x").value == 7


def test_of_several_the_first_is_raised_and_the_others_are_counted(desk: Desk) -> None:
    with pytest.raises(UserCodeError) as raised, desk.app.open("memory:"):
        desk.bad.value = "show total"
        desk.x.value = 1
    assert "2 more were logged" in raised.value.__notes__[0]


def test_close_raises_once(desk: Desk) -> None:
    space = desk.app.open("memory:")
    desk.bad.value = "show"
    with pytest.raises(UserCodeError):
        space.close()
    assert space.closed
    space.close()


def test_an_error_of_the_block_is_not_hidden_by_it(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(KeyError), desk.app.open("memory:"):
        desk.bad.value = "show"
        raise KeyError
    assert "show() in space 'main' raised ValueError" in caplog.text


def test_a_failed_event_is_its_senders_business(desk: Desk) -> None:
    """It is kept and logged; its ticket raises it, and the sender may have an answer to it."""
    with desk.app.open("memory:"):
        desk.bad.value = "take"
        with pytest.raises(hw.EventFailedError):
            desk.take.send().result()


def test_log_logs_and_a_function_is_called(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with desk.app.open("memory:", on_error="log"):
        desk.bad.value = "show"
    assert caplog.text.count("show() in space 'main' raised ValueError: show") == 1
    caplog.clear()
    told: list[UserCodeError] = []
    with Desk().app.open("memory:") as space:
        space.on_error = told.append
        space.cell("desk.bad").value = "show"
    assert [error.facts["node"] for error in told] == ["show"]
    assert caplog.text == ""


def test_raise_may_be_said(desk: Desk) -> None:
    with pytest.raises(UserCodeError), desk.app.open("memory:", on_error="raise"):
        desk.bad.value = "show"


def test_anything_else_is_refused(desk: Desk) -> None:
    with pytest.raises(UsageError, match="on_error='warn': 'raise', 'log', or a function"):
        desk.app.open("memory:", on_error="warn")  # type: ignore[arg-type]


def test_in_an_event_loop_too(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    async def main(mode: Literal["raise", "log"] | None) -> None:
        async with desk.app.aopen("memory:", on_error=mode) as space:
            desk.bad.value = "show"
            await space.settle()

    for mode in (None, "raise"):
        with pytest.raises(UserCodeError, match="show"):
            run(main(mode))
    run(main("log"))
    assert caplog.text.count("raised ValueError: show") >= 3

    async def fails() -> None:
        async with desk.app.aopen("memory:"):
            desk.bad.value = "show"
            raise KeyError

    with pytest.raises(KeyError):
        run(fails())


def test_a_test_that_moves_the_clock_is_told(desk: Desk) -> None:
    with pytest.raises(UserCodeError), open_at(desk.app, SimClock()):
        desk.bad.value = "show"


SCRIPT = """
import headwater as hw
app = hw.App("a")
n = app.cell("n", 0)
@app.sink
def show() -> None:
    if n.value:
        raise ValueError("no")
with app.open("a.db"{options}):
    n.value = 1
print("after")
"""


@pytest.mark.parametrize(("options", "code", "out"), [("", 1, ""), (', on_error="log"', 0, "after\n")])
def test_a_script_ends_with_an_exit_code(tmp_path: Path, options: str, code: int, out: str) -> None:
    (tmp_path / "script.py").write_text(SCRIPT.format(options=options), encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "script.py"], cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120
    )
    assert (ended.returncode, ended.stdout) == (code, out), ended.stderr
    assert "show() in space 'a' raised ValueError: no" in ended.stderr


def test_who_stays_open_logs(desk: Desk, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """`app.run` and `headwater run`: a service goes on, and ends as it was told to."""
    waits = [True, False]

    def wait(_self: object, _seconds: float | None) -> bool:
        desk.bad.value = "show"
        return waits.pop(0)

    monkeypatch.setattr("headwater.app.Stay.wait", wait)
    with caplog.at_level(logging.ERROR):
        desk.app.run("memory:")
    assert "show() in space 'main' raised ValueError" in caplog.text


def test_an_async_function_is_refused() -> None:
    """It would not be awaited, and every error would be lost."""

    async def told(_: hw.UserCodeError) -> None: ...

    with pytest.raises(UsageError, match="would not be awaited"):
        hw.App("a").open("memory:", on_error=told)


def test_what_is_assigned_later_is_checked_like_the_option(desk: Desk) -> None:
    async def told(_: hw.UserCodeError) -> None: ...

    with desk.app.open("memory:", on_error="log") as space:
        before = space.on_error
        with pytest.raises(UsageError, match="on_error='warn': 'raise', 'log', or a function"):
            space.on_error = "warn"  # type: ignore[assignment]
        with pytest.raises(UsageError, match="would not be awaited"):
            space.on_error = told  # type: ignore[assignment]
        assert space.on_error is before


def test_raise_and_log_may_be_assigned(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(UserCodeError, match=r"show\(\)"), desk.app.open("memory:", on_error="log") as space:
        space.on_error = "raise"
        desk.bad.value = "show"
    caplog.clear()
    with desk.app.open("memory:") as space:
        space.on_error = "log"
        desk.bad.value = "show"
    assert "show() in space 'main' raised ValueError" in caplog.text
