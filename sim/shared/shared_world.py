"""The course of a shared world: work with faults, calm, rest, checks."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeVar

from headwater.access.rights import Right
from headwater.errors import HeadwaterError, StoreError, UnavailableError
from headwater.machine import machine
from headwater.runtime.connection import Connection
from headwater.server.server import Server, Serving
from headwater.store.engine import Engine
from sim.shared.client import QUIET_S, SharedClient
from sim.shared.workload import Act, ClientNode, Reopen, Revoke, ServerNode, Sync, Upkeep
from sim.world import Node, World

T = TypeVar("T")

STORE: Final = Path("/srv/spaces")
REST_S: Final = 2.0
"""How long nothing may change before the world is at rest."""


class SharedWorld:
    """One server and its clients."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.is_calm = self.is_over = False
        self.tokens: dict[str, str] = {}
        self.grants: dict[str, str] = {}
        self.server: Server | None = None
        self.is_stopping = False
        self.revoked: dict[str, float] = {}
        self.clients = {
            each.name: SharedClient(self, each) for each in world.plan.nodes if isinstance(each, ClientNode)
        }
        self.name = next(each.name for each in world.plan.nodes if isinstance(each, ServerNode))

    @property
    def spaces(self) -> list[str]:
        return sorted({each.node.space for each in self.clients.values()})

    # -- the server ----------------------------------------------------------------------------------------

    def serve(self) -> None:
        """The main thread of a life of the server: started again until it can start."""
        node = self.world.node(self.name)
        while not self.is_stopping:
            try:
                server = Server(Serving(store=STORE))
                self._make_tokens(server)
                server.start()
            except (HeadwaterError, OSError) as error:
                self.world.say(self.name, f"cannot start: {error}")
                machine().sleep(1.0)
                continue
            self.server = server
            self.world.say(self.name, f"serves (life {node.life})")
            return

    def _make_tokens(self, server: Server) -> None:
        known = {each.note: each for each in server.access.ls()}
        for name, client in self.clients.items():
            if name not in known and name not in self.revoked:
                right = Right[client.node.can.upper()]
                token, grant = server.access.create(space=client.node.space, can=right, any_actor=True, note=name)
                self.tokens[name], self.grants[name] = token, grant.id

    def at_server(self, work: Callable[[], T], what: str) -> T:
        """Do something in a thread of the server, and wait for it."""
        found: list[T] = []
        node = self.world.node(self.name)
        node.start(what, lambda: found.append(work()))
        self.world.conductor.wait(lambda: bool(found) or not node.is_alive, what, QUIET_S)
        if not found:
            raise RuntimeError(f"the server did not finish: {what}")
        return found[0]

    def engine(self, space: str, work: Callable[[Engine], T]) -> T:
        """Use the engine of a served space, in a thread of the server."""
        server = self.server
        assert server is not None
        assert server.spaces is not None
        channel = server.spaces.channels[space]
        return self.at_server(lambda: channel.storage.call(work), "engine")

    # -- the course ----------------------------------------------------------------------------------------

    def play(self) -> None:
        world = self.world
        self._begin(world.node(self.name), self.serve)
        self.wait(lambda: self.server is not None, "the server", 60.0)
        for name, client in self.clients.items():
            self._begin(world.node(name), client.main)
        self.work()

    def _begin(self, node: Node, main: Callable[[], None]) -> None:
        self.world.on_restart[node.name] = main
        node.start("main", main)

    def work(self) -> None:
        raise NotImplementedError

    def wait(self, ready: Callable[[], bool], what: str, seconds: float) -> bool:
        return self.world.conductor.wait(ready, what, seconds)

    # -- told by clients -----------------------------------------------------------------------------------

    def told(self, client: SharedClient, error: BaseException) -> None:
        """An error reached the workload."""

    def was_over(self, client: SharedClient, connection: Connection) -> None:
        """The session of a client has ended."""
