"""Frames that are none, made from those that are: by a seed, so that whatever happened can happen again."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import msgspec

from headwater.store.commit import (
    Absent,
    DeleteDoc,
    OriginCommitted,
    PatchDoc,
    PendingRead,
    Read,
    SetDoc,
    SpanRead,
    ValueIs,
)
from headwater.store.observations import encode_observation
from headwater.sync.frames import (
    EXTENSIONS,
    VERSION,
    Ack,
    AskChanged,
    AskObservations,
    AskShifted,
    FromClient,
    Hello,
    Open,
    Ping,
    Proof,
    Pull,
    PutObservations,
    SeenSpan,
    Transact,
    Unspan,
    Unwatch,
    Watch,
    WatchSpan,
    encode_frame,
)
from headwater.values.ids import LocalSeq, SessionId
from headwater.values.patch import Add, Append, Increment, Move, Remove, Replace, Splice
from tests.system.attacks.raw import BINARY, ws_frame
from tests.system.attacks.served import doc

HELLO = encode_frame(Hello((VERSION,), can=EXTENSIONS))
_VALUE: Any = {"a": [1, -2, 3.5, None, True], "b": {"c": "text", "d": b"bytes"}, "é": 2**40, "/": "no link"}
_BODY = encode_observation(b"code", [(doc("a"), (), 0), (doc("b"), ("x", 1), 1)])

VALID: list[FromClient] = [
    Open("home", actor="ann"),
    Open("home", session=SessionId("s"), resume=b"12345678", proof=Proof(bytes(32), bytes(64), 1)),
    Transact(1, (SetDoc(doc("a"), _VALUE),)),
    Transact(2, (DeleteDoc(doc("b")), SetDoc(doc("me", "user:ann"), 1)), (Read(doc("a"), ("b",), 0),)),  # type: ignore[arg-type]  # a place
    Transact(
        3,
        (
            PatchDoc(
                doc("a"),
                (
                    Add(("x", 0), 1),
                    Replace((), "y"),
                    Remove(("z",)),
                    Move(("a",), ("b",)),
                    Increment(("n",), 1.5),
                    Append(("l",), [1, [2]]),  # type: ignore[arg-type]  # as it is decoded
                    Splice(("l",), 0, 1, ["x"]),  # type: ignore[arg-type]  # as above
                ),
            ),
        ),
        rests=(PendingRead(doc("a"), (), 0, ((LocalSeq(1), LocalSeq(2)),)),),  # type: ignore[arg-type]  # a place
        conditions=(Absent(doc("c")), ValueIs(doc("d"), b"x"), OriginCommitted(LocalSeq(1))),
        seen=(0, _BODY),
        notes=((doc("e"), _BODY, (), ()),),
    ),
    Watch(4, ((doc("a"), 0), (doc("b"), 3)), ("space/x",), None, 10),
    Pull(5, (doc("a"),), ("space/", "user:ann/"), 0, 5),
    Unwatch((doc("a"),), ("space/x",)),
    AskObservations(6, "space/", (doc("a"),)),
    AskChanged(7, doc("a"), (((), False), (("x", 1), True)), 0),
    PutObservations(((doc("a"), _BODY, (), ()),), (doc("b"),)),
    Ack(0),
    Ping(8),
    WatchSpan(9, "order#state", b" open\0", b" open\0\xff", 20, docs=5, at=3),
    WatchSpan(10, "draft#", b" ann\0", b" ann\0\xff", reverse=True, at=0, known=True),
    Unspan((9, 10)),
    AskShifted(11, (((SeenSpan("order#", b"", b"\xff", ("state",)),), 2),)),
    Transact(
        12,
        spans=(
            SpanRead("order#", b"", b"\xff", 0, ("state",), ((LocalSeq(1), LocalSeq(2)),), (doc("order:1"),)),  # type: ignore[arg-type]  # a place
        ),
        note_spans=((SpanRead("draft#", b" ann\0", b" ann\0\xff", 0),),),  # type: ignore[arg-type]  # as above
        notes=((doc("e"), _BODY, (), ()),),
    ),
]
VALID_BYTES = [encode_frame(frame) for frame in VALID]
_KEYS = [
    "t",
    "number",
    "operations",
    "docs",
    "reads",
    "seq",
    "space/a",
    "x",
    "notes",
    "prefixes",
    "versions",
    "spans",
    "lo",
    "",
]
_KINDS = [
    "hello",
    "open",
    "transact",
    "watch",
    "pull",
    "kept?",
    "changed?",
    "notes",
    "ack",
    "ping",
    "bye",
    "unwatch",
    "span",
    "seen",
]
_HEADS = bytes([0x80, 0x8F, 0x90, 0x9F, 0xA0, 0xBF, 0xC0, 0xC1, *range(0xC4, 0xE0), 0xFF, 0x7F])


def _flip(rng: random.Random, data: bytearray) -> None:
    for _ in range(rng.choice((1, 1, 1, 2, 8))):
        place = rng.randrange(len(data))
        data[place] ^= 1 << rng.randrange(8)


def _cut(rng: random.Random, data: bytearray) -> None:
    del data[rng.randrange(len(data)) :]


def _lie(rng: random.Random, data: bytearray) -> None:
    """Another head, or another length, of whatever stands there."""
    data[rng.randrange(len(data))] = rng.choice(_HEADS)


def _insert(rng: random.Random, data: bytearray) -> None:
    place = rng.randrange(len(data))
    data[place:place] = rng.randbytes(rng.randint(1, 8))


def _splice(rng: random.Random, data: bytearray) -> None:
    other = rng.choice(VALID_BYTES)
    data[rng.randrange(len(data)) :] = other[rng.randrange(len(other)) :]


def _repeat(rng: random.Random, data: bytearray) -> None:
    start = rng.randrange(len(data))
    piece = data[start : start + rng.randint(1, 20)]
    data[start:start] = piece * rng.choice((1, 2, 50))


def _append(rng: random.Random, data: bytearray) -> None:
    data += rng.randbytes(rng.randint(1, 4))


_CHANGES = (_flip, _flip, _flip, _cut, _lie, _lie, _insert, _splice, _repeat, _append)


def odd_value(rng: random.Random, depth: int = 0) -> Any:
    """Anything that MessagePack can say."""
    kind = rng.randrange(12 if depth < 4 else 9)
    if kind == 0:
        return rng.choice((0, 1, -1, 127, 2**31, 2**63, 2**64 - 1, -(2**63)))
    if kind == 1:
        return rng.choice((0.0, -0.0, 1.5, float("nan"), float("inf"), 1e308))
    if kind == 2:
        return rng.choice(("", "space/a", "user:bob/x", "é", "\0", "x" * 300, "set", "delete", "patch", "deep"))
    if kind == 3:
        return rng.randbytes(rng.choice((0, 1, 8, 32, 64)))
    if kind in (4, 5, 6):
        return rng.choice((None, True, False))
    if kind in (7, 8):
        return msgspec.msgpack.Ext(rng.randint(0, 127), b"1234")
    if kind == 9:
        return {rng.choice(_KEYS): odd_value(rng, depth + 1) for _ in range(rng.randrange(4))}
    return [odd_value(rng, depth + 1) for _ in range(rng.randrange(5))]


def odd_frame(rng: random.Random) -> bytes:
    """A map with a kind, and fields that may be anything."""
    frame: dict[str, Any] = {"t": rng.choice(_KINDS)}
    for _ in range(rng.randrange(5)):
        frame[rng.choice(_KEYS)] = odd_value(rng)
    return msgspec.msgpack.encode(frame)


def mutants(rng: random.Random) -> Iterator[bytes]:
    """Frames without end: one in eight is valid, some in the wrong place."""
    while True:
        kind = rng.randrange(16)
        if kind < 2:
            yield rng.choice(VALID_BYTES)
        elif kind < 4:
            yield odd_frame(rng)
        elif kind == 4:
            yield rng.randbytes(rng.randrange(40))
        else:
            data = bytearray(rng.choice(VALID_BYTES))
            for _ in range(rng.choice((1, 1, 1, 2, 4))):
                if data:
                    rng.choice(_CHANGES)(rng, data)
            yield bytes(data)


def odd_websocket(rng: random.Random, frame: bytes) -> bytes:
    """A frame of WebSocket around it, which may be wrong, too."""
    kind = rng.randrange(12)
    if kind == 0:
        return ws_frame(rng.randrange(16), frame[:125], fin=rng.random() < 0.8, rsv=rng.randrange(8))
    if kind == 1:
        return ws_frame(BINARY, frame, size=rng.choice((0, 1, 125, 65535, 2**20, 2**40, 2**63 - 1)))
    if kind == 2:
        data = bytearray(ws_frame(BINARY, frame))
        _flip(rng, data)
        return bytes(data)
    if kind == 3:
        half = len(frame) // 2
        return ws_frame(BINARY, frame[:half], fin=False) + ws_frame(0, frame[half:])
    return ws_frame(BINARY, frame)
