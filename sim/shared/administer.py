"""What an administrator does at the server while clients work: revokes tokens, compacts, makes backups."""

from __future__ import annotations

import os
from functools import partial
from math import inf
from typing import TYPE_CHECKING

from headwater.errors import HeadwaterError
from headwater.host.space_copies import replace_space
from headwater.host.space_files import open_space
from headwater.machine import machine
from headwater.server.server import Server
from headwater.store.compaction import compact
from headwater.store.engine import Engine
from headwater.store.space_identity import renew_lineage
from headwater.values.ids import Seq
from sim.faults import Pause
from sim.oracles.history import Mirror
from sim.shared.workload import Revoke, Upkeep

if TYPE_CHECKING:
    from sim.shared.shared_world import SharedWorld

GONE_S = 1.0
"""A connection is closed so long after its token was revoked, also if nothing happens."""

FEWER = 15
"""Commits that a copied file lacks, at least: without a new lineage, a client sees only that the log is shorter."""

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
                main = shared.world.conductor.main.process
                shared.world.conductor.begin("revoked", partial(_check_gone, shared, operation.node), main)
            return True
        if operation.what in ("restore", "older"):
            _put_back(shared, server, is_renewed=operation.what == "restore")
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


def _check_gone(shared: SharedWorld, name: str) -> None:
    """An idle connection is closed as well when its token was revoked."""
    rounds = float(len(shared.clients)) if "slow rounds" in shared.world.plan.features else 0.0
    shared.world.conductor.sleep(GONE_S + rounds)
    server = shared.server
    is_paused = any(isinstance(each, Pause) and each.node == shared.name for each in shared.world.plan.faults)
    if is_paused or server is None or server.spaces is None or not shared.world.node(shared.name).is_alive:
        return
    for channel in server.spaces.channels.values():
        if any(getattr(each, "grant_id", "") == shared.grants[name] for each in channel.connections.values()):
            text = f"the token of {name} was revoked at {shared.revoked[name]:.3f}, and its connection is still there"
            shared.world.violate("access", text, name)


def _put_back(shared: SharedWorld, server: Server, *, is_renewed: bool) -> None:
    """Stop the server, put the backups in place of its spaces, and start it again."""
    assert server.spaces is not None
    places = {space: server.spaces.place(space).path for space in shared.backups}
    if not places:
        return
    shared.server = None
    server.stop()
    heads = {space: shared.use_file(space, _head) for space in shared.backups}
    for space, backup in sorted(shared.backups.items()):
        place = places[space]
        assert place is not None
        part = place.with_name(f"{space}.part")
        with machine().files.open(part, os.O_CREAT | os.O_TRUNC | os.O_WRONLY) as file:
            file.write(machine().files.read(backup))
        with open_space(str(part), create=False) as storage:
            if is_renewed or heads[space] - storage.call(_head) < FEWER:
                storage.call(lambda engine: renew_lineage(engine.backend, machine().token_bytes))
        replace_space(part, place)
        machine().files.sync_folder(place.parent)
        head = shared.use_file(space, _head)
        mirror = shared.mirrors.setdefault(space, Mirror())
        mirror.rows = {seq: row for seq, row in mirror.rows.items() if seq <= head}
        shared.world.say(shared.name, f"{space} was put back from {heads[space]} to {head}")
    shared.put_back = {name: client.openings for name, client in shared.clients.items()}
    for client in shared.clients.values():
        for record in client.records:
            record.is_put_back = True
    shared.serve()


def _head(engine: Engine) -> int:
    return int(engine.head)


def _keep(shared: SharedWorld, space: str, what: str, engine: Engine) -> None:
    if what == "fold":
        engine.fold()
        return
    if what == "backup":
        path = f"/srv/backup-{space}-{shared.world.now:.0f}.db"
        engine.backend.backup(path, lambda _done, _total: None)
        shared.backups[space] = path
        return
    # The rows that are dropped have to be seen before.
    mirror = shared.mirrors.setdefault(space, Mirror())
    for wrong in mirror.look(engine):
        shared.world.violate("S1", f"space {space} before a compaction: {wrong}")
    head = int(engine.head)
    if head:
        compact(engine, Seq(max(head - head // 3, 1)))
