"""Random histories of two programs that query a server: the answers are those of a look at every document.

They write, insert, delete and roll back, alone and at the same time, are cut off in the middle, go on without the
server, and are opened again.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

import headwater as hw
from headwater.errors import ConflictError
from tests.client.query_world import STATES, Client, Order, World, is_synced, oracle
from tests.server.running import settle_in
from tests.support.halves import examples

NAMES = st.sampled_from([0, 1])
STATE = st.sampled_from(STATES)
PLACE = st.integers(0, 30)


class Histories(RuleBasedStateMachine):
    """What two programs do."""

    home: Path

    def __init__(self) -> None:
        super().__init__()
        self._store = Path(tempfile.mkdtemp(dir=self.home))
        self.world = World(self._store)
        # What a program that is away has: all documents as of then, with its own writes.
        self.alone: dict[str, dict[str, dict[str, object]]] = {}

    def teardown(self) -> None:
        try:
            self.world.check()
        finally:
            self.world.close()
            shutil.rmtree(self._store)

    # -- writes --------------------------------------------------------------------------------------------

    @rule(who=NAMES, state=STATE, cents=st.integers(0, 9), note=st.sampled_from(["x", None]))
    def insert(self, who: int, state: str, cents: int, note: str | None) -> None:
        client = self.world.clients[who]
        self.world.last += 1
        with client.space.transaction():
            order = Order(number=self.world.last, state=state, cents=cents, note=note)
        if client.name in self.alone:
            fields = {"number": self.world.last, "state": state, "cents": cents, "note": note}
            self.alone[client.name][hw.id_of(order)] = fields

    @rule(who=NAMES, place=PLACE, field=st.sampled_from(["state", "cents", "note"]), state=STATE)
    def change(self, who: int, place: int, field: str, state: str) -> None:
        client, order = self._one(who, place)
        if order is None:
            return
        value = state if field == "state" else place if field == "cents" else f"n{place}"
        try:
            setattr(order, field, value)
        except ConflictError:
            return
        if client.name in self.alone:
            self.alone[client.name][hw.id_of(order)][field] = value

    @rule(who=NAMES, place=PLACE)
    def delete(self, who: int, place: int) -> None:
        client, order = self._one(who, place)
        if order is not None:
            hw.delete(order)
            if client.name in self.alone:
                del self.alone[client.name][hw.id_of(order)]

    @rule(who=NAMES)
    def take_the_first(self, who: int) -> None:
        """A transaction that reads a count and a page: it conflicts with what comes into them."""
        client = self.world.clients[who]
        orders = client.shop.orders
        try:
            with client.space.transaction():
                count = orders.where(Order.state == "open").count()
                first = orders.where(Order.state == "open").order_by(Order.number).first()
                if first is None:
                    return
                first.state, first.cents = "paid", count
        except ConflictError:
            return
        if client.name in self.alone:
            self.alone[client.name][hw.id_of(first)].update(state="paid", cents=count)

    @rule(who=NAMES, place=PLACE)
    def undo(self, who: int, place: int) -> None:
        """A transaction that is left by an error: nothing of it stays."""
        client, order = self._one(who, place)
        with pytest.raises(ZeroDivisionError), client.space.transaction():
            if order is not None:
                order.state = "sent"
            Order(number=-1)
            assert client.shop.orders.where(Order.number == -1).exists() or client.is_away
            raise ZeroDivisionError

    def _one(self, who: int, place: int) -> tuple[Client, Order | None]:
        client = self.world.clients[who]
        found = list(client.shop.orders.order_by(Order.number))
        return client, found[place % len(found)] if found else None

    # -- connections ---------------------------------------------------------------------------------------

    @rule(who=NAMES)
    def go_away(self, who: int) -> None:
        """As it has taken in everything: from then on it is known what it has."""
        client = self.world.clients[who]
        if not client.is_away:
            self._settle(client)
            self.world.hear(client)
            self.world.go_away(client)
            self.alone[client.name] = {doc.partition("/")[2]: fields for doc, fields in self.world.docs().items()}

    @rule(who=NAMES)
    def cut(self, who: int) -> None:
        """In the middle of whatever is on its way."""
        client = self.world.clients[who]
        if not client.is_away:
            client.proxy.cut()

    @rule(who=NAMES)
    def come_back(self, who: int) -> None:
        client = self.world.clients[who]
        self.world.come_back(client)
        self.alone.pop(client.name, None)

    @rule(who=NAMES)
    def settle(self, who: int) -> None:
        self.world.clients[who].space.settle()

    @rule(who=NAMES)
    def open_again(self, who: int) -> None:
        client = self.world.clients[who]
        if not client.is_away:
            self._settle(client)
            self.world.reopen(client)

    def _settle(self, client: Client) -> None:
        while not is_synced(client.space):
            pass

    # -- what holds ----------------------------------------------------------------------------------------

    @invariant()
    def who_is_away_has_what_it_had_and_its_own_writes(self) -> None:
        for client in self.world.clients:
            if client.name in self.alone:
                wanted = oracle(self.alone[client.name])
                assert client.shop.answers() == wanted
                client.space.settle()
                assert client.shop.shown[-1] == wanted

    @precondition(lambda self: not self.alone)
    @rule()
    def check(self) -> None:
        self.world.check()


@pytest.mark.machine
def test_answers_are_those_of_a_look_at_every_document(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)
    monkeypatch.setattr(Histories, "home", tmp_path, raising=False)
    tried = settings(max_examples=examples(20), stateful_step_count=20, deadline=None)
    run_state_machine_as_test(Histories, settings=tried)  # type: ignore[no-untyped-call]


def test_seeded_histories_of_writes_and_cuts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Few, with many steps, where nothing waits for anything."""
    settle_in(tmp_path, monkeypatch)
    rng = random.Random(23)
    world = World(tmp_path / "store")
    try:
        for step in range(60):
            client = rng.choice(world.clients)
            world.last += 1
            with client.space.transaction():
                order = Order(number=world.last, state=rng.choice(STATES))
            if rng.random() < 0.3:
                order.state = rng.choice(STATES)
            if step % 7 == 0:
                client.proxy.cut()
        world.check()
    finally:
        world.close()
