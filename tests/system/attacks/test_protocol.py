"""Attacks 37, 38, 39, 42, 43 and 46: numbers used twice, places that nobody knows, and what leads back to itself."""

from __future__ import annotations

from typing import Any

import pytest
from msgspec.msgpack import encode

from headwater.store.commit import (
    Absent,
    Committed,
    Conflict,
    OriginCommitted,
    PendingRead,
    Read,
    Refused,
    SetDoc,
)
from headwater.sync.frame_limits import OFFLINE_MAX
from headwater.sync.frames import (
    Ack,
    AskChanged,
    CommitFailed,
    Docs,
    ErrorFrame,
    Ping,
    Pong,
    Pull,
    PutObservations,
    Transact,
    Watch,
)
from headwater.values.ids import LocalSeq, Seq
from tests.system.attacks.raw import Raw
from tests.system.attacks.served import Served, doc

# --- 37 -------------------------------------------------------------------------------------------------------


def test_a_number_that_is_used_twice_for_two_things_is_refused(served: Served) -> None:
    with served.enter(served.space()) as raw:
        first = raw.write(1, SetDoc(doc("a"), 1))
        assert isinstance(first, Committed)
        other = raw.write(1, SetDoc(doc("a"), 2))
        assert isinstance(other, CommitFailed)
        assert other.code == "HW401"
        # And the same thing twice is done once.
        assert raw.write(1, SetDoc(doc("a"), 1)) == first
        raw.say(Pull(2, (doc("a"),)))
        assert raw.expect(Docs).docs[0].value == (1,)


def test_numbers_begin_with_one(served: Served) -> None:
    with served.enter(served.space()) as raw:
        raw.say(Transact(0, (SetDoc(doc("a"), 1),)))
        assert raw.closed().code == 4400


def test_a_number_that_was_left_out_never_was(served: Served) -> None:
    with served.enter(served.space()) as raw:
        assert isinstance(raw.write(5, SetDoc(doc("a"), 1)), Committed)
        assert isinstance(raw.write(3, SetDoc(doc("a"), 2)), Conflict)
        assert isinstance(raw.write(2**63 - 1, SetDoc(doc("a"), 3)), Committed)
        assert not isinstance(raw.write(6, SetDoc(doc("a"), 4)), Committed)


def test_two_sessions_count_each_for_itself(served: Served) -> None:
    space = served.space()
    with served.enter(space, actor="ann") as ann, served.enter(space, actor="bob") as bob:
        assert ann.write(1, SetDoc(doc("a"), 1)) == Committed(Seq(1))
        assert bob.write(1, SetDoc(doc("a"), 2)) == Committed(Seq(2))


# --- 38 -------------------------------------------------------------------------------------------------------

NOWHERE: list[Any] = [2, 2**62, -1, 2**63, 1.5, 1.0, "1", None, True]


@pytest.mark.parametrize("place", NOWHERE, ids=repr)
def test_a_position_that_was_never_sent_ends_the_connection(served: Served, place: Any) -> None:
    space = served.space()
    served.fill(space, a=1)
    frames: list[dict[str, Any]] = [
        {"t": "transact", "number": 1, "operations": [["set", "space/a", 2]], "reads": [["space/a", [], place]]},
        {"t": "transact", "number": 1, "rests": [["space/a", [], place, []]]},
        {"t": "notes", "notes": [["space/a", b"", [["space/a", [], place]], []]]},
        {"t": "ack", "seq": place},
    ]
    if place is not None:
        frames.append({"t": "pull", "number": 1, "docs": ["space/a"], "at": place})
    for frame in frames:
        with served.enter(space) as raw:
            raw.say(encode(frame))
            assert raw.closed().code == 4400, frame
    with served.enter(space) as raw:
        assert raw.opened is not None
        assert raw.opened.seq == 1


