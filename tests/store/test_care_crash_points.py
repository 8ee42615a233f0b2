"""Forks, merges, compaction and import, cut off after every single disk operation: before, or after, never between."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.branching import fork, merge
from headwater.store.compaction import compact
from headwater.store.engine import Engine
from headwater.store.verification import verify
from headwater.testing import Disk, DiskVFS, SimClock
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, Seq
from tests.support.limits import small_limits
from tests.support.naive import exact, plain
from tests.support.spaces import Space, drop, edit, increment, put

NAMES = ["a", "b", "c"]


class DiskSpace(Space):
    """A space on a simulated disk, for `Writer`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


def state(engine: Engine) -> dict[str, object]:
    """Everything there is to see: every branch, at every place that is kept."""
    documents = engine.documents
    return {
        f"{branch}/{name}@{seq}": exact(plain(documents.at(branch, doc_key(name), Seq(seq)).value))
        for branch in documents.branches
        for name in NAMES
        for seq in range(documents.horizon.seq, engine.head + 1)
    }


def newest(engine: Engine) -> dict[str, object]:
    documents = engine.documents
    return {
        f"{branch}/{name}": exact(plain(documents.at(branch, doc_key(name), engine.head).value))
        for branch in documents.branches
        for name in NAMES
    }


def recorded_run() -> tuple[Disk, dict[int, tuple[int, dict[str, object]]]]:
    """A run with everything in it; after each step a mark, and what is there by then."""
    disk = Disk(seed=3)
    vfs = DiskVFS("care-run", disk)
    backend = SqliteBackend("/space.db", vfs="care-run")
    engine, clock = Engine(backend, SimClock()), SimClock()
    space = DiskSpace(engine)
    ann, bob = space.writer("ann"), space.writer("bob", "draft")
    steps: list[Callable[[], object]] = [
        lambda: ann.accept(put("a", {"n": 0}), put("b", {"n": 0})),
        *[lambda: ann.accept(edit("a", increment("n")), edit("b", increment("n")))] * 5,
        lambda: fork(engine, clock, "draft"),
        lambda: bob.accept(put("c", "draft"), drop("b")),
        engine.fold,
        lambda: merge(engine, BranchId("draft")),
        lambda: compact(engine, Seq(5)),
        *[lambda: ann.accept(edit("a", increment("n")))] * 4,
        lambda: merge(engine, MAIN, BranchId("draft")),
        lambda: compact(engine, None),
        lambda: bob.accept(put("c", "after")),
    ]
    seen: dict[int, tuple[int, dict[str, object]]] = {}
    for number, step in enumerate(steps):
        step()
        seen[number] = (engine.head, newest(engine))
        disk.mark(number)
    disk.power_off()
    backend.close()
    vfs.unregister()
    return disk, seen


@pytest.mark.slow
def test_no_crash_point_in_the_care_of_a_space_loses_or_tears_anything() -> None:
    counts: Counter[str] = Counter()
    with small_limits(FOLD_COMMITS=4, CHECKPOINT_PAGES=10, SNAPSHOT_SLACK_BYTES=0):
        disk, seen = recorded_run()
        by_head = dict(seen.values())
        for image in disk.crash_images(random.Random(5), keeps=(0.0, 0.5, 1.0)):
            last = next((mark for mark in reversed(image.marks) if isinstance(mark, int)), None)
            if last is None:
                continue  # while the file was made
            vfs = DiskVFS("care-check", Disk(image.files))
            backend = SqliteBackend("/space.db", vfs="care-check")
            engine = Engine(backend, SimClock())
            acknowledged, expected = seen[last]
            assert engine.head >= acknowledged
            if engine.head == acknowledged:
                assert newest(engine) == expected
            else:
                assert newest(engine) == by_head[engine.head], "what came next is there, and whole"
            report = verify(engine)
            assert report.ok, report.findings
            counts["images"] += 1
            counts["compacted"] += engine.documents.horizon.seq > 0
            backend.close()
            vfs.unregister()
    assert counts["images"] > 500 and counts["compacted"] > 50, counts


def test_reading_every_kept_place_is_the_same_after_compaction() -> None:
    disk = Disk()
    vfs = DiskVFS("care-places", disk)
    engine = Engine(SqliteBackend("/space.db", vfs="care-places"), SimClock())
    ann = DiskSpace(engine).writer("ann")
    ann.accept(put("a", {"n": 0}))
    for _ in range(12):
        ann.accept(edit("a", increment("n")))
    before = state(engine)
    compact(engine, Seq(6))
    after = state(engine)
    assert after == {place: value for place, value in before.items() if place in after}
    assert len(after) == 8 * len(NAMES)
    engine.backend.close()
    vfs.unregister()
    with pytest.raises(KeyError):
        after["main/a@5"]
