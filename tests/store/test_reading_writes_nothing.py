"""Looking around in a space writes nothing: what is not folded yet is read where it is, also from a full disk."""

from __future__ import annotations

import random
from typing import Any

import pytest

from headwater.errors import StoreFullError
from headwater.store import browsing, resumption
from headwater.store.backends.memory_backend import MemoryBackend
from headwater.store.branching import fork
from headwater.store.commit import Commit, DeleteDoc, NewObservation, Operation, Submission
from headwater.store.engine import Engine
from headwater.testing import SimClock
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, LocalSeq, SessionId
from tests.support.spaces import put

NAMES = [f"{kind}:{number}" for kind in ("a", "b") for number in range(8)]
BRANCHES = [MAIN, BranchId("side")]


class FullBackend(MemoryBackend):
    """Takes nothing more once it is full."""

    is_full = False

    def append(self, *values: Any) -> None:
        if self.is_full:
            raise StoreFullError("no room")
        super().append(*values)


def seen(number: int) -> bytes:
    # Any bytes will do: nothing here reads them.
    return f"what run {number} has read, in many words".encode()


def play(seed: int) -> Engine:
    """Some history with folds in between, two branches, runs and notes."""
    rng = random.Random(seed)
    engine = Engine(FullBackend(), SimClock())
    for number in range(1, 60):
        if number == 20:
            fork(engine, SimClock(), "side")
        branch = rng.choice(BRANCHES) if number > 20 else MAIN
        name = rng.choice(NAMES)
        operation: Operation = put(name, number) if rng.random() < 0.8 else DeleteDoc(doc_key(name))
        observed = (0, seen(number)) if rng.random() < 0.4 else None
        commit = Commit(SessionId("s"), LocalSeq(number), (operation,), branch=branch, seen=observed)
        engine.admit([Submission(commit)])
        if rng.random() < 0.2:
            engine.observe(
                [NewObservation(doc_key(name), seen(-number), Commit(SessionId("s"), LocalSeq(0), branch=branch))]
            )
        if rng.random() < 0.05:
            engine.fold()
    return engine


def look(engine: Engine) -> object:
    found: list[object] = []
    for branch in BRANCHES:
        for prefix in ("", "space/a", "space/b:1", "space/none"):
            found.append(list(browsing.keys(engine, branch, prefix)))
            listed = resumption.listing(engine, branch, prefix, [doc_key("a:1")])
            found += [listed.rows, listed.inherited, resumption.observations_size(engine, branch, prefix)]
            found.append({doc: listed.heads.get(doc) for doc in map(doc_key, NAMES) if doc in listed.heads})
    return found


@pytest.mark.parametrize("few", [0, 500], ids=["all places", "some places"])
@pytest.mark.parametrize("seed", range(30))
def test_what_is_not_folded_looks_as_if_it_were(seed: int, few: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumption, "FEW", few)
    engine = play(seed)
    backend = engine.backend
    assert isinstance(backend, FullBackend)
    backend.is_full = True
    folded = backend.folded()
    before = look(engine)
    assert backend.folded() == folded, "nothing was written"
    backend.is_full = False
    engine.fold()
    assert look(engine) == before


def test_documents_are_let_go_of_when_there_is_room() -> None:
    engine = play(1)
    backend = engine.backend
    assert isinstance(backend, FullBackend)
    engine.admit([Submission(Commit(SessionId("s"), LocalSeq(99), (put("a:1", "last"),)))])
    backend.is_full = True
    engine.release(MAIN, [doc_key("a:1")])
    assert browsing.read(engine, doc_key("a:1")).value == "last"
    backend.is_full = False
    engine.release(MAIN, [doc_key("a:1")])
    assert browsing.read(engine, doc_key("a:1")).value == "last"
    assert backend.folded() == engine.head
