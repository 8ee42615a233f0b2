"""Trouble of the server's disk, as a client's session hears of it: it passes, and decides nothing."""

from __future__ import annotations

import pytest

from headwater.cells.pending_commit import Failure
from headwater.errors import HeadwaterError, PoisonedError, SessionLostError, StoreFullError, UnconfirmedError
from headwater.store.commit import CommitOutcome, Committed
from headwater.sync.client_session import ClientPhase, error_of
from headwater.sync.frames import CommitFailed, Docs, ErrorFrame, FoundDoc, Judged, News, Pull, Transact, Watch
from headwater.sync.server_session import Close
from headwater.values.ids import LocalSeq
from tests.support.spaces import put
from tests.sync.test_session import A, Line

CODES = ["HW200", "HW201", "HW202", "HW203", "HW204"]
"""What a server may say of its disk; also one that does not say `again`."""


@pytest.mark.parametrize("code", CODES)
def test_a_server_that_cannot_tell_what_was_missed_is_asked_again(code: str) -> None:
    line = Line()
    line.connect(1)
    line.watch(A, seq=1)
    commit = line.commit(1, put("a", 2))
    line.told.clear()
    line.session.lost()
    line.connect(1)
    asked = next(frame for frame in line.sent if isinstance(frame, Watch))
    line.hear(ErrorFrame(code, "no room", asked.number))
    assert line.given_up == ["no room"]
    # What comes before the connection has ended is kept back: something is missing before it.
    line.hear(News(2, (Judged(LocalSeq(1), Committed(2)),)))
    assert not line.told
    line.session.lost()
    assert line.session.phase is ClientPhase.OFFLINE
    line.connect(2)
    line.answer(2, FoundDoc(A, 2, (2,)))
    [items] = line.told
    assert [each for each in items if isinstance(each, CommitOutcome) and each.commit == commit]
    assert not [each for each in items if isinstance(each, Failure)]


@pytest.mark.parametrize("code", CODES)
def test_a_commit_that_the_disk_did_not_take_is_sent_again(code: str) -> None:
    line = Line()
    line.connect(1)
    line.commit(1, put("a", 2))
    line.hear(News(1, (CommitFailed(LocalSeq(1), code, "no room"),)))
    assert line.given_up == ["no room"]
    assert not line.told
    line.session.lost()
    line.connect(1)
    assert [frame.number for frame in line.sent if isinstance(frame, Transact)] == [1]


def test_what_is_watched_is_asked_again_and_what_is_only_asked_is_answered_with_the_error() -> None:
    line = Line()
    line.connect(1)
    answers: list[object] = []
    line.session.ask(Watch(0, ((A, 0),)), answers.append)
    line.session.ask(Pull(0, (A,)), answers.append)
    watch, pull = (frame for frame in line.sent if isinstance(frame, Watch | Pull))
    line.hear(ErrorFrame("HW203", "no room", pull.number, True))
    [error] = answers
    assert isinstance(error, StoreFullError)
    line.hear(ErrorFrame("HW203", "no room", watch.number, True))
    assert line.given_up == ["no room"]
    line.session.lost()
    line.connect(1)
    line.answer(1, FoundDoc(A, 1, (1,)))
    assert isinstance(answers[-1], Docs)


@pytest.mark.parametrize(
    ("code", "kind"), [("HW203", StoreFullError), ("HW204", PoisonedError), ("HW404", SessionLostError)]
)
def test_an_error_of_the_server_has_its_own_class(code: str, kind: type[HeadwaterError]) -> None:
    assert type(error_of(code, "so")) is kind


def test_what_was_sent_and_has_no_verdict_is_not_told_as_taken_back() -> None:
    line = Line()
    line.connect(1)
    line.commit(1, put("a", 1))
    line.session.lost()
    line.commit(2, put("a", 2))
    line.session.lost(Close.REVOKED, "no more")
    [items] = line.told
    sent, unsent = (each.error for each in items if isinstance(each, Failure))
    assert isinstance(sent, UnconfirmedError)
    assert "it may be stored" in sent.message
    assert "no more" in sent.message
    assert isinstance(unsent, SessionLostError)
