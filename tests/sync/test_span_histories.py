"""Random histories of clients with spans: what each knows by its frames is what the server has, after every frame."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from headwater.sync.frames import SpanKeys, Unspan
from headwater.values.sortkey import AFTER
from tests.support.halves import examples
from tests.support.limits import small_limits
from tests.support.spaces import Space, drop, put
from tests.sync.span_server import BY_STATE, Service, SpanClient, of_state


class History:
    """Some clients with spans, and writes by them and by others."""

    def __init__(self, service: Service, rng: random.Random) -> None:
        self.service, self.rng = service, rng
        self.clients = [SpanClient(service, f"c{number}") for number in range(3)]
        # The keys of the index as of each commit.
        self.seen: dict[int, list[bytes]] = {}
        self.sizes = {"brought": 0, "known": 0, "rewound": 0, "cut": 0, "below": 0}
        self.remember()

    def remember(self) -> None:
        self.seen[self.service.head] = self.service.keys(BY_STATE, b"", AFTER)

    def operation(self) -> object:
        rng = self.rng
        name = f"order:{rng.randrange(14)}"
        if self.service.space.value(name) is None or rng.random() < 0.4:
            return put(name, {"state": rng.choice(["open", "paid", "sent"]), "n": rng.randrange(5)})
        if rng.random() < 0.2:
            return drop(name)
        return put(name, {"state": rng.choice(["open", "paid"]), "n": rng.randrange(5), "note": rng.random()})

    def step(self) -> None:
        rng, service = self.rng, self.service
        client = rng.choice(self.clients)
        choice = rng.randrange(12)
        if choice < 5:
            service.write(*[self.operation() for _ in range(rng.randrange(1, 4))])  # type: ignore[arg-type]
            self.remember()
        elif choice < 7:
            client.commit(*[self.operation() for _ in range(rng.randrange(1, 3))])  # type: ignore[arg-type]
            self.remember()
        elif choice == 7:
            service.engine.fold()
        elif choice == 8 and client.spans:
            self.release(client)
        elif choice == 9:
            client.reconnect()
        elif choice == 10:
            client.read(rng.randrange(3))
        else:
            self.ask(client)

    def release(self, client: SpanClient) -> None:
        client.read()
        number = self.rng.choice(list(client.spans))
        client.wire.ask(Unspan((number,)))
        del client.spans[number]
        assert len(client.wire.spans) == len(client.spans)

    def ask(self, client: SpanClient) -> None:
        rng = self.rng
        lo, hi = rng.choice([of_state("open"), of_state("paid"), (b"", AFTER)])
        at = client.seq if rng.random() < 0.7 else None
        limit = rng.choice([None, 1, 2, 4])
        number = client.ask(
            BY_STATE, lo, hi, limit=limit, reverse=rng.random() < 0.4, docs=rng.choice([0, 0, 3]), at=at
        )
        client.read()
        found = next(each for each in client.answers if isinstance(each, SpanKeys) and each.number == number)
        assert found.seq == self.service.head
        assert limit is None or len(found.keys) <= limit
        self.sizes["cut"] += bool(found.end)
        if found.at is not None:
            known = client.spans[number]
            then = sorted({*found.keys} - {*found.came} | {*found.gone})
            assert then == [key for key in self.seen[found.at] if known.holds(key)]
            self.sizes["rewound"] += bool(found.came or found.gone)

    def check(self) -> None:
        for client in self.clients:
            client.read()
            client.check()
        self.sizes["brought"] = sum(len(each.brought) for each in self.clients)
        self.sizes["known"] = sum(each.continued for each in self.clients)
        self.sizes["below"] = sum(each.not_continued for each in self.clients)


@pytest.mark.property
def test_client_knows_what_the_server_has(tmp_path: Path) -> None:
    counts: dict[str, int] = {}
    for seed in range(examples(100)):
        with small_limits(KEYS_MAX=5, SHIFTS_KEPT=6, SHIFTS_SLACK=2):
            fresh = Space("memory", tmp_path)
            history = History(Service(fresh), random.Random(seed))
            for _ in range(40):
                history.step()
                if history.rng.random() < 0.15:
                    history.check()
            history.check()
        for name, count in history.sizes.items():
            counts[name] = counts.get(name, 0) + count
    # What is to be tried was tried.
    assert {name for name, count in counts.items() if not count} == set()
