"""Mistakes put into the product on purpose: the worlds of the swarm find each of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from headwater.access.session_proofs import SessionProofs
from headwater.client.remote_replica import RemoteReplica
from headwater.errors import HeadwaterError
from headwater.server.spaces.channel import Channel
from headwater.server.spaces.client_connection import ClientConnection
from headwater.store.commit import CommitOutcome, Committed, Conflict
from headwater.store.engine import Engine
from headwater.sync import client_session as client_module
from headwater.sync.client_listener import up_to
from headwater.sync.client_session import ClientSession
from headwater.sync.frames import CommitFailed, Judged, Written
from headwater.sync.watches import Watches
from headwater.values.ids import Seq
from tests.sync.players import Game

WORLDS = 150
"""In so many at most, each mistake shows. Most show in the first few."""


def resend_skipped() -> Any:
    """After a lost connection, what was sent is taken to have arrived."""

    def lost(self: ClientSession, code: int = 0, reason: str = "") -> None:
        sent = dict(self._sent)
        inner(self, code, reason)
        self._sent.update(sent)

    inner = ClientSession.lost
    return patch.object(ClientSession, "lost", lost)


def told_before_caught_up() -> Any:
    """What comes after a lost connection is shown as it comes."""

    def give(self: ClientSession, items: list[Any]) -> None:
        if items:
            self._line.deliver(items)

    return patch.object(ClientSession, "_give", give)


def documents_after_what_was_done() -> Any:
    """What was missed is taken in after what came later."""
    return patch.object(client_module, "in_order", lambda items, _session: items[::-1])


def watched_after_the_answer() -> Any:
    """The answer is on its way, and what is decided next is not told."""

    def answer(self: Channel, answered: Any) -> None:
        watches, add = self._watches.get(answered.connection.talk.branch), []
        if watches is None:
            inner(self, answered)
            return
        with patch.object(watches, "add", lambda *what: add.append(what), create=True):
            inner(self, answered)
        if add:
            self._threads.submit(watches.add, *add[0])

    inner = Channel._answer
    return patch.object(Channel, "_answer", answer)


def written_to_its_own_session() -> Any:
    def tell(self: Watches[Any], decided: Any, before: Seq, seq: Seq) -> Any:
        for watcher, frame, news in inner(self, decided, before, seq):
            yield watcher, frame, news
            for outcome in decided:
                own = isinstance(outcome, CommitOutcome) and outcome.commit.session == watcher.session
                if own and isinstance(outcome.verdict, Committed) and outcome.commit.operations:
                    again = Written(outcome.verdict.seq, outcome.commit.session, outcome.commit.operations)
                    yield watcher, encode_news(seq, again), [again]

    inner = Watches.tell
    return patch.object(Watches, "tell", tell)


def encode_news(seq: Seq, new: Any) -> bytes:
    from headwater.sync.frames import News, encode_frame

    return encode_frame(News(seq, (new,)))


def judged_left_out() -> Any:
    """A commit that was decided before is not told of again."""

    def tell(self: Watches[Any], decided: Any, before: Seq, seq: Seq) -> Any:
        fresh = [
            each
            for each in decided
            if not (
                isinstance(each, CommitOutcome) and isinstance(each.verdict, Committed) and each.verdict.seq <= before
            )
        ]
        return inner(self, fresh, before, seq)

    inner = Watches.tell
    return patch.object(Watches, "tell", tell)


def place_not_advanced() -> Any:
    """What was fetched is taken in, and later questions are asked as of an older place."""
    return patch.object(client_module, "up_to", lambda _seq, branch: up_to(Seq(0), branch))


def brought_and_not_watched() -> Any:
    def written(self: Watches[Any], outcome: Any, seq: Seq, mine: Any) -> Any:
        with patch.object(self, "add", lambda *_: None, create=True):
            found = list(inner(self, outcome, seq, mine))
        return iter(found)

    inner = Watches._written
    return patch.object(Watches, "_written", written)


def unwatch_ignored() -> Any:
    """What nobody watches any more takes room for ever."""
    return patch.object(Watches, "leave", lambda self, watcher: self._by_session.pop(watcher.session, 0))


def let_go_and_taken_in_again() -> Any:
    return patch.object(RemoteReplica, "_is_wanted", lambda _self, _pulled: True)


def writer_not_watching() -> Any:
    """Whoever writes a document is not told of what others do to it."""

    def tell(self: Watches[Any], decided: Any, before: Seq, seq: Seq) -> Any:
        with patch.object(self, "add", lambda *_: None, create=True):
            return list(inner(self, decided, before, seq))

    inner = Watches.tell
    return patch.object(Watches, "tell", tell)


def proof_good_for_one_try() -> Any:
    """The answer to an opening may be lost: the client comes again with what it has."""

    def check(self: SessionProofs, *asked: Any) -> int | None:
        epoch = inner(self, *asked)
        if epoch is not None:
            self._shown[asked[4]] = epoch, 0
        return epoch

    inner = SessionProofs.check
    return patch.object(SessionProofs, "check", check)


def reads_not_checked() -> Any:
    """The store takes whatever it is given."""
    return patch.object(Engine, "_overwritten", lambda *_: None)


def accepted_twice() -> Any:
    """What was sent again is a new commit."""

    def replay(self: Engine, session: Any, commit: Any, batch: Any, *, rides: bool) -> Any:
        del rides, session
        applied = self._apply(commit)
        if not isinstance(applied, tuple):
            return Conflict("")
        states, effects = applied
        batch.decided.append(commit)
        return self._append(commit, states, effects, batch)

    return patch.object(Engine, "_replay", replay)


def verdict_of_another() -> Any:
    """Rejected, and told to be in the log."""

    def judged(outcome: Any) -> Any:
        told = inner(outcome)
        if isinstance(told, Judged) and isinstance(told.verdict, Conflict):
            return Judged(told.number, Committed(Seq(1)))
        return told

    from headwater.sync import watches

    inner = watches._judged
    return patch.object(watches, "_judged", judged)


def full_disk_is_an_answer() -> Any:
    """What the server's disk could not answer is taken to be answered."""
    return patch.object(ClientSession, "_comes_again", lambda *_: False)


