"""Listeners that raise, print, read, write, answer nonsense or are no functions: nobody else is harmed."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

import headwater as hw
from headwater.cells.context import open_spaces
from headwater.errors import ClosedError, UsageError
from tests.app.desk import Desk


@pytest.fixture
def desk() -> Desk:
    return Desk()


def test_listener_that_raises_is_told_of_once_and_the_text_goes_on(
    desk: Desk, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(console: hw.Console) -> str:
        raise LookupError(console.text)

    desk.answer = fails
    desk.sink("x is ")
    with desk.open() as space:
        desk.x.value = 1
        [error] = desk.errors
        assert error.message == (
            "on_console in space 'main' raised LookupError: x is 0. What show() wrote is forwarded as is. This "
            "is reported once"
        )
        assert isinstance(error.__cause__, LookupError)
        assert error.facts == {
            "space": "main", "piece": "", "node": "show", "event": None, "triggers": (), "run": 1,
        }  # fmt: skip
        space.on_console = fails
        desk.x.value = 2
        assert len(desk.errors) == 2, "another listener is another matter"
    assert capsys.readouterr().out == "x is 0\nx is 1\nx is 2\n"


def test_answer_that_is_no_text_is_told_of_and_the_text_goes_on(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    desk.answer = lambda _: 7
    desk.sink()
    with desk.open():
        pass
    assert [error.message.partition(". ")[0] for error in desk.errors] == [
        "on_console in space 'main' returned 7, where None or text is expected"
    ]
    assert capsys.readouterr().out == "0\n"


def test_listener_that_prints_and_logs_does_not_hear_itself(
    desk: Desk, capsys: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    def echo(console: hw.Console) -> str:
        print(f"[{console.node}] {console.text}")
        logging.getLogger("echo").warning("heard %s", console.text)
        return ""

    desk.answer = echo
    desk.sink()
    with desk.open():
        pass
    assert (desk.texts, capsys.readouterr().out) == (["0"], "[show] 0\n")
    assert [record.getMessage() for record in caplog.records] == ["heard 0"]


def test_listener_that_fails_where_errors_are_logged_does_not_hear_that(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    def fails(console: hw.Console) -> str:
        raise LookupError(console.text)

    desk.answer = fails
    desk.sink()
    with desk.app.open("memory:", on_console=desk.listen, on_error="log"):
        pass
    assert desk.texts == ["0"]
    assert [record.name for record in caplog.records] == ["headwater"]


def test_what_a_listener_reads_is_not_read_by_the_function(desk: Desk) -> None:
    verbose = desk.app.cell("verbose", True)
    desk.answer = lambda _: None if verbose.value else ""
    desk.sink()
    with desk.open() as space:
        verbose.value = False
        assert len(desk.heard) == 1
        assert space.scheduler.get_stats().runs == 1


def test_listener_may_not_write(desk: Desk) -> None:
    desk.answer = lambda console: setattr(desk.x, "value", len(console.text))
    desk.app.sink(name="show")(lambda: print("hello"))
    with desk.open():
        assert desk.x.value == 0
    [error] = desk.errors
    assert "on_console may not write desk.x: it is called in the middle of a run" in str(error)


def test_interrupt_in_a_listener_goes_on(desk: Desk) -> None:
    def interrupt(_: hw.Console) -> str:
        raise KeyboardInterrupt

    desk.sink()
    with desk.open():
        desk.answer = interrupt
        with pytest.raises(KeyboardInterrupt):
            desk.x.value = 1
        desk.answer = lambda _: None
    assert desk.texts == ["0", "1", "1"], "interrupted, and run again"


@pytest.mark.parametrize("what", [7, "print", asyncio.sleep])
def test_what_cannot_be_called_in_the_middle_of_a_print_is_refused(desk: Desk, what: Any) -> None:
    with pytest.raises(UsageError, match="on_console takes a plain function, or None, not"):
        desk.app.open("memory:", on_console=what)
    assert not open_spaces()
    with desk.open() as space:
        with pytest.raises(UsageError, match="on_console takes a plain function"):
            space.on_console = what
        assert space.on_console == desk.listen


def test_closed_space_cannot_listen(desk: Desk) -> None:
    with desk.open() as space:
        pass
    assert space.on_console is None
    with pytest.raises(ClosedError):
        space.on_console = desk.listen
    space.on_console = None
