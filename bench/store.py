"""Table `store`: what a durable commit, a local write, an opening and a large container cost."""

from __future__ import annotations

import gc
import tempfile
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import apsw

from bench.table import Table, best_us, paired
from headwater.cells.replica import Replica
from headwater.host.space_files import open_space, use_vfs
from headwater.host.storage import GROUP_MAX, Storage
from headwater.host.system_clock import SystemClock
from headwater.machine import machine
from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.commit import Operation, PatchDoc, SetDoc, Submission
from headwater.store.document import StoredDocument
from headwater.values.address import doc_key
from headwater.values.codec import decode, encode
from headwater.values.ids import DocKey, Seq, SessionId
from headwater.values.notifications import Notification
from headwater.values.patch import Append, Replace
from headwater.values.tree import Value, array_of, freeze

RECORD: Final = {
    "id": "item:q7k2m4",
    "title": "Buy milk and bread",
    "done": False,
    "owner": "person:ann",
    "created": 1763200000000,
    "due": None,
    "tags": ["home", "shop"],
    "place": {"name": "Corner shop", "lat": 48.137, "lon": 11.575},
    "note": "the blue bag",
    "count": 3,
    "price": 2.5,
    "by": "ann",
}
"""A document of 199 bytes, as an application would have it."""

SMALL: Final = {"id": "item:q7k2m4", "title": "Buy milk", "done": False, "owner": "person:ann", "count": 3}
"""The smallest document that is worth one."""

COMMITS: Final = 20_000
DOCUMENTS: Final = 1_000


def measure(table: Table) -> None:
    """All rows."""
    with tempfile.TemporaryDirectory(prefix="headwater-bench-") as folder:
        place = Path(folder)
        _durable_commits(table, place, 20, 0.6)
        _durable_commits(table, place, GROUP_MAX, 0.5)
        _one_outstanding(table, place)
        _bytes_per_commit(table, place)
        _opening(table, place)
        _memory(table, place)
    _local_apply(table)
    _containers(table)


# --- durable commits --------------------------------------------------------------------------------------------


def _edit(doc: DocKey, number: int) -> tuple[Operation]:
    return (PatchDoc(doc, (Replace(("count",), number),)),)


def _filled(storage: Storage, count: int) -> list[DocKey]:
    """Documents to write to, in the store and at hand."""
    replica = storage.attach()
    value = freeze(RECORD)
    keys = [doc_key(f"item:{number:07}") for number in range(count)]
    for start in range(0, count, 1000):
        replica.commit([SetDoc(key, value) for key in keys[start : start + 1000]])
    replica.sync()
    replica.detach()
    return keys


@contextmanager
def _raw(place: Path, name: str) -> Iterator[apsw.Connection]:
    """SQLite with the same safety settings and one table, no checks, no rules."""
    db = apsw.Connection(str(place / name))
    db.execute("pragma locking_mode = exclusive")
    db.execute("pragma journal_mode = wal").fetchall()
    db.execute("pragma synchronous = full")
    db.execute("pragma wal_autocheckpoint = 4000")
    db.execute("create table log(seq integer primary key, body blob, chain blob, sum integer)")
    yield db
    db.close()


def _append_raw(db: apsw.Connection, body: bytes, commits: int, group: int) -> float:
    seq = db.execute("select coalesce(max(seq), 0) from log").get
    start = time.perf_counter()
    for first in range(seq, seq + commits, group):
        db.execute("begin immediate")
        rows = [(number + 1, body, bytes(32), number) for number in range(first, min(first + group, seq + commits))]
        db.executemany("insert into log values (?, ?, ?, ?)", rows)
        db.execute("commit")
    return commits / (time.perf_counter() - start)


def _durable_commits(table: Table, place: Path, group: int, limit: float) -> None:
    storage = open_space(str(place / f"group{group}.db"), group_max=group)
    with storage, _raw(place, f"raw{group}.db") as db:
        keys = _filled(storage, DOCUMENTS)
        replica = storage.attach()
        for key in keys:
            replica.read(key)
        number = 0

        def ours() -> float:
            nonlocal number
            start = time.perf_counter()
            for _ in range(COMMITS):
                number += 1
                replica.commit(_edit(keys[number % DOCUMENTS], number))
                if not number % 256:
                    replica.refresh()
            replica.sync()
            return COMMITS / (time.perf_counter() - start)

        ours()
        body = storage.call(_last_body)
        groups = storage.groups
        rate, raw, ratio = paired(ours, lambda: _append_raw(db, body, COMMITS, group))
        size = 5 * COMMITS / (storage.groups - groups)
    table.add(
        f"durable commits, many outstanding, groups of {size:.0f} ({len(body)} B each)",
        f"{rate:,.0f}/s, raw {raw:,.0f}/s: {ratio:.2f}x",
        f">= {limit}x",
        ratio >= limit,
    )


def _last_body(engine: object) -> bytes:
    row = engine.backend.last()  # type: ignore[attr-defined]
    return row.body  # type: ignore[no-any-return]


