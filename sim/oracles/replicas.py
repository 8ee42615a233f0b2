"""Replicas and the server's own state against the log: INV-9, and that nothing is left at the server (M)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from typing import Any

import msgspec

from headwater.server.server import Server
from headwater.store.engine import Engine
from headwater.values.ids import MAIN, DocKey
from headwater.values.tree import ABSENT
from sim.oracles.history import History, body

Violate = Callable[[str, str], None]


class Look(msgspec.Struct, frozen=True):
    """What a client has: for each document its confirmed and its visible value, and the number of pending commits."""

    seq: int
    documents: dict[str, tuple[bytes, bytes]]
    pending: int
    seen: object = None
    own: tuple[str, ...] = ()
    """Results that the client keeps to itself, because it may not write."""
    prefixes: tuple[str, ...] = ()
    """All documents whose keys begin so are held, but for those that were left out."""
    left_out: tuple[str, ...] = ()
    """Documents that an answer had no room for: they are fetched when they are read."""


def look_at(space: Any, seen: object = None) -> Look:
    """Called in a thread of the client."""
    replica = space._opening.replica  # an oracle looks inside
    link = space._opening._lease.storage._link
    documents = {
        doc: (body(record.confirmed), body(record.visible))
        for doc, record in sorted(replica._documents.items())
        # Results that the client keeps to itself, because it may not write; documents that are on their way.
        if doc not in replica._own and doc not in replica.coming
    }
    prefixes = () if link is None else tuple(link.session.prefixes)
    left_out = () if link is None else tuple(sorted(link.session.left_out))
    own = tuple(sorted(replica._own))
    return Look(int(replica.seq), documents, replica.pending_count, seen, own, prefixes, left_out)


def check_replica(name: str, look: Look, history: History, violate: Violate) -> None:
    """A replica has what the log says, and all documents of its app."""
    if look.pending:
        violate("L1", f"{name} is at rest with {look.pending} pending commits")
    for doc, (confirmed, visible) in look.documents.items():
        expected = body(history.now(DocKey(doc)))
        if confirmed != expected:
            violate("INV-9", f"{name} has {doc} confirmed as {shown(confirmed)}, the log says {shown(expected)}")
        elif visible != confirmed and not look.pending:
            violate("INV-9", f"{name} shows {doc} as {shown(visible)}, and nothing is pending: {shown(confirmed)}")
    for doc in history.docs:
        is_held = doc.startswith(look.prefixes) and doc not in look.left_out
        if is_held and doc not in look.documents and doc not in look.own and history.now(doc) is not ABSENT:
            violate("INV-9", f"{name} has no {doc}, which the log has, and holds all of {look.prefixes}")


def difference(before: Look | None, after: Look) -> str:
    """What has changed, for a message."""
    if before is None:
        return "there was no answer before"
    found = [f"at {before.seq}, then {after.seq}", f"pending {before.pending}, then {after.pending}"]
    if before.seen != after.seen:
        found.append(f"seen {before.seen}, then {after.seen}")
    for doc in sorted(before.documents.keys() | after.documents.keys()):
        one, two = before.documents.get(doc), after.documents.get(doc)
        if one != two:
            shown = [shown(each[0]) if each is not None else "not held" for each in (one, two)]
            found.append(f"{doc} {shown[0]}, then {shown[1]}")
    return "; ".join(found)


def check_engine(history: History, engine: Engine) -> list[str]:
    """The documents in memory are those of the log."""
    wrong: list[str] = []
    if engine.head != history.head:
        wrong.append(f"the engine is at {engine.head}, the log at {history.head}")
    for doc in history.docs:
        found, expected = body(engine.states.get(MAIN, doc).value), body(history.now(doc))
        if found != expected:
            wrong.append(f"the engine has {doc} as {shown(found)}, the log says {shown(expected)}")
    return wrong


def left_at(server: Server) -> Iterator[str]:
    """What a server still has when all clients are gone (M)."""
    authenticator, spaces = server.authenticator, server.spaces
    if authenticator is not None:
        for name in ("_sockets", "_named", "_of_grant"):
            if left := {key: each for key, each in getattr(authenticator, name).items() if each}:
                yield f"authenticator.{name} has {len(left)}"
        if authenticator._places < 0:  # an oracle looks inside
            yield "authenticator has fewer than no places"
    if spaces is None:
        return
    if spaces._tasks:
        yield f"{len(spaces._tasks)} tasks of the spaces"
    for name, channel in spaces.channels.items():
        storage: Any = channel.storage
        parts: tuple[tuple[str, Sized], ...] = (
            ("connections", channel.connections),
            ("watches", channel._watches),
            ("commits without a verdict", channel.since),
            ("outcomes", channel._inbox),
            ("waiting commits", storage._waiting),
        )
        for what, held in parts:
            if len(held):
                yield f"space {name} has {len(held)} {what}"


def shown(data: bytes) -> str:
    """A document for a message."""
    if not data:
        return "none"
    text = repr(msgspec.msgpack.decode(data))
    return text if len(text) < 200 else f"{text[:200]}..."
