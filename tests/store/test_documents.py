"""Documents out of the log: now, then, and after any number of folds and restarts."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from unittest.mock import patch

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headwater.errors import HistoryError, NotFoundError, StoreFullError
from headwater.store import browsing
from headwater.store.branching import fork
from headwater.store.commit import Committed
from headwater.store.verification import verify
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, DocKey, Seq
from tests.support.halves import examples
from tests.support.limits import small_limits
from tests.support.naive import NOTHING, exact, plain
from tests.support.schedules import DOCS, Schedule
from tests.support.spaces import Space, add, append, drop, edit, increment, put, replace


def test_document_is_read_as_it_was_at_any_place(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"n": 0}))
    for number in range(1, 6):
        ann.accept(edit("a", replace("n", to=number)))
    for _ in range(2):
        assert [space.value("a", at=seq) for seq in range(7)] == [NOTHING, *({"n": n} for n in range(6))]
        space.engine.fold()


def test_place_beyond_the_newest_commit_is_not_there(space: Space) -> None:
    space.writer("ann").accept(put("a", 1))
    for seq in (2, -1, 10**12):
        with pytest.raises(HistoryError) as caught:
            browsing.read(space.engine, doc_key("a"), at=Seq(seq))
        assert caught.value.facts == {"seq": seq, "first": 0, "last": 1}


def test_branch_that_does_not_exist_is_named_with_those_that_do(space: Space) -> None:
    fork(space.engine, space.clock, "draft")
    with pytest.raises(NotFoundError, match="draft"):
        browsing.read(space.engine, doc_key("a"), BranchId("nowhere"))


def test_tail_of_the_log_is_replayed_at_open(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"n": 0}))
    space.engine.fold()
    ann.accept(edit("a", increment("n")))
    fork(space.engine, space.clock, "draft")
    ann.accept(put("b", 1))
    engine = space.reopen()
    assert (engine.head, engine.documents.folded) == (4, 1)
    assert (space.value("a"), space.value("b")) == ({"n": 1}, 1)
    assert list(engine.documents.branches) == ["main", "draft"]
    ann.accept(edit("a", increment("n")))
    assert space.value("a") == {"n": 2}
    assert verify(space.engine).ok


def test_fold_leaves_no_tail(space: Space) -> None:
    space.writer("ann").accept(put("a", 1))
    space.engine.fold()
    assert space.reopen().documents.tail.entries == []
    assert space.engine.documents.folded == space.engine.head == 1


def test_fold_of_nothing_writes_nothing(file_space: Space) -> None:
    from headwater.store.backends.sqlite import SqliteBackend

    file_space.writer("ann").accept(put("a", 1))
    file_space.engine.fold()
    backend = file_space.backend
    assert isinstance(backend, SqliteBackend)
    before = backend._db.total_changes()
    file_space.engine.fold()
    assert backend._db.total_changes() == before


def test_long_tail_is_folded_without_being_asked(space: Space) -> None:
    ann = space.writer("ann")
    with small_limits(FOLD_COMMITS=10):
        for number in range(35):
            ann.accept(put("a", number))
    assert space.engine.documents.folded == 30
    assert space.reopen().head == 35


def test_heavy_tail_is_folded_without_being_asked(space: Space) -> None:
    ann = space.writer("ann")
    with small_limits(FOLD_BYTES=1000):
        for number in range(4):
            ann.accept(put(f"d{number}", "x" * 600))
    assert space.engine.documents.folded == 2


def test_snapshots_bound_what_has_to_be_read_and_never_outweigh_the_log(file_space: Space) -> None:
    ann = file_space.writer("ann")
    ann.accept(put("a", {"l": []}))
    for number in range(400):
        ann.accept(edit("a", append("l", items=[number])))
        if number % 20 == 0:
            file_space.engine.fold()
    file_space.engine.fold()
    main, doc = BranchId("main"), doc_key("a")
    seqs = [row.seq for row in file_space.backend.snapshots(main, doc)]
    assert len(seqs) > 3, "a document that is patched for ever must be snapshotted now and then"
    assert max(later - earlier for earlier, later in pairwise([1, *seqs, 401])) < 150
    log = sum(len(row.body) for row in file_space.backend.log(Seq(0), Seq(401)))
    assert sum(len(row.body or b"") for row in file_space.backend.snapshots(main, doc)) <= log


def test_fold_that_found_no_room_is_made_up_for_by_the_next(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"t": ""}))
    for number in range(40):
        ann.accept(edit("a", replace("t", to=f"{number:0200}")))
    with patch.object(space.backend, "append", side_effect=StoreFullError("no room")), pytest.raises(StoreFullError):
        space.engine.fold()
    assert (space.engine.documents.folded, space.backend.snapshots(MAIN, doc_key("a"))) == (0, [])
    space.engine.fold()
    assert len(space.backend.snapshots(MAIN, doc_key("a"))) == 1
    assert verify(space.engine).ok


def run(kind: str, folder: Path, seed: int, folds: list[int], reopens: list[int]) -> dict[str, object]:
    """The same forty commits whatever happens between them."""
    space = Space(kind, folder)
    schedule = Schedule(space, random.Random(seed), honest=True)
    client = schedule._clients[0]
    for step in range(40):
        if step in folds:
            space.engine.fold()
        if step in reopens:
            space.reopen()
        # No reads: without memory of authors the engine may be more careful, and that is not what is asked here.
        operations = [schedule._operation() for _ in range(2)]
        schedule._decide([(client, client.writer.build(*operations))])
    found = {f"{doc}@{seq}": exact(space.value(doc, at=seq)) for doc in DOCS for seq in range(space.engine.head + 1)}
    assert verify(space.engine).ok
    space.close()
    return found


STEPS = st.lists(st.integers(0, 39), max_size=8)


@settings(max_examples=examples(30), suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(seed=st.integers(0, 10**6), folds=STEPS, reopens=STEPS, slack=st.sampled_from([0, 50, 4096]))
def test_folding_and_reopening_anywhere_changes_no_document_at_any_place(
    seed: int, folds: list[int], reopens: list[int], slack: int
) -> None:
    with small_limits(SNAPSHOT_SLACK_BYTES=slack):
        assert run("memory", Path(), seed, folds, reopens) == run("memory", Path(), seed, [], [])


def test_documents_read_the_same_from_a_file_folded_at_every_step(tmp_path: Path) -> None:
    with small_limits(SNAPSHOT_SLACK_BYTES=0):
        for seed in range(4):
            folder = tmp_path / str(seed)
            folder.mkdir()
            every = list(range(40))
            assert run("sqlite", folder, seed, every, every[::3]) == run("memory", Path(), seed, [], [])


# --- looking around ---


def test_history_tells_every_commit_newest_first(space: Space) -> None:
    ann, bob = space.writer("ann"), space.writer("bob")
    ann.accept(put("a", {"l": []}), put("b", 1))
    space.clock.advance(5)
    bob.accept(edit("a", append("l", items=[1]), add("k", value=2)), edit("b", replace(to=2)))
    ann.accept(put("b", 3))
    space.engine.fold()
    bob.accept(drop("a"))
    start = space.clock.now_ms()
    events = [(e.seq, e.session, e.at - start, e.summary) for e in browsing.history(space.engine, doc_key("a"))]
    assert events == [(4, "bob", 0, "delete"), (2, "bob", 0, "append l, add k"), (1, "ann", -5, "set")]
    assert [e.seq for e in browsing.history(space.engine, doc_key("a"), at=Seq(2))] == [2, 1]
    assert list(browsing.history(space.engine, doc_key("never"))) == []


def test_history_on_a_branch_includes_the_past_before_the_fork(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", 1))
    ann.accept(put("a", 2))
    fork(space.engine, space.clock, "draft", at=Seq(1))
    space.writer("bob", "draft").accept(put("a", 3))
    ann.accept(put("a", 4))
    for _ in range(2):
        told = [(e.seq, e.branch) for e in browsing.history(space.engine, doc_key("a"), BranchId("draft"))]
        assert told == [(4, "draft"), (1, "main")]
        space.engine.fold()


def test_listing_has_live_documents_in_key_order(space: Space) -> None:
    ann = space.writer("ann")
    names = ["b", "a", "c/d", "ä", "a b", "z"]
    for name in names:
        ann.accept(put(name, name))
    ann.accept(drop("z"))
    live = [listed.doc for listed in browsing.listing(space.engine)]
    assert live == sorted(doc_key(name) for name in names if name != "z")
    every = [(listed.doc, listed.live) for listed in browsing.listing(space.engine, deleted=True)]
    assert (doc_key("z"), False) in every
    assert [listed.doc for listed in browsing.listing(space.engine, prefix="space/a")] == [doc_key("a"), doc_key("a b")]
    assert [listed.doc for listed in browsing.listing(space.engine, at=Seq(2))] == [doc_key("a"), doc_key("b")]


def test_listing_of_a_branch_has_its_own_and_inherited_documents_once(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", 1), put("b", 1), put("gone", 1))
    fork(space.engine, space.clock, "draft")
    draft = space.writer("bob", "draft")
    draft.accept(put("b", 2), put("c", 2), drop("gone"))
    ann.accept(put("later", 1))
    listed = [(row.doc, row.seq) for row in browsing.listing(space.engine, BranchId("draft"))]
    assert listed == [(doc_key("a"), 1), (doc_key("b"), 3), (doc_key("c"), 3)]


@pytest.mark.parametrize("prefix", ["space/", "space/x", "space/\U0010ffff", ""])
def test_no_key_falls_out_of_a_listing(prefix: str, space: Space) -> None:
    ann = space.writer("ann")
    names = ["x", "x\U0010ffff", "x\U0010ffffy", "\U0010ffff", "\U0010ffff\U0010ffff", "x\0", "y", "%_", "X"]
    ann.accept(*[put(name, 1) for name in names])
    found = [listed.doc for listed in browsing.listing(space.engine, prefix=prefix)]
    assert found == sorted(doc_key(name) for name in names if doc_key(name).startswith(prefix))


def test_listing_pages_through_thousands_of_documents(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(*[put(f"d{number:04}", number) for number in range(1500)])
    assert [listed.doc for listed in browsing.listing(space.engine)] == [doc_key(f"d{n:04}") for n in range(1500)]


def test_diff_tells_what_differs_between_two_places_either_way(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"x": 1, "y": 1}), put("b", 1))
    ann.accept(edit("a", replace("x", to=2)), drop("b"))
    ann.accept(put("c", 1))
    ann.accept(drop("c"))
    forward = [(c.doc, c.path, plain(c.before), plain(c.after)) for c in browsing.diff(space.engine, Seq(1), Seq(4))]
    assert forward == [(doc_key("a"), ("x",), 1, 2), (doc_key("b"), (), 1, NOTHING)]
    backward = [(c.doc, c.path, plain(c.before), plain(c.after)) for c in browsing.diff(space.engine, Seq(4), Seq(1))]
    assert backward == [(doc_key("a"), ("x",), 2, 1), (doc_key("b"), (), NOTHING, 1)]
    assert list(browsing.diff(space.engine, Seq(2), Seq(2))) == []


def test_diff_on_a_branch_ignores_other_branches(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", 1))
    fork(space.engine, space.clock, "draft")
    ann.accept(put("a", 2))
    space.writer("bob", "draft").accept(put("b", 3))
    changes = [c.doc for c in browsing.diff(space.engine, Seq(0), Seq(4), BranchId("draft"))]
    assert changes == [doc_key("a"), doc_key("b")]
    assert [plain(c.after) for c in browsing.diff(space.engine, Seq(0), Seq(4), BranchId("draft"))] == [1, 3]


def test_writing_the_value_that_is_there_takes_a_place_but_changes_nothing(space: Space) -> None:
    ann = space.writer("ann")
    ann.accept(put("a", {"k": 1}))
    assert ann.commit(put("a", {"k": 1})) == Committed(2)
    assert list(browsing.diff(space.engine, Seq(1), Seq(2))) == []


def test_keys_of_a_space_may_be_anything(space: Space) -> None:
    ann = space.writer("ann")
    names = ["'; drop table log; --", "\0", "a\nb", "../../etc", "~", "/", "🦆", "nfc-\u00e9", "nfc-e\u0301"]
    ann.accept(*[put(name, name) for name in names])
    space.engine.fold()
    space.reopen()
    assert {doc: space.values()[doc] for doc in space.values()} == {doc_key(name): name for name in names}
    assert isinstance(doc_key("x"), str) and DocKey("x") == "x"
