"""Asking what the functions of a space are doing: the process that has it open, or what the last one left behind.

Must never know: how the answer looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from headwater.errors import NotFoundError, SpaceHeldError
from headwater.machine import machine

if TYPE_CHECKING:
    from headwater.inspect.legacy import Caller
    from headwater.inspect.records import Ask, Deed, Opening, Question, Reply

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

POLL_S: Final = 0.25
"""How often a view that stays asks whether anything has happened: as quick as anybody can follow."""

_DOOR_S: Final = 1.0
"""A space that was opened a moment ago has no door yet: how long one is waited for."""

_PAUSE_S: Final = 0.02

_TRIES: Final = 3
"""Times that a space may be closed while it is asked."""


class View(NamedTuple):
    """One opening, and what to call it."""

    label: str
    opening: Opening
    pid: int
    """Of the process that has it open; 0: nobody has."""

    @property
    def headline(self) -> str:
        """Where this comes from, in one line."""
        opening, label = self.opening, self.label
        where = label if label == opening.space else f"{label} in space {opening.space}"
        if opening.branch != "main":
            where += f" on branch {opening.branch}"
        if not self.pid:
            line = f"{where}, as of {moment(opening.at_ms)}, when {opening.app} was last closed"
        else:
            line = f"{where}, live in process {self.pid}"
            if opening.actor:
                line += f", for {opening.actor}"
            if opening.running:
                line += f", running {opening.running[-1]}"
            if opening.busy:
                line += " (busy: seen in passing)"
        return f"{line}; {opening.left_out:,} nodes are left out" if opening.left_out else line


class Answer(NamedTuple):
    """What came of a question."""

    views: list[View]
    pid: int
    mark: str


def of_app(command: F) -> F:
    """`--app`."""
    return click.option("--app", metavar="NAME", help="Which app, if several have the space open.")(command)


def moment(ms: float) -> str:
    """A time of day, as clocks here show it."""
    return machine().local_time(ms / 1000)


def utc(ms: float) -> str:
    """The same for programs."""
    from datetime import UTC, datetime

    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


# --- asking ---------------------------------------------------------------------------------------------------


def request(question: Question | Deed, **more: Any) -> Ask:  # noqa: ANN401  # the fields of the record
    """A request in the version we speak."""
    from headwater.inspect.records import VERSION, Ask

    return Ask(v=VERSION, ask=question, **more)


def inquire(url: str | None, space: str | None, app: str | None, ask: Ask) -> Answer:
    """What is told, of every opening or of one app's: live if somebody has the space open, else what was kept."""
    for _ in range(_TRIES):
        found = _reach(url, space)
        if isinstance(found, _Left):
            if not found.openings:
                raise found.unknown()
            return Answer(_chosen([(opening, 0) for opening in found.openings], app), 0, "")
        # If it is closed this very moment, it has left its last word.
        with found, suppress(ConnectionError):
            return _answer(found.ask(ask), ask, space, app)
    raise ConnectionResetError("it is opened and closed all the time; ask again")


@contextmanager
def calling(url: str | None, space: str | None) -> Iterator[Caller]:
    """For questions that only a live space answers."""
    found = _reach(url, space)
    if isinstance(found, _Left):
        message = f"nobody has space {found.space!r} open, so there is nothing to follow"
        raise NotFoundError(message, space=found.space)
    with found:
        yield found


def again(caller: Caller, ask: Ask, space: str | None, app: str | None) -> Answer | None:
    """Ask, and after the first time only for what is different; None if the space was closed."""
    try:
        return _answer(caller.ask(ask), ask, space, app)
    except ConnectionError:
        return None
    except NotFoundError:
        # There was one of this app before.
        if not ask.unless:
            raise
        return None


def _answer(reply: Reply, ask: Ask, space: str | None, app: str | None) -> Answer:
    found = reply.openings
    if not found and (not ask.unless or ask.unless != reply.mark):
        raise ConnectionResetError("it is being closed")
    if space is not None and found and found[0].space != space:
        message = f"it holds the space {found[0].space!r}, not {space!r}; leave out --space, or name the folder"
        raise NotFoundError(message, space=space, found=found[0].space)
    return Answer(_chosen([(opening, reply.pid) for opening in found], app), reply.pid, reply.mark)


def _chosen(found: list[tuple[Opening, int]], app: str | None) -> list[View]:
    """Named so that they can be told apart; of one app if that is asked for."""
    from headwater.inspect.records import labels

    named = zip(labels([opening.app for opening, _ in found]), found, strict=True)
    views = [View(label, opening, pid) for label, (opening, pid) in named]
    if app is None or not views:
        return views
    chosen = [view for view in views if view.label == app]
    if not chosen:
        from headwater.cli.spaces import did_you_mean

        there = [view.label for view in views]
        hint = did_you_mean(app, there) or f"; there is {', '.join(there)}"
        raise NotFoundError(f"there is no app {app!r} here{hint}", app=app)
    return chosen


class _Left(NamedTuple):
    """What was kept of a space that nobody has open."""

    space: str
    openings: list[Opening]

    def unknown(self) -> NotFoundError:
        message = (
            f"nothing is known of functions in space {self.space!r}: no app that has any was closed there yet; "
            "ask while one has it open, or after it was closed"
        )
        return NotFoundError(message, space=self.space)


def _reach(url: str | None, space: str | None) -> Caller | _Left:
    """The process that has a space open; or what was kept, if nobody has."""
    import msgspec

    from headwater.cli.spaces import open_space
    from headwater.inspect.records import Opening
    from headwater.inspect.snapshot import stored_openings

    def left() -> _Left:
        with open_space(url, space) as storage:
            return _Left(
                storage.name, [Opening(**msgspec.structs.asdict(each)) for each in storage.call(stored_openings)]
            )

    return reach(url, space, left)


def reach(url: str | None, space: str | None, otherwise: Callable[[], T]) -> Caller | T:
    """The process that has a space open; if nobody has, what is done otherwise, which opens it."""
    from headwater.host import space_files
    from headwater.inspect.legacy import knock

    url = url if url is not None else space_files.default_url()
    path = space_files.locate(url, space).path
    end = machine().monotonic() + _DOOR_S
    while True:
        if path is not None and (caller := knock(str(path.resolve()))) is not None:
            return caller
        try:
            return otherwise()
        except SpaceHeldError as error:
            if machine().monotonic() >= end:
                message = f"{error.message}. It cannot be asked either: it has no app open, or no door beside the file"
                raise SpaceHeldError(message, **error.facts) from None
        machine().sleep(_PAUSE_S)
