"""Spans at a server, one frame at a time: what is answered, what is watched, and what is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.store.collection_record import CollectionRecord, Index, KeyMove, doc_of, user_prefix
from headwater.store.commit import Conflict, Refused, SetDoc, SpanRead
from headwater.store.index_field import IndexField
from headwater.store.observations import Extra, SpanSeen, encode_observation
from headwater.sync import frames
from headwater.sync.frame_limits import INDEX_NAME_MAX, SPAN_BOUND_MAX, SPANS_MAX
from headwater.sync.frames import (
    AskObservations,
    AskShifted,
    ErrorFrame,
    FromClient,
    Judged,
    News,
    Observations,
    PutObservations,
    SeenSpan,
    Shifted,
    SpanKeys,
    Transact,
    Unspan,
    Watch,
    WatchSpan,
    Written,
    read_server,
)
from headwater.sync.server_session import Close
from headwater.values.address import doc_key
from headwater.values.ids import DocKey, LocalSeq, Seq
from headwater.values.sortkey import AFTER, encode_key
from headwater.values.tree import freeze
from tests.support.limits import small_limits
from tests.support.spaces import Space, drop, edit, put, replace
from tests.sync.span_server import BY_STATE, DRAFTS, Connection, Service, SpanClient, of_state

OPEN, PAID = of_state("open"), of_state("paid")
ALL = (b"", AFTER)
FIRST = 1 << 48
RECORD = DocKey("space/collection:order")


def order(name: object, state: str = "open", n: int = 0, **more: object) -> SetDoc:
    return put(f"order:{name}", {"state": state, "n": n, **more})


def key(name: object, state: str = "open", n: int = 0) -> bytes:
    return encode_key([state, n], f"order:{name}")  # type: ignore[arg-type]  # an id


@pytest.fixture
def service(tmp_path: Path) -> Service:
    return Service(Space("memory", tmp_path))


@pytest.fixture
def client(service: Service) -> SpanClient:
    return SpanClient(service, "c")


def written(client: SpanClient) -> list[Written]:
    """What news has of commits of others since the last time."""
    found = [new for frame in client.answers if isinstance(frame, News) for new in frame.news]
    client.answers.clear()
    return [new for new in found if isinstance(new, Written)]


# --- answers --------------------------------------------------------------------------------------------------


def test_keys_come_in_the_order_asked_for_and_end_says_how_far(service: Service, client: SpanClient) -> None:
    service.write(*[order(n, n=n) for n in range(5)], order("x", "paid"))
    first = client.span(BY_STATE, *OPEN, limit=2)
    assert first.keys == (key(0, n=0), key(1, n=1))
    assert first.end == key(1, n=1) + b"\0"
    rest = client.span(BY_STATE, first.end, OPEN[1], limit=3)
    assert rest.keys == tuple(key(n, n=n) for n in (2, 3, 4))
    assert rest.end == b""
    last = client.span(BY_STATE, *OPEN, limit=2, reverse=True)
    assert last.keys == (key(4, n=4), key(3, n=3))
    assert last.end == key(3, n=3)


def test_more_keys_than_one_answer_may_have_are_cut(service: Service, client: SpanClient) -> None:
    service.write(*[order(n, n=n) for n in range(9)])
    with small_limits(KEYS_MAX=4):
        found = client.span(BY_STATE, *OPEN)
        assert len(found.keys) == 4
        assert found.end == key(3, n=3) + b"\0"
        assert len(client.span(BY_STATE, *OPEN, limit=100).keys) == 4


def test_documents_of_the_first_keys_come_along_and_are_watched(service: Service, client: SpanClient) -> None:
    service.write(*[order(n, n=n) for n in range(5)])
    found = client.span(BY_STATE, *OPEN, limit=4, docs=2)
    assert [each.doc for each in found.docs] == [doc_key("order:0"), doc_key("order:1")]
    assert set(client.wire.watched) == {each.doc for each in found.docs}
    service.write(edit("order:1", replace("n", to=2)), edit("order:3", replace("n", to=4)))
    client.read()
    (new,) = written(client)
    assert {operation.doc for operation in new.operations} == {doc_key("order:1")}


def test_documents_that_the_session_watches_are_not_sent_again(service: Service, client: SpanClient) -> None:
    service.write(*[order(n, n=n) for n in range(3)])
    client.wire.ask(Watch(FIRST + 999, ((doc_key("order:1"), 2**62),)))
    found = client.span(BY_STATE, *OPEN, docs=3)
    assert [each.doc for each in found.docs] == [doc_key("order:0"), doc_key("order:2")]
    assert not client.span(BY_STATE, *ALL, docs=3).docs


def test_documents_without_room_are_not_sent(service: Service, client: SpanClient) -> None:
    service.write(order(0, n=0), order(1, n=1, text="x" * 5000), order(2, n=2))
    client.has_room = False
    found = client.span(BY_STATE, *OPEN, docs=3, room=1000)
    assert [each.doc for each in found.docs] == [doc_key("order:0"), doc_key("order:2")]
    assert len(found.keys) == 3


def test_answer_as_of_an_earlier_place_has_the_changes_since(service: Service, client: SpanClient) -> None:
    at = service.write(order(0), order(1), order(2)).verdict.seq  # type: ignore[union-attr]
    service.write(drop("order:0"), order(1, "paid"), order(2, n=5), order(3))
    found = client.span(BY_STATE, *OPEN, docs=9, at=at)
    assert found.at == at
    assert sorted({*found.keys} - {*found.came} | {*found.gone}) == [key(0), key(1), key(2)]
    # The documents are as of there, with what they are now.
    assert {each.doc: (each.seq, bool(each.value)) for each in found.docs} == {
        doc_key("order:2"): (at, True),
        doc_key("order:3"): (0, False),
    }
    assert {each.doc for each in found.newer} == {doc_key("order:2"), doc_key("order:3")}


def test_span_that_is_known_is_answered_with_its_changes(service: Service, client: SpanClient) -> None:
    service.write(order(0), order(1), order(2))
    client.span(BY_STATE, *OPEN, docs=3)
    client.wire.leave()
    service.write(drop("order:0"), order(1, "paid"), order(3))
    client.reconnect()
    found = client.answers[-1]
    assert isinstance(found, SpanKeys)
    assert (found.keys, found.gone, found.came) == ((), (key(0), key(1)), (key(3),))
    assert [each.doc for each in found.docs] == [doc_key("order:3")]
    client.check()


def test_span_that_is_known_from_too_long_ago_is_answered_as_a_whole(service: Service, client: SpanClient) -> None:
    with small_limits(SHIFTS_KEPT=2, SHIFTS_SLACK=0):
        service.write(order(0), order(1))
        client.span(BY_STATE, *OPEN)
        client.wire.leave()
        for n in range(2, 9):
            service.write(order(n))
            service.engine.fold()
        client.reconnect()
        found = client.answers[-1]
        assert isinstance(found, SpanKeys)
        assert (found.at, len(found.keys)) == (None, 9)
        client.check()


def test_span_that_is_only_watched_says_whether_it_has_changed(service: Service, client: SpanClient) -> None:
    at = service.write(order(0), order(1)).verdict.seq  # type: ignore[union-attr]
    service.write(order(0, note="another field"), order(2, "paid"))
    same = client.span(BY_STATE, *OPEN, limit=0, at=at, known=True)
    assert same == SpanKeys(same.number, service.head, at=at)
    other = client.span(BY_STATE, *PAID, limit=0, at=at, known=True)
    assert other.came == (key(2, "paid"),)
    service.write(order(5))
    client.read()
    assert [new.moves for new in written(client)] == [(KeyMove(BY_STATE, None, key(5)),)]


# --- what is watched ------------------------------------------------------------------------------------------


def test_moves_of_others_come_with_the_keys_within_the_spans_of_the_session(
    service: Service, client: SpanClient
) -> None:
    service.write(order(0), order(1), order(2, "sent"))
    client.span(BY_STATE, *OPEN)
    client.span(BY_STATE, *PAID)
    service.write(order(0, "paid"), order(1, "sent"), order(2, "sent", n=1), order(3, "open"))
    client.read()
    (new,) = written(client)
    assert new.operations == ()
    assert set(new.moves) == {
        KeyMove(BY_STATE, key(0), key(0, "paid")),
        KeyMove(BY_STATE, key(1), None),
        KeyMove(BY_STATE, None, key(3)),
    }
    service.write(order(2, "sent", n=7))
    assert not client.read()


def test_a_span_is_watched_up_to_its_end_and_no_further(service: Service, client: SpanClient) -> None:
    service.write(*[order(n, n=n) for n in range(5)])
    client.span(BY_STATE, *OPEN, limit=2)
    service.write(order(9, n=4))
    assert not client.read()
    service.write(order(8, n=0))
    assert len(client.read()) == 1


def test_document_that_enters_a_span_with_documents_comes_with_its_value(service: Service, client: SpanClient) -> None:
    service.write(order(0, "paid", note="kept"), order(1))
    client.span(BY_STATE, *OPEN, docs=5)
    service.write(edit("order:0", replace("state", to="open")))
    client.read()
    (new,) = written(client)
    assert new.operations == (SetDoc(doc_key("order:0"), freeze({"state": "open", "n": 0, "note": "kept"})),)
    assert new.brought == (doc_key("order:0"),)
    # From then on it is watched as any other.
    service.write(edit("order:0", replace("note", to="changed")))
    client.read()
    assert client.docs[doc_key("order:0")] == freeze({"state": "open", "n": 0, "note": "changed"})
    client.check()


def test_span_without_documents_brings_none(service: Service, client: SpanClient) -> None:
    client.span(BY_STATE, *OPEN)
    service.write(order(0))
    client.read()
    (new,) = written(client)
    assert (new.operations, new.brought) == ((), ())
    assert not client.wire.watched


def test_documents_beyond_those_that_may_be_watched_do_not_come(service: Service, client: SpanClient) -> None:
    client.has_room = False
    with small_limits(WATCHES_MAX=2):
        client.span(BY_STATE, *OPEN, docs=5)
        service.write(order(0), order(1), order(2))
        client.read()
        (new,) = written(client)
        assert len(new.brought) == 2
        assert len(new.moves) == 3


def test_a_session_is_not_sent_the_moves_of_its_own_commits(client: SpanClient) -> None:
    client.span(BY_STATE, *OPEN)
    client.commit(order(0))
    (news,) = client.read()
    assert isinstance(news, News)
    assert [type(new) for new in news.news] == [Judged]
    client.check()


def test_span_that_is_given_up_is_not_watched(service: Service, client: SpanClient) -> None:
    number = client.span(BY_STATE, *OPEN).number
    client.wire.ask(Unspan((number, number + 1)))
    service.write(order(0))
    assert not client.read()
    assert not len(service.watches.spans)


def test_of_two_equal_spans_the_other_one_stays(service: Service, client: SpanClient) -> None:
    first, second = (client.span(BY_STATE, *OPEN).number for _ in range(2))
    client.wire.ask(Unspan((first,)))
    client.spans.pop(first)
    service.write(order(0))
    assert len(client.read()) == 1
    assert list(client.wire.spans) == [second]


def test_spans_end_with_the_connection(service: Service, client: SpanClient) -> None:
    client.span(BY_STATE, *OPEN)
    client.wire.leave()
    assert not len(service.watches.spans)
    service.write(order(0))


def test_sessions_with_the_same_span_get_the_same_bytes(service: Service) -> None:
    clients = [SpanClient(service, f"c{number}") for number in range(5)]
    for each in clients:
        each.span(BY_STATE, *OPEN, docs=2)
    service.write(order(0), order(1, "paid"))
    assert len({id(each.wire.said[-1]) for each in clients}) == 1


def test_a_session_without_the_extension_gets_no_moves(service: Service) -> None:
    old = Connection(service, "old", can=())
    old.ask(Watch(FIRST, (), ("space/order:",)))
    service.write(order(0))
    frame = read_server(old.said[-1])
    assert isinstance(frame, News)
    (new,) = frame.news
    assert isinstance(new, Written)
    assert new.moves == ()


# --- commits --------------------------------------------------------------------------------------------------


def verdicts(client: SpanClient) -> list[object]:
    found = [new for frame in client.read() if isinstance(frame, News) for new in frame.news]
    return [new.verdict for new in found if isinstance(new, Judged)]


def test_commit_conflicts_with_what_has_changed_in_a_span_that_it_has_read(
    service: Service, client: SpanClient
) -> None:
    at = service.head
    read = SpanRead(BY_STATE, *OPEN, at)
    service.write(order(0, "paid"))
    client.commit(order("mine"), spans=(read,))
    service.write(order(1))
    client.commit(order("again"), spans=(read,))
    (committed, conflict) = verdicts(client)
    assert not isinstance(committed, Conflict)
    assert isinstance(conflict, Conflict)
    assert conflict.doc == doc_key("order:mine")


def test_commit_that_rests_on_a_rejected_one_in_its_span_conflicts(service: Service, client: SpanClient) -> None:
    at = service.head
    service.write(order(1))
    client.commit(order(0), spans=(SpanRead(BY_STATE, *OPEN, at),))
    layers = ((LocalSeq(1), LocalSeq(1)),)
    client.commit(order(2), spans=(SpanRead(BY_STATE, *OPEN, service.head, (), layers, (doc_key("order:0"),)),))
    assert [type(each) for each in verdicts(client)] == [Conflict, Conflict]


def test_duplicate_of_a_unique_value_is_refused_with_its_code(tmp_path: Path) -> None:
    unique = CollectionRecord("order", indexes=(Index((IndexField("n"),), unique=True),))
    service = Service(Space("memory", tmp_path), unique)
    service.write(order(0, n=7))
    client = SpanClient(service, "c")
    client.commit(order(1, n=7))
    (refused,) = verdicts(client)
    assert isinstance(refused, Refused)
    assert (refused.code, refused.doc) == ("HW215", doc_key("order:0"))


def test_commit_that_has_read_an_index_that_there_is_not_is_refused(service: Service, client: SpanClient) -> None:
    client.commit(order(0), spans=(SpanRead("order#missing", *OPEN, service.head),))
    (refused,) = verdicts(client)
    assert isinstance(refused, Refused)
    assert refused.code == "HW401"


# --- stored runs ----------------------------------------------------------------------------------------------

RESULT = DocKey("space/shop.open")


def observed(*spans: SeenSpan) -> bytes:
    seen = tuple(SpanSeen(each.index, each.lo, each.hi, each.fields) for each in spans)
    return encode_observation(b"code", [], Extra(spans=seen))


def test_run_that_has_read_a_span_is_stored_only_if_that_is_current(service: Service, client: SpanClient) -> None:
    body = observed(SeenSpan(BY_STATE, *OPEN))
    for at, count in ((service.head, 1), (Seq(0), 0)):
        read = SpanRead(BY_STATE, *OPEN, at)
        client.wire.ask(PutObservations(((RESULT, body, (), ()),), spans=((read,),)))
        client.wire.ask(AskObservations(FIRST + 50, "space/shop."))
        (kept,) = client.read()
        assert isinstance(kept, Observations)
        assert [row[0] for row in kept.rows] == [RESULT] * count
        assert not count or kept.rows[0][2] == body
        client.wire.ask(PutObservations((), (RESULT,)))
        service.write(order(at))


def test_shifted_names_the_documents_that_changed_in_the_spans_of_each_row(
    service: Service, client: SpanClient
) -> None:
    at = service.write(order(0, cents=5), order(1, "paid")).verdict.seq  # type: ignore[union-attr]
    service.write(edit("order:0", replace("cents", to=6)))
    service.write(order(2, "sent"))
    spans = {
        (SeenSpan(BY_STATE, *OPEN),): (),
        (SeenSpan(BY_STATE, *OPEN, ("cents",)),): (doc_key("order:0"),),
        (SeenSpan(BY_STATE, *OPEN), SeenSpan(BY_STATE, *of_state("sent"))): (doc_key("order:2"),),
        (SeenSpan("order#gone", *OPEN),): (RECORD,),
        (SeenSpan("nothing#", *OPEN),): (DocKey("space/collection:nothing"),),
    }
    client.wire.ask(AskShifted(FIRST + 60, tuple((each, at) for each in spans)))
    (found,) = client.read() or client.answers[-1:]
    assert found == Shifted(FIRST + 60, service.head, tuple(spans.values()))


# --- rights ---------------------------------------------------------------------------------------------------


def test_collection_that_may_not_be_read_has_no_keys_and_is_not_watched(service: Service, client: SpanClient) -> None:
    service.write(order(0))
    client.wire.hidden.add("order")
    for _ in range(2):
        found = client.span(BY_STATE, *OPEN, docs=5, at=service.head, known=False)
        assert found == SpanKeys(found.number, service.head)
    assert [asked for asked, _ in client.wire.refusals] == ["span order", "span order"]
    service.write(order(1))
    assert not client.read()
    assert not client.wire.spans
    # What it has read of it does not count: it does not change for this session.
    client.commit(put("note", 1), spans=(SpanRead(BY_STATE, *OPEN, Seq(0)),))
    assert [type(each).__name__ for each in verdicts(client)] == ["Committed"]
    client.wire.ask(AskShifted(FIRST + 70, (((SeenSpan(BY_STATE, *OPEN),), 0),)))
    (shifted,) = client.read()
    assert shifted == Shifted(FIRST + 70, service.head, ((RECORD,),))


def test_collection_that_is_hidden_later_is_not_told_of(service: Service, client: SpanClient) -> None:
    client.span(BY_STATE, *OPEN, docs=3)
    client.wire.hidden.add("order")
    service.watches.ruled = frozenset({"order"})
    service.write(order(0))
    assert not client.read()


def test_spans_of_another_user_are_refused(service: Service, client: SpanClient) -> None:
    index = DRAFTS.named[1].name
    ann, bob = user_prefix("ann"), user_prefix("bob")
    service.write(
        SetDoc(DocKey("user:ann/draft:a"), freeze({"n": 1})), SetDoc(DocKey("user:bob/draft:b"), freeze({"n": 1}))
    )
    found = client.span(index, ann, ann + AFTER)
    assert [doc_of(DRAFTS, each) for each in found.keys] == ["user:ann/draft:a"]
    others = [(bob, bob + AFTER), (b"", AFTER), (ann, bob + AFTER), (ann, AFTER)]
    for lo, hi in others:
        client.ask(index, lo, hi)
        (frame,) = client.read()
        assert isinstance(frame, ErrorFrame)
        assert frame.code == "HW403"
        client.commit(put("note", 1), spans=(SpanRead(index, lo, hi, service.head),))
        (frame,) = client.read()
        assert isinstance(frame, ErrorFrame)
        assert frame.code == "HW403"
    assert len(client.wire.refusals) == 2 * len(others)
    client.wire.ask(AskShifted(FIRST + 80, (((SeenSpan(index, bob, bob + AFTER),), 0),)))
    (shifted,) = client.read()
    assert shifted == Shifted(FIRST + 80, service.head, (("space/collection:draft",),))
    service.write(SetDoc(DocKey("user:bob/draft:c"), freeze({"n": 2})))
    assert not client.read()


def test_a_session_without_an_actor_has_no_spans_of_users(service: Service) -> None:
    wire = Connection(service, "nobody", actor="")
    wire.ask(WatchSpan(FIRST, DRAFTS.named[1].name, user_prefix(""), user_prefix("") + AFTER))
    frame = read_server(wire.said[-1])
    assert isinstance(frame, ErrorFrame)
    assert frame.code == "HW403"


# --- bad input ------------------------------------------------------------------------------------------------

LONG = b"x" * (SPAN_BOUND_MAX + 1)


def note(*spans: SpanRead) -> PutObservations:
    return PutObservations(((RESULT, bytes(8), (), ()),), spans=tuple((each,) for each in spans))


@pytest.mark.parametrize(
    "frame",
    [
        WatchSpan(FIRST, BY_STATE, OPEN[0], OPEN[0]),
        WatchSpan(FIRST, BY_STATE, OPEN[1], OPEN[0]),
        WatchSpan(FIRST, BY_STATE, b"", LONG),
        WatchSpan(FIRST, "no index", *OPEN),
        WatchSpan(FIRST, "#state", *OPEN),
        WatchSpan(FIRST, "order#" + "a" * INDEX_NAME_MAX, *OPEN),
        WatchSpan(FIRST, BY_STATE, *OPEN, known=True),
        WatchSpan(FIRST, BY_STATE, *OPEN, at=1000),
        WatchSpan(0, BY_STATE, *OPEN),
        AskShifted(FIRST, (((), 0),)),
        AskShifted(FIRST, (((SeenSpan("x", *OPEN),), 0),)),
        AskShifted(FIRST, (((SeenSpan(BY_STATE, *OPEN),), 1000),)),
        Transact(1, spans=(SpanRead("x", *OPEN, Seq(0)),)),
        Transact(1, spans=(SpanRead(BY_STATE, b"", LONG, Seq(0)),)),
        Transact(1, spans=(SpanRead(BY_STATE, *OPEN, Seq(1000)),)),
        Transact(1, spans=(SpanRead(BY_STATE, *OPEN, Seq(0), (), ((LocalSeq(1), LocalSeq(1)),)),)),
        Transact(2, spans=(SpanRead(BY_STATE, *OPEN, Seq(0), (), (), (DocKey("nowhere"),)),)),
        note(SpanRead(BY_STATE, *OPEN, Seq(0)), SpanRead(BY_STATE, *OPEN, Seq(0))),
    ],
    ids=lambda frame: repr(frame)[:60],
)
def test_what_no_client_sends_ends_the_connection(service: Service, frame: FromClient) -> None:
    wire = Connection(service, "odd")
    wire.ask(frame)
    assert wire.closed is not None, read_server(wire.said[-1])
    assert wire.closed[0] == Close.PROTOCOL


@pytest.mark.parametrize(
    "frame",
    [
        WatchSpan(FIRST, BY_STATE, *OPEN),
        Unspan(()),
        AskShifted(FIRST, ()),
        Transact(1, spans=(SpanRead(BY_STATE, *OPEN, Seq(0)),)),
        note(SpanRead(BY_STATE, *OPEN, Seq(0))),
    ],
    ids=lambda frame: str(type(frame).__struct_config__.tag),
)
def test_frames_of_the_extension_need_it(service: Service, frame: FromClient) -> None:
    wire = Connection(service, "old", can=(frames.FAR, frames.RULES))
    wire.ask(frame)
    assert wire.closed is not None
    assert wire.closed[0] == Close.PROTOCOL


def test_number_of_a_span_is_not_used_twice(service: Service) -> None:
    wire = Connection(service, "odd")
    wire.ask(WatchSpan(FIRST, BY_STATE, *OPEN))
    wire.ask(WatchSpan(FIRST, BY_STATE, *PAID))
    assert wire.closed is not None


def test_index_that_there_is_not_is_said_and_the_connection_goes_on(client: SpanClient) -> None:
    for index in ("order#missing", "nothing#"):
        client.ask(index, *OPEN)
        (frame,) = client.read()
        assert isinstance(frame, ErrorFrame)
        assert (frame.code, frame.again) == ("HW120", False)
        assert index in frame.message
    assert client.wire.closed is None


def test_spans_of_a_session_are_bounded(client: SpanClient) -> None:
    assert SPANS_MAX == 10_000
    with small_limits(SPANS_MAX=3):
        for _ in range(3):
            client.span(BY_STATE, *OPEN)
        number = client.ask(BY_STATE, *OPEN)
        (frame,) = client.read()
        assert isinstance(frame, ErrorFrame)
        assert (frame.code, frame.number, frame.again) == ("HW406", number, True)
        client.wire.ask(Unspan(tuple(client.spans)[:1]))
        client.span(BY_STATE, *OPEN)


def test_spans_of_a_commit_count_as_its_parts(service: Service, client: SpanClient) -> None:
    with small_limits(PARTS_MAX=5):
        client.commit(spans=(SpanRead(BY_STATE, *OPEN, service.head, ("a", "b", "c", "d", "e")),))
        (frame,) = client.read()
    assert isinstance(frame, ErrorFrame)
    assert frame.code == "HW406"
