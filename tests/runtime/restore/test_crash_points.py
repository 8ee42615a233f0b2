"""Runs that leave rows and notes, cut off after every single disk operation: no row is ever wrong, none is lost."""

from __future__ import annotations

import random
from collections import Counter

import apsw
import pytest

from headwater.errors import CorruptError
from headwater.store import engine as engine_module
from headwater.store import verification
from headwater.store.backends import sqlite_file
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.commit import Commit, Committed, NewObservation, Read, SetDoc, Submission
from headwater.store.engine import Engine
from headwater.store.observations import decode_observation, digest_of, encode_observation
from headwater.store.resumption import listing
from headwater.testing import Disk, DiskVFS, SimClock
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, DocKey, LocalSeq, Seq, SessionId
from headwater.values.tree import ABSENT, freeze

ROUNDS = 24
INPUT, TENFOLD, PARITY = doc_key("input"), doc_key("tenfold"), doc_key("parity")
BODY = encode_observation(b"12345678", [(INPUT, (), 0)])


@pytest.fixture(autouse=True)
def _eventful_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """Folds and checkpoints happen every few commits."""
    monkeypatch.setattr(engine_module, "FOLD_COMMITS", 7)
    monkeypatch.setattr(sqlite_file, "CHECKPOINT_PAGES", 8)


class Program:
    """Writes a number, and what follows from it: ten times that, and its parity, which is often the same as before."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._last = 0
        self._notes: tuple[NewObservation, ...] = ()
        self._is_known = False

    def commit(self, doc: DocKey, value: int, reads: tuple[Read, ...] = (), seen: bytes | None = None) -> Seq:
        self._last += 1
        commit = Commit(
            SessionId("s"),
            LocalSeq(self._last),
            (SetDoc(doc, freeze(value)),),
            reads=reads,
            seen=None if seen is None else (0, seen),
        )
        notes, self._notes = self._notes, ()
        [outcome] = self._engine.admit([Submission(commit, observations=notes)])
        assert isinstance(outcome.verdict, Committed)
        return outcome.verdict.seq

    def round(self, number: int) -> None:
        value = number // 2
        place = self.commit(INPUT, value)
        reads = (Read(INPUT, (), place),)
        self.commit(TENFOLD, value * 10, reads, digest_of(BODY) if self._is_known else BODY)
        self._is_known = True
        stands = self._engine.documents.at(MAIN, PARITY, self._engine.head)
        if stands.value == value % 2:
            basis = Commit(SessionId("s"), LocalSeq(0), reads=(*reads, Read(PARITY, (), stands.seq)))
            self._notes = (NewObservation(PARITY, BODY, basis),)
        else:
            self.commit(PARITY, value % 2, reads, BODY)

    def flush(self) -> None:
        """As `sync` does."""
        notes, self._notes = self._notes, ()
        self._engine.observe(notes)


def recorded_run() -> Disk:
    disk = Disk(seed=7)
    vfs = DiskVFS("resume-run", disk)
    backend = SqliteBackend("/space.db", durability="full", vfs="resume-run")
    program = Program(Engine(backend, SimClock()))
    disk.mark(-1)
    for number in range(ROUNDS):
        program.round(number)
        if number % 3 == 0:
            program.flush()
        disk.mark(number)
    disk.power_off()
    backend.close()
    vfs.unregister()
    return disk


def judge(files: dict[str, bytes]) -> str:
    """What a process finds that opens the space after the power is back."""
    vfs = DiskVFS("resume-check", Disk(files))
    try:
        backend = SqliteBackend("/space.db", vfs="resume-check")
        try:
            engine = Engine(backend, SimClock())
            verdict = _judge(engine)
            return verdict if verification.verify(engine).ok else "corrupt"
        finally:
            backend.close()
    except (CorruptError, apsw.Error):
        return "corrupt"
    finally:
        vfs.unregister()


def _judge(engine: Engine) -> str:
    found = listing(engine, MAIN)
    value = engine.documents.at(MAIN, INPUT, engine.head).value
    believed = 0
    for doc in (TENFOLD, PARITY):
        row = found.rows.get(doc)
        result = engine.documents.at(MAIN, doc, engine.head)
        if row is None:
            if result.value is not ABSENT:
                return "lost"
            continue
        if row.seq > engine.head or decode_observation(row.body) is None:
            return "wrong"
        if found.is_newer(INPUT, row.seq) or found.is_newer(doc, row.seq):
            continue
        assert isinstance(value, int)
        if result.value != (value * 10 if doc == TENFOLD else value % 2):
            return "wrong"
        believed += 1
    return f"right, {believed} believed"


@pytest.mark.slow
def test_no_crash_point_leaves_a_row_that_is_wrong_or_loses_one() -> None:
    counts: Counter[str] = Counter()
    for _, _, files in recorded_run().crash_images(random.Random(11), keeps=(0.0, 0.4, 0.7, 1.0)):
        counts[judge(files)] += 1
    assert set(counts) == {f"right, {number} believed" for number in range(3)}
    assert counts.total() >= 800
    assert min(counts.values()) > 50
