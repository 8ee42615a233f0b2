"""Frames of every kind, as records: what the conformance vectors and the examples in docs/protocol.md are made from.

The first of each kind is the one that the document shows.
"""

from __future__ import annotations

from typing import Final

from headwater.store.collection_record import KeyMove
from headwater.store.commit import (
    Absent,
    Committed,
    Conflict,
    DeleteDoc,
    OriginCommitted,
    PatchDoc,
    PendingRead,
    Read,
    Refused,
    SetDoc,
    SpanRead,
    ValueIs,
)
from headwater.sync.frame_limits import FRAME_BYTES_MAX, PENDING_MAX, WATCHES_MAX
from headwater.sync.frames import (
    Ack,
    AskChanged,
    AskObservations,
    AskShifted,
    Bye,
    Changed,
    CommitFailed,
    Docs,
    ErrorFrame,
    FoundDoc,
    FromClient,
    FromServer,
    Hello,
    Judged,
    Look,
    LookAnswer,
    News,
    Observations,
    Open,
    Ping,
    Pong,
    Proof,
    Pull,
    PutObservations,
    SeenSpan,
    Shifted,
    SpaceOpened,
    SpanKeys,
    Transact,
    Unspan,
    Unwatch,
    Watch,
    WatchSpan,
    Welcome,
    Written,
)
from headwater.values.address import Depth
from headwater.values.codec import digest
from headwater.values.ids import MAIN, BranchId, DocId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.link import LinkRecord
from headwater.values.patch import (
    Add,
    AddUnique,
    Append,
    Increment,
    Move,
    Remove,
    RemoveByValue,
    Replace,
    Splice,
)
from headwater.values.sortkey import AFTER, encode_field, encode_key
from headwater.values.tree import Array, Value, freeze

SEAT: Final = DocKey("space/seats.seat-12A")
COUNT: Final = DocKey("space/seats.booked")
MINE: Final = DocKey("user:ann/seats.draft")
PLACE: Final = 7
ANN: Final = SessionId("k4u2xq7mbvhd6tzr3wn5yj2aec")
BOB: Final = SessionId("p7c5nhtd2q4xv6ywkzr3mj8abf")
QUESTION: Final = 1 << 48
"""Questions are numbered from here on, commits from 1: an answer is never taken for another's."""
RESUME: Final = bytes(8) + bytes(range(32))
NONCE: Final = bytes(range(32))
SPACE_ID: Final = "7k3q9d4m2x8v1n6p0c5r"
LINEAGE: Final = bytes(range(8))
OBSERVED: Final = b"\x93\x01\xc4\x02ab\x91\xb4space/seats.seat-12A"
INDEX: Final = "order#state"
OPEN: Final = encode_field("open")
"""All keys of open orders begin so."""
ORDERS: Final = tuple(DocKey(f"space/order:{letter * 2}") for letter in "abc")
KEYS: Final = tuple(encode_key(["open"], DocId(f"order:{letter * 2}")) for letter in "abc")
PAID: Final = encode_key(["paid"], DocId("order:aa"))


def items(*values: object) -> Array:
    return freeze(list(values))  # type: ignore[return-value]  # a list


def deep(levels: int) -> Value:
    found: object = "here"
    for _ in range(levels):
        found = [found]
    return freeze(found)


def edge_values() -> Value:
    return freeze(
        {
            "": "the empty key",
            "2**63": 2**63,
            "2**64-1": 2**64 - 1,
            "-2**63": -(2**63),
            "-0.0": -0.0,
            "0.1": 0.1,
            "1": 1,
            "1.0": 1.0,
            "bytes": b"\x00\xff",
            "false": False,
            "largest": 1.7976931348623157e308,
            "no bytes": b"",
            "nothing": None,
            "empty": {"list": [], "map": {}, "text": ""},
            "smallest": 5e-324,
            "unicode": "gr\u00fc\u00dfe \U0001f30a \u0000",
            "Z": "keys stand in the order of their characters",
            "\u00e9": "after z",
            "\U0001f30a": "after \uffff",
            "\uffff": "before \U0001f30a",
        }
    )


