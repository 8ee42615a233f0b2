"""Killed at a random moment: the next opening never believes what is not so, and takes over what is."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import headwater as hw
from headwater.testing.invariants.restore_invariants import i7_restart_equivalence
from tests.runtime.restore import reports
from tests.runtime.restore.kit import outcome

ROOT = Path(__file__).parents[3]
KILLS = 12


def run_and_kill(path: Path, seed: int, lines: int) -> int:
    """Let it work, kill it after so many acknowledgements, return the newest."""
    code = f"from tests.runtime.restore.reports import main; main({str(path)!r}, {seed})"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, env=dict(os.environ)
    ) as child:
        assert child.stdout is not None
        received = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        received += child.stdout.readlines()
    return int([line for line in received if line.endswith(b"\n")][-1])


def check(space: hw.Space) -> None:
    space._opening.ask_store(lambda engine: i7_restart_equivalence(space.scheduler, engine))


@pytest.mark.slow
def test_killed_at_random_moments_the_next_opening_is_right_and_takes_over(tmp_path: Path) -> None:
    rng = random.Random(11)
    path = tmp_path / "reports.db"
    restored = 0
    for number in range(KILLS):
        told = run_and_kill(path, number, rng.randrange(1, 25))
        with reports.app.open(path) as space:
            assert reports.acknowledged.value >= told
            check(space)
            restored += outcome(space)[0]
            assert reports.state() == reports.right()
        with reports.app.open(path) as space:
            assert reports.state() == reports.right()
            assert sum(space.stats.runs.values()) == 0
    assert restored > KILLS
