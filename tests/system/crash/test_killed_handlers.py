"""Real processes, killed in the middle of handling events, on a file system that loses what was not synced.

When everything was sent again, every event was handled once, and so was everything that follows from it.
"""

from __future__ import annotations

import random
import signal
import subprocess
from pathlib import Path

import pytest

from headwater.core import doc_key, open_space, verify
from headwater.store.commit import decode_entry
from headwater.testing.invariants.event_invariants import i11_log
from headwater.values.ids import MAIN, Seq
from tests.support.naive import NOTHING, plain
from tests.support.power import POWER_CUT

CHILD = Path(__file__).with_name("handlers_to_kill.py")
EVENTS = 300


def life(path: Path, seed: int, *, lines: int | None, stuck_at: int = 0, events: int = EVENTS) -> list[str]:
    """Let a process deliver everything; kill it when it has said so much, or is stuck. Returns all that it has said."""
    with subprocess.Popen(
        [*POWER_CUT, str(CHILD), str(path), str(events), str(seed), str(stuck_at)],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        said: list[str] = []
        for line in child.stdout:
            said.append(line.strip())
            if len(said) == lines or said[-1] == "stuck":
                child.send_signal(signal.SIGKILL)
                break
        said += [line.strip() for line in child.stdout if line.endswith("\n")]
    return said


def expected_notes() -> dict[str, int]:
    firsts = [f"{number} {which}" for number in range(0, EVENTS, 3) for which in ("a", "b")]
    return dict.fromkeys([*firsts, *(f"{key} again" for key in firsts if key.endswith("a"))], 1)


def outs(said: list[str]) -> set[str]:
    return {words.partition(" ")[2] for words in said if words.startswith("out ")}


@pytest.mark.slow
def test_killed_processes_lose_no_event_and_repeat_none(tmp_path: Path) -> None:
    rng = random.Random(11)
    path = tmp_path / "space.db"
    acknowledged: set[str] = set()
    stuck = 0
    for seed in range(10):
        if seed % 2:
            said = life(path, seed, lines=rng.randrange(1, 90))
        else:
            said = life(path, seed, lines=None, stuck_at=rng.randrange(1, 12))
        stuck += "stuck" in said
        acknowledged |= outs(said)
        with open_space(str(path)) as space:
            assert space.call(verify).ok
            found = plain(space.attach().read(doc_key("post.handled")))
            there = {} if found is NOTHING else found
            assert acknowledged <= there.keys(), "what was said to be on disk was not"
    assert stuck >= 3, "some were killed in the middle of a handler"
    assert acknowledged

    said = life(path, 99, lines=None)
    assert said[-1] == "done"
    assert len(outs(said)) == EVENTS
    with open_space(str(path)) as space:
        replica = space.attach()
        handled, noted, count = (plain(replica.read(doc_key(f"post.{name}"))) for name in ("handled", "noted", "count"))
        assert handled == {str(number): 1 for number in range(EVENTS)}
        assert noted == expected_notes()
        assert count == EVENTS
        entries = space.call(lambda engine: list(engine.backend.log(Seq(0), engine.head)))
        receipts = i11_log(decode_entry(row.body) for row in entries)[MAIN]
        assert len(receipts) == EVENTS + len(noted)
        assert plain(replica.read(doc_key("events:outbox"))) == {}
        assert plain(replica.read(doc_key("events:failed"))) is NOTHING


def test_what_a_killed_process_has_sent_on_is_handled_by_the_next_without_being_sent_again(tmp_path: Path) -> None:
    """It stands in the store from the moment its sender was handled."""
    path = tmp_path / "space.db"
    said = life(path, 1, lines=100)
    letters = {words for words in outs(said) if int(words) % 3 == 0}
    assert letters
    # It delivers nothing, and finds what was left.
    assert life(path, 2, lines=None, events=0)[-1] == "done"
    with open_space(str(path)) as space:
        replica = space.attach()
        handled, noted = (plain(replica.read(doc_key(f"post.{name}"))) for name in ("handled", "noted"))
        wanted = {key for key in expected_notes() if key.partition(" ")[0] in handled}
        assert set(noted) == wanted
        assert set(noted.values()) == {1}
        assert letters <= handled.keys()