def every_patch() -> PatchDoc:
    return PatchDoc(
        DocKey("space/seats.plan"),
        (
            Replace(("name",), "A320"),
            Add(("rows", 0), freeze({"seats": []})),
            Remove(("old",)),
            Splice(("rows",), 1, 2, items("x", None)),
            Move(("rows", 0), ("first",)),
            Append(("log",), items("booked")),
            AddUnique(("tags",), items("window", "window")),
            Increment(("booked",), 1),
            Increment(("weight",), -0.5),
            RemoveByValue(("tags",), items("aisle")),
        ),
    )


FROM_CLIENT: Final[list[tuple[str, FromClient]]] = [
    ("hello", Hello((1,), "headwater/0.1.0", ("far",))),
    ("hello, one of several versions", Hello((3, 2, 1), "a newer client")),
    ("hello, no name", Hello((1,))),
    ("open", Open("seats", actor="ann")),
    ("open, all that is usual", Open("main")),
    ("open, going on", Open("seats", MAIN, "ann", ANN, RESUME, create=False, attempt=2)),
    ("open, a branch", Open("seats", BranchId("what-if"), "ann")),
    ("open, with a key", Open("seats", actor="ann", proof=Proof(bytes(32), bytes(64), 1_700_000_060_000))),
    (
        "transact",
        Transact(
            4,
            (SetDoc(SEAT, "ann"), PatchDoc(COUNT, (Increment((), 1),))),
            (Read(SEAT, (), Seq(6)),),
        ),
    ),
    ("transact, nothing at all", Transact(1)),
    ("transact, a document deleted", Transact(2, (DeleteDoc(MINE),))),
    ("transact, every patch operation", Transact(3, (every_patch(),))),
    ("transact, edge values", Transact(4, (SetDoc(SEAT, edge_values()),))),
    ("transact, nested", Transact(5, (SetDoc(SEAT, deep(100)),))),
    (
        "transact, links",
        Transact(
            6,
            (
                SetDoc(DocKey("space/todo.items:1"), freeze({"title": "milk"})),
                PatchDoc(
                    DocKey("space/todo.board"),
                    (Append(("items",), items(LinkRecord(doc="todo.items:1").to_value())),),  # type: ignore[arg-type]  # a NewType of str
                ),
                SetDoc(
                    DocKey("space/todo.alias"),
                    LinkRecord(path=("items", 0), scope="space", redirect=True).to_value(),
                ),
            ),
        ),
    ),
    (
        "transact, reads of all kinds",
        Transact(
            7,
            (SetDoc(SEAT, "ann"),),
            (Read(SEAT, (), Seq(6)), Read(COUNT, ("a", 0, ""), Seq(0), Depth.SHALLOW)),
            (
                PendingRead(COUNT, (), Seq(6), ((LocalSeq(4), LocalSeq(6)),)),
                PendingRead(
                    MINE, ("text",), Seq(2), ((LocalSeq(1), LocalSeq(1)), (LocalSeq(3), LocalSeq(3))), Depth.SHALLOW
                ),
            ),
        ),
    ),
    (
        "transact, preconditions",
        Transact(
            8,
            (SetDoc(DocKey("space/receipt:0a1b"), freeze({"state": "done"})),),
            conditions=(
                Absent(DocKey("space/receipt:0a1b")),
                ValueIs(SEAT, digest(freeze("ann"))),
                ValueIs(COUNT, b""),
                OriginCommitted(LocalSeq(7)),
            ),
        ),
    ),
    (
        "transact, the result of a run",
        Transact(
            9,
            (SetDoc(DocKey("space/seats.label"), "12A: ann"),),
            (Read(SEAT, (), Seq(6)),),
            seen=(0, OBSERVED),
            notes=((DocKey("space/seats.free"), OBSERVED, (Read(SEAT, (), Seq(6)),), ()),),
        ),
    ),
    (
        "transact, spans that were read",
        Transact(
            10,
            (PatchDoc(ORDERS[1], (Replace(("state",), "paid"),)),),
            spans=(
                SpanRead(INDEX, OPEN, OPEN + AFTER, Seq(6)),
                SpanRead(INDEX, OPEN, KEYS[1] + b"\0", Seq(6), ("cents",), ((LocalSeq(9), LocalSeq(9)),), (ORDERS[0],)),
            ),
        ),
    ),
    (
        "transact, spans that a run without a result has read",
        Transact(
            11,
            notes=((DocKey("space/seats.free"), OBSERVED, (), ()),),
            note_spans=((SpanRead(INDEX, OPEN, OPEN + AFTER, Seq(6)),),),
        ),
    ),
    ("watch", Watch(QUESTION + 1, ((SEAT, 0), (COUNT, 5)), ("space/seats.",), follow=100)),
    ("watch, nothing", Watch(QUESTION + 2)),
    ("watch, as of a place", Watch(QUESTION + 3, ((SEAT, 2**62),), at=3)),
    ("unwatch", Unwatch((SEAT,), ("space/seats.",))),
    ("unwatch, nothing", Unwatch()),
    ("pull", Pull(QUESTION + 4, (SEAT, MINE))),
    ("pull, by prefix, following links", Pull(QUESTION + 5, (), ("space/todo.",), at=0, follow=10_000)),
    ("kept?", AskObservations(QUESTION + 6, "space/seats.", (DocKey("space/seats.label"),))),
    ("kept?, only documents", AskObservations(QUESTION + 7, besides=(DocKey("space/seats.label"),))),
    ("changed?", AskChanged(QUESTION + 8, COUNT, (((), False), (("a", 0), True)), 5)),
    ("notes", PutObservations(((DocKey("space/seats.free"), OBSERVED, (Read(SEAT, (), Seq(6)),), ()),))),
    ("notes, only what is gone", PutObservations((), (DocKey("space/seats.free"),))),
    (
        "notes, spans that were read",
        PutObservations(
            ((DocKey("space/seats.free"), OBSERVED, (), ()),),
            spans=((SpanRead(INDEX, OPEN, OPEN + AFTER, Seq(6)),),),
        ),
    ),
    ("span", WatchSpan(QUESTION + 10, INDEX, OPEN, OPEN + AFTER, limit=2, docs=2)),
    ("span, backwards", WatchSpan(QUESTION + 11, INDEX, OPEN, OPEN + AFTER, limit=2, reverse=True, docs=2, room=4096)),
    ("span, known before", WatchSpan(QUESTION + 12, INDEX, OPEN, KEYS[1] + b"\0", docs=2, at=6, known=True)),
    ("span, only watched", WatchSpan(QUESTION + 13, INDEX, OPEN, OPEN + AFTER, limit=0, at=6, known=True)),
    ("unspan", Unspan((QUESTION + 10,))),
    ("shifted?", AskShifted(QUESTION + 14, (((SeenSpan(INDEX, OPEN, OPEN + AFTER, ("cents",)),), 6),))),
    ("seen", LookAnswer(1, '{"v":4,"pid":4711,"mark":"","answer":[]}')),
    ("ack", Ack(6)),
    ("ping", Ping(QUESTION + 9)),
    ("ping, the largest number", Ping(2**63 - 1)),
    ("bye", Bye()),
]

