"""Many small worlds with cuts, restarts and takeovers, each from its own seed: everyone sees what the log comes to.

HEADWATER_SWARM sets how many; a failure names its seed, and `Game(seed, folder).play()` plays it again.
"""

from __future__ import annotations

import os
from collections import Counter
from pathlib import Path
from unittest.mock import patch

import pytest
from msgspec import structs

from headwater.access.rights import Right
from headwater.errors import AccessError
from headwater.store.commit import Commit, Submission
from headwater.sync.client_session import transact
from headwater.sync.frames import CommitFailed, Judged, News, encode_frame, read_server
from headwater.values.ids import MAIN
from tests.support.halves import seeds
from tests.support.spaces import put
from tests.sync.players import Game, Player
from tests.sync.world import World

SEEDS = int(os.environ.get("HEADWATER_SWARM", "100"))
PARTS = 8


@pytest.mark.parametrize("part", seeds(PARTS))
def test_replicas_and_verdicts_agree_with_the_log_whatever_is_cut_and_restarted(part: int, tmp_path: Path) -> None:
    total: Counter[str] = Counter()
    for seed in range(part, SEEDS, PARTS):
        try:
            total.update(Game(seed, tmp_path).play().counts)
        except Exception as error:
            error.add_note(f"seed {seed}")
            raise
    print(dict(total))
    faults = ("cuts", "restarts", "repeats", "writes without room", "failed writes", "given up", "not let in")
    for what in ("commits", "rejected", "let go", "made", *faults):
        assert total[what], f"no {what}: the worlds are too quiet to show anything"


def test_the_same_seed_is_the_same_world(tmp_path: Path) -> None:
    first, second = (Game(7, tmp_path).play() for _ in range(2))
    assert first.counts == second.counts
    assert [entry.local_seq for entry in first.log.log] == [entry.local_seq for entry in second.log.log]


def test_a_world_without_faults_needs_no_second_connection(tmp_path: Path) -> None:
    game = Game(3, tmp_path)
    repeats = game.world.repeats
    game.world.be_kind()
    game.world.repeats = repeats
    world = game.play()
    assert not world.counts["cuts"]
    assert all(player.link.tries == 1 for player in (*game.players, *game.left))


def news_for(world: World, commit: Commit) -> list[Judged | CommitFailed]:
    """What the server says of a commit that is sent to it now."""
    [wire] = world.wires
    heard: list[bytes] = []
    with patch.object(wire.link.session, "receive", heard.append):
        wire.to_server.append(encode_frame(transact(Submission(commit))))
        world.calm()
    return [new for frame in map(read_server, heard) if isinstance(frame, News) for new in frame.news]  # type: ignore[misc]


def test_the_same_commit_sent_again_has_the_same_verdict_and_another_of_its_number_is_refused(tmp_path: Path) -> None:
    game = Game(1, tmp_path)
    game.world.be_kind()
    player = Player(game.world, MAIN, app="", in_loop=False)
    pending = player.replica.commit([put("a", 1)])
    game.world.calm()
    player.replica.refresh()
    commit = pending.commit
    other = structs.replace(commit, operations=(put("a", 2),))
    assert news_for(game.world, commit) == [Judged(commit.local_seq, pending.verdict)]
    assert [type(new) for new in news_for(game.world, other)] == [CommitFailed]
    game.world.restart()
    game.world.calm()
    assert news_for(game.world, commit) == [Judged(commit.local_seq, pending.verdict)], "also by the next server"
    assert [type(new) for new in news_for(game.world, other)] == [CommitFailed]
    assert game.world.log.head == 1


@pytest.mark.parametrize("is_decided", [True, False])
def test_who_may_only_read_by_now_is_told_what_became_of_a_commit_from_before(tmp_path: Path, is_decided: bool) -> None:
    game = Game(1, tmp_path)
    world = game.world
    world.be_kind()
    player = Player(world, MAIN, app="", in_loop=False)
    pending = player.replica.commit([put("a", 1)])
    player.link.run()
    [wire] = world.wires
    while wire.to_server:
        wire.move_to_server()
    if is_decided:
        world.spaces.storage.decide(1)
    # Nobody was told. Whoever asks for it again has no right to write any more.
    wire.has_client = False
    wire.to_client.clear()
    player.link.lost(0, "")
    world.right = Right.READ
    world.calm()
    player.replica.refresh()
    assert pending.accepted
    late = player.replica.commit([put("a", 2)])
    world.calm()
    player.replica.refresh()
    assert isinstance(late.error, AccessError)
    assert world.log.head == 1
