"""Many small worlds with cuts, restarts and takeovers, each from its own seed: everyone sees what the log comes to.

HEADWATER_SWARM sets how many; a failure names its seed, and `Game(seed, folder).play()` plays it again.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path

import pytest

from tests.support.histories import BrokenError
from tests.sync.players import Game

SEEDS = int(os.environ.get("HEADWATER_SWARM", "200"))
PARTS = 8


@pytest.mark.parametrize("part", range(PARTS))
def test_replicas_and_verdicts_agree_with_the_log_whatever_is_cut_and_restarted(part: int, tmp_path: Path) -> None:
    total: Counter[str] = Counter()
    for seed in range(part, SEEDS, PARTS):
        try:
            total.update(Game(seed, tmp_path).play().counts)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    print(dict(total))
    for what in ("commits", "rejected", "cuts", "restarts", "let go", "made"):
        assert total[what], f"no {what}: the worlds are too quiet to show anything"


def test_the_same_seed_is_the_same_world(tmp_path: Path) -> None:
    first, second = (Game(7, tmp_path).play() for _ in range(2))
    assert first.counts == second.counts
    assert [entry.local_seq for entry in first.log.log] == [entry.local_seq for entry in second.log.log]


def test_a_world_without_faults_needs_no_second_connection(tmp_path: Path) -> None:
    game = Game(3, tmp_path)
    game.world.cuts = game.world.restarts = 0.0
    world = game.play()
    assert not world.counts["cuts"]
    assert all(player.link.tries == 1 for player in (*game.players, *game.left))


def test_broken_errors_name_the_promise() -> None:
    assert BrokenError("INV-5", "so").promise == "INV-5"
