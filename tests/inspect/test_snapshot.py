"""What a closed space leaves behind of its functions."""

from __future__ import annotations

import subprocess
import sys
from base64 import b64encode
from pathlib import Path
from random import Random
from shutil import copyfile

import msgspec
import pytest

import headwater as hw
from headwater.errors import StoreFullError
from headwater.host.space_files import open_space
from headwater.inspect import snapshot as snapshot_module
from headwater.inspect.function_records import Activity, Explanation
from headwater.inspect.snapshot import KEY, RECORD_MAX, ROW_MAX, StoredOpening, packed, stored_openings
from headwater.scheduler.inspect.graph_snapshot import Edge, NodeView, Snapshot, SourceView
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.verification import verify
from tests.support.open_spaces import BRIEF, SHOP

FIXTURES = Path(__file__).parents[1] / "store" / "fixtures"


def counter(name: str = "counter") -> tuple[hw.App, hw.Cell[int]]:
    app = hw.App(name)
    count = app.cell("count", 0)
    doubled = app.computed(name="doubled")(lambda: count.value * 2)
    app.sink(name="show")(lambda: doubled())  # noqa: PLW0108  # a sink is a function of no app
    return app, count


def left(file: Path) -> list[StoredOpening]:
    with open_space(str(file), create=False) as storage:
        return storage.call(stored_openings)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "counter.db"


