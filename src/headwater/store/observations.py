"""Observations: what the last run of each computation read, stored so that the next opening need not run it again.

One row for each computation, overwritten in place. It is part of the commit of the run: in the log with the commit, or
as its digest if the run observed the same as the one before. A fold writes the newest into a table. A run that wrote
nothing, and a run that failed, is written to that table at once, if what it read is still current. A row that is
missing, damaged or of another format is no observation: the computation then runs.

What has changed since is not stored: it follows from the log (`resumption`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from headwater.store.backend import ObservationRow
from headwater.store.commit import Seen
from headwater.store.decided_commit import Revision, TailEntry
from headwater.store.tail import Tail
from headwater.values.author_text import kind_of, text_of
from headwater.values.ids import NEVER, BranchId, DocKey, Seq
from headwater.values.tree import Path

FORMAT: Final = 2
"""Rows of another format are ignored. Additions of later versions go into `Extra`, without a new number."""

DIGEST_BYTES: Final = 8
"""The size of the digest that replaces an unchanged body. A body is longer."""

SeenRead: TypeAlias = DocKey | tuple[DocKey, Path, bool]
"""A whole document; or a path in one, and whether the read was shallow."""

Arguments: TypeAlias = tuple[tuple[str, ...], ...]
"""For each parameter the kind of the argument and its text, from which the argument is restored."""


class Called(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A call in a run, if its result alone does not describe it."""

    read: int
    """Index of the read of the result, in `Observation.reads`."""
    arguments: Arguments | None = None
    """For a function with parameters."""
    error: bytes | None = None
    """Fingerprint of the error that the call raised."""


class GateSettings(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """Debounce and throttle in milliseconds: as set at run time, and as declared in the code at that time."""

    debounce_ms: float | None
    throttle_ms: float | None
    declared_debounce_ms: float | None
    declared_throttle_ms: float | None


class SpanSeen(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A read of an index of a collection: of its keys in a span, and of some fields of the documents there."""

    index: str
    lo: bytes
    hi: bytes
    fields: tuple[str, ...] = ()
    question: bytes = b""
    """What was asked about the documents, encoded; empty: the keys were read."""
    answer: bytes = b""
    """The digest of the answer."""


class FarSeen(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The reads of a run in one other space, and the place in its log as of which they are."""

    space: str
    """The id of the space, which its name and its file do not change."""
    lineage: str
    """Of its log: a sequence number means nothing in another one."""
    branch: str
    seq: Seq
    reads: tuple[SeenRead, ...]
    calls: tuple[Called, ...] = ()
    """Calls with arguments, as in `Extra`, by the index of the read in `reads`."""
    spans: tuple[SpanSeen, ...] = ()
    """Reads of indexes of collections, with the names that these have there."""


class Extra(
    msgspec.Struct,
    frozen=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename={"error": "e", "calls": "c", "gate": "g", "far": "f", "spans": "s"},
):
    """Rare parts of an observation: a map in the row. The key `l` (label) is reserved.

    An unknown key may restrict the use of the row: then the row is no observation.
    """

    error: bytes | None = None
    """Fingerprint of the error that the run raised. The result is that of an earlier run."""
    calls: tuple[Called, ...] = ()
    gate: GateSettings | None = None
    far: tuple[FarSeen, ...] = ()
    spans: tuple[SpanSeen, ...] = ()


class Observation(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """The stored observation of a run: the fingerprint of its code, and its reads."""

    format: int
    fingerprint: bytes
    """Covers the function, and everything except documents that its result depends on."""
    reads: tuple[SeenRead, ...]
    extra: Extra | None = None


NO_EXTRA: Final = Extra()
"""The default of most observations."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Observation)


def encode_observation(code: bytes, reads: Iterable[tuple[DocKey, Path, int]], extra: Extra = NO_EXTRA) -> bytes:
    """The body of a row. A read of a whole document, the most frequent one, is its key alone."""
    seen = seen_reads(reads)
    return _encoder.encode((FORMAT, code, seen) if extra is NO_EXTRA else (FORMAT, code, seen, extra))


def seen_reads(reads: Iterable[tuple[DocKey, Path, int]]) -> list[SeenRead]:
    """Reads as they are stored."""
    return [doc if not path and not bits else (doc, path, bool(bits)) for doc, path, bits in reads]


def decode_observation(body: bytes) -> Observation | None:
    """The inverse; None for anything else, and for another format."""
    try:
        found = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.format == FORMAT else None


def fingerprint_of(error: Exception) -> bytes:
    """The fingerprint of an error: of its class and text."""
    text = f"{kind_of(error)}\0{text_of(error)}"
    return blake2b(text.encode(errors="backslashreplace"), digest_size=DIGEST_BYTES).digest()


def docs_of(observation: Observation) -> set[DocKey]:
    """The documents that it has read."""
    return {read[0] if isinstance(read, tuple) else read for read in observation.reads}


def collections_of(observation: Observation) -> set[DocKey]:
    """For each collection whose index it has read, the key of a document that there would be."""
    extra = observation.extra
    return set() if extra is None else {DocKey(f"space/{span.index.partition('#')[0]}:*") for span in extra.spans}


def digest_of(body: bytes) -> bytes:
    """The digest of a body."""
    return blake2b(body, digest_size=DIGEST_BYTES).digest()


def newest_observation(
    tail: Tail,
    branch: BranchId,
    doc: DocKey,
    revisions: Sequence[Revision],
    known: Callable[[BranchId, DocKey], ObservationRow | None],
) -> tuple[Seq, ObservationRow | None] | None:
    """The newest observation in these revisions of a result: None as its row where it cannot be restored.

    Most revisions repeat the digest of the one before, and so does the row that is known from before the tail.
    """
    newest, digest = NEVER, b""
    repeated: Seen | None = None
    for revision in reversed(revisions):
        entry = revision.entry if type(revision) is TailEntry else tail.entry(revision.seq)
        if entry is None or entry.seen is None or entry.seen == repeated:
            continue
        index, body = entry.seen
        if index >= len(entry.operations) or entry.operations[index].doc != doc:
            continue
        is_whole = len(body) != DIGEST_BYTES
        newest = newest or revision.seq
        if is_whole and (repeated is None or digest_of(body) == digest):
            return newest, ObservationRow(doc, newest, body)
        if is_whole or repeated is not None:
            # It does not repeat this one, but perhaps one from before the tail.
            break
        repeated, digest = entry.seen, body
    if not newest:
        return None
    row = known(branch, doc)
    if row is None or digest_of(row.body) != digest:
        return newest, None
    return newest, ObservationRow(doc, newest, row.body)