def _one_outstanding(table: Table, place: Path) -> None:
    commits = 500
    storage = open_space(str(place / "single.db"))
    with storage, _raw(place, "single-raw.db") as db:
        [key] = _filled(storage, 1)
        replica = storage.attach()
        number = 10

        def ours() -> float:
            nonlocal number
            start = time.perf_counter()
            for _ in range(commits):
                number += 1
                replica.commit(_edit(key, number))
                replica.sync()
            return commits / (time.perf_counter() - start)

        ours()
        body = storage.call(_last_body)
        rate, raw, ratio = paired(ours, lambda: _append_raw(db, body, commits, 1), rounds=9)
    table.add(
        "durable commits, one outstanding",
        f"{rate:,.0f}/s, raw {raw:,.0f}/s: {ratio:.2f}x",
        ">= 0.8x",
        ratio >= 0.8,
    )


class CountingVFS(apsw.VFS):
    """Counts what SQLite writes and syncs, through the file system it would use anyway."""

    name = "bench-counting"

    def __init__(self) -> None:
        self.written = 0
        self.syncs = 0
        super().__init__(self.name, "")

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        return _CountingFile(self, name, flags)


@contextmanager
def through(vfs: CountingVFS) -> Iterator[None]:
    """Spaces that are opened meanwhile are counted."""
    use_vfs(vfs.name)
    try:
        yield
    finally:
        use_vfs(None)


class _CountingFile(apsw.VFSFile):
    def __init__(self, vfs: CountingVFS, name: str | apsw.URIFilename | None, flags: list[int]) -> None:
        self._vfs = vfs
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._vfs.written += len(data)
        super().xWrite(data, offset)

    def xSync(self, flags: int) -> None:
        self._vfs.syncs += 1
        super().xSync(flags)


def _bytes_per_commit(table: Table, place: Path) -> None:
    commits = 10_000
    vfs = CountingVFS()
    backend = SqliteBackend(str(place / "counted.db"), vfs=vfs.name)
    storage = Storage(backend, SystemClock(), machine(), name="counted", group_max=20)
    keys = _filled(storage, DOCUMENTS)
    replica = storage.attach()
    written, syncs = vfs.written, vfs.syncs
    for number in range(commits):
        replica.commit(_edit(keys[number % DOCUMENTS], number))
        if number % 20 == 19:
            replica.sync()
    # Closing folds the tail and writes the log's pages to the main file: all of it is the commits' cost.
    storage.close()
    each = (vfs.written - written) / commits
    table.add("bytes written per commit (10,000 in groups of 20)", f"{each:,.0f} B", "< 2,000 B", each < 2000)
    table.add("fsyncs per commit, same run", f"{(vfs.syncs - syncs) / commits:.3f}")
    vfs.unregister()


# --- opening ----------------------------------------------------------------------------------------------------


def _opening(table: Table, place: Path) -> None:
    def opened(name: str) -> float:
        def once() -> None:
            open_space(str(place / name)).close()

        return best_us(once, 1, rounds=7) / 1000

    open_space(str(place / "empty.db")).close()
    with open_space(str(place / "many.db")) as storage:
        _filled(storage, 100_000)
    empty, many = opened("empty.db"), opened("many.db")
    extra = many - empty
    table.add(
        "opening a space of 100,000 documents, over an empty one",
        f"{many:.1f} ms - {empty:.1f} ms = {extra:+.1f} ms",
        "< +100 ms",
        extra < 100,
    )


# --- local apply --------------------------------------------------------------------------------------------------


class Nowhere:
    """An upstream that keeps nothing: what is measured is the replica."""

    def __init__(self, value: Value) -> None:
        self._value = value
        self._taken: list[Submission] = []

    def load(self, _doc: DocKey, _through: Seq) -> StoredDocument:
        return StoredDocument(self._value, Seq(1))

    def load_many(self, _docs: Sequence[DocKey], _through: Seq) -> dict[DocKey, StoredDocument]:
        return {}

    def span(
        self,
        _index: str,
        _lo: bytes,
        _hi: bytes,
        *,
        limit: int | None,  # noqa: ARG002  # no keys, however they are asked for
        reverse: bool,  # noqa: ARG002
        through: Seq,  # noqa: ARG002
    ) -> list[bytes]:
        return []

    def submit(self, submission: Submission) -> None:
        self._taken.append(submission)


def apply_us(value: Value, documents: int = 1, operation: object = None) -> float:
    """One write with a listener whose index of readers is asked, and has none."""
    readers: dict[DocKey, object] = {}  # an index in which nobody reads
    keys = [doc_key(f"item:{number:07}") for number in range(documents)]
    best = float("inf")
    shared = Replica(Nowhere(value), SessionId("bench"))
    shared.listen(_told, readers)
    for key in keys:
        shared.read(key)
    number = 1000
    for _ in range(60):
        # Few layers at a time, as when a store answers: a thousand unanswered writes would measure memory.
        start = time.perf_counter()
        for _ in range(100):
            number += 1
            op = Replace(("count",), number) if operation is None else operation
            shared.commit((PatchDoc(keys[(number * 7919) % documents], (op,)),))  # type: ignore[arg-type]
        best = min(best, (time.perf_counter() - start) / 100 * 1e6)
        forget(shared)
    return best