def test_closing_keeps_what_handlers_did_and_what_they_left(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.host.plain_opening.CLOSE_MS", 0.0)
    app = hw.App("desk")
    typed = app.cell("typed", 0)
    quiet = app.computed(name="quiet", debounce="1h")(lambda: typed.value)
    finish = app.handler(name="finish")(lambda: quiet())  # noqa: PLW0108  # a handler is a function of no app
    fail = app.handler(name="fail")(lambda: 1 // 0)
    with app.open(file, on_error=lambda _: None):
        finish.send().result()
        failed = fail.send()
        typed.value = 1
        finish.send()
    [opening] = left(file)
    assert opening.snapshot is not None
    drawn = {node.name: node for node in opening.snapshot.nodes}
    assert (drawn["finish"].kind, drawn["finish"].waiting, drawn["finish"].runs) == ("handler", 1, 1)
    assert (drawn["fail"].error, drawn["fail"].waiting) == ("ZeroDivisionError: integer division or modulo by zero", 0)
    words = {why.name: why.words.splitlines() for why in opening.whys}
    assert words["finish"][0] == "finish() is a handler, 1 event waits"
    assert words["finish"][2].endswith(" waits: it is left for the next opening")
    assert failed.id in words["fail"][3]
    activities = {one.name: (one.kind, one.runs, one.waiting, one.failed) for one in opening.activities}
    assert activities["finish"] == ("handler", 1, 1, 0)
    assert activities["fail"] == ("handler", 1, 0, 1)
    assert {name: opening.counts[name] for name in ("handlers", "events_confirmed", "events_failed")} == {
        "handlers": 2,
        "events_confirmed": 1,
        "events_failed": 1,
    }


def test_app_with_handlers_alone_is_kept_too(file: Path) -> None:
    app = hw.App("desk")
    app.handler(name="submit")(lambda: None)
    with app.open(file):
        pass
    [opening] = left(file)
    assert [why.name for why in opening.whys] == ["submit"]


def test_closing_keeps_what_was_last_seen(file: Path) -> None:
    app, count = counter()
    with app.open(file) as space:
        count.value = 3
        space.sync()
        own = space.scheduler.get_graph_snapshot()
    [opening] = left(file)
    assert (opening.app, opening.space, opening.branch, opening.busy) == ("counter", "counter", "main", False)
    assert opening.snapshot is not None
    assert msgspec.structs.replace(opening.snapshot, at_ms=own.at_ms) == own
    assert [why.name for why in opening.whys] == ["doubled", "show"]
    assert "because counter.count changed" in opening.whys[0].words
    assert {one.name: one.runs for one in opening.activities} == {"doubled": 2, "show": 2}
    assert opening.counts["runs"] == 4


def test_it_is_neither_a_commit_nor_a_document(file: Path) -> None:
    app, count = counter()
    with app.open(file) as space:
        count.value = 3
        space.sync()
        head = space.stats.seq
    with open_space(str(file), create=False) as storage:
        assert storage.call(lambda engine: engine.head) == head
        assert storage.call(verify).ok


def test_each_app_leaves_its_own_and_only_its_last(file: Path) -> None:
    for name in ("one", "two", "one"):
        app, count = counter(name)
        with app.open(file):
            count.value += 1
    assert [opening.app for opening in left(file)] == ["one", "two"]
    one, two = left(file)
    assert one.at_ms >= two.at_ms


def test_openings_at_the_same_time_both_leave_theirs(file: Path) -> None:
    one, _ = counter("one")
    two, _ = counter("two")
    with one.open(file), two.open(file):
        pass
    assert {opening.app for opening in left(file)} == {"one", "two"}


def test_program_in_which_nothing_changed_writes_nothing(file: Path) -> None:
    app, count = counter()
    with app.open(file):
        count.value = 3
    with app.open(file):
        # What this one takes over is told of it.
        pass
    before = file.read_bytes()
    with app.open(file):
        pass
    assert file.read_bytes() == before
    with app.open(file):
        count.value = 4
    assert file.read_bytes() != before


def test_opening_that_fails_leaves_what_was_kept_before(file: Path) -> None:
    app, count = counter()
    with app.open(file):
        count.value = 3
    before = left(file)

    @app.sink
    def give_up() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        app.open(file)
    assert left(file) == before


def test_app_without_functions_leaves_nothing(file: Path) -> None:
    app = hw.App("plain")
    cell = app.cell("n", 1)
    with app.open(file):
        cell.value = 2
    assert left(file) == []


def test_async_spaces_leave_theirs(file: Path) -> None:
    import asyncio

    app, count = counter()

    async def main() -> None:
        async with app.aopen(file):
            count.value = 3

    asyncio.run(main())
    [opening] = left(file)
    assert opening.counts["runs"] == 4


def test_branch_has_its_own(file: Path) -> None:
    app, count = counter()
    with app.open(file):
        count.value = 1
    with open_space(str(file)) as storage:
        storage.fork("trial")
    with app.open(file, branch="trial"):
        count.value = 2
    assert [opening.branch for opening in left(file)] == ["trial", "main"]


def test_crash_leaves_what_was_kept_before(file: Path) -> None:
    subprocess.run([sys.executable, "-c", BRIEF, str(file)], check=True)
    [before] = left(file)
    killed = SHOP + "\nimport os\napp.open(sys.argv[1])\ntax.value = 99\nos._exit(1)\n"
    subprocess.run([sys.executable, "-c", killed, str(file)], check=False)
    assert left(file) == [before]


def test_program_that_forgets_to_close_leaves_its_own(file: Path) -> None:
    forgetful = SHOP + "\nspace = app.open(sys.argv[1])\ntax.value = 99\n"
    subprocess.run([sys.executable, "-c", forgetful, str(file)], check=True)
    [opening] = left(file)
    assert opening.snapshot is not None
    assert {node.name for node in opening.snapshot.nodes} >= {"total", "receipt", "gross(1)"}


@pytest.mark.parametrize("name", sorted(path.stem for path in FIXTURES.glob("format-*.db")))
def test_space_of_an_earlier_version_takes_it(name: str, file: Path) -> None:
    copyfile(FIXTURES / f"{name}.db", file)
    assert left(file) == []
    app, count = counter()
    with app.open(file):
        count.value = 1
    assert [opening.app for opening in left(file)] == ["counter"]
    with open_space(str(file)) as storage:
        assert storage.call(verify).ok


@pytest.mark.parametrize("row", ["nonsense", "[]", '[{"app": 1}]', '[{"app":"a","branch":"b","mark":"","data":"!"}]'])
def test_damaged_row_is_as_good_as_none_and_is_replaced(file: Path, row: str) -> None:
    app, count = counter()
    with app.open(file):
        count.value = 1
    with open_space(str(file)) as storage:
        storage.call(lambda engine: engine.backend.set_meta(KEY, row))
    assert left(file) == []
    with app.open(file):
        count.value = 2
    assert left(file)[0].app == "counter"


def test_disk_that_has_no_room_for_it_does_not_keep_a_space_from_being_closed(
    file: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    app, count = counter()

    def refuse(_backend: SqliteBackend, _key: str, _value: str) -> None:
        raise StoreFullError("no room")

    with caplog.at_level("DEBUG", "headwater"), app.open(file):
        count.value = 5
        monkeypatch.setattr(SqliteBackend, "set_meta", refuse)
    monkeypatch.undo()
    assert "is not stored" in caplog.text
    assert left(file) == []
    with app.open(file):
        assert count.value == 5


# --- bounds -----------------------------------------------------------------------------------------------


def large(nodes: int, reads: int = 1, app: str = "large") -> StoredOpening:
    """Of names that do not compress."""
    random = Random(nodes)
    names = [f"row({random.randbytes(20).hex()})" for _ in range(nodes)]
    places = [f"a.{random.randbytes(20).hex()}" for _ in range(reads)]
    views = [
        NodeView(id=f"{name}#{n}", name=name, kind="computation", status="clean", live=True, reads=tuple(places))
        for n, name in enumerate(names)
    ]
    return StoredOpening(
        app=app,
        space="s",
        at_ms=1,
        snapshot=Snapshot(
            space="s",
            at_ms=1,
            seq=1,
            nodes=tuple(views),
            sources=tuple(SourceView(f"doc:{place}", place) for place in places),
            edges=tuple(Edge(f"doc:{place}", view.id, "data") for view in views for place in places),
        ),
        whys=tuple(Explanation(view.id, view.name, "words") for view in views),
        activities=(Activity(name="row", kind="computation"),),
    )


@pytest.mark.parametrize(("nodes", "reads"), [(10_000, 1), (2, 50_000), (300, 100)])
def test_what_is_too_large_is_made_smaller_and_says_so(nodes: int, reads: int) -> None:
    opening = large(nodes, reads)
    data = packed(opening)
    assert len(data) <= RECORD_MAX
    found = snapshot_module._unpacked(b64encode(data).decode())
    assert found is not None and found.snapshot is not None
    assert found.left_out + len(found.snapshot.nodes) == nodes
    assert {why.id for why in found.whys} == {node.id for node in found.snapshot.nodes}
    if nodes == 10_000:
        assert len(data) > RECORD_MAX // 2, "more than is needed was left out"
    else:
        assert found.left_out == 0


def test_record_of_which_no_node_fits_is_still_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapshot_module, "RECORD_MAX", 300)
    data = packed(large(5))
    found = snapshot_module._unpacked(b64encode(data).decode())
    assert found is not None and found.snapshot is not None
    assert (found.snapshot.nodes, found.left_out, found.app) == ((), 5, "large")


def test_oldest_go_when_there_are_too_many(file: Path) -> None:
    with open_space(str(file)) as storage:
        for number in range(6):
            snapshot_module.store_opening(storage, large(2000 + number, app=f"app{number}"))
        found = storage.call(stored_openings)
        row = storage.call(lambda engine: engine.backend.meta(KEY))
    assert [opening.app for opening in found] == ["app5", "app4"]
    assert row is not None
    assert len(row) < ROW_MAX * 1.5
