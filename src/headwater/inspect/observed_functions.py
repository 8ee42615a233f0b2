"""The computations of a store, derived from their observations: their last reads, and changes since.

At a server no function runs, but the programs that have a space open there store what their computations have read. So
a graph of them can be drawn, and it is known which have to run again. Sinks and handlers leave no observation, and how
often a function ran is not stored.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from headwater.inspect.function_records import Activity, Explanation
from headwater.inspect.names import kind_of
from headwater.inspect.snapshot import StoredOpening
from headwater.inspect.stored_pieces import piece_in, piece_of
from headwater.scheduler.inspect.graph_snapshot import Edge, NodeView, Snapshot, SourceView
from headwater.store.browsing import read
from headwater.store.commit import CommitEntry
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.store.observations import Observation, SeenRead, decode_observation
from headwater.store.resumption import Listing, listing, overlapping_writes
from headwater.values.address import Depth, address_text, doc_key
from headwater.values.ids import BranchId, DocKey, Seq

OBSERVED_MAX: Final = 5000
"""Computations in one answer. Reading them holds the store for some tenths of a second."""

_INSTANCE: Final = re.compile(r":instance:[a-z2-7]+$")


class _Computation:
    """One computation: the document of its result, and its last run."""

    def __init__(self, doc: DocKey, seq: Seq, observation: Observation) -> None:
        self.doc = doc
        self.seq = seq
        self.observation = observation
        self.address = address_text(doc)
        self.id = f"doc:{self.address}"
        # The piece that it is part of; set with the names.
        self.piece = ""
        self.name = ""
        self.changed: list[str] = []

    @property
    def reads(self) -> list[DocKey]:
        """The documents that it read, each once."""
        return list(dict.fromkeys(_doc_of(each) for each in self.observation.reads))


def observed_openings(
    engine: Engine, space: str, branch: BranchId, may_see: Callable[[DocKey], bool]
) -> list[tuple[StoredOpening, Seq]]:
    """One record for each app with observations, and its newest run. `may_see`: documents that exist for the asker."""
    listed = listing(engine, branch)
    found: dict[str, list[_Computation]] = {}
    left_out = max(len(listed.rows) - OBSERVED_MAX, 0)
    for row in list(listed.rows.values())[:OBSERVED_MAX]:
        observation = decode_observation(row.body)
        if observation is not None and may_see(row.doc):
            one = _Computation(row.doc, row.seq, observation)
            one.changed = _changed(engine, listed, one, may_see)
            found.setdefault(_app_of(one.address), []).append(one)
    _name(engine, branch, [one for each in found.values() for one in each])
    at_ms = _time_of(engine, listed.seq)
    return [
        (
            _opening(app, space, branch, at_ms, listed.seq, ones, may_see, left_out if number == 0 else 0),
            max(one.seq for one in ones),
        )
        for number, (app, ones) in enumerate(found.items())
    ]


def _doc_of(seen: SeenRead) -> DocKey:
    return seen[0] if isinstance(seen, tuple) else seen


def _app_of(address: str) -> str:
    piece = piece_in(address)
    return piece.rpartition("+")[0] if piece else address.partition(".")[0]


def _changed(engine: Engine, listed: Listing, one: _Computation, may_see: Callable[[DocKey], bool]) -> list[str]:
    """The documents that were read and have changed since. Documents of other users have no name."""
    reads: dict[DocKey, list[tuple[tuple[str | int, ...], Depth]]] = {}
    for seen in one.observation.reads:
        path, depth = (
            ((), Depth.DEEP) if not isinstance(seen, tuple) else (seen[1], Depth.SHALLOW if seen[2] else Depth.DEEP)
        )
        reads.setdefault(_doc_of(seen), []).append((path, depth))
    changed: list[str] = []
    for doc, places in reads.items():
        if listed.is_newer(doc, one.seq):
            writes = overlapping_writes(engine, listed.branch, doc, places, one.seq)
            if writes is None or writes:
                changed.append(address_text(doc) if may_see(doc) else "a document of a user")
    return changed


def _name(engine: Engine, branch: BranchId, computations: list[_Computation]) -> None:
    """Set the names as authors know them. An instance has the arguments of the calls that read it."""
    arguments: dict[DocKey, str] = {}
    for one in computations:
        for call in one.observation.extra.calls if one.observation.extra is not None else ():
            if call.arguments is not None and call.read < len(one.observation.reads):
                words = ", ".join(part[-1] for part in call.arguments)
                arguments[_doc_of(one.observation.reads[call.read])] = words
    for one in computations:
        piece = piece_in(one.address)
        own = one.address.removeprefix(f"{piece}." if piece else f"{_app_of(one.address)}.")
        function = _INSTANCE.sub("", own)
        one.name = function if function == own else f"{function}({arguments.get(one.doc, '…')})"
        if piece:
            found = piece_of(piece, read(engine, doc_key(piece), branch).value)
            one.piece = piece if found is None else f"{found.pattern} {found.key}"


def _time_of(engine: Engine, seq: Seq) -> int:
    row = engine.backend.row(seq)
    entry = None if row is None else read_entry(row)
    return entry.at if isinstance(entry, CommitEntry) else 0


def _opening(  # noqa: PLR0917  # the parts of one record
    app: str,
    space: str,
    branch: BranchId,
    at_ms: int,
    seq: Seq,
    computations: list[_Computation],
    may_see: Callable[[DocKey], bool],
    left_out: int,
) -> StoredOpening:
    computations.sort(key=lambda one: (one.name, one.piece, one.address))
    nodes = {one.doc: one for one in computations}
    sources: dict[str, SourceView] = {}
    edges: list[Edge] = []
    for one in computations:
        for doc in filter(may_see, one.reads):
            address = address_text(doc)
            sources |= {} if doc in nodes else {f"doc:{address}": SourceView(f"doc:{address}", address)}
            edges.append(Edge(nodes[doc].id if doc in nodes else f"doc:{address}", one.id, "data"))
    views = tuple(_view(one, may_see) for one in computations)
    snapshot = Snapshot(
        space=space, at_ms=at_ms, seq=seq, nodes=views, sources=tuple(sources.values()), edges=tuple(edges)
    )
    return StoredOpening(
        app=app,
        space=space,
        branch=branch,
        at_ms=at_ms,
        snapshot=snapshot,
        left_out=left_out,
        activities=_activities(computations),
        counts={
            "computations": len(views),
            "invalid": sum(bool(one.changed) for one in computations),
            "seq": seq,
        },
        whys=tuple(Explanation(one.id, one.name, _words(one, may_see), one.piece) for one in computations),
    )


def _view(one: _Computation, may_see: Callable[[DocKey], bool]) -> NodeView:
    return NodeView(
        id=one.id,
        name=one.name,
        piece=one.piece,
        kind="computation",
        status="invalid" if one.changed else "clean",
        live=False,
        outputs=(one.address,),
        reads=tuple(address_text(doc) for doc in one.reads if may_see(doc)),
    )


def _activities(computations: list[_Computation]) -> tuple[Activity, ...]:
    groups: dict[str, list[_Computation]] = {}
    for one in computations:
        groups.setdefault(kind_of(one.name, one.piece), []).append(one)
    return tuple(
        Activity(
            name=name,
            kind="computation",
            nodes=len(ones),
            has_arguments=any(one.name.endswith(")") for one in ones),
            clean=sum(not one.changed for one in ones),
            invalid=sum(bool(one.changed) for one in ones),
        )
        for name, ones in groups.items()
    )


def _words(one: _Computation, may_see: Callable[[DocKey], bool]) -> str:
    title = f"{one.name if one.name.endswith(')') else one.name + '()'}" + (f" of {one.piece}" if one.piece else "")
    reads = [address_text(doc) for doc in one.reads if may_see(doc)]
    lines = [f"{title} is a computation, {'invalid' if one.changed else 'clean'}, as stored up to commit {one.seq}"]
    lines.append(f"It read {', '.join(reads)}" if reads else "It read no document")
    if one.changed:
        lines.append(f"Since then {', '.join(one.changed)} changed: it runs when it is read in a program")
    else:
        lines.append("Nothing that it read has changed since: it need not run")
    return "\n".join(lines)
