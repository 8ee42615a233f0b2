"""The oracles of a shared world, in the order in which they need it: at rest, when clients are gone, at the end."""

from __future__ import annotations

from functools import partial

import msgspec

from headwater.server.server_limits import PING_S
from headwater.store.verification import verify
from headwater.values.ids import DocKey
from headwater.values.tree import ABSENT
from sim.faults import Eio, HalfOpen, Isolate, Pause
from sim.oracles.commits import check_commits
from sim.oracles.cycles import cycle_in, describe, edges_of
from sim.oracles.history import History, Mirror, body, lookup
from sim.oracles.replicas import Look, check_engine, check_replica, difference, left_at, shown
from sim.oracles.watches import wrong_session, wrong_watches
from sim.shared.breaker import wrong_receipts
from sim.shared.client import SharedClient, reload
from sim.shared.records import Record
from sim.shared.shared_app import DERIVED, REGISTERS
from sim.shared.shared_world import SharedWorld

REVOKED_S = 0.2
"""Within this time, a revoked token has stopped working."""


def check(shared: SharedWorld) -> None:
    """Look whether the rules hold."""
    looks = _at_rest(shared)
    histories = {space: _history(shared, space, "at rest") for space in shared.spaces}
    for name, look in looks.items():
        node = shared.clients[name].node
        check_replica(name, look, histories[node.space], shared.world.violate)
        _check_seen(shared, name, look, histories[node.space])
    for space, history in histories.items():
        for wrong in shared.on_server(space, partial(check_engine, history)):
            shared.world.violate("INV-9", f"space {space}: {wrong}")
    _check_sessions(shared)
    if shared.world.violations:
        return
    shared.close()
    _check_left(shared)
    shared.stop()
    for name in shared.revoked:
        for record in shared.clients[name].records:
            record.is_cut_off = True
    ended = {space: _history(shared, space, "at the end") for space in shared.spaces}
    _check_folders(shared, ended)
    for space in shared.spaces:
        history = ended[space]
        mine = [each for client in shared.clients.values() if client.node.space == space for each in client.records]
        check_commits(history, mine, shared.world.violate)
        for wrong in wrong_receipts(history):
            shared.world.violate("I11", f"space {space}: {wrong}")
        _check_access(shared, space, mine)
        _check_cycles(shared, history, mine)
        report = shared.at_server(partial(shared.use_file, space, verify), "verify")
        for finding in report.findings:
            shared.world.violate("INV-9", f"space {space}: {finding}")
        shared.world.counts["commits"] += len(history.entries)


def _at_rest(shared: SharedWorld) -> dict[str, Look]:
    """Looks at all clients. A forced pass changes nothing (L2)."""
    living = [each for each in shared.clients.values() if not each.is_ended and each.space is not None]
    before = {each.name: shared.look(each) for each in living}
    head = shared.head()
    after = {each.name: shared.look(each, settle=True) for each in living}
    if shared.head() != head:
        shared.world.violate("L2", f"a forced pass at rest made commits: {head} -> {shared.head()}")
    for name, look in after.items():
        if look is None:
            shared.world.violate("L1", f"{name} does not answer at rest", name)
        elif look != before[name]:
            shared.world.violate("L2", f"a forced pass at rest changed {name}: {difference(before[name], look)}", name)
    return {name: look for name, look in after.items() if look is not None}


def _history(shared: SharedWorld, space: str, when: str) -> History:
    mirror = shared.mirrors.setdefault(space, Mirror())
    for wrong in shared.on_server(space, mirror.look):
        shared.world.violate("S1", f"space {space} {when}: {wrong}")
    return mirror.history(
        {
            (number, tx.replica.session, tx.local_seq)
            for client in shared.clients.values()
            for number, tx in client.repeated
            if tx.local_seq is not None
        }
    )


def _check_sessions(shared: SharedWorld) -> None:
    """Both sides of each session agree (M)."""
    server = shared.server
    assert server is not None
    assert server.spaces is not None
    for space, channel in sorted(server.spaces.channels.items()):
        for wrong in wrong_watches(channel):
            shared.world.violate("M", f"space {space} at rest: {wrong}", shared.name)
        for client in shared.clients.values():
            link = None if client.space is None else client.space._opening._lease.storage._link
            if client.node.space != space or client.is_ended or link is None or link.session.opened is None:
                continue
            replica = client.space._opening.replica
            held = [
                doc
                for doc, record in replica._documents.items()
                # One that was to be made, and was not, is only a name.
                if doc not in replica._own and doc not in replica.coming and record.confirmed is not ABSENT
            ]
            for wrong in wrong_session(channel, link.session.opened.session, link.session, held):
                shared.world.violate("M", f"{client.name} at rest: {wrong}", client.name)


