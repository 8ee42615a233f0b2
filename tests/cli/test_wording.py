"""Words for people: times, commands to type, tracebacks; and what is said if the space is closed in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from time import localtime, strftime
from typing import Any

import pytest

import headwater
from headwater.cli import asking
from headwater.cli.asking import Place, done, looking
from headwater.cli.telling import block_hints, clock
from headwater.cli.timeline import authors_part
from headwater.errors import ClosedError, EventTimeoutError, UnavailableError

DAY = 24 * 60 * 60 * 1000


def test_a_time_is_told_with_its_day_unless_that_is_today() -> None:
    now = 1_700_000_000_000
    noon = localtime(now / 1000)
    assert clock(now, now) == strftime("%H:%M:%S", noon)
    assert clock(now - 2 * DAY, now) == strftime("%m-%d %H:%M", localtime(now / 1000 - 2 * 86_400))
    assert clock(now - 400 * DAY, now) == strftime("%Y-%m-%d", localtime(now / 1000 - 400 * 86_400))


def test_commands_to_type_can_be_pasted_whatever_the_file_is_called() -> None:
    assert Place(None, None).command("approve", 3) == "headwater approve 3"
    assert Place("my post.db", "a b").command("approve", 3) == "headwater approve 3 --url 'my post.db' --space 'a b'"


def test_a_call_that_has_not_come_back_is_not_looked_up_before_it_has() -> None:
    place = Place(None, None)
    lost = [command for command, _ in block_hints(place, "indeterminate", "post.letters", 3, can_ask=True)]
    assert lost[-1] == "headwater reconcile 3 --again"
    assert [command for command, _ in block_hints(place, "hung", "post.letters", 3, can_ask=True)] == lost[:-1]


def test_a_call_is_not_looked_up_where_there_is_no_reconcile() -> None:
    hints = [command for command, _ in block_hints(Place(None, None), "indeterminate", "a.b", 3, can_ask=False)]
    assert "headwater reconcile 3 --again" not in hints
    assert "headwater reconcile 3 --skip" in hints


def test_a_traceback_is_told_without_calls_inside_of_headwater() -> None:
    ours = f'  File "{Path(headwater.__file__).parent / "host" / "x.py"}", line 1, in call\n    fn()\n    ^^^^'
    theirs = '  File "/home/ann/letters.py", line 7, in prepare\n    raise ValueError("x")'
    head, tail = "Traceback (most recent call last):", "ValueError: x"
    assert authors_part(f"{head}\n{ours}\n{theirs}\n{ours}\n{tail}") == f"{head}\n{theirs}\n{tail}"
    alone = f"{head}\n{ours}\n{tail}"
    assert authors_part(alone) == alone, "if there is nothing else, that is it"


# --- closed in between ------------------------------------------------------------------------------------


class Gone:
    """Somebody who answers with these, one after the other, until they are told what they wait for."""

    def __init__(self, *errors: BaseException) -> None:
        self.errors = list(errors)

    def told(self, kind: object, ask: object) -> object:
        if self.errors:
            raise self.errors.pop(0)
        return kind, ask


@pytest.fixture
def somebody(monkeypatch: pytest.MonkeyPatch) -> Gone:
    gone = Gone()

    @contextmanager
    def reached(_place: Place) -> Iterator[Gone]:
        yield gone

    monkeypatch.setattr(asking, "reached", reached)
    return gone


PLACE = Place("post.db", None)


def asked(source: Any) -> object:
    return source.told(int, 1)


def test_a_question_is_asked_again_if_the_space_was_closed_in_between(somebody: Gone) -> None:
    somebody.errors = [ConnectionResetError("gone"), ClosedError("it was closed")]
    assert looking(PLACE, asked) == (int, 1)
    somebody.errors = [ConnectionResetError("gone")] * 3
    with pytest.raises(ConnectionResetError, match="it is opened and closed all the time"):
        looking(PLACE, asked)


def test_what_was_surely_not_done_is_done_again_and_what_may_have_been_is_not(somebody: Gone) -> None:
    somebody.errors = [ClosedError("it was closed")]
    done(PLACE, "approve", number=1)
    assert somebody.errors == []
    for error, told in ((ConnectionResetError("gone"), UnavailableError), (TimeoutError(), EventTimeoutError)):
        somebody.errors = [error]
        with pytest.raises(told, match="whether it was done is not known"):
            done(PLACE, "approve", number=1)
    somebody.errors = [ClosedError("it was closed")] * 3
    with pytest.raises(ConnectionResetError):
        done(PLACE, "approve", number=1)
