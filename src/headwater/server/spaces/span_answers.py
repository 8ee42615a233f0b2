"""Answers about spans of indexes, made while the storage of the space is locked."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from headwater.server.spaces.document_gathering import Gathering
from headwater.store.collection_record import docs_of, kind_of_index, record_doc
from headwater.store.engine import Engine
from headwater.store.key_changes import between
from headwater.store.span_resumption import SpanRow, SpanShifts
from headwater.sync.frame_limits import KEYS_MAX, PREFETCH_BYTES_MAX
from headwater.sync.frames import AskShifted, Shifted, SpanKeys, WatchSpan
from headwater.sync.server_session import ServerSession, missing_index
from headwater.sync.span_watches import WatchedSpan
from headwater.values.ids import DocKey, Seq

_JUST_AFTER: Final = b"\0"
"""A key with this behind it is the next possible key."""


def span_keys(
    engine: Engine, talk: ServerSession, asked: WatchSpan, pause: Callable[[], None]
) -> tuple[SpanKeys, WatchedSpan]:
    """The keys of a span as of the newest sequence number, with documents; and the part that is watched from now on."""
    branch, index, collections = talk.branch, asked.index, engine.collections
    if collections.index(branch, index) is None:
        # Dropped since the question came.
        raise missing_index(index)
    changes = None if asked.at is None else collections.changed_keys(branch, index, Seq(asked.at))
    lo, hi, end = asked.lo, asked.hi, b""
    gone, came = ([], []) if changes is None else (between(changes.gone, lo, hi), between(changes.added, lo, hi))
    is_known = asked.known and changes is not None and len(gone) + len(came) <= KEYS_MAX
    keys: list[bytes] = []
    if not is_known and asked.limit != 0:
        most = KEYS_MAX if asked.limit is None else min(asked.limit, KEYS_MAX)
        # One more, to learn whether there are more.
        keys = collections.span(branch, index, lo, hi, limit=most + 1, reverse=asked.reverse)
        if len(keys) > most:
            del keys[most:]
            end = keys[-1] if asked.reverse else keys[-1] + _JUST_AFTER
            lo, hi = (end, hi) if asked.reverse else (lo, end)
            gone, came = between(gone, lo, hi), between(came, lo, hi)
    at = asked.at
    if changes is None or asked.known is not is_known or len(gone) + len(came) > KEYS_MAX:
        # The keys are all that is sent.
        at, gone, came = None, [], []
    found = _documents(engine, talk, asked, came if is_known else keys, pause)
    frame = SpanKeys(
        asked.number,
        engine.head,
        tuple(keys),
        end,
        at,
        tuple(gone),
        tuple(came),
        tuple(found.found.values()),
        tuple(found.newer),
    )
    return frame, WatchedSpan(asked.number, index, lo, hi, asked.docs > 0)


def _documents(
    engine: Engine, talk: ServerSession, asked: WatchSpan, keys: list[bytes], pause: Callable[[], None]
) -> Gathering:
    """The documents of the first keys, without those that the session watches already."""
    record = engine.collections.records(talk.branch)[kind_of_index(asked.index)]
    room = min(asked.room or PREFETCH_BYTES_MAX, PREFETCH_BYTES_MAX)
    found = Gathering(engine, talk.branch, None if asked.known else asked.at, room, pause)
    docs = docs_of(record, keys[: asked.docs])
    prefixes = tuple(talk.prefixes)
    new = [doc for doc in docs if doc not in talk.watched and not doc.startswith(prefixes)]
    found.add_all_with_room(new, talk.may_bring(asked))
    return found


def shifted(engine: Engine, talk: ServerSession, asked: AskShifted) -> Shifted:
    """The documents that have changed in spans of stored runs. What the session may not read is not known."""
    branch = talk.branch
    rows: list[SpanRow] = []
    places: list[int] = []
    found: list[tuple[DocKey, ...]] = []
    for spans, after in asked.rows:
        if all(map(talk.may_read_span, spans)):
            places.append(len(found))
            rows.append((spans, Seq(after)))
        found.append((record_doc(kind_of_index(spans[0].index)),))
    for place, docs in zip(places, SpanShifts().shifted_since(engine, branch, rows), strict=True):
        found[place] = tuple(docs)
    return Shifted(asked.number, engine.head, tuple(found))
