"""The last state of the functions of an opening, stored in the file when the space is closed.

It is one row beside the documents, not part of the log: nothing depends on it, and after a crash it holds the state of
the last closing. The row has one record for each app that had the space open, the newest first, within a bound: the
oldest are dropped. If nothing has changed since, it is not written.
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
from headwater.inspect.function_records import Activity, Explanation, OpeningState, TakenOver
from headwater.scheduler.inspect.graph_snapshot import Snapshot
from headwater.scheduler.inspect.smaller_snapshots import fewer, shorter
from headwater.store.engine import Engine

KEY: Final = "functions"
"""The key of the row."""

RECORD_MAX: Final = 128 * 1024
"""Bytes of one app, compressed."""

ROW_MAX: Final = 2 * RECORD_MAX
"""Bytes of all apps together: two of the largest size, or a few dozen of the usual size."""

_JSON_MAX: Final = 64 * 1024 * 1024
"""Bytes of a decompressed record: a damaged one must not fill the memory."""

_READS: Final = 32
"""Reads of one node in a record that would be too large."""

_QUICK: Final = 1
"""The level of compression. Higher levels save a tenth, and take twice as long."""

_log: Final = logging.getLogger("headwater")


class StoredOpening(OpeningState, frozen=True, kw_only=True):
    """One opening when it was closed. The names of the fields are part of the file format."""

    snapshot: Snapshot | None = None
    activities: tuple[Activity, ...] = ()
    counts: dict[str, int] = msgspec.field(default_factory=dict)
    whys: tuple[Explanation, ...] = ()
    trace: tuple[dict[str, object], ...] = ()
    taken: TakenOver | None = None


class _Entry(msgspec.Struct, frozen=True):
    """The record of one app, compressed."""

    app: str
    branch: str
    mark: str
    data: str


_entries: Final = msgspec.json.Decoder(tuple[_Entry, ...])
_opening: Final = msgspec.json.Decoder(StoredOpening)


def store_opening(storage: Storage, opening: StoredOpening) -> None:
    """Replace the record of the same app. A failure is only logged."""
    try:
        storage.call(lambda engine: _put(engine, opening))
    except HeadwaterError as error:
        _log.debug("the state of the functions of space %r is not stored: %s", opening.space, error)


def stored_openings(engine: Engine) -> list[StoredOpening]:
    """The last opening of each app, the newest first; none if the row cannot be read."""
    found = [_unpacked(entry.data) for entry in _row(engine)]
    return [opening for opening in found if opening is not None]


def packed(opening: StoredOpening) -> bytes:
    """Compress within the bound, if necessary without some nodes. The record has their number."""
    data = _compressed(opening)
    if len(data) <= RECORD_MAX:
        return data
    assert opening.snapshot is not None
    opening = msgspec.structs.replace(opening, snapshot=shorter(opening.snapshot, _READS), trace=())
    data = _compressed(opening)
    while len(data) > RECORD_MAX:
        opening = _with_fewer(opening, RECORD_MAX / len(data))
        data = _compressed(opening)
    return data


def _with_fewer(opening: StoredOpening, share: float) -> StoredOpening:
    """The opening with about this share of its nodes, and at least one fewer."""
    before = opening.snapshot
    assert before is not None
    snapshot = fewer(before, int((len(before.nodes) - 1) * share * 0.95))
    chosen = {node.id for node in snapshot.nodes}
    return msgspec.structs.replace(
        opening,
        snapshot=snapshot,
        left_out=opening.left_out + len(before.nodes) - len(snapshot.nodes),
        whys=tuple(why for why in opening.whys if why.id in chosen),
        # Activities alone are small, except for thousands of functions.
        activities=opening.activities if snapshot.nodes else (),
    )


def _compressed(opening: StoredOpening) -> bytes:
    return compress(msgspec.json.encode(opening), _QUICK)


def _unpacked(data: str) -> StoredOpening | None:
    try:
        return _opening.decode(decompressobj().decompress(b64decode(data), _JSON_MAX))
    except (Base64Error, ZlibError, msgspec.MsgspecError):
        return None


def _row(engine: Engine) -> tuple[_Entry, ...]:
    try:
        return _entries.decode(engine.backend.meta(KEY) or "[]")
    except msgspec.MsgspecError:
        return ()


def _put(engine: Engine, opening: StoredOpening) -> None:
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


def _mark(opening: StoredOpening) -> str:
    """A mark that ignores times and counts: a program that only reads writes nothing."""
    assert opening.snapshot is not None
    nodes = [(node.id, node.status, node.live, node.error, node.waiting, node.reads) for node in opening.snapshot.nodes]
    state = (opening.actor, opening.snapshot.seq, nodes, opening.left_out, len(opening.trace), opening.taken)
    return sha256(msgspec.json.encode(state)).hexdigest()[:16]
