"""Every event is delivered by two replicas, again and again until somebody has said what became of it, while the store
is opened anew at random: each is handled once."""

from __future__ import annotations

import random
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from headwater.core import Event, HandlerSpec, Increment, Scheduler, SetDoc, Transaction, doc_key, freeze
from headwater.store.commit import decode_entry
from headwater.testing.invariants.event_invariants import i11_log
from headwater.values.ids import MAIN, Seq
from tests.support.hub import Hub
from tests.support.naive import plain
from tests.support.spaces import Space

COUNT, NOTES = doc_key("count"), doc_key("notes")


class Replica:
    """One process, as far as the store can tell: it has a list of events to deliver, and crosses out what has ended."""

    def __init__(self, crowd: Crowd, name: str, todo: list[int]) -> None:
        self._crowd = crowd
        self.name = name
        self.todo = todo
        self.waiting: set[int] = set()
        self.ends: Counter[str] = Counter()
        self.begin()

    def begin(self) -> None:
        """Open the space. Whatever it does not know the end of, it delivers again."""
        self._crowd.lives += 1
        self.todo += sorted(self.waiting)
        self.waiting.clear()
        self.peer = self._crowd.hub.attach(f"{self.name}{self._crowd.lives}")
        self.scheduler = Scheduler(self.peer.replica, now=lambda: self._crowd.time)
        self.scheduler.add_handler(HandlerSpec(stream="count", name="count", fn=self.count))
        self.scheduler.add_handler(HandlerSpec(stream="note", name="note", fn=self.note))
        self.scheduler.resume_events()

    def count(self, tx: Transaction, payload: Any) -> None:
        """Some count in a way that others can overtake. Some have something to say besides."""
        number = plain(payload)
        if number % 5 == 0:
            found = tx.read(COUNT)
            assert isinstance(found, int)
            tx.set(COUNT, (), found + 1)
        else:
            tx.patch(COUNT, Increment((), 1))
        if number % 7 == 0:
            self.scheduler.queue_event("note", payload, origin=tx)

    @staticmethod
    def note(tx: Transaction, _: Any) -> None:
        tx.patch(NOTES, Increment((), 1))

    def deliver(self, count: int) -> None:
        for number in self.todo[:count]:
            self.waiting.add(number)
            # The name is what makes it the same event, whoever brings it.
            self.scheduler.queue_event("count", number, outside=("the post", str(number)), on_commit=self.ended)
        del self.todo[:count]
        self.scheduler.idle()

    def ended(self, event: Event) -> None:
        self.ends[event.state.value] += 1
        self.waiting.discard(event.payload)  # type: ignore[arg-type]  # it is a number


class Crowd:
    def __init__(self, kind: str, folder: Path, count: int, seed: int) -> None:
        self.random = random.Random(seed)
        self.time = 0.0
        self.lives = 0
        self.reopened = 0
        self.hub = Hub(Space(kind, folder))
        first = self.hub.attach("first")
        first.commit(SetDoc(COUNT, freeze(0)), SetDoc(NOTES, freeze(0)))
        self.hub.settle()
        self.hub.peers.clear()
        self.replicas = [Replica(self, name, self.random.sample(range(count), count)) for name in ("a", "b")]

    def crash(self) -> None:
        """Nobody is left. What was on its way has arrived in part, and nobody was told."""
        self.reopened += 1
        self.hub.peers.clear()
        for _ in range(self.random.randrange(len(self.hub.queue) + 1)):
            self.hub.queue.pop()
        self.hub.decide()
        self.hub.space.reopen()
        for replica in self.replicas:
            replica.begin()

    def run(self, reopenings: int) -> None:
        """Until everything has an end."""
        total = len(self.replicas[0].todo)
        while any(replica.todo or replica.waiting or replica.scheduler.outcomes.live for replica in self.replicas):
            for replica in self.random.sample(self.replicas, 2):
                replica.deliver(self.random.randrange(1, 40))
            if self.random.random() < 40 * reopenings / (total * 2):
                self.crash()
            elif self.hub.queue:
                self.hub.decide(self.random.randrange(1, len(self.hub.queue) + 1))
                for replica in self.replicas:
                    replica.peer.refresh()
            self.time += 5


@pytest.mark.parametrize(
    ("kind", "count", "reopenings"), [("memory", 2_000, 30), pytest.param("sqlite", 10_000, 60, marks=pytest.mark.slow)]
)
def test_every_event_is_handled_once_although_everyone_is_delivered_twice(
    kind: str, count: int, reopenings: int, tmp_path: Path
) -> None:
    crowd = Crowd(kind, tmp_path, count, seed=5)
    crowd.run(reopenings)
    space = crowd.hub.space
    engine = space.engine
    receipts = i11_log(decode_entry(row.body) for row in engine.backend.log(Seq(0), engine.head))[MAIN]
    notes = len(range(0, count, 7))
    assert (space.value("count"), space.value("notes")) == (count, notes)
    assert len(receipts) == count + notes
    assert crowd.reopened > reopenings / 4
    assert {end for replica in crowd.replicas for end in replica.ends} == {"confirmed", "refused"}
    space.close()
