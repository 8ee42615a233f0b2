"""Random histories of a space with a collection: every index equals one made anew, now and as of each commit."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.errors import StoreError
from headwater.store import branching
from headwater.store.collection_record import CollectionRecord, Index, keys_of
from headwater.store.commit import Commit
from headwater.store.declaring import declare
from headwater.store.index_field import IndexField
from headwater.store.verification import verify
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, LocalSeq, Seq, SessionId
from tests.store.test_collections import ALL, BY_STATE, STATE, order
from tests.support.halves import examples
from tests.support.limits import small_limits
from tests.support.spaces import KINDS, Space, admit, drop


class History:
    """Random writes, commits that are not written, folds, openings and branches."""

    record = CollectionRecord("order", indexes=(STATE, Index((IndexField("n", default=0),))))

    def __init__(self, space: Space, rng: random.Random) -> None:
        self.space, self.rng = space, rng
        self.branches = [MAIN]
        self.writers = {MAIN: space.writer("w0")}
        self.seen: dict[tuple[BranchId, int], list[bytes]] = {}
        declare(space.engine, self.record)

    def operations(self) -> list[Any]:
        found = []
        for _ in range(self.rng.randrange(1, 4)):
            name = self.rng.randrange(8)
            state, n = self.rng.choice(["open", "paid"]), self.rng.randrange(4)
            found.append(drop(f"order:{name}") if self.rng.random() < 0.25 else order(name, state, n))
        return found

    def step(self, number: int) -> None:
        space, branch = self.space, self.rng.choice(self.branches)
        choice = self.rng.randrange(12)
        if choice == 0:
            space.engine.fold()
        elif choice == 1:
            space.reopen()
        elif choice == 2 and len(self.branches) < 3:
            self.fork(branch)
        elif choice == 3:
            self.lose(Commit(SessionId("lost"), LocalSeq(number + 1), tuple(self.operations()), branch=branch))
        else:
            self.writers[branch].accept(*self.operations())
        self.compare(branch)

    def fork(self, parent: BranchId) -> None:
        name = BranchId(f"b{len(self.branches)}")
        branching.fork(self.space.engine, self.space.clock, name, parent)
        self.branches.append(name)
        self.writers[name] = self.space.writer(f"w{len(self.branches)}", name)

    def lose(self, commit: Commit) -> None:
        """A batch that the disk does not take: commits of its own, and a fold if one is due."""
        with pytest.MonkeyPatch.context() as patch:

            def fail(*_: object) -> None:
                raise StoreError("no room")

            patch.setattr(self.space.engine.backend, "append", fail)
            with pytest.raises(StoreError, match="no room"):
                admit(self.space.engine, commit)

    def compare(self, branch: BranchId) -> None:
        engine = self.space.engine
        for named in self.record.named:
            now = engine.collections.span(branch, named.name, *ALL)
            if named.name == BY_STATE:
                self.seen[branch, engine.head] = now
            if self.rng.random() < 0.5:
                docs = [doc_key(f"order:{name}") for name in range(8)]
                values = {doc: engine.documents.at(branch, doc, engine.head).value for doc in docs}
                made = [
                    key for doc in docs for name, key in keys_of(self.record, doc, values[doc]) if name == named.name
                ]
                assert now == sorted(made)

    def check(self) -> None:
        engine = self.space.engine
        for (branch, seq), then in self.seen.items():
            assert engine.collections.span(branch, BY_STATE, *ALL, through=Seq(seq)) == then
        assert verify(engine).findings == []
        assert engine.collections.rebuilt == []


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("fold_commits", [3, 8192])
@given(seed=st.integers(0, 2**32))
@settings(max_examples=examples(20), deadline=None)
def test_every_index_equals_one_made_anew(
    kind: str, fold_commits: int, seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    with small_limits(FOLD_COMMITS=fold_commits, SHIFTS_KEPT=1000):
        space = Space(kind, tmp_path_factory.mktemp("collections"))
        try:
            history = History(space, random.Random(seed))
            for number in range(40):
                history.step(number)
            history.check()
        finally:
            space.close()
