"""The text of whatever an author made: no call raises, and what comes back can be stored."""

from __future__ import annotations

import logging

import pytest

from headwater.errors import TransientError
from headwater.values.author_text import (
    TEXT_MAX,
    add_note,
    calls_of,
    describe,
    is_printable,
    kind_of,
    message_of,
    safe_repr,
    same_message,
    text_of,
    traceback_text,
    with_calls,
)
from headwater.values.codec import encode
from headwater.values.schema import short
from headwater.values.tree import freeze
from tests.support.odd_errors import ODD, BadMeta, NoStrError, OddValue, SubclassStrError, Text, odd_id


def raised(kind: type[Exception]) -> Exception:
    try:
        try:
            raise NoStrError
        except NoStrError:
            raise kind  # noqa: B904  # with a context that cannot be shown either
    except Exception as error:  # noqa: BLE001
        return error


@pytest.mark.parametrize("kind", ODD, ids=odd_id)
def test_every_text_of_every_error_can_be_stored(kind: type[Exception]) -> None:
    error = raised(kind)
    calls = calls_of(error)
    assert calls is not None
    with_calls(error, calls)
    add_note(error, "a note")
    texts = [describe(error), text_of(error), message_of(error), safe_repr(error), kind_of(error), short(error)]
    for text in (*texts, traceback_text(error), traceback_text(error, calls, limit=-1)):
        assert type(text) is str
        encode(freeze(text))
    assert all(len(text) < TEXT_MAX + 100 for text in texts)
    assert kind.__qualname__ in traceback_text(error)
    assert kind.__qualname__ in describe(error)
    assert same_message(error, error)
    assert not same_message(error, None)


@pytest.mark.parametrize("kind", ODD, ids=odd_id)
def test_what_is_said_to_be_printable_can_be_logged(kind: type[Exception]) -> None:
    error = raised(kind)
    if is_printable(error):
        record = logging.LogRecord("x", logging.ERROR, "", 0, "%s", ("m",), (type(error), error, calls_of(error)))
        assert logging.Formatter().format(record)


@pytest.mark.parametrize("value", [OddValue(), Text("abc"), [OddValue()], BadMeta], ids=["odd", "text", "list", "meta"])
def test_every_value_can_be_shown(value: object) -> None:
    assert type(safe_repr(value)) is str
    assert type(short(value)) is str


def test_ordinary_errors_are_shown_as_ever() -> None:
    assert describe(ValueError("no")) == "ValueError: no"
    assert message_of(ValueError("no")) == "ValueError: no"
    assert message_of(TransientError("later")) == "later"
    assert text_of(SubclassStrError()) == "a text of another class"
    assert same_message(ValueError("no"), ValueError("no"))
    assert not same_message(ValueError("no"), TypeError("no"))
    assert not same_message(ValueError("no"), ValueError("yes"))


def test_an_error_of_ours_without_a_message_is_described() -> None:
    class MineError(TransientError):
        def __init__(self) -> None:
            """As an author forgets."""

    assert message_of(MineError()) == "MineError: HW501: "
    assert (MineError().facts, MineError().definite) == ({}, False)