def _check_folders(shared: SharedWorld, histories: dict[str, History]) -> None:  # noqa: C901  # one check each
    """What a folder has is what the log says (INV-9); commits that an opening left in it were decided or are listed."""
    for name, client in shared.clients.items():
        # A folder whose disk has failed takes nothing in until it is opened again.
        has_failed = any(isinstance(each, Eio) and each.node == name for each in shared.world.plan.faults)
        if not client.node.local or client.is_ended or has_failed:
            continue
        history = histories[client.node.space]
        node = shared.world.node(name)
        found: list[tuple[Look, bytes, int]] = []
        node.start("folder", partial(_reload, client, found))
        shared.world.conductor.wait(partial(bool, found), "the folder", 60.0)
        if not found:
            continue
        look, refused, outbox = found[0]
        if outbox:
            shared.world.violate("L1", f"the folder of {name} has {outbox} commits at the end", name)
        for doc, (confirmed, _) in look.documents.items():
            expected = body(history.before(DocKey(doc), look.seq + 1))
            if (client.node.can == "read" or client.is_reader) and doc.partition(".")[2].startswith(DERIVED):
                continue  # a result that it keeps to itself, and not in the folder
            if confirmed != expected:
                text = f"the folder of {name} has {doc} as of {look.seq} otherwise than the log"
                shared.world.violate("INV-9", f"{text}: {shown(confirmed)}, {shown(expected)}", name)
        for record in client.records:
            places = [history.written.get(number) for number in record.written]
            is_listed = any(str(number).encode() in refused for number in record.written)
            if is_listed and any(places) and client.is_reader:
                text = f"transaction {record.act.number} of {name} is listed as rejected, and is in the log"
                shared.world.violate("S1", text, name)
            # It may have been decided, and lost with what came after a backup.
            is_lost = record.is_put_back and (shared.put_back.get(name, 0) > record.opening or record.is_committed)
            is_left = record.was_closed and record.act.how == "block" and not is_lost
            if is_left and places and not any(places) and not is_listed:
                text = f"transaction {record.act.number} of {name} was left in its folder"
                shared.world.violate("INV-7", f"{text}, and is neither in the log nor among the rejected", name)


def _reload(client: SharedClient, found: list[tuple[Look, bytes, int]]) -> None:
    found.append(reload(client))


def _check_seen(shared: SharedWorld, name: str, look: Look, history: History) -> None:
    """The sink of a client has seen what follows from the documents (V)."""
    counters = [lookup(history.now(DocKey(f"space/shared.cnt{i}")), ()) or 0 for i in range(2)]
    total = sum(each for each in counters if isinstance(each, int))
    first = counters[0]
    assert isinstance(first, int)
    careful = -1 if first % 3 == 2 else first * 10
    if total % 2:
        lengths = sum(len(_sized(lookup(history.now(DocKey(f"space/shared.reg{i}")), ()))) for i in range(REGISTERS))
    else:
        lengths = len(_sized(lookup(history.now(DocKey("space/shared.rec0")), ())))
    second = counters[1]
    assert isinstance(second, int)
    record = lookup(history.now(DocKey("space/shared.rec0")), ())
    found = record.get("abc"[second % 3], 0) if isinstance(record, dict) else 0
    assert isinstance(found, int)
    expected = (total, careful, lengths, found % 7)
    if look.seen != expected:
        shared.world.violate("V", f"the sink of {name} has seen {look.seen}, and the documents say {expected}", name)


def _sized(value: object) -> list[object] | dict[str, object]:
    return value if isinstance(value, list | dict) else []


def _check_access(shared: SharedWorld, space: str, records: list[Record]) -> None:
    """A client whose token was revoked has nothing that was written afterwards."""
    for name, look in sorted(shared.last_looks.items()):
        if shared.clients[name].node.space != space:
            continue
        had = b"".join(confirmed for confirmed, _ in look.documents.values())
        limit = shared.revoked[name] + REVOKED_S
        for record in records:
            if record.began <= limit or record.client == name or record.act.how == "once":
                continue
            if any(msgspec.msgpack.encode(number) in had for number in record.written):
                text = f"{name} has what transaction {record.act.number} wrote at {record.began:.3f}"
                shared.world.violate("access", f"{text}, and its token was revoked at {shared.revoked[name]:.3f}", name)


def _check_left(shared: SharedWorld) -> None:
    server = shared.server
    assert server is not None
    # A server notices in three rounds of pings that a client does not answer.
    is_silent = any(isinstance(each, HalfOpen | Isolate | Pause) for each in shared.world.plan.faults)
    shared.wait(lambda: not list(left_at(server)), 3.2 * PING_S if is_silent else 3.0)
    for left in left_at(server):
        shared.world.violate("M", f"when all clients are gone: {left}", shared.name)


def _check_cycles(shared: SharedWorld, history: History, records: list[Record]) -> None:
    registers: dict[str, list[int]] = {}
    for i in range(REGISTERS):
        found = lookup(history.now(DocKey(f"space/shared.reg{i}")), ())
        registers[f"shared.reg{i}"] = [each for each in _sized(found) if isinstance(each, int)]
    there = {number for values in registers.values() for number in values}
    writer = {number: each.act.number for each in records for number in each.written if number in there}
    reads = [
        (each.act.number, doc, value)
        for each in records
        if any(history.written.get(number) for number in each.written) and each.fate != "not"
        for doc, path, value in each.read()
        if doc in registers and not path
    ]
    edges, wrong = edges_of(registers, writer, reads)
    for text in wrong:
        shared.world.violate("INV-1", text)
    if cycle := cycle_in(edges):
        shared.world.violate("INV-1", f"a cycle: {describe(edges, cycle)}")
