"""Several that fail while something ends: all of them are reported, and none keeps the others from their turn."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import NoReturn

import pytest

import headwater as hw
from headwater.cells.pending_commit import call_all
from headwater.core import Transaction
from tests.scheduler.events.office import Office
from tests.support.odd_errors import BadNotesError, NoStrError


def failing(log: list[str], name: str, error: Exception | None) -> None:
    log.append(name)
    if error is not None:
        raise error


def besides(error: BaseException) -> list[str]:
    return list(getattr(error, "__notes__", []))


def test_the_first_is_raised_and_has_the_others_with_it() -> None:
    log: list[str] = []
    errors = [None, ValueError("one"), KeyError("two"), NoStrError(), None]
    with pytest.raises(ValueError, match="one") as raised:
        call_all([lambda _, at=at: failing(log, str(at), errors[at]) for at in range(5)], None)  # type: ignore[misc]
    assert log == ["0", "1", "2", "3", "4"]
    assert besides(raised.value) == [
        "besides: KeyError: 'two'",
        "besides: NoStrError: <no text: str() raised AttributeError>",
    ]


def test_one_that_takes_no_notes_is_raised_all_the_same() -> None:
    def fails(_: None) -> NoReturn:
        raise BadNotesError

    with pytest.raises(BadNotesError):
        call_all([fails, fails], None)


def test_stops_of_what_a_failed_transaction_has_started() -> None:
    office = Office(Path())
    ann = office.clerk("ann")
    log: list[str] = []
    tx = Transaction(ann.replica, "work")
    for name in ("one", "two", "three"):
        ann.scheduler.origins.attach(tx, lambda name=name: failing(log, name, ValueError(name)))  # type: ignore[misc]
    with pytest.raises(ValueError, match="three") as raised:
        tx.abort()
    assert log == ["three", "two", "one"]
    assert besides(raised.value) == ["besides: ValueError: two", "besides: ValueError: one"]
    office.close()


@pytest.mark.parametrize("is_async", [False, True])
def test_a_space_whose_closing_fails_is_closed(is_async: bool, tmp_path: Path) -> None:
    url = str(tmp_path / "a.db")
    app = hw.App("a")
    x = app.cell("x", 0)
    log: list[str] = []

    def prepare(space: hw.Space | hw.AsyncSpace) -> None:
        for name in ("one", "two"):
            space._opening.on_close(lambda name=name: failing(log, name, ValueError(name)))  # type: ignore[misc]
        x.value = 5

    async def main() -> None:
        async with app.aopen(url) as space:
            prepare(space)

    with pytest.raises(ValueError, match="one") as raised:
        if is_async:
            asyncio.run(main())
        else:
            with app.open(url) as space:
                prepare(space)
    assert log == ["one", "two"]
    assert besides(raised.value) == ["besides: ValueError: two"]
    with app.open(url):
        assert x.value == 5
