"""A shop at a server, two programs that query it, and what the answers are by looking at every document."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.errors import ConflictError, RejectedError
from headwater.host.plain_space import Space
from headwater.server.server import Server
from headwater.sync.frames import Ping
from headwater.values.ids import MAIN, BranchId, DocKey
from headwater.values.sortkey import doc_id_of
from tests.client.world import storage_of
from tests.server.running import served, token_for, until
from tests.support.proxy import Proxy

SPACE = "shop"
STATES = ("open", "paid", "sent")
RANKED = "ranked"


class Order(hw.Doc):
    """The members of the collection."""

    number: int
    state: str = "open"
    cents: int = 0
    note: str | None = None


@dataclass
class Shop:
    """A program with every kind of question, asked by functions that a sink reads."""

    app: hw.App = field(default_factory=lambda: hw.App("shop"))
    shown: list[dict[str, Any]] = field(default_factory=list)
    runs: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        app = self.app
        orders = self.orders = app.collection(
            Order, indexes=[(Order.state, Order.number), (Order.state, Order.cents), Order.number]
        )

        def asked(name: str) -> Any:
            return app.computed(_named(name, lambda: self._answer(name)))

        self.functions = {name: asked(name) for name in QUESTIONS}
        self._orders = orders

        @app.sink
        def show() -> None:
            self.shown.append({name: function() for name, function in self.functions.items()})

    def _answer(self, name: str) -> Any:
        self.runs[name] += 1
        return QUESTIONS[name](self._orders)

    def answers(self) -> dict[str, Any]:
        """What plain code is told."""
        return {name: ask(self._orders) for name, ask in QUESTIONS.items()}


def _named(name: str, function: Any) -> Any:
    function.__name__ = function.__qualname__ = name
    return function


QUESTIONS: Mapping[str, Any] = {
    "page": lambda orders: _numbers(orders.where(Order.state == "open").order_by(Order.number).page(3).items),
    "last": lambda orders: _numbers(
        orders.where(Order.state == "open").order_by(Order.number, descending=True).limit(2)
    ),
    "all": lambda orders: _numbers(orders.order_by(Order.number)),
    "count": lambda orders: orders.where(Order.state == "open").count(),
    "cents": lambda orders: orders.where(Order.state == "paid").sum(Order.cents),
    "most": lambda orders: orders.where(Order.state == "paid").max(Order.cents),
    "sent": lambda orders: orders.where(Order.state == "sent").exists(),
    "notes": lambda orders: [
        f"{number} {note}"
        for number, note in orders.where(Order.state == "paid").order_by(Order.number).values(Order.number, Order.note)
    ],
    "states": lambda orders: orders.group_by(Order.state).count(),
    "by_note": lambda orders: orders.where(Order.state == "open", Order.note == "x").scan().count(),
}


def _numbers(found: Iterable[Order]) -> list[int]:
    return [each.number for each in found]


def oracle(docs: Mapping[Any, Mapping[str, Any]]) -> dict[str, Any]:
    """The same answers, by a look at every document."""

    def of(state: str) -> list[Mapping[str, Any]]:
        return sorted((doc for doc in docs.values() if doc["state"] == state), key=lambda doc: doc["number"])

    cents = [doc["cents"] for doc in of("paid")]
    opened = [doc["number"] for doc in of("open")]
    return {
        "page": opened[:3],
        "last": opened[::-1][:2],
        "all": sorted(doc["number"] for doc in docs.values()),
        "count": len(opened),
        "cents": sum(cents),
        "most": max(cents, default=None),
        "sent": bool(of("sent")),
        "notes": [f"{doc['number']} {doc['note']}" for doc in of("paid")],
        "states": dict(sorted(Counter(doc["state"] for doc in docs.values()).items())),
        "by_note": sum(doc["note"] == "x" for doc in of("open")),
    }


@dataclass
class Client:
    """One program behind a proxy of its own."""

    name: str
    shop: Shop
    proxy: Proxy
    space: Space
    is_away: bool = False

    def find(self, number: int) -> Order | None:
        return self.shop.orders.where(Order.number == number).first()


class World:
    """A server with the shop, and two clients."""

    def __init__(self, store: Path) -> None:
        self._stack = ExitStack()
        self.server: Server = self._stack.enter_context(served(store, hosts=("127.0.0.1",)))
        self.token = ""
        self.clients: list[Client] = []
        for name in ("ann", "bob"):
            self.clients.append(self.join(name))
        self.last = 0

    def join(self, name: str) -> Client:
        if not self.token:
            hw.App("owner").open(f"{self.server.url}/{SPACE}").close()
            self.token = token_for(self.server, SPACE, "own")
        proxy = self._stack.enter_context(Proxy(self.server.port))
        shop = Shop()
        return Client(name, shop, proxy, self._open(name, shop, proxy))

    def _open(self, name: str, shop: Shop, proxy: Proxy) -> Space:
        return shop.app.open(f"ws://127.0.0.1:{proxy.port}/{SPACE}", token=self.token, actor=name)

    def reopen(self, client: Client) -> None:
        """As a program that is started again."""
        client.space.close()
        client.shop = Shop()
        client.space = self._open(client.name, client.shop, client.proxy)

    def close(self) -> None:
        for each in self.clients:
            self.come_back(each)
            each.space.close()
        self._stack.close()

    def come_back(self, client: Client) -> None:
        client.proxy.refuse(False)
        client.is_away = False
        until(lambda: client.space.connection.state == "live", "the connection is live")

    def go_away(self, client: Client) -> None:
        client.proxy.refuse(True)
        client.proxy.cut()
        client.is_away = True
        until(lambda: client.space.connection.state != "live", "the connection is lost")

    # -- what is there -------------------------------------------------------------------------------------

    def docs(self) -> dict[DocKey, dict[str, Any]]:
        """Every order of the server."""
        assert self.server.spaces is not None
        channel = self.server.spaces.channels[SPACE]

        def found(engine: Any) -> dict[DocKey, dict[str, Any]]:
            main = BranchId(MAIN)
            keys = engine.collections.span(main, "order#", b"", b"\xff")
            docs = [DocKey(f"space/{_id_of(key)}") for key in keys]
            return {doc: _plain(engine.documents.at(main, doc, engine.head).value) for doc in docs}

        return channel.storage.call(found)

    def catch_up(self) -> None:
        """Everybody has everything."""
        for client in self.clients:
            self.come_back(client)
        for client in self.clients:
            # Each commit of the history that has lost is told once.
            while not is_synced(client.space):
                pass
        for client in self.clients:
            self.hear(client)

    def hear(self, client: Client) -> None:
        """It has taken in what the server has decided by now."""
        link = storage_of(client.space).link
        until(lambda: link.session.is_caught_up, "it has caught up")
        link.ask(Ping(0), 120.0)
        client.space.settle()

    def check(self) -> None:
        """Every answer is that of a look at all documents."""
        self.catch_up()
        wanted = oracle(self.docs())
        for client in self.clients:
            for found in (client.shop.answers(), client.shop.shown[-1]):
                differs = {name: (found[name], wanted[name]) for name in wanted if found[name] != wanted[name]}
                assert not differs, client.name


def is_synced(space: Space) -> bool:
    """Wait until everything is decided. False: something was rejected, and more may follow."""
    try:
        space.sync(timeout="120s")
    except (RejectedError, ConflictError):
        return False
    return True


def _id_of(key: bytes) -> str:
    return doc_id_of(key, "order")


def _plain(tree: Any) -> dict[str, Any]:
    return {"note": None, "cents": 0, "state": "open", **dict(tree)}
