"""Expiry and the compaction after it, cut off after every disk operation, and killed: the file is whole."""

from __future__ import annotations

import random
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from headwater.store.backends.sqlite import SqliteBackend
from headwater.store.commit import Absent
from headwater.store.compaction import compact
from headwater.store.declaring import declare
from headwater.store.engine import Engine
from headwater.store.retention import DAY_MS, Retention, RetentionRound, retain
from headwater.store.verification import verify
from headwater.testing import Disk, DiskVFS, SimClock
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, DocKey, Seq
from tests.store.expiry_to_kill import EACH, FileSpace
from tests.store.test_expiring import at, logins, run
from tests.support.limits import small_limits
from tests.support.spaces import put


def kept(engine: Engine) -> dict[str, bool]:
    """Every document with a head, and whether it exists."""
    return {head.doc: head.live for head in engine.backend.heads(MAIN, "", DocKey(""), 1000)}


def retained(engine: Engine) -> None:
    this, is_over = RetentionRound(), False
    while not is_over:
        (_, is_over), _ = retain(engine, this, Retention(receipts_ms=0), SimClock().now_ms() + DAY_MS)


def recorded_run() -> tuple[Disk, dict[int, int]]:
    """After each step the head that is durable."""
    disk = Disk(seed=7)
    vfs = DiskVFS("expiry-run", disk)
    backend = SqliteBackend("/space.db", vfs="expiry-run")
    engine = Engine(backend, SimClock())
    ann = FileSpace(engine).writer("ann")
    again = "login:1"
    steps: list[Callable[[], object]] = [
        lambda: declare(engine, logins()),
        *[lambda n=n: ann.accept(put(f"login:{n}", {"until": at(days=-1)})) for n in range(6)],
        lambda: ann.accept(put("login:lives", {"until": None}), put("receipt:r", {"stream": "a", "result": 1})),
        lambda: run(engine),
        lambda: retained(engine),
        lambda: compact(engine, Seq(engine.head)),
        lambda: ann.accept(put(again, {"until": at(days=-1)}), given=[Absent(doc_key(again))]),
        lambda: run(engine),
        lambda: compact(engine, Seq(engine.head)),
        lambda: ann.accept(put(again, {"until": None}), given=[Absent(doc_key(again))]),
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
def test_no_crash_point_tears_expiry_or_its_compaction() -> None:
    counts: Counter[str] = Counter()
    with small_limits(FOLD_COMMITS=3, CHECKPOINT_PAGES=10):
        disk, seen = recorded_run()
        for image in disk.crash_images(random.Random(8), keeps=(0.0, 1.0)):
            last = next((mark for mark in reversed(image.marks) if isinstance(mark, int)), None)
            if last is None:
                continue  # while the file was made
            vfs = DiskVFS("expiry-check", Disk(image.files))
            backend = SqliteBackend("/space.db", vfs="expiry-check")
            engine = Engine(backend, SimClock())
            assert engine.head >= seen[last]
            report = verify(engine)
            assert report.ok, report.findings
            heads = kept(engine)
            dropped = [name for name in range(6) if f"space/login:{name}" not in heads] if seen[last] >= seen[6] else []
            counts["dropped"] += bool(dropped)
            counts["deleted"] += heads.get("space/login:0") is False
            # Either all that had expired is dropped, or nothing.
            assert len(dropped) in (0, 5, 6), dropped
            run(engine)
            compact(engine, Seq(engine.head))
            assert all(heads for name, heads in kept(engine).items() if ":lives" in name or name.startswith("space/c"))
            assert verify(engine).findings == []
            counts["images"] += 1
            backend.close()
            vfs.unregister()
    assert counts["images"] > 300 and counts["dropped"] > 20 and counts["deleted"] > 20, counts


@pytest.mark.slow
@pytest.mark.parametrize("lines", [1, 2, 3, 5, 8])
def test_a_kill_leaves_a_whole_file(tmp_path: Path, lines: int) -> None:
    path = tmp_path / "space.db"
    for _ in range(2):
        command = [sys.executable, "-m", "tests.store.expiry_to_kill", str(path)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            for _ in range(lines):
                assert process.stdout.readline()
            process.kill()
        engine = Engine(SqliteBackend(str(path)), SimClock())
        assert verify(engine).findings == []
        rounds = sum("login:lives" in doc for doc in kept(engine))
        run(engine)
        compact(engine, Seq(engine.head))
        left = kept(engine)
        assert sum("login:lives" in doc for doc in left) == rounds
        assert not [doc for doc in left if "." in doc], f"of {EACH} in each round"
        assert verify(engine).findings == []
        engine.backend.close()
