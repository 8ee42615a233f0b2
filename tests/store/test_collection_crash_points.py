"""Collections cut off after every disk operation: a commit, the fold of an index, the trim of the feed."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable

import pytest

from headwater.errors import StoreFullError
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.collection_record import CollectionRecord, Index
from headwater.store.commit import CommitEntry, Committed, SetDoc
from headwater.store.compaction import compact
from headwater.store.declaring import declare
from headwater.store.engine import Engine
from headwater.store.index_field import IndexField
from headwater.store.verification import verify
from headwater.testing import Disk, DiskVFS, SimClock
from headwater.values.ids import MAIN, Seq
from headwater.values.sortkey import AFTER
from tests.support.limits import small_limits
from tests.support.spaces import Space, Writer, drop, edit, put, replace

STATE, NUMBER = Index((IndexField("state"), IndexField("n"))), Index((IndexField("n"),), unique=True)
TOTAL = Index((IndexField("state"), IndexField("n")), total=1)
ORDERS = CollectionRecord("order", indexes=(STATE, TOTAL))
NUMBERED = CollectionRecord("order", indexes=(STATE, TOTAL, NUMBER))
ALL = (b"", AFTER)


class DiskSpace(Space):
    """A space on a simulated disk, for `Writer`."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine


def check_indexes(engine: Engine) -> int:
    """Every index equals one made anew from the documents. Returns the number of keys."""
    collections, number = engine.collections, 0
    for record in collections.records(MAIN).values():
        there = [named for named in record.named if collections.has_index(MAIN, named.name)]
        for named, anew in zip(there, collections.made(MAIN, there), strict=True):
            found = collections.span(MAIN, named.name, *ALL)
            assert found == anew.all_keys(), named.name
            number += len(found) if named.index.total is None else 0
    return number


def check_feed(engine: Engine) -> int:
    """What the feed says of the past is what the log says. Returns the number of shifts."""
    collections = engine.collections
    known = collections.shifts_after(MAIN, Seq(engine.backend.shift_floor()))
    assert known is not None
    entries = [(row.seq, engine.documents.entry(row.seq)) for row in engine.backend.log(Seq(0), engine.head)]
    log = [(seq, entry) for seq, entry in entries if isinstance(entry, CommitEntry)]
    floor = Seq(engine.backend.shift_floor())
    assert known == list(collections.shifts_in(log, after=floor))
    return len(known)


def order(number: int, state: str) -> SetDoc:
    return put(f"order:{number}", {"state": state, "n": number})


def recorded_run() -> tuple[Disk, dict[int, int]]:
    """Commits, folds, a declaration over documents, and a compaction; after each step the head that is durable."""
    disk = Disk(seed=4)
    vfs = DiskVFS("orders-run", disk)
    backend = SqliteBackend("/space.db", vfs="orders-run")
    engine = Engine(backend, SimClock())
    ann = DiskSpace(engine).writer("ann")
    steps: list[Callable[[], object]] = [
        lambda: ann.accept(*(order(n, "open") for n in range(6))),
        lambda: declare(engine, ORDERS),
        *[lambda n=n: ann.accept(edit(f"order:{n}", replace("state", to="paid"))) for n in range(6)],
        lambda: declare(engine, NUMBERED),
        *[lambda n=n: ann.accept(order(n, "late")) for n in range(6, 14)],
        lambda: ann.accept(drop("order:3"), edit("order:4", replace("state", to="open"))),
        engine.fold,
        lambda: compact(engine, Seq(5)),
        *[lambda n=n: ann.accept(edit(f"order:{n}", replace("n", to=100 + n))) for n in range(7, 12)],
    ]
    seen: dict[int, int] = {}
    for number, step in enumerate(steps):
        step()
        seen[number] = engine.head
        disk.mark(number)
    disk.power_off()
    backend.close()
    vfs.unregister()
    return disk, seen


@pytest.mark.slow
def test_no_crash_point_leaves_an_index_that_is_not_what_the_documents_say() -> None:
    counts: Counter[str] = Counter()
    with small_limits(FOLD_COMMITS=3, CHECKPOINT_PAGES=10, SHIFTS_KEPT=8, SHIFTS_SLACK=2):
        disk, seen = recorded_run()
        for image in disk.crash_images(random.Random(6), keeps=(0.0, 1.0)):
            last = next((mark for mark in reversed(image.marks) if isinstance(mark, int)), None)
            if last is None:
                continue  # while the file was made
            vfs = DiskVFS("orders-check", Disk(image.files))
            backend = SqliteBackend("/space.db", vfs="orders-check")
            engine = Engine(backend, SimClock())
            assert engine.head >= seen[last]
            if engine.collections.is_used:
                counts["keys"] += check_indexes(engine)
                counts["behind"] += bool(engine.collections.due)
                counts["trimmed"] += engine.backend.shift_floor() > seen[1]
            report = verify(engine)
            assert report.ok, report.findings
            # An index that was being built is built again, and both are whole after it.
            declare(engine, NUMBERED)
            assert check_indexes(engine) == 3 * sum(1 for _ in engine.collections.span(MAIN, "order#", *ALL))
            assert engine.collections.rebuilt == [], "a crash is no damage"
            counts["images"] += 1
            backend.close()
            vfs.unregister()
    assert counts["images"] > 500 and counts["keys"] and counts["trimmed"] and counts["behind"], counts


def test_fold_that_finds_no_room_is_made_up_for_by_a_later_one(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, ann = space.engine, space.writer("ann")
    declare(engine, NUMBERED)
    for number in range(5):
        ann.accept(order(number, "open"))

    def no_room(*_: object) -> None:
        raise StoreFullError("no room")

    with monkeypatch.context() as full:
        full.setattr(space.backend, "append", no_room)
        with pytest.raises(StoreFullError):
            engine.fold()
    check_indexes(engine)
    assert check_feed(engine) == 5
    assert isinstance(ann.commit(edit("order:1", replace("state", to="paid"))), Committed)
    engine.fold()
    engine = space.reopen()
    assert check_indexes(engine) == 15
    assert check_feed(engine) == 6
    assert verify(engine).ok


def test_commits_during_a_full_disk_leave_no_trace_in_indexes(space: Space, monkeypatch: pytest.MonkeyPatch) -> None:
    engine, ann = space.engine, space.writer("ann")
    declare(engine, NUMBERED)
    with small_limits(FOLD_COMMITS=2):
        ann.accept(order(1, "open"))

        def no_room(*_: object) -> None:
            raise StoreFullError("no room")

        with monkeypatch.context() as full:
            full.setattr(space.backend, "append", no_room)
            for number in (2, 3, 4):
                with pytest.raises(StoreFullError):
                    ann.commit(order(number, "open"))
            assert check_indexes(engine) == 3
        other: Writer = space.writer("other")
        # Free again: its number is not taken by what was not written.
        other.accept(order(2, "paid"), order(3, "paid"))
        assert check_indexes(engine) == 9
        assert check_indexes(space.reopen()) == 9
