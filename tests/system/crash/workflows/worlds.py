"""Worlds to end in: a space, an account at the service, and one life after the other in between."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from tests.support.service import Account, Service, Way
from tests.system.crash.workflows.judge import check_half_way, judge, stops
from tests.system.crash.workflows.lives import End, Life, Nursery
from tests.system.crash.workflows.post import LETTERS

START_MS = 1_700_000_000_000
HOUR_MS = 3_600_000
BEYOND = 1_000_000
"""More lines than any life has."""

EVERY = os.environ.get("HEADWATER_CRASH_POINTS") == "all"


class World:
    """One space and one account. Between two lives an hour passes: whatever waits is due."""

    def __init__(self, maker: Maker, account: Account, life: Life) -> None:
        self._nursery = maker.nursery
        self._life = life
        self.account = account
        self.path = Path(life.path)
        self.lives = 0
        # Calls whose end nobody knew when it was killed last.
        self.in_doubt = 0

    def live(self, kill_at: int = 0, **given: Any) -> End:
        """One life: to where it is killed, or until nothing goes on by itself."""
        start_ms = START_MS + self.lives * HOUR_MS
        self.lives += 1
        end = self._nursery.live(msgspec.structs.replace(self._life, kill_at=kill_at, start_ms=start_ms, **given))
        if end.killed:
            self._look()
        return end

    def _look(self) -> None:
        """At a copy: whoever opens the space next finds it as it was left."""
        self.in_doubt = 0
        copy = self.path.with_suffix(".copy")
        for suffix in ("", "-wal"):
            there = Path(f"{self.path}{suffix}")
            if there.exists():
                shutil.copyfile(there, f"{copy}{suffix}")
        if copy.exists():
            self.in_doubt = check_half_way(copy, self.account)
            copy.unlink()

    def finish(self) -> None:
        """The last life, in which everything comes to its end without anybody's help."""
        end = self.live()
        assert not end.killed
        assert (end.done, end.state) == (True, "Idle"), end
        self.check(end)

    def finish_with_help(self) -> int:
        """Likewise, but a person is asked what became of calls; how often."""
        asked = 0
        end = self.live()
        while end.state == "Needs attention":
            (found,) = stops(self.path)
            assert end.run == found[0]
            assert end.sentence.startswith("It is not known whether Post")
            asked += 1
            end = self.live(says={found[0]: self.account.receipt(found[1])})
        assert (end.done, end.state) == (True, "Idle"), end
        self.check(end)
        return asked

    def check(self, end: End) -> None:
        """Everything is as it must be in the end; then the world is let go of."""
        judge(self.path, self.account, LETTERS, [f"note {to}" for to in LETTERS])
        assert end.sent == self.account.receipts
        assert end.noted == dict.fromkeys(LETTERS, 1)
        for there in self.path.parent.glob(f"{self.path.name}*"):
            there.unlink()


class Maker:
    """Makes worlds."""

    def __init__(self, service: Service, nursery: Nursery, folder: Path) -> None:
        self.service = service
        self.nursery = nursery
        self.folder = folder

    def world(self, *ways: Way, kind: str = "class", patience: float = 10.0, vfs: str = "") -> World:
        """A new one, where the first calls end so."""
        account = self.service.account()
        account.behave(*ways)
        path = self.folder / f"{account.name}.db"
        life = Life(path=str(path), url=account.url, kind=kind, patience=patience, vfs=vfs)
        return World(self, account, life)

    def lines_of_a_life(self, *ways: Way, **given: Any) -> int:
        """How many lines there are in one that nobody ends."""
        world = self.world(*ways, **given)
        end = world.live()
        assert end.done and not end.killed
        world.check(end)
        return end.lines


def spread(lines: int, count: int, part: int = 0, parts: int = 1) -> Iterator[int]:
    """So many lines of those there are, evenly; or all of them. Of these, every so many-th."""
    if EVERY:
        # How many there are differs a little from life to life: until one is not reached.
        yield from range(1 + part, BEYOND, parts)
        return
    step = lines / count
    for number in range(part, count, parts):
        yield 1 + int((number + 0.5) * step)
