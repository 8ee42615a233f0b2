"""The course of a shared world: work with faults, calm, rest, checks."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final, TypeVar

from headwater.access.rights import Right
from headwater.client.client_socket import IDLE_S, PONG_S
from headwater.client.client_socket import QUIET_S as QUIET_PING_S
from headwater.errors import HeadwaterError
from headwater.host.storage import Storage
from headwater.machine import machine, use
from headwater.runtime.connection import Connection
from headwater.server.server import Server, Serving
from headwater.store.engine import Engine
from headwater.testing.simulation.sim_network import LEARNS_S
from sim.faults import Cut, HalfOpen
from sim.oracles.history import Mirror
from sim.oracles.replicas import Look, look_at
from sim.shared.administer import administer
from sim.shared.breaker import forge
from sim.shared.client import QUIET_S, SharedClient
from sim.shared.told import is_expected
from sim.shared.workload import ClientNode, Forge, Revoke, ServerNode, Upkeep
from sim.world import Node, World

T = TypeVar("T")

STORE: Final = Path("/srv/spaces")

COMMIT_MARK: Final = b"\xa1t\xa8transact"
"""In the first bytes of a frame with a commit."""

REST_S: Final = 1.0
"""How long nothing may change before the world is at rest."""

SILENCE_S: Final = IDLE_S + PONG_S + QUIET_PING_S + 2.0
"""How long a client may take to notice that its connection is silent."""

REVOKED_S: Final = 8.0
"""Until a client whose token was revoked has noticed it, if its connection works."""

START_S: Final = 60.0
"""For the start of the server, before the first fault."""


class SharedWorld:
    """One server and its clients."""

    def __init__(self, world: World) -> None:
        self.world = world
        world.network.again_mark = COMMIT_MARK
        if "limits" in world.plan.features:
            # A client that does not read is soon noticed.
            world.network.window = 1_500
        self.is_calm = self.is_over = False
        self.tokens: dict[str, str] = {}
        self.grants: dict[str, str] = {}
        self.server: Server | None = None
        self.is_stopping = False
        self.revoked: dict[str, float] = {}
        self.mirrors: dict[str, Mirror] = {}
        # The last backup of each space; and for each client, its last opening before one was restored.
        self.backups: dict[str, str] = {}
        self.put_back: dict[str, int] = {}
        # What clients had when they lost their right.
        self.last_looks: dict[str, Look] = {}
        self.clients = {
            each.name: SharedClient(self, each) for each in world.plan.nodes if isinstance(each, ClientNode)
        }
        self.name = next(each.name for each in world.plan.nodes if isinstance(each, ServerNode))
        # Started when all is calm: events that a client left behind are handled at the next opening.
        self.last = {space: SharedClient(self, ClientNode(name=f"z-{space}", space=space)) for space in self.spaces}

    @property
    def spaces(self) -> list[str]:
        """The spaces of the clients, sorted."""
        return sorted({each.node.space for each in self.clients.values()})

    # -- the server ----------------------------------------------------------------------------------------

    def serve(self) -> None:
        """The main thread of a life of the server: started again until it can start, as a supervisor does."""
        node = self.world.node(self.name)
        self.server = None
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
        known = {each.note for each in server.access.ls()}
        nodes = [each.node for each in (*self.clients.values(), *self.last.values())]
        nodes += [ClientNode(name=each.node) for each in self.world.plan.operations if isinstance(each, Forge)]
        nodes += [ClientNode(name=f"{each.name}-reader", can="read") for each in nodes if each.reads_after]
        for name, node in sorted({each.name: each for each in nodes}.items()):
            if name not in known and name not in self.revoked:
                right = Right[node.can.upper()]
                token, grant = server.access.create(space=node.space, can=right, any_actor=True, note=name)
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

    def storage(self, space: str) -> Storage | None:
        """The storage of a served space, if it is open."""
        if self.server is None or self.server.spaces is None or space not in self.server.spaces.channels:
            return None
        return self.server.spaces.channels[space].storage

    def head(self) -> tuple[int, ...]:
        """The newest place in the log of each space."""
        found = [self.storage(space) for space in self.spaces]
        return tuple(-1 if each is None else int(each._engine.head) for each in found)  # one number

    # -- the course ----------------------------------------------------------------------------------------

    def start(self) -> None:
        """Start the server and the clients."""
        self._begin(self.world.node(self.name), self.serve)
        self.wait(lambda: self.server is not None, START_S)
        for name, client in self.clients.items():
            self._begin(self.world.node(name), client.main)

    def _begin(self, node: Node, main: Callable[[], None]) -> None:
        self.world.on_restart[node.name] = main
        node.start("main", main)

    def work(self) -> None:
        """Until the plan is done."""
        for operation in self.world.plan.operations:
            if isinstance(operation, Revoke | Upkeep):
                self.sleep_until(operation.at)
                administer(self, operation)
            elif isinstance(operation, Forge):
                self.sleep_until(operation.at)
                forge(self, operation.node)
        last = max((each.at for each in self.world.plan.operations), default=0.0)  # type: ignore[attr-defined]
        self.wait(lambda: all(each.is_done for each in self.clients.values()), last + QUIET_S)

    def calm(self) -> bool:  # noqa: C901  # one condition each
        """All faults are over: everything has to come to rest in time (L1)."""
        if any(isinstance(fault, HalfOpen) for fault in self.world.plan.faults):
            # Until then, a client need not notice that its connection is silent.
            self.world.conductor.sleep(SILENCE_S)
        elif any(isinstance(fault, Cut) for fault in self.world.plan.faults):
            self.world.conductor.sleep(LEARNS_S + 0.1)
        # With slow rounds, a client notices later that its token was revoked.
        self.wait(lambda: all(self.clients[name].is_ended for name in self.revoked), REVOKED_S)
        self.is_calm = True
        began = self.world.now
        if self.world.counts["kills"] or self.put_back or any(each.is_ended for each in self.clients.values()):
            for client in self.last.values():
                self.clients[client.name] = client
                self._begin(self.world.node(client.name), client.main)
        living = [each for each in self.clients.values() if not each.is_ended]
        if not self.wait(lambda: all(each.is_quiet or each.is_ended for each in living), QUIET_S):
            for each in living if not self.world.violations else ():
                if not each.is_quiet and not each.is_ended:
                    self.world.violate(
                        "L1", f"{each.name} is not quiet after {QUIET_S} s: {each.unfinished()}", each.name
                    )
            return False
        while self.world.now < began + QUIET_S:
            before = self.head(), self.world.network.counts["writes"]
            self.world.conductor.sleep(REST_S)
            after = self.head(), self.world.network.counts["writes"]
            is_idle = self.world.network.is_idle
            if after == before and is_idle and all(each.is_quiet or each.is_ended for each in living):
                return True
        if not self.world.violations:
            self.world.violate("L1", f"the log still grows after {QUIET_S} s: {self.head()}")
        return False

    def wait(self, ready: Callable[[], bool], seconds: float) -> bool:
        """Wait for what others do. Looked at now and then, not at every hand-over."""
        end = self.world.now + seconds
        while not ready():
            # After a violation the rest is of no interest.
            if self.world.now >= end or self.world.violations:
                return False
            self.world.conductor.sleep(0.05)
        return True

    def sleep_until(self, when: float) -> None:
        """Wait for a time."""
        if when > self.world.now:
            self.world.conductor.sleep(when - self.world.now)

    def look(self, client: SharedClient, *, settle: bool = False) -> Look | None:
        """What a client has, looked up in its own thread. None: it is away."""
        found: list[Look] = []

        def ask() -> None:
            if settle and client.node.mode == "plain":
                client.space.settle()
            found.append(look_at(client.space, client.app.seen[-1] if client.app.seen else None))

        client.asked.append(ask)
        self.wait(lambda: bool(found), 60.0)
        return found[0] if found else None

    # -- told by clients -----------------------------------------------------------------------------------

    def told(self, client: SharedClient, error: BaseException) -> None:
        """An error reached the workload: it has to be a documented one for the faults of the plan."""
        self.world.counts["errors told"] += 1
        is_revoked, is_put_back = client.name in self.revoked, bool(self.put_back)
        if not is_expected(self.world.plan, client.node, error, is_revoked=is_revoked, is_put_back=is_put_back):
            self.world.violate("T", f"{client.name} was told {type(error).__name__}: {error}", client.name)

    def was_over(self, client: SharedClient, connection: Connection) -> None:
        """The session of a client has ended for good."""
        if client.name in self.revoked:
            client.is_ended = True
            self.last_looks[client.name] = look_at(client.space)
        elif not self.put_back:
            self.world.violate("L1", f"the session of {client.name} is over: {connection.trouble}", client.name)

    # -- at the end ----------------------------------------------------------------------------------------

    def close(self) -> None:
        """All clients close."""
        self.is_over = True
        living = [self.world.node(each.name) for each in self.clients.values() if not each.is_ended]
        if not self.wait(lambda: all(each.space is None for each in self.clients.values() if not each.is_ended), 120.0):
            for each in living if not self.world.violations else ():
                self.world.violate("L1", f"{each.name} does not close", each.name)

    def stop(self) -> None:
        """The server ends."""
        self.is_stopping = True
        server = self.server
        assert server is not None
        self.at_server(server.stop, "stop")

    def on_server(self, space: str, work: Callable[[Engine], T]) -> T:
        """Use the engine of a served space. It may have been closed because it is empty: then it is opened."""
        storage = self.storage(space)
        if storage is not None:
            return self.at_server(lambda: storage.call(work), "look")
        return self.at_server(lambda: self.use_file(space, work), "look")

    def use_file(self, space: str, work: Callable[[Engine], T]) -> T:
        """Use the engine of a space that no server has open."""
        from headwater.host.space_files import open_space  # noqa: PLC0415

        with open_space(f"{STORE}/", space, create=False) as storage:
            return storage.call(work)


__all__ = ["SharedWorld", "use"]
