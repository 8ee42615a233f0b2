"""Having something done with events: by the process that has the space open, or by an app that is opened for it.

Must never know: how the answer looks.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, TypeVar, cast

import click

from headwater import errors
from headwater.cli.loading import is_module, load_app, while_open
from headwater.cli.output import note
from headwater.cli.runtime import reach, request
from headwater.errors import (
    EventFailedError,
    EventRefusedError,
    EventTimeoutError,
    HeadwaterError,
    UnavailableError,
    UsageError,
)

if TYPE_CHECKING:
    from headwater.cli.remote import Server
    from headwater.host.storage import Storage
    from headwater.inspect.answers import EventReport
    from headwater.inspect.legacy import Caller
    from headwater.inspect.records import Ask, Reply
    from headwater.inspect.view import Window

F = TypeVar("F", bound=Callable[..., Any])
T = TypeVar("T")

TIMEOUT: Final = "10s"
"""How long the end of an event is waited for, unless said otherwise: longer than people like to wait."""

_NAMED: Final = len("event:") + 12
"""As much of an id as is surely enough of it."""

_TRIES: Final = 3
"""Times that a space may be closed while it is asked."""


class Target:
    """Which space is meant, and with what."""

    def __init__(
        self, url: str | None, space: str | None, branch: str, app: str | None, server: Server | None = None
    ) -> None:
        self.url = url
        self.space = space
        self.branch = branch
        self.app = app
        self.server = server

    def ask(self, question: Any, **more: Any) -> Ask:  # noqa: ANN401  # as `request` takes them
        """A request that says where."""
        label = "" if self.app is None or is_module(self.app) else self.app
        return request(question, app=label, space=self.space or "", branch=self.branch, **more)


def with_app(command: F) -> F:
    """`--app`, for what only an app can do."""
    text = "MODULE:APP is imported, and opened if nobody has the space open; a NAME says which of those that have."
    return click.option("--app", metavar="APP", help=text)(command)


def wait_options(command: F) -> F:
    """`--timeout` and `--no-wait`."""
    command = click.option("--no-wait", is_flag=True, help="Do not wait for what comes of it.")(command)
    text = "How long to wait for what comes of it."
    return click.option("--timeout", metavar="DURATION", default=TIMEOUT, show_default=True, help=text)(command)


def timeout_ms(timeout: str, *, no_wait: bool) -> float | None:
    """As requests have it."""
    from headwater.values.duration import to_ms

    limit = to_ms(timeout, "--timeout")
    return None if no_wait else limit


# --- looking --------------------------------------------------------------------------------------------------


def look(target: Target, ask: Ask, closed: Callable[[Storage], T]) -> Reply | T:
    """What the process that has the space open answers; or what is found in a file that nobody has open."""
    from headwater.cli.spaces import open_space
    from headwater.inspect.legacy import Caller

    def otherwise() -> T:
        with open_space(target.url, target.space) as storage:
            return closed(storage)

    for _ in range(_TRIES):
        found = reach(target.url, target.space, otherwise)
        if not isinstance(found, Caller):
            return found
        with found:
            try:
                return checked(found.ask(ask))
            except ConnectionError:
                continue
    raise ConnectionResetError("it is opened and closed all the time; ask again")


def checked(reply: Reply) -> Reply:
    """What was in the way there is in the way here."""
    trouble = reply.trouble
    if trouble is not None:
        kind = getattr(errors, trouble.kind, None)
        if not (isinstance(kind, type) and issubclass(kind, HeadwaterError)):
            kind = HeadwaterError
        raise kind(trouble.message)
    return reply


# --- doing ----------------------------------------------------------------------------------------------------


def do(target: Target, asks: Sequence[Ask], tell: Callable[[EventReport | HeadwaterError], None], verb: str) -> None:
    """Have all of these done, one after the other; each is told of. Raises UsageError if nobody can."""
    from msgspec import structs

    from headwater.cli.spaces import open_space
    from headwater.inspect.legacy import Caller

    left = list(asks)
    if target.server is not None:
        if not is_module(target.app):
            message = f"at a server, {verb} takes the app: name it with --app MODULE:APP, and it is opened for this"
            raise UsageError(message)
        _open_and_do(target, left, tell)
        return

    def otherwise() -> None:
        if is_module(target.app):
            _open_and_do(target, left, tell)
            return
        with open_space(target.url, target.space):
            message = (
                f"nobody has this space open, and {verb} takes the app: start the program that opens it, "
                "or name the app with --app MODULE:APP, which is opened for this"
            )
            raise UsageError(message)

    found = reach(target.url, target.space, otherwise)
    if isinstance(found, Caller):
        with found:
            # That another app has it open is found there, and said.
            name = load_app(target.app).name if target.app is not None and is_module(target.app) else ""
            while left:
                ask = left.pop(0)
                tell(_through(found, structs.replace(ask, app=name) if name else ask))


def _through(caller: Caller, ask: Ask) -> EventReport | HeadwaterError:
    """By the process that has it open."""
    try:
        reply = checked(caller.ask(ask))
    except HeadwaterError as error:
        return error
    except TimeoutError:
        message = "the process that has the space open does not answer; whether it was done is not known"
        return EventTimeoutError(f"{message}. An event that was sent with --id can be sent again")
    except ConnectionError:
        message = "the space was closed before there was an answer; whether it was done is not known"
        return UnavailableError(f"{message}. An event that was sent with --id can be sent again")
    assert reply.event is not None
    return reply.event


def _open_and_do(target: Target, left: list[Ask], tell: Callable[[EventReport | HeadwaterError], None]) -> None:
    """By the app itself, opened here."""
    from headwater.host import space_files
    from headwater.inspect.legacy import event_command, scope_of
    from headwater.inspect.live_inspector import LiveInspector
    from headwater.runtime.options import Options
    from headwater.values.ids import BranchId

    assert target.app is not None
    app = load_app(target.app)
    path = None
    if target.server is None:
        path = space_files.locate(
            target.url if target.url is not None else space_files.default_url(), target.space
        ).path
    is_new = path is not None and not path.exists()
    wrong: list[errors.UserCodeError] = []
    told: list[EventReport | HeadwaterError] = []

    def work(window: Window) -> None:
        while left:
            ask = left.pop(0)
            try:
                told.append(cast("EventReport", LiveInspector([window], scope_of(ask)).do(event_command(ask))))
            except HeadwaterError as error:
                told.append(error)

    token = None if target.server is None else target.server.token
    options = Options(
        space=target.space, branch=BranchId(target.branch), create=path is not None, token=token, on_error=wrong.append
    )
    try:
        while_open(app, target.url, options, work)
    finally:
        # Also if it cannot be closed in peace: what was done is done.
        for one in told:
            tell(one)
    if is_new:
        note(f"made {path}")
    ours = {one.event for one in told if not isinstance(one, HeadwaterError)}
    for error in wrong:
        if error.facts.get("event") not in ours:
            note(f"{type(error).__name__} {error}")


# --- what came of it ------------------------------------------------------------------------------------------


def trouble_in(told: EventReport) -> HeadwaterError | None:
    """Why an event has no result; None if it has one."""
    from headwater.declare.events.ticket import rejected_error, reused_error
    from headwater.scheduler.events.receipts import REUSED

    handler, event, reason = told.handler, told.event, told.reason
    if told.result is not None:
        return None
    match told.state:
        case "failed":
            message = f"{handler} did not handle {event}: {reason}. Nothing of it was written; it is kept"
            return EventFailedError(f"{message}, see `headwater events show {event[:_NAMED]}`", event=event)
        case "rejected":
            return rejected_error(event, handler, reason, None if told.facts is None else json.loads(told.facts))
        case "refused" if reason == REUSED:
            return reused_error(event, handler)
        case "refused":
            return EventRefusedError(f"{event} was not handled by {handler}: {reason}", event=event)
        case state:
            message = f"{handler} has not handled {event} in time. It is {state}, and goes on"
            message += f": {reason}" if reason else ""
            return EventTimeoutError(message, event=event, state=state)
