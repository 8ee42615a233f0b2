"""Observations: what the last run of each computation read, stored so that the next opening need not run it again.

One row for each computation, overwritten in place. It is part of the commit of the run: in the log with the commit, or
as its digest if the run observed the same as the one before. A fold writes the newest into a table. A run that wrote
nothing, and a run that failed, is written to that table at once, if what it read is still current. A row that is
missing, damaged or of another format is no observation: the computation then runs.

What has changed since is not stored: it follows from the log (`resumption`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final, TypeAlias

import msgspec

from headwater.store.backend import ObservationRow
from headwater.store.commit import CommitEntry
from headwater.values.author_text import kind_of, text_of
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.tree import Path

FORMAT: Final = 2
"""Rows of another format count as none. What later versions add goes into `Extra`, and does not raise this number."""

DIGEST_BYTES: Final = 8
"""Of a body, to say that it is the same as before. A body is longer."""

SeenRead: TypeAlias = DocKey | tuple[DocKey, Path, bool]
"""A document as a whole; or a place in one, and whether only its shape was looked at."""

Arguments: TypeAlias = tuple[tuple[str, ...], ...]
"""For each parameter the kind of the argument and its text, from which the argument can be made again."""


class Called(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """A call that a run made, if its result alone does not describe it."""

    read: int
    """Index of the read of the result, in `Observation.reads`."""
    arguments: Arguments | None = None
    """Of a function with parameters."""
    error: bytes | None = None
    """Fingerprint of what the call raised."""


class GateSettings(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """Debounce and throttle in milliseconds: as set at run time, and as declared in the code at that time."""

    debounce_ms: float | None
    throttle_ms: float | None
    declared_debounce_ms: float | None
    declared_throttle_ms: float | None


class Extra(
    msgspec.Struct,
    frozen=True,
    gc=False,
    omit_defaults=True,
    forbid_unknown_fields=True,
    rename={"error": "e", "calls": "c", "gate": "g"},
):
    """What few observations have: a map in the row. The keys `f` (far), `s` (spans) and `l` (label) are reserved.

    A key that this version does not know may restrict what the row is good for: then the row is no observation.
    """

    error: bytes | None = None
    """Fingerprint of what the run raised. The result is that of an earlier run."""
    calls: tuple[Called, ...] = ()
    gate: GateSettings | None = None


class Observation(msgspec.Struct, frozen=True, array_like=True, gc=False, forbid_unknown_fields=True):
    """What is kept of a run: by which code, and what it has read."""

    format: int
    fingerprint: bytes
    """Stands for the function, and everything besides documents that its result depends on."""
    reads: tuple[SeenRead, ...]
    extra: Extra | None = None


NO_EXTRA: Final = Extra()
"""Of every observation that has nothing of it."""

_encoder: Final = msgspec.msgpack.Encoder()
_decoder: Final = msgspec.msgpack.Decoder(Observation)


def encode_observation(code: bytes, reads: Iterable[tuple[DocKey, Path, int]], extra: Extra = NO_EXTRA) -> bytes:
    """The body of a row. A read of a whole document is its key alone; most are."""
    seen = [doc if not path and not bits else (doc, path, bool(bits)) for doc, path, bits in reads]
    return _encoder.encode((FORMAT, code, seen) if extra is NO_EXTRA else (FORMAT, code, seen, extra))


def decode_observation(body: bytes) -> Observation | None:
    """The inverse; None for what is no observation, or one of another format."""
    try:
        found = _decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError):
        return None
    return found if found.format == FORMAT else None


def fingerprint_of(error: Exception) -> bytes:
    """Stands for an error: two with the same class and text are the same."""
    text = f"{kind_of(error)}\0{text_of(error)}"
    return blake2b(text.encode(errors="backslashreplace"), digest_size=DIGEST_BYTES).digest()


def docs_of(observation: Observation) -> set[DocKey]:
    """The documents that it names."""
    return {read[0] if isinstance(read, tuple) else read for read in observation.reads}


def digest_of(body: bytes) -> bytes:
    """Stands for a body."""
    return blake2b(body, digest_size=DIGEST_BYTES).digest()


ResultKey: TypeAlias = tuple[BranchId, DocKey]


def newest(
    entries: Iterable[tuple[Seq, CommitEntry, int]], known: Callable[[BranchId, DocKey], ObservationRow | None]
) -> dict[ResultKey, tuple[Seq, ObservationRow | None]]:
    """What a stretch of the log says of each computation that ran in it; None where that cannot be told any more."""
    found: dict[ResultKey, tuple[Seq, ObservationRow | None]] = {}
    for seq, entry, _ in entries:
        if entry.seen is None:
            continue
        index, body = entry.seen
        if index >= len(entry.operations):
            continue
        place = (entry.branch, entry.operations[index].doc)
        if len(body) == DIGEST_BYTES:
            earlier = found[place][1] if place in found else None
            same = [row for row in (earlier, known(*place)) if row is not None and digest_of(row.body) == body]
            found[place] = (seq, ObservationRow(place[1], seq, same[0].body) if same else None)
        else:
            found[place] = (seq, ObservationRow(place[1], seq, body))
    return found