FROM_SERVER: Final[list[tuple[str, FromServer]]] = [
    (
        "welcome",
        Welcome(
            1,
            "headwater/0.1.0",
            NONCE,
            "ws://127.0.0.1:8400",
            {"frame": FRAME_BYTES_MAX, "pending": PENDING_MAX, "watches": WATCHES_MAX},
            ("far",),
        ),
    ),
    ("welcome, no limits told", Welcome(1, "", NONCE, "wss://example.org")),
    ("opened", SpaceOpened("seats", ANN, RESUME, 6, "ann", "write", 3, SPACE_ID, LINEAGE)),
    ("opened, a new space", SpaceOpened("main", ANN, RESUME, 0, "", "own")),
    (
        "docs",
        Docs(
            QUESTION + 1,
            Seq(6),
            (FoundDoc(SEAT, Seq(6), ("bob",)), FoundDoc(DocKey("space/seats.old"), Seq(4)), FoundDoc(MINE, Seq(0))),
        ),
    ),
    ("docs, nothing that is new", Docs(QUESTION + 2, Seq(6))),
    (
        "docs, as of a place",
        Docs(QUESTION + 3, Seq(6), (FoundDoc(SEAT, Seq(2), ("",)),), (FoundDoc(SEAT, Seq(6), ("bob",)),)),
    ),
    ("docs, too many", Docs(QUESTION + 5, Seq(6), (), (), complete=False)),
    (
        "docs, edge values",
        Docs(QUESTION + 4, Seq(6), (FoundDoc(SEAT, Seq(6), (edge_values(),)), FoundDoc(COUNT, Seq(6), (None,)))),
    ),
    (
        "news",
        News(
            Seq(8),
            (
                Written(Seq(7), BOB, (SetDoc(SEAT, "bob"),)),
                Judged(LocalSeq(4), Conflict("something it read was written since", SEAT, (), Seq(7))),
                Judged(LocalSeq(5), Committed(Seq(8))),
            ),
        ),
    ),
    ("news, nothing", News(Seq(8), ())),
    (
        "news, a document that is brought along",
        News(
            Seq(9),
            (
                Written(
                    Seq(9),
                    BOB,
                    (
                        SetDoc(DocKey("space/todo.items:1"), freeze({"title": "milk"})),
                        PatchDoc(
                            DocKey("space/todo.board"),
                            (Append(("items",), items(LinkRecord(doc="todo.items:1").to_value())),),  # type: ignore[arg-type]  # a NewType of str
                        ),
                    ),
                    brought=(DocKey("space/todo.items:1"),),
                ),
            ),
        ),
    ),
    (
        "news, the result of a run",
        News(Seq(10), (Written(Seq(10), BOB, (SetDoc(DocKey("space/seats.label"), "12A: bob"),), (0, OBSERVED)),)),
    ),
    (
        "news, a document that enters a span",
        News(
            Seq(11),
            (
                Written(
                    Seq(11),
                    BOB,
                    (SetDoc(ORDERS[0], freeze({"state": "open", "cents": 5})),),
                    brought=(ORDERS[0],),
                    moves=(KeyMove(INDEX, None, KEYS[0]),),
                ),
            ),
        ),
    ),
    (
        "news, a key that leaves a span",
        News(Seq(12), (Written(Seq(12), BOB, (), moves=(KeyMove(INDEX, KEYS[1], None),)),)),
    ),
    (
        "news, a key that moves within a span",
        News(Seq(12), (Written(Seq(12), BOB, (), moves=(KeyMove(INDEX, KEYS[0], PAID),)),)),
    ),
    (
        "news, refusals",
        News(
            Seq(10),
            (
                Judged(
                    LocalSeq(6),
                    Refused(
                        "the document exists already, or was deleted: its id was used before",
                        DocKey("space/receipt:0a1b"),
                        Absent(DocKey("space/receipt:0a1b")),
                        "HW212",
                    ),
                ),
                Judged(LocalSeq(7), Refused("there is no branch 'what-if'", code="HW106")),
                CommitFailed(LocalSeq(8), "HW203", "the disk is full: nothing of this commit was kept"),
            ),
        ),
    ),
    (
        "kept",
        Observations(
            QUESTION + 6,
            Seq(10),
            ((DocKey("space/seats.label"), Seq(10), OBSERVED),),
            {SEAT: (Seq(7), True), MINE: None},
        ),
    ),
    ("kept, nothing", Observations(QUESTION + 7, Seq(10), (), {}, (DocKey("space/seats.label"),))),
    ("changed", Changed(QUESTION + 8, True)),
    (
        "keys",
        SpanKeys(
            QUESTION + 10,
            Seq(6),
            KEYS[:2],
            KEYS[1] + b"\0",
            docs=(
                FoundDoc(ORDERS[0], Seq(5), (freeze({"state": "open", "cents": 5}),)),
                FoundDoc(ORDERS[1], Seq(6), (freeze({"state": "open", "cents": 7}),)),
            ),
        ),
    ),
    ("keys, all of them, backwards", SpanKeys(QUESTION + 11, Seq(6), KEYS[1::-1])),
    ("keys, what has changed", SpanKeys(QUESTION + 12, Seq(8), at=6, gone=(KEYS[1],), came=(KEYS[0],))),
    ("keys, nothing has changed", SpanKeys(QUESTION + 13, Seq(6), at=6)),
    ("shifted", Shifted(QUESTION + 14, Seq(8), ((ORDERS[0],),))),
    ("shifted, it is not known", Shifted(QUESTION + 14, Seq(8), ((DocKey("space/collection:order"),),))),
    ("look", Look(1, '{"v":4,"ask":{"question":"graph"}}', "ann")),
    ("pong", Pong(QUESTION + 9)),
    (
        "trouble",
        ErrorFrame("HW403", "space 'seats' may not be used so: the right to write it is missing", 4),
    ),
    ("trouble, later it may succeed", ErrorFrame("HW406", "1024 commits of this session wait already", 1025, True)),
    ("trouble, of the whole connection", ErrorFrame("HW402", "hello is expected first; ping came")),
]
