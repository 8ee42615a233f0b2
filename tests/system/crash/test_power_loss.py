"""Real processes, really killed, on a file system that loses what was not synced: a power cut, fifty times."""

from __future__ import annotations

import random
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest

from headwater.core import doc_key, open_space, verify
from tests.support.power import POWER_CUT

WRITERS = 4
CHILD = Path(__file__).with_name("writers_to_kill.py")


def write_and_kill(path: Path, durability: str, lines: int) -> dict[int, int]:
    """Let the writers commit, kill them after so many acknowledgements, return the newest number of each."""
    acknowledged: dict[int, int] = {}
    with subprocess.Popen(
        [*POWER_CUT, str(CHILD), str(path), durability],
        stdout=subprocess.PIPE,
    ) as child:
        assert child.stdout is not None
        received = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        received += child.stdout.readlines()
    assert len(received) >= lines
    for line in received:
        # What the kill cut off in the middle of a line was not told.
        if line.endswith(b"\n"):
            writer, number = line.split()
            acknowledged[int(writer)] = int(number)
    return acknowledged


def after_power_is_back(path: Path, acknowledged: dict[int, int]) -> Counter[str]:
    """What became of each writer's acknowledged commits."""
    found: Counter[str] = Counter()
    with open_space(str(path)) as space:
        assert space.call(verify).ok
        replica = space.attach()
        for writer, number in acknowledged.items():
            left, right = (replica.read(doc_key(f"{side}-{writer}")) for side in ("left", "right"))
            assert left == right, "a commit is half there"
            if not isinstance(left, dict):
                # Not even the writer's first commit is there.
                found["lost"] += 1
                continue
            assert max(left["seen"].values(), default=0) == left["n"]  # type: ignore[union-attr]
            found["kept" if left["n"] >= number else "lost"] += 1  # type: ignore[operator]
    return found


@pytest.mark.slow
def test_fifty_power_cuts_lose_no_acknowledged_commit(tmp_path: Path) -> None:
    rng = random.Random(3)
    path = tmp_path / "space.db"
    total: Counter[str] = Counter()
    for _ in range(50):
        total += after_power_is_back(path, write_and_kill(path, "full", rng.randrange(1, 120)))
    assert set(total) == {"kept"}
    assert total["kept"] >= 50


def test_power_cuts_do_show_lost_commits_when_syncs_are_skipped(tmp_path: Path) -> None:
    """The test above can fail: the same cuts with `normal` durability lose acknowledged commits."""
    path = tmp_path / "space.db"
    assert after_power_is_back(path, write_and_kill(path, "full", 8))["lost"] == 0
    lost = 0
    for _ in range(6):
        lost += after_power_is_back(path, write_and_kill(path, "normal", 60))["lost"]
        if lost:
            break
    assert lost > 0
