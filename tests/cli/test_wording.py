"""Words for people: times, commands to type, tracebacks; and what is said if the space is closed in between."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from pathlib import Path
from time import localtime, strftime
from typing import Any

import pytest

import headwater
from headwater.cli.run_story import authors_part
from headwater.cli.target import Target
from headwater.cli.workflow_hints import block_hints, clock
from headwater.errors import ClosedError, EventTimeoutError, UnavailableError
from headwater.inspect.socket_client import SocketInspector
from headwater.inspect.workflow_records import DecideRun, ListWorkflows

DAY = 24 * 60 * 60 * 1000


def test_a_time_is_told_with_its_day_unless_that_is_today() -> None:
    now = 1_700_000_000_000
    noon = localtime(now / 1000)
    assert clock(now, now) == strftime("%H:%M:%S", noon)
    assert clock(now - 2 * DAY, now) == strftime("%m-%d %H:%M", localtime(now / 1000 - 2 * 86_400))
    assert clock(now - 400 * DAY, now) == strftime("%Y-%m-%d", localtime(now / 1000 - 400 * 86_400))


def test_commands_to_type_can_be_pasted_whatever_the_file_is_called() -> None:
    assert Target(None, None).command("approve", 3) == "headwater approve 3"
    assert Target("my post.db", "a b").command("approve", 3) == "headwater approve 3 --url 'my post.db' --space 'a b'"


def test_a_call_that_has_not_come_back_is_not_looked_up_before_it_has() -> None:
    target = Target(None, None)
    lost = [command for command, _ in block_hints(target, "indeterminate", "post.letters", 3, can_ask=True)]
    assert lost[-1] == "headwater reconcile 3 --again"
    assert [command for command, _ in block_hints(target, "hung", "post.letters", 3, can_ask=True)] == lost[:-1]


def test_a_call_is_not_looked_up_where_there_is_no_reconcile() -> None:
    hints = [command for command, _ in block_hints(Target(None, None), "indeterminate", "a.b", 3, can_ask=False)]
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


class Answered:
    """A response of any kind."""

    def read(self, _request: object, _whose: str) -> str:
        return "answered"


class Gone(SocketInspector):
    """A process that answers with these errors, one after the other, and then as asked."""

    errors: list[BaseException]

    def __init__(self) -> None:
        super().__init__(socket.socket(), "post.db")
        self.errors = []

    def _request(self, _request: object, _wait_s: float = 0.0) -> Any:
        if self.errors:
            raise self.errors.pop(0)
        return Answered()

    def close(self) -> None:
        """Is asked again by the next."""


@pytest.fixture
def process(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gone]:
    gone = Gone()
    monkeypatch.setattr("headwater.inspect.resolve.reach", lambda *_: gone)
    yield gone
    SocketInspector.close(gone)


def test_a_question_is_asked_again_if_the_space_was_closed_in_between(process: Gone) -> None:
    with Target("post.db").inspector() as inspector:
        process.errors = [ConnectionResetError("gone"), ClosedError("it was closed")]
        inspector.ask(ListWorkflows())
        assert process.errors == []
        process.errors = [ConnectionResetError("gone")] * 3
        with pytest.raises(ConnectionResetError, match="it is opened and closed all the time"):
            inspector.ask(ListWorkflows())


def test_what_was_surely_not_done_is_done_again_and_what_may_have_been_is_not(process: Gone) -> None:
    approve = DecideRun(run=1, action="approve")
    with Target("post.db").inspector() as inspector:
        process.errors = [ClosedError("it was closed")]
        inspector.do(approve)
        assert process.errors == []
        for error, raised in ((ConnectionResetError("gone"), UnavailableError), (TimeoutError(), EventTimeoutError)):
            process.errors = [error]
            with pytest.raises(raised, match="whether it was done is not known"):
                inspector.do(approve)
        process.errors = [ClosedError("it was closed")] * 3
        with pytest.raises(ConnectionResetError):
            inspector.do(approve)
