"""What an administrator does at the server while clients work: revokes tokens, compacts, makes backups."""

from __future__ import annotations

from functools import partial
from math import inf
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.store.compaction import compact
from headwater.store.engine import Engine
from headwater.values.ids import Seq
from sim.oracles.history import Mirror
from sim.shared.workload import Revoke, Upkeep

if TYPE_CHECKING:
    from sim.shared.shared_world import SharedWorld

TRIES = 20
"""A revocation is repeated until it succeeds: the disk may be full, or the server away."""


def administer(shared: SharedWorld, operation: Revoke | Upkeep) -> None:
    """Perform it in a thread of the server, and wait for it."""
    for _ in range(TRIES if isinstance(operation, Revoke) else 1):
        if _try(shared, operation):
            return
        shared.world.conductor.sleep(1.0)


def _try(shared: SharedWorld, operation: Revoke | Upkeep) -> bool:
    done: list[bool] = []
    node = shared.world.node(shared.name)
    if shared.server is not None and node.is_alive:
        node.start("administer", lambda: done.append(_perform(shared, operation)))
        shared.wait(lambda: bool(done) or not node.is_alive, 120.0)
    return bool(done) and done[0]


def _perform(shared: SharedWorld, operation: Revoke | Upkeep) -> bool:
    server = shared.server
    assert server is not None
    try:
        if isinstance(operation, Revoke):
            if operation.node not in shared.revoked or shared.revoked[operation.node] == inf:
                # Known before it is told.
                shared.revoked[operation.node] = inf
                server.access.revoke(shared.grants[operation.node])
                shared.revoked[operation.node] = shared.world.now
                shared.world.say(shared.name, f"revoked the token of {operation.node}")
            return True
        if operation.what == "restart":
            # As a new version of the server is deployed: clients are asked to come again.
            shared.server = None
            server.stop()
            shared.world.say(shared.name, "ended, to be started again")
            shared.serve()
            return True
        for space in shared.spaces:
            storage = shared.storage(space)
            if storage is not None:
                storage.call(partial(_keep, shared, space, operation.what))
                shared.world.say(shared.name, f"{operation.what} of {space}")
    except (HeadwaterError, OSError) as error:
        shared.world.say(shared.name, f"{operation}: {error}")
        return False
    return True


def _keep(shared: SharedWorld, space: str, what: str, engine: Engine) -> None:
    if what == "fold":
        engine.fold()
        return
    if what == "backup":
        engine.backend.backup(f"/srv/backup-{space}-{shared.world.now:.0f}.db", lambda _done, _total: None)
        return
    # The rows that are dropped have to be seen before.
    mirror = shared.mirrors.setdefault(space, Mirror())
    for wrong in mirror.look(engine):
        shared.world.violate("S1", f"space {space} before a compaction: {wrong}")
    head = int(engine.head)
    if head:
        compact(engine, Seq(max(head - head // 3, 1)))
