"""Authors see their own lines in a traceback; all calls with HEADWATER_DEBUG=1, and where Headwater is to blame."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import InvariantError, UsageError
from headwater.runtime import tracebacks
from headwater.runtime.tracebacks import author_calls
from tests.app.holding import SAFETY_S

BEGIN = """
import asyncio
import headwater as hw
app = hw.App("t")
count = app.cell("count", 0)

@app.computed
def bad() -> int:
    return 1 // count.value

@app.handler
def order() -> int:
    return bad()
"""

LATER = """
@app.computed
async def later() -> int:
    await asyncio.sleep(0)
    return 1 // count.value

async def main() -> None:
    async with app.aopen("memory:"):
        later()  # which is under way

asyncio.run(main())
"""

ENDS = {
    "a write": ("with app.open('memory:'): count.value = 'x'", ["<module>"]),
    "in a transaction": (
        "with app.open('memory:') as space:\n    with space.transaction():\n        count.value = 'x'",
        ["<module>"],
    ),
    "a result": ("with app.open('memory:'): bad()", ["<module>", "bad"]),
    "an event": ("with app.open('memory:'): order.send().result()", ["order", "bad", "order", "bad", "<module>"]),
    "a declaration": ("app.cell('count', 0)", ["<module>"]),
    "a nested error": (
        "try:\n    bad()\nexcept hw.HeadwaterError as error:\n    raise ValueError('x') from error",
        ["<module>", "<module>"],
    ),
}
"""What a program does last, and the functions whose calls are shown."""


def ended(folder: Path, last: str, **env: str) -> str:
    program = folder / "program.py"
    program.write_text(f"{BEGIN}\n{last}\n", encoding="utf-8")
    settings = {**os.environ, **env}
    done = subprocess.run(
        [sys.executable, str(program)], capture_output=True, text=True, timeout=SAFETY_S, check=False, env=settings
    )
    assert done.returncode == 1
    return done.stderr


def functions(text: str) -> list[str]:
    return [line.rpartition(" in ")[2] for line in text.splitlines() if line.startswith("  File ")]


def test_report_hides_the_calls_of_causes_too(caplog: pytest.LogCaptureFixture, tmp_path: Path) -> None:
    """The report of an event that another space did not handle has the error of its handler as a cause."""
    near, far = hw.App("near"), hw.App("far")

    @far.handler
    def take() -> None:
        raise ValueError("no")

    with far.open(f"{tmp_path}/far.db"), near.open(f"{tmp_path}/near.db", on_error="log") as space:
        with space.transaction():
            take.send()
        space.delivered()
    (record,) = [each for each in caplog.records if "HW166" not in each.getMessage() and each.exc_info]
    shown = logging.Formatter().format(record)
    assert "ValueError: no" in shown
    assert functions(shown) == ["take"]


@pytest.mark.parametrize("how", ENDS)
def test_an_error_that_ends_a_program_shows_the_lines_of_its_author(tmp_path: Path, how: str) -> None:
    last, wanted = ENDS[how]
    text = ended(tmp_path, last)
    assert functions(text) == wanted, text
    assert "src/headwater" not in text
    everything = ended(tmp_path, last, HEADWATER_DEBUG="1")
    assert f"headwater{os.sep}" in everything
    assert everything.splitlines()[-1].partition(" event:")[0] == text.splitlines()[-1].partition(" event:")[0]


def test_an_async_program_shows_them_too(tmp_path: Path) -> None:
    text = ended(tmp_path, LATER)
    found = functions(text)
    assert found[0] == "<module>"
    assert found[-1] == "main", text
    assert "src/headwater" not in text


def test_what_was_there_before_shows_the_error_and_the_error_is_unchanged(monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[int] = []
    monkeypatch.setattr(
        sys, "excepthook", lambda _kind, error, calls: shown.extend([depth(calls), depth(error.__traceback__)])
    )
    app = hw.App("t")
    hw.App("another")
    hook = sys.excepthook
    assert isinstance(hook, tracebacks._Shown)
    assert not isinstance(hook._inner, tracebacks._Shown)
    count = app.cell("count", 0)
    with pytest.raises(hw.HeadwaterError) as raised, app.open("memory:"):
        count.value = "x"  # type: ignore[assignment]
    before = depth(raised.value.__traceback__)
    hook(raised.type, raised.value, raised.value.__traceback__)
    assert depth(raised.value.__traceback__) == before > 1
    assert shown == [1, 1]


def depth(calls: object) -> int:
    return len(traceback.extract_tb(calls))  # type: ignore[arg-type]


def test_a_logged_error_shows_the_lines_of_its_author(caplog: pytest.LogCaptureFixture) -> None:
    app = hw.App("t")
    count = app.cell("count", 0)

    @app.sink
    def show() -> None:
        count.key("x").value = "x"  # type: ignore[attr-defined]

    with app.open("memory:", on_error="log"), caplog.at_level(logging.ERROR, "headwater"):
        count.value = 1
    [record] = [record for record in caplog.records if record.exc_info][:1]
    assert record.exc_info is not None
    assert [frame.name for frame in traceback.extract_tb(record.exc_info[2])] == ["show"]


@pytest.mark.parametrize(
    ("error", "calls"), [(InvariantError("broken"), 2), (TypeError("a bug"), 2), (UsageError("a mistake"), 1)]
)
def test_an_error_that_headwater_is_to_blame_for_shows_everything(error: Exception, calls: int) -> None:
    code = compile("def engine(error):\n    raise error\n", str(Path(tracebacks.__file__)), "exec")
    names: dict[str, object] = {}
    exec(code, names)  # noqa: S102  # a function that looks like one of ours
    with pytest.raises(type(error)) as raised:
        names["engine"](error)  # type: ignore[operator]
    assert depth(author_calls(raised.value)) == calls


def test_an_error_of_an_odd_class_is_shown_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    class OddError(Exception):
        @property
        def __cause__(self) -> BaseException:  # type: ignore[override]
            raise RuntimeError("there is none")

    shown: list[BaseException] = []
    monkeypatch.setattr(sys, "excepthook", lambda _kind, error, _calls: shown.append(error))
    hw.App("t")
    odd = OddError()
    sys.excepthook(OddError, odd, None)
    assert shown == [odd]
