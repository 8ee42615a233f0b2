"""What functions log is handed over when the record is made, whatever loggers and handlers there are."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import rich.console
import rich.logging

import headwater as hw
from tests.app.desk import Desk
from tests.app.shop import run

log = logging.getLogger("tests.app.shelf")


@pytest.fixture
def desk() -> Desk:
    return Desk()


@pytest.fixture(autouse=True)
def tidy() -> Iterator[None]:
    before = (sys.stdout, sys.stderr, logging.getLogRecordFactory(), list(logging.getLogger().handlers))
    yield
    assert (sys.stdout, sys.stderr, logging.getLogRecordFactory(), logging.getLogger().handlers) == before


@contextmanager
def unconfigured() -> Iterator[None]:
    """As in a program that says nothing about logging; pytest has handlers of its own."""
    root = logging.getLogger()
    before, root.handlers = root.handlers, []
    try:
        yield
    finally:
        root.handlers = before


def test_message_is_handed_over_with_level_logger_and_function(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    @desk.app.sink
    def show() -> None:
        log.warning("x is %d", desk.x.value)
        logging.error("root")  # noqa: LOG015  # any logger

    with desk.open():
        desk.x.value = 5
    first, root, *_ = desk.heard
    assert first == hw.Console(
        text="x is 0", stream="log", level=logging.WARNING, logger="tests.app.shelf",
        node="show", piece="", space="main", event=None, triggers=(), run=1,
    )  # fmt: skip
    assert (root.text, root.level, root.logger) == ("root", logging.ERROR, "root")
    assert desk.texts == ["x is 0", "root", "x is 5", "root"]
    assert desk.heard[2].triggers == ("desk.x",)
    assert [record.getMessage() for record in caplog.records] == desk.texts, "as without a listener"


def test_level_that_is_not_logged_is_not_heard(desk: Desk) -> None:
    @desk.app.sink
    def show() -> None:
        log.debug("quiet")
        log.error("loud")

    with desk.open():
        pass
    assert desk.texts == ["loud"]


def test_plain_code_is_not_heard(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    with desk.open():
        log.warning("plain")
    assert (desk.heard, caplog.messages) == ([], ["plain"])


def test_text_after_an_await_is_heard(desk: Desk) -> None:
    @desk.app.sink
    async def show() -> None:
        await asyncio.sleep(0)
        log.warning("later")
        await asyncio.to_thread(log.warning, "in a thread")

    async def main() -> None:
        async with desk.app.aopen("memory:", on_console=desk.listen) as space:
            await space.settle()

    run(main())
    assert [(each.node, each.text) for each in desk.heard] == [("show", "later"), ("show", "in a thread")]


@pytest.mark.parametrize(("answer", "messages"), [(None, ["10 is x"]), ("other", ["other"]), ("", [])])
def test_answer_decides_what_all_handlers_get(
    desk: Desk, caplog: pytest.LogCaptureFixture, answer: str | None, messages: list[str]
) -> None:
    apart = logging.getLogger("tests.app.apart")
    kept = io.StringIO()
    apart.handlers, apart.propagate = [logging.StreamHandler(kept)], False
    desk.answer = lambda _: answer

    @desk.app.sink
    def show() -> None:
        for each in (log, apart):
            each.warning("%d is %s", 10, "x", extra={"shelf": 3})

    with desk.open():
        log.warning("plain code")
    assert caplog.messages == [*messages, "plain code"]
    assert kept.getvalue().splitlines() == messages, "nor does it matter whether a logger hands on to others"
    assert desk.texts == ["10 is x"] * 2
    apart.handlers.clear()


def test_template_and_arguments_and_traceback_are_kept_for_those_who_look_at_them(
    desk: Desk, caplog: pytest.LogCaptureFixture
) -> None:
    @desk.app.sink
    def show() -> None:
        try:
            raise ValueError("two")
        except ValueError:
            log.exception("failed for %s", "x")

    with desk.open():
        pass
    [record] = caplog.records
    assert (record.msg, record.args) == ("failed for %s", ("x",))
    assert record.exc_info is not None and record.exc_info[0] is ValueError
    assert desk.texts == ["failed for x"]


def test_arguments_that_do_not_fit_are_no_trouble_of_ours(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    plain = logging.getLogger("tests.app.plain")
    plain.handlers, plain.propagate = [logging.StreamHandler(io.StringIO())], False
    desk.app.sink(name="show")(lambda: plain.warning("%d", "text"))
    with desk.open():
        pass
    assert (desk.texts, desk.errors) == (["%d"], [])
    assert "--- Logging error ---" in capsys.readouterr().err
    plain.handlers.clear()


# --- with and without configuration -----------------------------------------------------------------------


def test_unconfigured_logging_shows_warnings_and_is_heard_once(desk: Desk, capsys: pytest.CaptureFixture[str]) -> None:
    """`logging` prints them to stderr then."""
    desk.answer = lambda console: console.text.upper()

    @desk.app.sink
    def show() -> None:
        log.warning("careful")

    with unconfigured(), desk.open():
        pass
    assert [(each.stream, each.text) for each in desk.heard] == [("log", "careful")]
    assert capsys.readouterr().err == "CAREFUL\n"


@pytest.mark.parametrize("make", [logging.StreamHandler, rich.logging.RichHandler])
def test_handler_that_prints_to_a_stream_is_not_heard_besides(desk: Desk, make: Any) -> None:
    """Also if it was made while we were in the way."""

    @desk.app.sink
    def show() -> None:
        log.warning("careful %d", desk.x.value)
        print("printed", file=sys.stderr)

    with unconfigured(), desk.open():
        logging.getLogger().handlers = [make()]
        desk.x.value = 1
    assert desk.texts == ["careful 0", "printed", "careful 1", "printed"]


def test_run_that_a_log_handler_has_caused_is_heard(desk: Desk) -> None:
    class Counts(logging.Handler):
        def emit(self, _: logging.LogRecord) -> None:
            desk.x.value += 1

    desk.sink()
    with unconfigured(), desk.open():
        logging.getLogger().handlers = [Counts()]
        log.warning("one")
    assert desk.texts == ["0", "1"]


def test_configuring_later_works_as_ever(desk: Desk) -> None:
    """We are no handler of the root logger, so `basicConfig` finds none."""
    kept = io.StringIO()
    desk.app.sink(name="show")(lambda: log.warning("x is %d", desk.x.value))
    with unconfigured(), desk.open():
        logging.basicConfig(stream=kept, format="%(message)s")
        desk.x.value = 1
    assert (kept.getvalue(), desk.texts) == ("x is 1\n", ["x is 0", "x is 1"])


def test_other_makers_of_records_stay_in_their_place(desk: Desk, caplog: pytest.LogCaptureFixture) -> None:
    before = logging.getLogRecordFactory()

    def stamped(*args: Any, **kwargs: Any) -> logging.LogRecord:
        record = ours(*args, **kwargs)
        record.stamp = "stamped"
        return record

    desk.app.sink(name="show")(lambda: log.warning("x is %d", desk.x.value))
    try:
        with desk.open():
            ours = logging.getLogRecordFactory()
            logging.setLogRecordFactory(stamped)
            desk.x.value = 1
        assert logging.getLogRecordFactory() is stamped
        log.warning("plain")
    finally:
        logging.setLogRecordFactory(before)
    assert desk.texts == ["x is 0", "x is 1"], "each once"
    assert [getattr(record, "stamp", "") for record in caplog.records] == ["", "stamped", "stamped"]


def test_records_that_came_from_elsewhere_are_not_heard(desk: Desk) -> None:
    @desk.app.sink
    def show() -> None:
        logging.makeLogRecord({"msg": "from another process", "name": "far", "levelno": logging.ERROR})

    with desk.open():
        pass
    assert (desk.heard, desk.errors) == ([], [])
