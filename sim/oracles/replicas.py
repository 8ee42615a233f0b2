"""Replicas and the server's own state against the log: INV-9, and that nothing is left at the server (M)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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


def look_at(space: Any, seen: object = None) -> Look:
    """Called in a thread of the client."""
    replica = space._runtime.replica  # noqa: SLF001  # an oracle looks inside
    documents = {
        doc: (body(record.confirmed), body(record.visible)) for doc, record in sorted(replica._documents.items())  # noqa: SLF001
    }
    return Look(int(replica.seq), documents, replica.pending_count, seen)


def check_replica(name: str, look: Look, history: History, actor: str, violate: Violate) -> None:
    """A replica has what the log says, and all documents of its app."""
    if look.pending:
        violate("L1", f"{name} is at rest with {look.pending} pending commits")
    for doc, (confirmed, visible) in look.documents.items():
        expected = body(history.now(DocKey(doc)))
        if confirmed != expected:
            violate("INV-9", f"{name} has {doc} confirmed as {_shown(confirmed)}, the log says {_shown(expected)}")
        elif visible != confirmed and not look.pending:
            violate("INV-9", f"{name} shows {doc} as {_shown(visible)}, and nothing is pending: {_shown(confirmed)}")
    for doc in history.docs:
        is_own = doc.startswith("space/shared.") or (bool(actor) and doc.startswith(f"user:{actor}/shared."))
        if is_own and doc not in look.documents and history.now(doc) is not ABSENT:
            violate("INV-9", f"{name} has no {doc}, which the log has")


def check_engine(engine: Engine, history: History) -> list[str]:
    """The documents in memory are those of the log."""
    wrong: list[str] = []
    if engine.head != history.head:
        wrong.append(f"the engine is at {engine.head}, the log at {history.head}")
    for doc in history.docs:
        found, expected = body(engine.states.get(MAIN, doc).value), body(history.now(doc))
        if found != expected:
            wrong.append(f"the engine has {doc} as {_shown(found)}, the log says {_shown(expected)}")
    return wrong


def left_at(server: Server) -> Iterator[str]:
    """What a server still has when all clients are gone (M)."""
    authenticator, spaces = server.authenticator, server.spaces
    if authenticator is not None:
        for name in ("_sockets", "_named", "_of_grant"):
            if left := {key: each for key, each in getattr(authenticator, name).items() if each}:
                yield f"authenticator.{name} has {len(left)}"
        if authenticator._places < 0:  # noqa: SLF001  # an oracle looks inside
            yield "authenticator has fewer than no places"
    if spaces is None:
        return
    if spaces._tasks:  # noqa: SLF001
        yield f"{len(spaces._tasks)} tasks of the spaces"  # noqa: SLF001
    for name, channel in spaces.channels.items():
        storage: Any = channel.storage
        for what, left in (
            ("connections", channel.connections),
            ("watches", channel._watches),  # noqa: SLF001
            ("commits without a verdict", channel.since),
            ("outcomes", channel._inbox),  # noqa: SLF001
            ("waiting commits", storage._waiting),  # noqa: SLF001
        ):
            if left:
                yield f"space {name} has {len(left)} {what}"


def _shown(data: bytes) -> str:
    if not data:
        return "none"
    text = repr(msgspec.msgpack.decode(data))
    return text if len(text) < 200 else f"{text[:200]}..."