def test_what_is_asked_about_the_time_after_now_is_answered_with_no(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    with served.enter(space) as raw:
        raw.say(AskChanged(1, doc("a"), (((), False),), 2**62))
        raw.say(Ping(2))
        raw.expect(Pong)


@pytest.mark.parametrize("index", [-1, 1, 2**62])
def test_a_result_is_one_of_the_operations(served: Served, index: int) -> None:
    with served.enter(served.space()) as raw:
        raw.say(Transact(1, (SetDoc(doc("a"), 1),), seen=(index, b"12345678")))
        assert raw.closed().code == 4400


# --- 39 -------------------------------------------------------------------------------------------------------

LAYERS: list[tuple[tuple[int, int], ...]] = [
    ((0, 1),),
    ((-1, 1),),
    ((2, 1),),
    ((1, 2),),
    ((1, 2**62),),
    ((5, 5),),
    ((1, 1), (2**62, 2**62)),
]


@pytest.mark.parametrize("layers", LAYERS, ids=str)
def test_a_read_rests_on_earlier_commits_of_its_own_session(served: Served, layers: Any) -> None:
    space = served.space()
    with served.enter(space, actor="bob") as bob, served.enter(space, actor="ann") as ann:
        for number in range(1, 8):
            assert isinstance(bob.write(number, SetDoc(doc("a"), number)), Committed)
        assert isinstance(ann.write(1, SetDoc(doc("b"), 1)), Committed)
        ann.say(Transact(2, (SetDoc(doc("b"), 2),), rests=(PendingRead(doc("a"), (), Seq(1), layers),)))
        assert ann.closed().code == 4400


def test_a_read_that_rests_on_what_never_was_is_no_oracle(served: Served) -> None:
    """Bob has a commit of that number and Ann has not: she is told of her own."""
    space = served.space()
    with served.enter(space, actor="bob") as bob, served.enter(space, actor="ann") as ann:
        for number in range(1, 8):
            assert isinstance(bob.write(number, SetDoc(doc("a"), number)), Committed)
        told = []
        for number in (5, 6):
            layers = ((LocalSeq(3), LocalSeq(3)),)
            verdict = ann.write(number, SetDoc(doc("b"), 2), rests=(PendingRead(doc("a"), (), Seq(0), layers),))
            assert isinstance(verdict, Conflict)
            told.append(verdict.reason)
        assert told == ["rests on commit 3 of its session, which was not accepted"] * 2


def test_how_many_commits_a_read_rests_on_has_a_bound(served: Served) -> None:
    with served.enter(served.space()) as raw:
        layers = ((LocalSeq(1), LocalSeq(2 * OFFLINE_MAX + 1)),)
        rests = (PendingRead(doc("a"), (), Seq(0), layers),)
        raw.say(Transact(10**6, (SetDoc(doc("b"), 2),), rests=rests))
        assert raw.closed().code == 4400


# --- 42, 43 ---------------------------------------------------------------------------------------------------


def test_an_event_that_another_client_has_handled_is_refused_for_good(served: Served) -> None:
    space, receipt = served.space(), doc("receipt:their event")
    with served.enter(space, actor="ann") as ann, served.enter(space, actor="bob") as bob:
        handled = (SetDoc(doc("n"), 1), SetDoc(receipt, {}))
        assert isinstance(ann.write(1, *handled, conditions=(Absent(receipt),)), Committed)
        for number in (1, 2):
            again = bob.write(number, *handled, conditions=(Absent(receipt),))
            assert isinstance(again, Refused)
            assert again.doc == receipt


@pytest.mark.parametrize("origin", [2, 3])
def test_an_origin_that_never_was_is_refused_for_good(served: Served, origin: int) -> None:
    space = served.space()
    with served.enter(space, actor="bob") as bob, served.enter(space, actor="ann") as ann:
        for number in range(1, 4):
            assert isinstance(bob.write(number, SetDoc(doc("b"), number)), Committed)
        assert isinstance(ann.write(1, SetDoc(doc("a"), 1)), Committed)
        condition = OriginCommitted(LocalSeq(origin))
        refused = ann.write(4, SetDoc(doc("a"), 2), conditions=(condition,))
        assert isinstance(refused, Refused)
        assert refused.unmet == condition


@pytest.mark.parametrize("origin", [4, 5, 2**62, 0, -1])
def test_an_origin_that_cannot_have_been_ends_the_connection(served: Served, origin: int) -> None:
    with served.enter(served.space()) as raw:
        raw.say(Transact(4, (SetDoc(doc("a"), 2),), conditions=(OriginCommitted(LocalSeq(origin)),)))
        assert raw.closed().code == 4400


# --- 46 -------------------------------------------------------------------------------------------------------


def link(name: str) -> Any:
    return {"/": {"link@1": {"id": name}}}


def followed(raw: Raw, frame: Pull | Watch) -> list[str]:
    raw.say(frame)
    return [each.doc for each in raw.expect(Docs).docs]


def test_links_that_lead_back_are_followed_once(served: Served) -> None:
    with served.enter(served.space()) as raw:
        circle = (SetDoc(doc("a"), link("b")), SetDoc(doc("b"), [link("a"), link("b")]), SetDoc(doc("c"), link("a")))
        assert isinstance(raw.write(1, *circle), Committed)
        for follow in (1, 2, 10, 10_000):
            found = followed(raw, Pull(follow + 1, (doc("c"),), (), None, follow))
            assert found == [doc("c"), doc("a"), doc("b")][: follow + 1]


def test_a_chain_of_links_is_followed_as_far_as_was_asked_and_no_further(served: Served) -> None:
    with served.enter(served.space()) as raw:
        chain = tuple(SetDoc(doc(f"n{index}"), link(f"n{index + 1}")) for index in range(2000))
        assert isinstance(raw.write(1, *chain), Committed)
        assert len(followed(raw, Pull(2, (doc("n0"),), (), None, 100))) == 101
        assert len(followed(raw, Watch(3, ((doc("n0"), 0),), (), None, 5))) <= 6
        raw.say(Pull(4, (doc("n0"),), (), None, 2**62))
        assert raw.expect(ErrorFrame).code == "HW406"


def test_a_link_to_what_is_no_document_leads_nowhere(served: Served) -> None:
    odd = ["", "/", "../a", "a/b", "space/a", "user:x/a", "\0", "x" * 10_000, "%2e"]
    with served.enter(served.space()) as raw:
        assert isinstance(raw.write(1, SetDoc(doc("a"), [link(each) for each in odd])), Committed)
        raw.say(Pull(2, (doc("a"),), (), None, 1000))
        found = raw.expect(Docs)
        assert [each.doc for each in found.docs if each.value] == [doc("a")]


# --- the rest of the protocol ---------------------------------------------------------------------------------


def test_an_ack_may_come_late_and_twice(served: Served) -> None:
    space = served.space()
    served.fill(space, a=1)
    with served.enter(space) as raw:
        for seq in (1, 0, 1, 1):
            raw.say(Ack(seq))
        raw.say(Ping(3))
        raw.expect(Pong)


def test_notes_about_documents_of_others_are_passed_over(served: Served) -> None:
    with served.enter(served.space(), actor="ann") as raw:
        raw.say(PutObservations(((doc("x", "user:bob"), b"", (), ()),), (doc("y", "user:bob"),)))
        raw.say(Ping(1))
        raw.expect(Pong)


def test_a_commit_with_everything_wrong_leaves_nothing_behind(served: Served) -> None:
    space = served.space()
    with served.enter(space) as raw:
        reads = (Read(doc("a"), ("x",) * 1000, Seq(0)),)
        assert isinstance(raw.write(1, SetDoc(doc("a"), {}), reads=reads), Committed)
        refused = raw.write(2, SetDoc(doc("a"), 1), SetDoc(doc("b"), 1), conditions=(Absent(doc("a")),))
        assert isinstance(refused, Refused)
        raw.say(Pull(3, (doc("b"),)))
        assert raw.expect(Docs).docs[0].value == ()
