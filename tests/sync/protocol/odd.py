"""Bytes that no encoder of ours makes: those that are taken all the same, and those that must be refused."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

from tests.sync.protocol.examples import PLACE, QUESTION, SEAT

Side = Literal["client", "server"]


def pack(value: object) -> bytes:
    return msgspec.msgpack.encode(value)


class Raw(bytes):
    """MessagePack as it is to be, in the middle of something else."""


def spell(value: object) -> bytes:
    """As `pack`, with `Raw` put in as it is: small maps and lists only."""
    if isinstance(value, Raw):
        return bytes(value)
    if isinstance(value, dict):
        return bytes((0x80 | len(value),)) + b"".join(spell(key) + spell(item) for key, item in value.items())
    if isinstance(value, list):
        return bytes((0x90 | len(value),)) + b"".join(map(spell, value))
    return pack(value)


class Spelled(NamedTuple):
    """Taken as if it were spelt as we do."""

    name: str
    side: Side
    data: bytes


class Bad(NamedTuple):
    """Answered by `trouble` HW402 and the end of the connection; `state` is that of the connection."""

    name: str
    side: Side
    state: Literal["new", "greeted", "open"]
    data: bytes


def transact(*operations: object, **fields: object) -> bytes:
    return spell({"t": "transact", "number": 1, "operations": list(operations), **fields})


LONG_ONE: Final = Raw(b"\xcf" + bytes(7) + b"\x01")
HALF: Final = Raw(b"\xca\x3f\x00\x00\x00")
TWICE: Final = Raw(b"\x82\xa1a\x01\xa1a\x02")
LONG_TEXT: Final = Raw(b"\xdb\x00\x00\x00\x03ann")

SPELLED: Final = [
    Spelled("fields in another order", "client", spell({"number": QUESTION, "t": "ping"})),
    Spelled("a field that is not known", "client", spell({"t": "ping", "number": QUESTION, "colour": ["blue"]})),
    Spelled("a field that is not known", "server", spell({"t": "pong", "number": QUESTION, "late": True})),
    Spelled("a field at its default", "client", spell({"t": "open", "space": "seats", "branch": "main", "actor": ""})),
    Spelled("more in an operation than is known", "client", transact(["set", SEAT, "ann", "since v2"])),
    Spelled("keys that are not sorted", "client", transact(["set", SEAT, {"b": 1, "a": 2, "": 3}])),
    Spelled("a read without its depth", "client", transact(reads=[[SEAT, [], 6]])),
    Spelled("a number with more bytes than it needs", "server", spell({"t": "pong", "number": LONG_ONE})),
    Spelled("news of a kind with more fields", "server", spell({"t": "news", "seq": 9, "news": [], "epoch": 2})),
]


def nested(levels: int) -> Raw:
    return Raw(b"\x91" * levels + b"\xc0")


REFUSED: Final = [
    Bad("nothing", "client", "new", b""),
    Bad("no map", "client", "new", pack(["hello", [1]])),
    Bad("text instead of bytes", "client", "new", b'{"t":"hello","versions":[1]}'),
    Bad("a kind that is not known", "client", "new", spell({"t": "helo", "versions": [1]})),
    Bad("no kind", "client", "new", spell({"versions": [1]})),
    Bad("a frame of a server", "client", "new", spell({"t": "pong", "number": 1})),
    Bad("no version that is known", "client", "new", spell({"t": "hello", "versions": [2, 3]})),
    Bad("a field that is missing", "client", "new", spell({"t": "hello"})),
    Bad("something before hello", "client", "new", spell({"t": "ping", "number": 1})),
    Bad("open before hello", "client", "new", spell({"t": "open", "space": "seats"})),
    Bad("hello twice", "client", "greeted", spell({"t": "hello", "versions": [1]})),
    Bad("something before open", "client", "greeted", spell({"t": "ping", "number": 1})),
    Bad("a name that is too long", "client", "greeted", spell({"t": "open", "space": "s", "branch": "a" * 257})),
    Bad("open twice", "client", "open", spell({"t": "open", "space": "seats"})),
    Bad("bytes after the frame", "client", "open", spell({"t": "bye"}) + b"\x00"),
    Bad("a frame that ends early", "client", "open", spell({"t": "ping", "number": QUESTION})[:-1]),
    Bad("a number below zero", "client", "open", spell({"t": "ping", "number": -1})),
    Bad("a number beyond 2**63-1", "client", "open", spell({"t": "ping", "number": 2**63})),
    Bad("a number that is text", "client", "open", spell({"t": "ping", "number": "1"})),
    Bad("a number that is a float", "client", "open", spell({"t": "ping", "number": 1.5})),
    Bad("a commit without a number", "client", "open", spell({"t": "transact", "number": 0})),
    Bad("an operation that is not known", "client", "open", transact(["swap", SEAT, 1])),
    Bad("an operation that is cut", "client", "open", transact(["set", SEAT])),
    Bad("a patch that is not known", "client", "open", transact(["patch", SEAT, [["rename", ["a"], "b"]]])),
    Bad("items that are no list", "client", "open", transact(["patch", SEAT, [["append", [], "abc"]]])),
    Bad("an increment by text", "client", "open", transact(["patch", SEAT, [["increment", [], "1"]]])),
    Bad("an index below zero", "client", "open", transact(["patch", SEAT, [["replace", [-1], 1]]])),
    Bad("a step that is a float", "client", "open", transact(["patch", SEAT, [["replace", [0.5], 1]]])),
    Bad("a document without a scope", "client", "open", transact(["set", "seat", 1])),
    Bad("a scope that is none", "client", "open", transact(["set", "group:a/seat", 1])),
    Bad("a document without a name", "client", "open", transact(["set", "space/", 1])),
    Bad("not a number (NaN)", "client", "open", transact(["set", SEAT, float("nan")])),
    Bad("infinity", "client", "open", transact(["set", SEAT, float("inf")])),
    Bad("a key that is no text", "client", "open", transact(["set", SEAT, {1: "one"}])),
    Bad("an extension type", "client", "open", transact(["set", SEAT, Raw(b"\xd4\x05\x00")])),
    Bad("a timestamp", "client", "open", transact(["set", SEAT, Raw(b"\xd6\xff\x00\x00\x00\x00")])),
    Bad("text that is not UTF-8", "client", "open", transact(["set", SEAT, Raw(b"\xa2\xc3\x28")])),
    Bad("half a character", "client", "open", transact(["set", SEAT, Raw(b"\xa3\xed\xa0\x80")])),
    Bad("nested deeper than 512", "client", "open", transact(["set", SEAT, nested(513)])),
    Bad("nested deeper than anything", "client", "open", transact(["set", SEAT, nested(3000)])),
    Bad("a read of what is still to come", "client", "open", transact(reads=[[SEAT, [], PLACE + 1]])),
    Bad("a read from before the beginning", "client", "open", transact(reads=[[SEAT, [], -1]])),
    Bad("a depth that is not known", "client", "open", transact(reads=[[SEAT, [], 0, "wide"]])),
    Bad("layers on what is still to come", "client", "open", transact(rests=[[SEAT, [], PLACE + 1, [[1, 1]]]])),
    Bad("a precondition that is not known", "client", "open", transact(conditions=[["older", SEAT]])),
    Bad("an origin that is still to come", "client", "open", transact(conditions=[["origin_committed", 1]])),
    Bad("an origin beyond all numbers", "client", "open", transact(conditions=[["origin_committed", 2**64 - 1]])),
    Bad("layers that are still to come", "client", "open", transact(rests=[[SEAT, [], 0, [[1, 1]]]])),
    Bad("the result of an operation that is not there", "client", "open", transact(seen=[1, b"x"])),
    Bad("an acknowledgement of what was not sent", "client", "open", spell({"t": "ack", "seq": PLACE + 1})),
    Bad("a watch as of a place still to come", "client", "open", spell({"t": "watch", "number": 1, "at": PLACE + 1})),
    Bad("a number with more bytes than it needs", "client", "open", spell({"t": "ack", "seq": LONG_ONE})),
    Bad("a text with more bytes than it needs", "client", "open", transact(["set", SEAT, LONG_TEXT])),
    Bad("a list with more bytes than it needs", "client", "open", transact(["set", SEAT, Raw(b"\xdc\x00\x00")])),
    Bad("a float of four bytes", "client", "open", transact(["set", SEAT, HALF])),
    Bad("a key that is there twice", "client", "open", transact(["set", SEAT, TWICE])),
    Bad(
        "a field that is there twice",
        "client",
        "open",
        b"\x83" + spell({"t": "ack", "seq": 1})[1:] + spell({"seq": 2})[1:],
    ),
    Bad("nothing", "server", "open", b""),
    Bad("a frame of a client", "server", "open", spell({"t": "bye"})),
    Bad("a kind that is not known", "server", "open", spell({"t": "gossip"})),
    Bad(
        "a verdict that is not known",
        "server",
        "open",
        spell({"t": "news", "seq": 1, "news": [{"t": "v", "number": 1, "verdict": {"type": "perhaps"}}]}),
    ),
    Bad("a field that is missing", "server", "open", spell({"t": "opened", "space": "seats"})),
    Bad("bytes after the frame", "server", "open", spell({"t": "pong", "number": 1}) + b"\xc0"),
]


class Denied(NamedTuple):
    """Answered by `trouble` with the number of what was asked; the connection goes on. `can` is what may be done."""

    name: str
    can: Literal["read", "write", "own"]
    data: bytes


RECEIPT: Final = "space/receipt:0a1b"

DENIED: Final = [
    Denied("a commit without the right to write", "read", transact(["set", SEAT, "ann"])),
    Denied("somebody else's document", "own", transact(["set", "user:bob/seats.draft", "x"])),
    Denied("a read of somebody else's", "own", transact(reads=[["user:bob/seats.draft", [], 0]])),
    Denied("a condition on somebody else's", "own", transact(conditions=[["absent", "user:bob/seats.draft"]])),
    Denied("another session's", "own", transact(["set", "session:ann:other/seats.draft", "x"])),
    Denied("a receipt that is overwritten", "own", transact(["set", RECEIPT, {}])),
    Denied("a receipt that is deleted", "own", transact(["delete", RECEIPT], conditions=[["absent", RECEIPT]])),
    Denied("a watch of somebody else's", "read", spell({"t": "watch", "number": 1, "docs": [["user:bob/x", 0]]})),
    Denied("a prefix of somebody else's", "read", spell({"t": "watch", "number": 1, "prefixes": ["user:bob/"]})),
    Denied("a prefix of everything", "read", spell({"t": "pull", "number": 1, "prefixes": [""]})),
    Denied("more links than are followed", "read", spell({"t": "pull", "number": 1, "follow": 50_001})),
    Denied(
        "more watches than are allowed",
        "read",
        spell({"t": "watch", "number": 1, "docs": Raw(pack([[f"space/{n}", 0] for n in range(101)]))}),
    ),
]
