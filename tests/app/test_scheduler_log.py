"""What the scheduler does can be followed through `logging`, if that is asked for by name."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

import headwater as hw

LOGGER = "headwater.scheduler"


@pytest.fixture(autouse=True)
def _as_it_was() -> Iterator[None]:
    yield
    for name in (LOGGER, "headwater"):
        logging.getLogger(name).setLevel(logging.NOTSET)


def program() -> tuple[hw.App, hw.Cell[int]]:
    app = hw.App("a")
    x = app.cell("x", 0)

    @app.computed
    def double() -> int:
        return 2 * x.value

    @app.sink
    def show() -> None:
        double()

    @app.handler
    def act() -> None:
        x.value += 1

    return app, x


@pytest.mark.parametrize("name", [LOGGER, "headwater"])
def test_each_step_is_a_line(caplog: pytest.LogCaptureFixture, name: str) -> None:
    logging.getLogger(name).setLevel(logging.DEBUG)
    app, x = program()
    with app.open("memory:"):
        caplog.clear()
        x.value = 3
    lines = [record.getMessage() for record in caplog.records if record.name == LOGGER]
    assert "main: invalidated double#1: cause='a.x', change='commit'" in lines
    started = [line for line in lines if line.startswith("main: started double")]
    assert len(started) == 1
    assert "causes=('a.x',)" in started[0]
    assert any(line.startswith("main: pass: number=") for line in lines)
    assert all(hasattr(record, "headwater") for record in caplog.records if record.name == LOGGER)


def test_without_asking_there_is_nothing_and_it_costs_nothing(caplog: pytest.LogCaptureFixture) -> None:
    app, x = program()
    with caplog.at_level(logging.DEBUG), app.open("memory:") as space:
        x.value = 3
        assert space.scheduler.trace.on is False
    assert [record for record in caplog.records if record.name == LOGGER] == []


def test_a_handler_that_raises_or_prints_stops_nothing() -> None:
    class Wrong(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            print(record.getMessage())
            raise ValueError

    log = logging.getLogger(LOGGER)
    log.setLevel(logging.DEBUG)
    wrong = Wrong()
    log.addHandler(wrong)
    heard: list[str] = []
    try:
        app, x = program()
        seen: list[int] = []

        @app.sink
        def last() -> None:
            print("mine")
            seen.append(x.value)

        with app.open("memory:", on_console=lambda console: heard.append(console.text)):
            x.value = 3
    finally:
        log.removeHandler(wrong)
    assert seen == [0, 3]
    assert heard == ["mine", "mine"]