def full_disk_is_a_verdict() -> Any:
    """A commit for which there was no room is told as taken back, and sent again by the client that knows better."""

    def send_away(self: Channel, failed: list[Any]) -> None:
        for each in failed:
            connection = self.connections.get(each.commit.session)
            if connection is not None:
                connection.push(encode_news(self.head, CommitFailed(each.commit.local_seq, "HW400", "no room")))
        inner(self, failed)

    inner = Channel._send_away
    return patch.object(Channel, "_send_away", send_away)


def broken_room_entered() -> Any:
    """A client is let into a room whose file has failed."""

    def entered(self: ClientConnection, channel: Any, *asked: Any) -> None:
        was, channel.is_broken = channel.is_broken, False
        inner(self, channel, *asked)
        channel.is_broken = was

    inner = ClientConnection.entered
    return patch.object(ClientConnection, "entered", entered)


MISTAKES: list[Callable[[], Any]] = [
    resend_skipped, told_before_caught_up, documents_after_what_was_done, watched_after_the_answer,
    written_to_its_own_session, judged_left_out, place_not_advanced, brought_and_not_watched, unwatch_ignored,
    let_go_and_taken_in_again, writer_not_watching, proof_good_for_one_try, reads_not_checked, accepted_twice,
    verdict_of_another, full_disk_is_an_answer, full_disk_is_a_verdict, broken_room_entered,
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.__name__)
def test_a_mistake_is_found(mistake: Callable[[], Any], tmp_path: Path) -> None:
    for seed in range(WORLDS):
        with mistake():
            try:
                Game(seed, tmp_path).play()
            except (AssertionError, HeadwaterError, KeyError) as found:
                print(f"world {seed}: {found}")
                return
    pytest.fail(f"{mistake.__name__} went unnoticed in {WORLDS} worlds")
