"""What a space that is closed leaves behind of its functions: one row, written anew each time, beside the documents.

It is not in the log and no document: nothing depends on it, and a crash leaves that of the closing before. The row
holds one record for each app that had the space open, the newest first, within a bound: the oldest go. If nothing has
changed since, it stays as it is.

Must never know: what is looked for in it.
"""

from __future__ import annotations

import logging
from base64 import b64decode, b64encode
from binascii import Error as Base64Error
from hashlib import sha256
from typing import Final
from zlib import compress, decompressobj
from zlib import error as ZlibError  # noqa: N812  # as a class is called

import msgspec

from headwater.errors import HeadwaterError
from headwater.host.storage import Storage
from headwater.inspect.records import Opening, fewer, shorter
from headwater.store.engine import Engine

KEY: Final = "functions"
"""The row's name among the facts about a space."""

RECORD_MAX: Final = 128 * 1024
"""Bytes of one app, compressed."""

ROW_MAX: Final = 2 * RECORD_MAX
"""Bytes of all apps together. Two with as much as there can be, or a few dozen usual ones."""

_JSON_MAX: Final = 64 * 1024 * 1024
"""Bytes that a record may become when it is read: a damaged one must not fill the memory."""

_PLACES: Final = 32
"""What is left of the places that one node read, where there are so many that the record gets too large."""

_QUICK: Final = 1
"""The level of compression: others save a tenth, and take twice as long."""

_log: Final = logging.getLogger("headwater")


class _Entry(msgspec.Struct, frozen=True):
    """One app: what it was last seen doing."""

    app: str
    branch: str
    mark: str
    data: str


_entries: Final = msgspec.json.Decoder(tuple[_Entry, ...])
_opening: Final = msgspec.json.Decoder(Opening)


def keep(storage: Storage, opening: Opening) -> None:
    """Write it down, in the place of what was kept of the same app. If that is not possible, nothing is lost by it."""
    try:
        storage.call(lambda engine: _put(engine, opening))
    except HeadwaterError as error:
        _log.debug("what the functions of space %r did is not kept: %s", opening.space, error)


def kept(engine: Engine) -> list[Opening]:
    """What was last seen of each app, the newest first; nothing if it cannot be read."""
    found = [_unpacked(entry.data) for entry in _row(engine)]
    return [opening for opening in found if opening is not None]


def packed(opening: Opening) -> bytes:
    """Compressed, and within the bound: if it must be, without some of its nodes; it says how many."""
    data = _compressed(opening)
    if len(data) <= RECORD_MAX:
        return data
    assert opening.snapshot is not None
    opening = msgspec.structs.replace(opening, snapshot=shorter(opening.snapshot, _PLACES), trace=())
    data = _compressed(opening)
    while len(data) > RECORD_MAX:
        opening = _with_fewer(opening, RECORD_MAX / len(data))
        data = _compressed(opening)
    return data


def _with_fewer(opening: Opening, share: float) -> Opening:
    """About so many of its nodes, and at least one fewer."""
    before = opening.snapshot
    assert before is not None
    snapshot = fewer(before, int((len(before.nodes) - 1) * share * 0.95))
    chosen = {node.id for node in snapshot.nodes}
    return msgspec.structs.replace(
        opening,
        snapshot=snapshot,
        left_out=opening.left_out + len(before.nodes) - len(snapshot.nodes),
        whys=tuple(why for why in opening.whys if why.id in chosen),
        # Without nodes there is hardly anything left; functions by the thousand would be.
        activities=opening.activities if snapshot.nodes else (),
    )


def _compressed(opening: Opening) -> bytes:
    return compress(msgspec.json.encode(opening), _QUICK)


def _unpacked(data: str) -> Opening | None:
    try:
        return _opening.decode(decompressobj().decompress(b64decode(data), _JSON_MAX))
    except (Base64Error, ZlibError, msgspec.MsgspecError):
        return None


def _row(engine: Engine) -> tuple[_Entry, ...]:
    try:
        return _entries.decode(engine.backend.meta(KEY) or "[]")
    except msgspec.MsgspecError:
        return ()


def _put(engine: Engine, opening: Opening) -> None:
    mark = _mark(opening)
    others = []
    for entry in _row(engine):
        if (entry.app, entry.branch) != (opening.app, opening.branch):
            others.append(entry)
        elif entry.mark == mark:
            return
    entries = [_Entry(opening.app, opening.branch, mark, b64encode(packed(opening)).decode())]
    room = ROW_MAX - len(entries[0].data) * 3 // 4
    for entry in others:
        room -= len(entry.data) * 3 // 4
        if room < 0:
            break
        entries.append(entry)
    engine.backend.set_meta(KEY, msgspec.json.encode(entries).decode())


def _mark(opening: Opening) -> str:
    """The same if nothing is different but times and counts: then a program that only looked writes nothing."""
    assert opening.snapshot is not None
    nodes = [(node.id, node.status, node.live, node.error, node.waiting, node.reads) for node in opening.snapshot.nodes]
    told = (opening.actor, opening.snapshot.seq, nodes, opening.left_out, len(opening.trace), opening.taken)
    return sha256(msgspec.json.encode(told)).hexdigest()[:16]
