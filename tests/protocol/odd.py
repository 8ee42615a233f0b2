"""Bytes that no encoder of ours makes: those that are taken all the same, and those that must be refused."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

import msgspec

from tests.protocol.examples import PLACE, QUESTION, SEAT

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
LONG_TEXT: Final = Raw(b"\xdb\x00\x00\x00\x03ann")

SPELLED: Final = [
    Spelled("fields in another order", "client", spell({"number": QUESTION, "t": "ping"})),
    Spelled("a field that is not known", "client", spell({"t": "ping", "number": QUESTION, "colour": ["blue"]})),
    Spelled("a field that is not known", "server", spell({"t": "pong", "number": QUESTION, "late": True})),
    Spelled("a field at its default", "client", spell({"t": "open", "space": "seats", "branch": "main", "actor": ""})),
    Spelled("a number with more bytes than it needs", "client", spell({"t": "ack", "seq": LONG_ONE})),
    Spelled("more in an operation than is known", "client", transact(["set", SEAT, "ann", "since v2"])),
    Spelled("a text with more bytes than it needs", "client", transact(["set", SEAT, LONG_TEXT])),
    Spelled("a float of four bytes", "client", transact(["set", SEAT, HALF])),
    Spelled("keys that are not sorted", "client", transact(["set", SEAT, {"b": 1, "a": 2, "": 3}])),
    Spelled("a read without its depth", "client", transact(reads=[[SEAT, [], 6]])),
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
    Bad("a name that is too long", "client", "greeted", spell({"t": "open", "space": "s", "actor": "a" * 257})),
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
    Bad("the result of an operation that is not there", "client", "open", transact(seen=[1, b"x"])),
    Bad("an acknowledgement of what was not sent", "client", "open", spell({"t": "ack", "seq": PLACE + 1})),
    Bad("a watch as of a place still to come", "client", "open", spell({"t": "watch", "number": 1, "at": PLACE + 1})),
    Bad("nothing", "server", "open", b""),
    Bad("a frame of a client", "server", "open", spell({"t": "bye"})),
    Bad("a kind that is not known", "server", "open", spell({"t": "gossip"})),
    Bad("a verdict that is not known", "server", "open", spell({"t": "news", "seq": 1, "news": [{"t": "v", "number": 1, "verdict": {"type": "perhaps"}}]})),
    Bad("a field that is missing", "server", "open", spell({"t": "opened", "space": "seats"})),
    Bad("bytes after the frame", "server", "open", spell({"t": "pong", "number": 1}) + b"\xc0"),
]
