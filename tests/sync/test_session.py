"""The client's session by hand, one frame at a time: what was missed, lost or told twice on the way."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from headwater.access.session_proofs import SessionProofs
from headwater.cells.pending_commit import Failure, Pulled
from headwater.errors import ServerLimitError, SessionLostError, UnconfirmedError
from headwater.store.commit import (
    Absent,
    Commit,
    CommitOutcome,
    Committed,
    Conflict,
    Operation,
    Precondition,
    Refused,
    Submission,
)
from headwater.sync.client_listener import Brought
from headwater.sync.client_session import ClientPhase, ClientSession, Item
from headwater.sync.frames import (
    Docs,
    ErrorFrame,
    FoundDoc,
    FromClient,
    FromServer,
    Judged,
    News,
    Open,
    SpaceOpened,
    Transact,
    Unwatch,
    Watch,
    Welcome,
    Written,
    encode_frame,
)
from headwater.sync.server_session import Close
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, DocKey, LocalSeq, SessionId
from tests.support.hub import Hub
from tests.support.spaces import Space, put

ME, OTHER = SessionId("me"), SessionId("other")
A, B, NEW = doc_key("a"), doc_key("b"), doc_key("new")


class Line:
    """Keeps what is sent and what is told."""

    def __init__(self) -> None:
        self.session = ClientSession(self, Open("space"))
        self.sent: list[FromClient] = []
        self.told: list[list[Item]] = []
        self.given_up: list[str] = []

    def send(self, frame: FromClient) -> None:
        self.sent.append(frame)

    def deliver(self, items: list[Item]) -> None:
        self.told.append(items)

    def changed(self) -> None:
        """Nobody waits."""

    def prove(self, *_asked: object) -> None:
        """There is no key."""

    def give_up(self, why: str) -> None:
        """The test closes the connection."""
        self.given_up.append(why)

    def decided(self, _number: LocalSeq) -> None:
        """Nothing is kept."""

    # -- by hand -------------------------------------------------------------------------------------------

    def hear(self, *frames: FromServer) -> None:
        for frame in frames:
            self.session.receive(encode_frame(frame))

    def connect(self, seq: int) -> None:
        self.sent.clear()
        self.session.connected()
        self.hear(Welcome(1, "server", b"", ""), SpaceOpened("space", ME, b"", seq, "", "own"))

    def commit(self, number: int, *operations: Operation, given: tuple[Precondition, ...] = ()) -> Commit:
        commit = Commit(ME, LocalSeq(number), operations, preconditions=given)
        self.session.submit(Submission(commit))
        return commit

    def watch(self, *docs: DocKey, seq: int) -> None:
        self.session.ask(Watch(0, tuple((doc, 0) for doc in docs)), lambda _: None)
        self.answer(seq, *(FoundDoc(doc, seq, (1,)) for doc in docs))

    def answer(self, seq: int, *docs: FoundDoc, newer: tuple[FoundDoc, ...] = ()) -> None:
        """The newest question for documents."""
        asked = [frame for frame in self.sent if isinstance(frame, Watch)][-1]
        self.hear(Docs(asked.number, seq, docs, newer))

    @property
    def watches(self) -> dict[DocKey, int]:
        return dict([frame for frame in self.sent if isinstance(frame, Watch)][-1].docs)


def test_a_document_that_is_let_go_before_its_answer_arrives_is_not_watched() -> None:
    line = Line()
    line.connect(1)
    line.session.ask(Watch(0, ((A, 0), (B, 0))), lambda _: None)
    line.session.unwatch([A])
    line.answer(1, FoundDoc(A, 1, (1,)), FoundDoc(B, 1, (1,)))
    # The server watches it as soon as it answers: a frame that it had got before would have ended nothing.
    assert line.sent[-1] == Unwatch((A,))
    assert set(line.session.watched) == {B}


def test_a_document_that_is_let_go_while_missed_commits_are_asked_for_is_not_watched() -> None:
    line = Line()
    line.connect(1)
    line.watch(A, B, seq=1)
    line.session.lost()
    line.connect(2)
    line.session.unwatch([A])
    assert line.sent[-1] == Unwatch((A,))
    line.answer(2, FoundDoc(B, 2, (2,)))
    assert [frame for frame in line.sent if isinstance(frame, Unwatch)] == [Unwatch((A,)), Unwatch((A,))]
    assert set(line.session.watched) == {B}


def test_a_document_that_is_let_go_and_asked_for_again_is_watched() -> None:
    line = Line()
    line.connect(1)
    line.session.ask(Watch(0, ((A, 0),)), lambda _: None)
    line.session.unwatch([A])
    first = line.sent[-1]
    line.session.ask(Watch(0, ((A, 0),)), lambda _: None)
    assert isinstance(first, Watch)
    line.hear(Docs(first.number, 1, (FoundDoc(A, 1, (1,)),)))
    line.answer(1, FoundDoc(A, 1, (1,)))
    assert not [frame for frame in line.sent if isinstance(frame, Unwatch)]
    assert set(line.session.watched) == {A}


def written(seq: int, doc: DocKey, value: object = 0) -> Written:
    return Written(seq, OTHER, (put(doc.removeprefix("space/"), value),))


def numbers(items: list[Item]) -> list[int]:
    return [each.commit.local_seq for each in items if not isinstance(each, Pulled) and each.commit.session == ME]


def test_verdicts_that_come_out_of_order_after_a_lost_connection_are_told_in_the_order_of_the_log() -> None:
    """The verdict of the first was lost; the second was still waiting, and is told before the first is asked for."""
    line = Line()
    line.connect(1)
    line.watch(A, seq=1)
    first, second = put("a", 1), put("a", 2)
    line.commit(1, first)
    line.commit(2, second)
    line.session.lost()
    line.connect(2)
    line.answer(2, FoundDoc(A, 2, (1,)))
    line.hear(News(3, (Judged(LocalSeq(2), Committed(3)),)))
    assert not line.told, "the fate of the first is not known"
    line.hear(News(3, (Judged(LocalSeq(1), Committed(2)),)))
    [items] = line.told
    assert numbers(items) == [1, 2]


def test_documents_that_were_missed_come_before_what_was_done_to_them() -> None:
    """Two connections were lost: what the first has brought is not what the verdict was found on."""
    line = Line()
    line.connect(1)
    line.watch(A, seq=1)
    line.commit(1, put("a", 1))
    line.session.lost()
    line.connect(3)
    line.answer(3, FoundDoc(A, 3, (3,)))
    line.session.lost()
    line.connect(6)
    line.hear(News(5, (Judged(LocalSeq(1), Committed(5)),)))
    line.answer(6, FoundDoc(A, 6, (6,)))
    [items] = line.told
    assert [item.found.seq for item in items[:2] if isinstance(item, Pulled)] == [6, 3]
    assert numbers(items) == [1]


def test_a_verdict_that_comes_before_what_was_missed_does_not_make_up_for_it() -> None:
    """A second connection is lost as well: the third still asks as of the place that was known before the first was."""
    line = Line()
    line.connect(1)
    line.watch(A, seq=1)
    line.commit(1, put("a", 1))
    line.session.lost()
    line.connect(3)
    line.hear(News(3, (Judged(LocalSeq(1), Committed(3)),)))
    line.session.lost()
    line.connect(3)
    assert line.watches == {A: 1}


def test_what_a_commit_without_a_verdict_may_have_made_is_asked_for_again() -> None:
    line = Line()
    line.connect(1)
    line.commit(1, put("new", 1))
    line.session.lost()
    line.connect(9)
    assert line.watches == {NEW: 0}


def test_what_was_thought_to_be_new_and_is_not_is_told() -> None:
    for verdict in (Conflict("no"), Refused("no")):
        line = Line()
        line.connect(5)
        line.commit(1, put("new", 1), given=(Absent(NEW),))
        line.hear(News(5, (Judged(LocalSeq(1), verdict),)))
        line.answer(5, FoundDoc(NEW, 4, ("there",)))
        rejected, came = line.told
        assert numbers(rejected) == [1]
        assert isinstance(came[0], Pulled) and (came[0].doc, came[0].found.seq) == (NEW, 4)
        assert line.session.watched == {NEW: 4}


def test_what_is_newer_is_told_before_the_answer_is_given() -> None:
    """Who waits for the answer may take in at once what came: with the newer document, or a commit is there in part."""
    line = Line()
    line.connect(5)
    line.watch(A, seq=5)
    order: list[str] = []
    line.session.ask(Watch(0, ((B, 0),), at=5), lambda _: order.append(f"answer after {len(line.told)}"))
    line.hear(News(6, (written(6, A),)))
    line.answer(6, FoundDoc(B, 5, (1,)), newer=(FoundDoc(B, 6, (2,)),))
    assert order == ["answer after 2"]


def test_fetched_documents_say_as_of_which_place_everything_is() -> None:
    line = Line()
    line.connect(5)
    line.session.ask(Watch(0, ((B, 0),), at=5), lambda _: None)
    line.answer(8, FoundDoc(B, 5, (1,)), newer=(FoundDoc(B, 7, (2,)),))
    [[_, place]] = line.told
    assert isinstance(place, CommitOutcome) and place.verdict == Committed(8) and not place.commit.operations


def test_a_document_that_nobody_waits_for_is_told_with_what_others_did() -> None:
    line = Line()
    line.connect(5)
    line.session.ask(Watch(0, ((B, 0),)), None)
    line.answer(8, FoundDoc(B, 7, (2,)))
    [[came, _]] = line.told
    assert isinstance(came, Pulled) and came.found.seq == 7


def test_documents_are_not_asked_for_before_what_was_missed_is_here() -> None:
    """Their answers are told at once, and would be ahead of it."""
    line = Line()
    line.connect(5)
    line.watch(A, seq=5)
    line.commit(1, put("a", 2))
    line.session.lost()
    line.connect(7)
    line.session.ask(Watch(0, ((B, 0),), at=5), lambda _: None)
    line.answer(7, FoundDoc(A, 6, (2,)))
    assert [len(frame.docs) for frame in line.sent if isinstance(frame, Watch)] == [1]
    line.hear(News(7, (Judged(LocalSeq(1), Committed(6)),)))
    assert line.watches == {B: 0}


def test_a_session_that_watches_nothing_any_more_does_not_wait_for_an_answer_of_long_ago() -> None:
    line = Line()
    line.connect(1)
    line.watch(A, seq=1)
    line.session.lost()
    line.connect(1)
    line.session.lost()
    line.session.unwatch([A])
    line.connect(1)
    line.commit(1, put("new", 1))
    line.hear(News(2, (Judged(LocalSeq(1), Committed(2)),)))
    assert [numbers(items) for items in line.told] == [[1]]


def test_what_was_missed_and_is_more_than_an_answer_holds_is_asked_for_in_parts() -> None:
    line = Line()
    line.connect(1)
    line.watch(A, B, seq=1)
    line.session.lost()
    line.connect(5)
    [whole] = [frame for frame in line.sent if isinstance(frame, Watch)]
    line.hear(ErrorFrame(ServerLimitError.code, "too much", whole.number))
    _, first, second = [frame for frame in line.sent if isinstance(frame, Watch)]
    assert (first.docs, second.docs) == (((A, 1),), ((B, 1),))
    line.hear(Docs(first.number, 5, (FoundDoc(A, 4, (4,)),)), News(6, (written(6, A),)))
    assert not line.told
    line.hear(Docs(second.number, 6, (FoundDoc(B, 5, (5,)),)))
    [items] = line.told
    assert [item.doc for item in items if isinstance(item, Pulled)] == [B, A]


def test_what_was_taken_not_to_exist_is_asked_for_when_not_all_of_its_kind_come() -> None:
    line = Line()
    line.connect(1)
    line.session.ask(Watch(0, (), ("space/",)), lambda _: None)
    line.answer(1)
    line.session.assume(NEW)
    assert not line.told
    line.session.lost()
    line.connect(5)
    assert line.watches == {NEW: 0}
    [asked] = [frame for frame in line.sent if isinstance(frame, Watch)]
    line.hear(Docs(asked.number, 5, (FoundDoc(NEW, 4, (4,)),), (), complete=False))
    assert not line.session.covers(A)
    line.session.assume(A)
    assert line.watches == {A: 0}, "it is not known any more"


def test_what_was_taken_not_to_exist_while_the_answer_was_on_its_way_is_asked_for() -> None:
    line = Line()
    line.connect(1)
    line.session.ask(Watch(0, (), ("space/",)), lambda _: None)
    line.answer(1)
    line.session.lost()
    line.connect(5)
    [asked] = [frame for frame in line.sent if isinstance(frame, Watch)]
    line.session.assume(NEW)
    line.hear(Docs(asked.number, 5, (), (), complete=False))
    assert line.watches == {NEW: 0}


def test_verdicts_that_are_held_back_are_not_lost_with_the_session() -> None:
    line = Line()
    line.connect(1)
    for number in (1, 2):
        line.commit(number, put(f"d{number}", 1))
    line.session.lost()
    line.connect(3)
    line.answer(3, FoundDoc(doc_key("d1"), 2, (1,)))
    line.hear(News(2, (Judged(LocalSeq(1), Committed(2)),)))
    assert not line.told
    line.session.lost(Close.REVOKED, "no more")
    [items] = line.told
    assert numbers(items) == [1, 2]
    assert isinstance(items[-1], Failure) and isinstance(items[-1].error, UnconfirmedError)
    assert isinstance(items[-1].error.__cause__, SessionLostError)
    assert line.session.phase is ClientPhase.OVER


def test_session_that_ended_while_a_connection_was_being_made_is_not_opened_again() -> None:
    line = Line()
    line.connect(1)
    line.commit(1, put("a", 1))
    line.session.lost()
    line.sent.clear()
    line.session.connected()
    line.session.end()
    line.hear(Welcome(1, "server", b"", ""), SpaceOpened("space", ME, b"", 1, "", "own"))
    assert line.session.phase is ClientPhase.OVER
    assert not [frame for frame in line.sent if isinstance(frame, Open | Transact)]


def test_nobody_is_told_twice_what_became_of_a_commit() -> None:
    line = Line()
    line.connect(1)
    line.commit(1, put("a", 1))
    verdict = News(2, (Judged(LocalSeq(1), Committed(2)),))
    line.hear(verdict, verdict)
    assert [numbers(items) for items in line.told if numbers(items)] == [[1]]


def test_what_is_sent_again_is_the_very_same() -> None:
    line = Line()
    line.connect(1)
    line.commit(1, put("a", 1))
    before = [frame for frame in line.sent if isinstance(frame, Transact)]
    line.session.lost()
    line.connect(1)
    assert [frame for frame in line.sent if isinstance(frame, Transact)] == before


def test_what_was_let_go_of_while_it_was_on_its_way_is_not_told() -> None:
    line = Line()
    line.connect(1)
    line.watch(A, B, seq=1)
    line.session.unwatch([A])
    assert Unwatch((A,)) in line.sent
    line.hear(News(2, (Written(2, OTHER, (put("a", 1), put("b", 1))),)))
    [[outcome]] = line.told
    assert isinstance(outcome, CommitOutcome) and [each.doc for each in outcome.commit.operations] == [B]


def test_what_a_commit_brings_comes_before_it() -> None:
    line = Line()
    line.connect(1)
    line.watch(A, seq=1)
    line.hear(News(2, (Written(2, OTHER, (put("new", 1), put("a", 1)), None, (NEW,)),)))
    [[new, outcome]] = line.told
    assert isinstance(new, Brought) and isinstance(outcome, CommitOutcome)
    assert line.session.watched == {A: 2, NEW: 2}


def proofs_check(folder: Path) -> tuple[SessionProofs, Callable[..., Any]]:
    proofs = SessionProofs(folder)
    return proofs, lambda shown, attempt: proofs.check(shown, "space", MAIN, "", ME, attempt)


def test_a_client_whose_answer_was_lost_comes_again_with_the_proof_it_has(tmp_path: Path) -> None:
    proofs, check = proofs_check(tmp_path)
    first = proofs.make("space", MAIN, "", ME, 0)
    assert check(first, 2) == 1
    assert check(first, 3) == 1
    assert check(proofs.make("space", MAIN, "", ME, 1), 4) == 2
    assert check(first, 5) is None, "somebody has the one after it"


def test_the_bytes_of_a_connection_that_was_given_up_do_not_take_the_place_of_a_later_one(tmp_path: Path) -> None:
    proofs, check = proofs_check(tmp_path)
    first = proofs.make("space", MAIN, "", ME, 0)
    assert check(first, 3) == 1
    assert check(first, 2) is None
    assert check(first, 3) is None, "nor do the same bytes once more"
    assert proofs.is_newest(ME, 1, 3)
    assert not proofs.is_newest(ME, 1, 2), "which was let in before, and is slower"


def test_a_commit_that_went_with_another_may_be_rejected_once_more_when_nobody_holds_its_documents() -> None:
    hub = Hub(Space("memory", Path()))
    ann, bob = hub.attach("ann"), hub.attach("bob")
    bob.commit(put("a", 0), put("b", 0))
    hub.settle()
    ann.read("a"), ann.read("b")
    bob.commit(put("a", 1), put("b", 1))
    first = ann.commit(put("x", 1), reads=[ann.mark("a")])
    second = ann.commit(put("y", 1), reads=[ann.mark("b")])
    third = ann.commit(put("c", 1), reads=[ann.mark("x"), ann.mark("y")])
    hub.decide(2)
    ann.refresh()
    ann.replica._set_listeners(())
    ann.replica.release(doc_key("c"))
    hub.settle()
    assert [each.accepted for each in (first, second, third)] == [False, False, False]
