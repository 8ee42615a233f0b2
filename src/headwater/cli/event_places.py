"""Where commands find events: in a file, in the process that has it open, or at a server.

Must never know: how the answer looks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from headwater.cli.delivery import Target, do, look
from headwater.errors import HeadwaterError, NotFoundError, UsageError

if TYPE_CHECKING:
    from headwater.cli.remote import Server
    from headwater.host.storage import Storage
    from headwater.inspect.records import EventTold, Reply
    from headwater.inspect.stored_events import Reader as Look
    from headwater.store.engine import Engine
    from headwater.values.ids import DocKey
    from headwater.values.tree import Maybe


# --- looking --------------------------------------------------------------------------------------------------


def listed(target: Target, *, waiting: bool) -> list[EventTold]:
    """Of the file, of all openings that a process has of it, or of a server's space."""
    from headwater.inspect import stored_events

    listing = stored_events.waiting if waiting else stored_events.failed
    if target.server is not None:
        with _served(target.server, target.branch) as there:
            return listing(there)

    def closed(storage: Storage) -> list[EventTold]:
        return storage.call(lambda engine: listing(_in_file(engine, target.branch)))

    found = look(target, target.ask("events", waiting=waiting), closed)
    return found if isinstance(found, list) else _of_reply(found, target)


def shown(target: Target, name: str) -> EventTold:
    """One event, likewise."""
    from headwater.inspect import stored_events
    from headwater.inspect.records import Reply

    if target.server is not None:
        with _served(target.server, target.branch) as there:
            return stored_events.shown(there, name)

    def closed(storage: Storage) -> EventTold:
        return storage.call(lambda engine: stored_events.shown(_in_file(engine, target.branch), name))

    found = look(target, target.ask("event", event=name), closed)
    told = found.event if isinstance(found, Reply) else found
    assert told is not None
    return told


def _of_reply(reply: Reply, target: Target) -> list[EventTold]:
    events: dict[str, EventTold] = {}
    for opening in reply.openings:
        if target.space is not None and opening.space != target.space:
            message = f"it holds the space {opening.space!r}, not {target.space!r}; leave out --space"
            raise NotFoundError(message, space=target.space, found=opening.space)
        if opening.branch == target.branch:
            # Those that failed are the file's: every opening tells of the same.
            events |= {event.event: event for event in opening.events}
    return list(events.values())


def _in_file(engine: Engine, branch: str) -> Look:
    from headwater.cli.spaces import find_branch
    from headwater.inspect.stored_events import reader

    return reader(engine, find_branch(engine, branch))


@contextmanager
def _served(server: Server, branch: str) -> Iterator[Look]:
    """What nearly all questions are about comes in one answer."""
    from headwater.cli.remote import linked, pulled
    from headwater.scheduler.events.failed_events import FAILED, record_of
    from headwater.scheduler.events.outbox import OUTBOX
    from headwater.values.tree import ABSENT

    with linked(server, branch=branch) as link:
        known = {each.doc: each.content for each in pulled(link, (OUTBOX, FAILED), (record_of(""),)).docs}

        def there(doc: DocKey) -> Maybe:
            if doc not in known:
                known[doc] = next((each.content for each in pulled(link, (doc,)).docs if each.doc == doc), ABSENT)
            return known[doc]

        yield there


# --- dropping -------------------------------------------------------------------------------------------------


def dropped(target: Target, names: tuple[str, ...], *, every: bool) -> list[EventTold]:
    """Drop these, or all that failed. Returns which."""
    from headwater.inspect import stored_events

    if target.server is not None:
        return _dropped_there(target.server, target, names, every=every)

    def closed(storage: Storage) -> list[EventTold]:
        def choose(engine: Engine) -> list[EventTold]:
            there = _in_file(engine, target.branch)
            return stored_events.failed(there) if every else _each(stored_events.shown(there, name) for name in names)

        chosen = storage.call(choose)
        replica = storage.attach(branch=target.branch)
        for event in chosen:
            stored_events.drop(replica, event.event)
        replica.sync()
        return chosen

    found = look(target, target.ask("events"), closed)
    if isinstance(found, list):
        return found
    there = _of_reply(found, target)
    return _dropped_by(target, there if every else _each(shown(target, name) for name in names))


def _each(found: Iterable[EventTold]) -> list[EventTold]:
    """All names are looked up before anything is done; two may mean one."""
    from headwater.inspect.stored_events import droppable

    return list({event.event: droppable(event) for event in found}.values())


def _dropped_by(target: Target, chosen: list[EventTold]) -> list[EventTold]:
    """By the process that has the space open."""
    gone: list[EventTold] = []

    def tell(told: EventTold | HeadwaterError) -> None:
        if isinstance(told, HeadwaterError):
            raise told
        gone.append(told)

    if chosen:
        do(target, [target.ask("drop", event=event.event) for event in chosen], tell, "dropping it there")
    return gone


def _dropped_there(server: Server, target: Target, names: tuple[str, ...], *, every: bool) -> list[EventTold]:
    """At a server: those that failed. Programs that have the space open may be about to handle one that waits."""
    from headwater.cells.rejection import rejection
    from headwater.cli.remote import opened
    from headwater.inspect import stored_events

    chosen = listed(target, waiting=False) if every else _each(shown(target, name) for name in names)
    waits = next((event.event for event in chosen if event.state != "failed"), None)
    if waits is not None:
        message = f"{waits} waits, and a program that has {server.url} open may be about to handle it"
        raise UsageError(f"{message}: only what failed can be dropped there", event=waits)
    with opened(server, actor="", create=False) as storage:
        replica = storage.attach(branch=target.branch)
        lost: list[HeadwaterError] = []
        replica.on_rejected = lambda _, verdict, error: lost.append(error or rejection(verdict, None, str(server.url)))
        for event in chosen:
            stored_events.drop(replica, event.event)
        replica.sync()
        for error in lost:
            raise error
    return chosen
