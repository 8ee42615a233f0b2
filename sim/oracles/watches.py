"""What clients hold against what the server watches for them, and counters of sessions at rest (M, INV-9)."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Any

from headwater.server.spaces.channel import Channel
from headwater.sync.client_session import ClientSession
from headwater.values.ids import SessionId


def wrong_watches(channel: Channel) -> Iterator[str]:
    """Indexes of watches that do not agree with the connections."""
    connections = set(channel.connections.values())
    for branch, watches in sorted(channel._watches.items()):  # an oracle looks inside
        by_doc, by_prefix = watches._by_doc, watches._by_prefix
        indexed: dict[Any, set[str]] = {}
        for table in (by_doc, by_prefix):
            for key, watchers in table.items():
                for watcher in watchers:
                    indexed.setdefault(watcher, set()).add(key)
        if set(indexed) - connections:
            yield f"{len(set(indexed) - connections)} connections that have ended are still told on {branch}"
        for connection in connections & set(watches.sessions.values()):
            told = indexed.get(connection, set())
            held = {*connection.watched, *connection.prefixes}
            if told != held:
                yield f"{connection!r} is told about {sorted(told ^ held)} and watches otherwise"


def wrong_session(channel: Channel, session: SessionId, client: ClientSession, held: Collection[str]) -> Iterator[str]:
    """Differences between both sides of a session at rest. `held`: the documents of the replica."""
    connection: Any = channel.connections.get(session)
    if connection is None:
        yield "the server has no connection of it"
        return
    here, there = set(client.watched), set(connection.watched)
    covered = {doc for doc in here | there if doc.startswith(tuple(client.prefixes))}
    # One that the replica has let go since is only a name.
    if stale := [doc for doc in sorted(here - there - covered) if doc in held]:
        yield f"it holds {stale}, which the server does not watch for it"
    prefixes = tuple(client.prefixes)
    if named := [doc for doc in sorted(here - there - covered) if doc not in held]:
        yield f"it has the names {named} of documents that it has let go"
    if lost := [doc for doc in sorted(held) if doc not in here and not doc.startswith(prefixes)]:
        yield f"its replica has {lost}, and it watches neither these nor their prefixes"
    if not there <= here | covered:
        yield f"the server watches {sorted(there - here - covered)} for it, which it has let go"
    if set(client.prefixes) != set(connection.prefixes):
        yield f"it holds the prefixes {sorted(client.prefixes)}, and the server watches {sorted(connection.prefixes)}"
    talk = connection.talk
    for name, count in (
        ("pending commits", talk.pending),
        ("bytes of pending commits", talk._pending_bytes),
        ("questions", talk.questions),
        ("documents named in questions", sum(talk._named)),
        ("questions that wait", len(connection._asked)),
        ("commits in the outbox", len(client.outbox)),
        ("unanswered questions", len(client._questions)),
    ):
        if count:
            yield f"{name}: {count}"
