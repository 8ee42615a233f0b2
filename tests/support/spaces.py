"""Engines to test, on every backend, and writers whose commits take one line."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import apsw
import pytest

from headwater.store.backend import Backend
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.commit import (
    Commit,
    CommitOutcome,
    Committed,
    DeleteDoc,
    Operation,
    PatchDoc,
    PendingRead,
    Precondition,
    Read,
    SetDoc,
    Submission,
    Verdict,
)
from headwater.store.engine import Engine
from headwater.testing import SimClock
from headwater.values.address import Depth, doc_key
from headwater.values.ids import MAIN, BranchId, DocKey, LocalSeq, Seq, SessionId
from headwater.values.patch import (
    Add,
    AddUnique,
    Append,
    Increment,
    Move,
    PatchOp,
    Remove,
    RemoveByValue,
    Replace,
    Splice,
)
from headwater.values.tree import freeze
from tests.support.naive import NOTHING, plain
from tests.support.postgres import new_name, open_backend

KINDS = ["memory", "sqlite", pytest.param("postgres", marks=pytest.mark.slow)]
"""Every backend. What each promises is asked of all in the fast half by `test_backends.py`."""

EITHER = ["memory", *(pytest.param(kind, marks=pytest.mark.slow) for kind in ("sqlite", "postgres"))]
"""For tests of what is above the store: on one backend in the fast half, on the others in the rest."""


def put(name: str, value: object) -> SetDoc:
    return SetDoc(doc_key(name), freeze(value))


def drop(name: str) -> DeleteDoc:
    return DeleteDoc(doc_key(name))


def edit(name: str, *ops: PatchOp) -> PatchDoc:
    return PatchDoc(doc_key(name), ops)


def replace(*path: str | int, to: object) -> Replace:
    return Replace(path, freeze(to))


def add(*path: str | int, value: object) -> Add:
    return Add(path, freeze(value))


def remove(*path: str | int) -> Remove:
    return Remove(path)


def splice(*path: str | int, at: int, delete: int, items: Iterable[object]) -> Splice:
    return Splice(path, at, delete, freeze(list(items)))  # type: ignore[arg-type]


def move(source: tuple[str | int, ...], to: tuple[str | int, ...]) -> Move:
    return Move(source, to)


def append(*path: str | int, items: Iterable[object]) -> Append:
    return Append(path, freeze(list(items)))  # type: ignore[arg-type]


def add_unique(*path: str | int, items: Iterable[object]) -> AddUnique:
    return AddUnique(path, freeze(list(items)))  # type: ignore[arg-type]


def remove_by_value(*path: str | int, items: Iterable[object]) -> RemoveByValue:
    return RemoveByValue(path, freeze(list(items)))  # type: ignore[arg-type]


def increment(*path: str | int, by: float = 1) -> Increment:
    return Increment(path, by)


def read(name: str, *path: str | int, at: int, depth: Depth = Depth.DEEP) -> Read:
    return Read(doc_key(name), path, Seq(at), depth)


def pending_read(
    name: str, *path: str | int, basis: int, layers: Iterable[tuple[int, int]], depth: Depth = Depth.DEEP
) -> PendingRead:
    ranges = tuple((LocalSeq(first), LocalSeq(last)) for first, last in layers)
    return PendingRead(doc_key(name), path, Seq(basis), ranges, depth)


class Space:
    """One space that can be closed and opened again; `clock` stands still."""

    def __init__(self, kind: str, folder: Path, *, file: Path | None = None) -> None:
        self.kind = kind
        self.clock = SimClock()
        self.path = folder / "space.db" if file is None else file
        self.name = new_name()
        self.backend: Backend = MemoryBackend() if kind == "memory" else self._open_file()
        self.engine = Engine(self.backend, self.clock)

    def _open_file(self) -> Backend:
        if self.kind == "postgres":
            return open_backend(self.name)
        # Nobody cuts the power here, and not waiting for the disk makes thousands of commits quick.
        return SqliteBackend(str(self.path), durability="normal")

    def reopen(self) -> Engine:
        """As after a crash: whatever was not folded is replayed from the log."""
        if self.kind != "memory":
            self.backend.close()
            self.backend = self._open_file()
        self.engine = Engine(self.backend, self.clock)
        return self.engine

    def tamper(self, sql: str, values: tuple[Any, ...] = ()) -> None:
        """Close, change the file behind the program's back, and leave it closed."""
        self.backend.close()
        with apsw.Connection(str(self.path)) as db:
            db.execute(sql, values)
        db.close()

    def writer(self, name: str, branch: str = MAIN) -> Writer:
        return Writer(self, name, branch)

    def value(self, name: str, branch: str = MAIN, at: int | None = None) -> Any:
        """A document as built-in containers, NOTHING if it is not there."""
        through = Seq(self.engine.head if at is None else at)
        return plain(self.engine.documents.at(BranchId(branch), doc_key(name), through).value)

    def values(self, branch: str = MAIN) -> dict[DocKey, Any]:
        """Every live document, by what is folded and by what is not."""
        self.engine.fold()
        found: dict[DocKey, Any] = {}
        line: BranchId | None = BranchId(branch)
        while line is not None:
            for row in self.backend.heads(line, "", DocKey(""), 10_000):
                value = plain(self.engine.documents.at(BranchId(branch), row.doc, self.engine.head).value)
                if value is not NOTHING:
                    found[row.doc] = value
            line = self.engine.documents.branches[line].parent
        return found

    def close(self) -> None:
        self.backend.close()


class Writer:
    """One session. Counts its own commits."""

    def __init__(self, space: Space, name: str, branch: str = MAIN) -> None:
        self._space = space
        self.session = SessionId(name)
        self.branch = BranchId(branch)
        self.last = 0

    def build(
        self,
        *operations: Operation,
        reads: Iterable[Read | PendingRead] = (),
        given: Iterable[Precondition] = (),
        number: int | None = None,
    ) -> Commit:
        """A commit that is not sent yet; without a number, the next one of this session."""
        if number is None:
            self.last += 1
            number = self.last
        marks = tuple(reads)
        return Commit(
            self.session,
            LocalSeq(number),
            operations,
            tuple(mark for mark in marks if isinstance(mark, Read)),
            tuple(mark for mark in marks if isinstance(mark, PendingRead)),
            tuple(given),
            self.branch,
        )

    def commit(self, *operations: Operation, **conditions: Any) -> Verdict:
        """Build, send, and tell the verdict."""
        return self.send(self.build(*operations, **conditions))

    def send(self, commit: Commit) -> Verdict:
        [outcome] = admit(self._space.engine, commit)
        return outcome.verdict

    def accept(self, *operations: Operation, **conditions: Any) -> int:
        """A commit that is expected to land; returns its place."""
        verdict = self.commit(*operations, **conditions)
        assert isinstance(verdict, Committed), verdict
        return verdict.seq


def admit(engine: Engine, *commits: Commit) -> list[CommitOutcome]:
    """Commits as one group."""
    return engine.admit([Submission(commit) for commit in commits])