def _told(notification: Notification) -> None:
    message = f"nobody reads {notification.changes}"
    raise AssertionError(message)


def forget(replica: Replica) -> None:
    """Put the replica back to having nothing pending, without a store."""
    for pending in replica._pending.values():
        for effect in pending.effects:
            replica._documents[effect.doc].layers = []
    replica._pending.clear()
    replica._upstream._taken.clear()  # type: ignore[attr-defined]


def _local_apply(table: Table) -> None:
    plain = dict(RECORD)

    def copies() -> None:
        for number in range(10_000):
            copy = plain.copy()
            copy["count"] = number

    floor = best_us(copies, 10_000, rounds=9)
    value = freeze(RECORD)
    ours = apply_us(value)
    table.add(
        f"local apply, one key of a {len(encode(value))} B document, with notification",
        f"{ours:.2f} us, dict.copy() {floor:.3f} us: {ours / floor:.1f}x",
        "<= 12x",
        ours / floor <= 12,
    )
    spread = {count: apply_us(value, count) for count in (1, 1_000, 1_000_000)}
    slope = spread[1_000_000] / spread[1]
    figures = " / ".join(f"{us:.2f}" for us in spread.values())
    table.add(
        "the same with 1 / 1,000 / 1,000,000 documents", f"{figures} us: {slope:.2f}x", "flat (<= 2x)", slope <= 2
    )
    sizes: list[float] = []
    for extra in (0, 5_000, 100_000):
        padded = freeze({**RECORD, "body": {f"part{n}": "x" * 90 for n in range(extra // 100)}})
        sizes.append(apply_us(padded))
    slope = sizes[-1] / sizes[0]
    figures = " / ".join(f"{us:.2f}" for us in sizes)
    table.add(
        "the same in documents of 200 B / 5 KB / 100 KB", f"{figures} us: {slope:.2f}x", "flat (<= 1.5x)", slope <= 1.5
    )


def _memory(table: Table, place: Path) -> None:
    """A document read through everything that keeps it: the replica and the engine, which share one tree."""
    for name, record, limit in (("small", SMALL, 1536), ("199 B", RECORD, None)):
        path = str(place / f"memory-{len(record)}.db")
        with open_space(path) as storage:
            replica = storage.attach()
            count = 20_000
            keys = [doc_key(f"item:{number:07}") for number in range(count)]
            for start in range(0, count, 1000):
                replica.commit(
                    [SetDoc(key, freeze({**record, "count": n})) for n, key in enumerate(keys[start : start + 1000])]
                )
            replica.sync()
        del replica, keys
        with open_space(path) as storage:
            replica = storage.attach()
            gc.collect()
            tracemalloc.start()
            for number in range(count):
                replica.read(doc_key(f"item:{number:07}"))
            each = tracemalloc.get_traced_memory()[0] / count
            tracemalloc.stop()
        bodies = [encode(freeze({**record, "count": number})) for number in range(1000)]
        gc.collect()
        tracemalloc.start()
        values = [decode(body) for body in bodies]
        bare = tracemalloc.get_traced_memory()[0] / len(values)
        tracemalloc.stop()
        table.add(
            f"memory per cached document ({name}: {len(bodies[0])} B encoded, {bare:,.0f} B as Python objects)",
            f"{each:,.0f} B",
            f"< {limit:,} B" if limit else "",
            each < limit if limit else None,
        )


def _containers(table: Table) -> None:
    small, large = (freeze({"count": 1, "keys": {f"k{n:06}": n for n in range(size)}}) for size in (10, 100_000))
    us = [apply_us(value, 1, Replace(("keys", "k000005"), "x")) for value in (small, large)]
    # Replacing by an equal value is elided, so the key is written with changing values.
    us = [_alternating(value, "k000005") for value in (small, large)]
    ratio = us[1] / us[0]
    figures = f"{us[0]:.2f} us, {us[1]:.2f} us: {ratio:.1f}x"
    table.add("one key of a map of 10, of 100,000", figures, "<= 5x", ratio <= 5)
    small, large = (freeze({"count": 1, "items": list(range(size))}) for size in (10, 100_000))
    us = [apply_us(value, 1, Append(("items",), array_of([7]))) for value in (small, large)]
    ratio = us[1] / us[0]
    figures = f"{us[0]:.2f} us, {us[1]:.2f} us: {ratio:.1f}x"
    table.add("append to a list of 10, of 100,000", figures, "<= 5x", ratio <= 5)


def _alternating(value: Value, key: str) -> float:
    replica = Replica(Nowhere(value), SessionId("bench"))
    replica.listen(lambda _notification: None)
    doc = doc_key("item:0")
    best = float("inf")
    number = 0
    for _ in range(30):
        start = time.perf_counter()
        for _ in range(100):
            number += 1
            replica.commit((PatchDoc(doc, (Replace(("keys", key), number),)),))
        best = min(best, (time.perf_counter() - start) / 100 * 1e6)
        forget(replica)
    return best
