"""Events that were not handled: events ls, show, redeliver, drop."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from headwater.cli.delivery import Target, do, timeout_ms, trouble_in, wait_options, with_app
from headwater.cli.event_places import dropped, listed, shown
from headwater.cli.exits import Exit, exit_of
from headwater.cli.options import as_list, as_object, on_branch
from headwater.cli.output import (
    Column,
    Form,
    Record,
    answer,
    console,
    count_text,
    is_terminal,
    json_text,
    note,
    preview,
    show,
    write,
)
from headwater.cli.remote import on_space_or_server, server_of
from headwater.cli.runtime import moment, utc
from headwater.errors import HeadwaterError, NotFoundError
from headwater.values.text import inert, inert_lines

if TYPE_CHECKING:
    from headwater.inspect.records import EventTold

F = TypeVar("F", bound=Callable[..., Any])

_SHORT: Final = 8
"""Letters of an id in a table, if these tell them apart."""

_WIDE: Final = 90
"""Columns of a terminal that has room for what events carried."""


class Events(click.Group):
    """The group; a name that is close is suggested."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            from headwater.cli.spaces import did_you_mean

            close = did_you_mean(args[0], self.commands).removeprefix("; ")
            hint = close.capitalize() or f"There is {', '.join(self.commands)}."
            raise click.UsageError(f"There is no command 'events {args[0]}'. {hint}", ctx)
        return super().resolve_command(ctx, args)


@click.group("events", cls=Events)
def events() -> None:
    """Look at events that failed or wait, deliver them again, drop them.

    An event that fails is kept, with what it carried and why. EVENT is an id as `events ls` shows it; what it begins
    with is enough. If a process has the space open, it is asked, and does what is to be done.
    """


# --- what there is --------------------------------------------------------------------------------------------


def _target(branch: str, url: str | None, space: str | None, token_file: Path | None, app: str | None = None) -> Target:
    return Target(url, space, branch, app, server_of(url, space, token_file))


def _record(event: EventTold) -> dict[str, object]:
    """As `--json` prints it. What is not known is left out."""
    record: dict[str, object] = {"event": event.event, "state": event.state, "stream": event.stream}
    known = {
        "handler": event.handler.removesuffix("()"),
        "app": event.app,
        "at": utc(event.at_ms) if event.at_ms else "",
        "attempts": event.attempts,
        "reason": event.reason,
        "traceback": event.traceback,
    }
    record |= {name: value for name, value in known.items() if value}
    if event.payload is not None:
        record["payload"] = json.loads(event.payload)
    if event.result is not None:
        record["result"] = json.loads(event.result)
    if event.facts is not None:
        record["facts"] = json.loads(event.facts)
    return record


def _shortest(records: Iterable[Record]) -> Callable[[Record], str]:
    """What each id begins with, as much of it as tells them all apart."""
    letters = [str(record["event"]).partition(":")[2] for record in records]
    length = _SHORT
    while len({each[:length] for each in letters}) < len(set(letters)):
        length += 1
    return lambda record: str(record["event"]).partition(":")[2][:length]


def _columns(records: list[Record], *, waiting: bool) -> tuple[Column, ...]:
    event = Column(title="event", text=lambda record: str(record["event"]), shown=_shortest(records))
    when = Column(
        title="sent" if waiting else "failed", text=lambda record: str(record.get("at", "")), shown=_local_time
    )
    stream = Column(title="stream", text=lambda record: str(record["stream"]))
    state = Column(title="state", text=lambda record: str(record["state"]))
    tries = Column(title="tries", text=lambda record: str(record.get("attempts", 0)), number=True)
    reason = Column(title="why", text=lambda record: str(record.get("reason", "")), elastic=True)
    payload = Column(
        title="payload",
        text=lambda record: json_text(record["payload"]) if "payload" in record else "",
        shown=lambda record: preview(record["payload"]) if "payload" in record else "…",
        elastic=True,
    )
    # What it carried is the first that a narrow terminal can do without.
    last = (payload,) if not is_terminal() or console().width >= _WIDE else ()
    if waiting:
        return event, when, stream, state, reason, *last
    return event, when, stream, tries, reason, *last


def _local_time(record: Record) -> str:
    from datetime import datetime

    at = record.get("at")
    return datetime.fromisoformat(str(at)).astimezone().strftime("%m-%d %H:%M:%S") if at else ""


@events.command("ls")
@click.option("--waiting", is_flag=True, help="List events that wait to be handled, instead of those that failed.")
@on_branch
@on_space_or_server
@as_list
def list_events(
    *, waiting: bool, branch: str, url: str | None, space: str | None, token_file: Path | None, form: Form
) -> None:
    """List the events that failed, oldest first.

    With --waiting those that wait, and why: in the process that has the space open, or in the file that nobody has.
    """
    records: list[Record] = list(map(_record, listed(_target(branch, url, space, token_file), waiting=waiting)))
    empty = "no event waits" if waiting else "no failed events"
    show(records, _columns(records, waiting=waiting), form, empty=empty)


# --- show -----------------------------------------------------------------------------------------------------


@events.command("show")
@click.argument("event")
@on_branch
@on_space_or_server
@as_object
def show_event(
    *, event: str, branch: str, url: str | None, space: str | None, token_file: Path | None, form: Form
) -> None:
    """Tell all that is known of one event.

    What it carried, why it failed and where, or what it waits for. Of one that was handled, by its whole id: its
    result, or why it was rejected.
    """
    told = shown(_target(branch, url, space, token_file), event)
    record = _record(told)
    if form is not None:
        answer(record, sentence="", plain="", form=form)
    elif is_terminal():
        write("\n".join(_story(told)))
    else:
        for name, value in record.items():
            text = json_text(value) if name in ("payload", "result", "facts") else str(value).rstrip("\n")
            # Lines of one text stand below each other, and the name before the first.
            write(f"{name}\t" + inert_lines(text).replace("\n", "\n\t"))


def _story(event: EventTold) -> list[str]:
    """For people: the facts in a column, what is long below them."""
    tries = f", after {count_text(event.attempts, 'try', 'tries')}" if event.attempts else ""
    at = moment(event.at_ms) if event.at_ms else ""
    facts = {
        "state": event.state,
        "stream": event.stream,
        "handler": event.handler,
        "failed" if event.state == "failed" else "sent": f"{at}{tries}" if at else "",
        "why": event.reason,
    }
    lines = [inert(event.event)]
    for name, text in facts.items():
        if text:
            first, *more = inert_lines(text).split("\n")
            lines += [f"  {name:8} {first}", *(f"{'':11}{line}" for line in more)]
    for name, told in (("payload", event.payload), ("result", event.result), ("facts", event.facts)):
        if told is not None:
            lines += ["", f"{name}:", *_indented(json_text(json.loads(told), indent=2))]
    if event.traceback:
        lines += ["", *_indented(inert_lines(event.traceback.rstrip("\n")))]
    return lines


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.split("\n")]


# --- redeliver, drop ------------------------------------------------------------------------------------------


def which(command: F) -> F:
    """EVENT... or --all."""
    command = click.option("--all", "every", is_flag=True, help="All that failed.")(command)
    return click.argument("names", metavar="[EVENT]...", nargs=-1)(command)


def _chosen(names: tuple[str, ...], every: bool, there: list[EventTold]) -> list[EventTold]:
    """The failed events that are meant; all names are looked up before anything is done."""
    from headwater.inspect.stored_events import meant_by

    if bool(names) == every:
        raise click.UsageError("Name events, or say --all.")
    if every:
        return there
    chosen: dict[str, EventTold] = {}
    for name in names:
        found = meant_by(name, there)
        if found is None:
            message = f"there is no failed event {name}; `headwater events ls` lists them"
            raise NotFoundError(f"{message}, `events show` tells whether it waits or was handled", event=name)
        chosen[found.event] = found
    return list(chosen.values())


_OUTCOME: Final = (
    Column(title="stream", text=lambda record: str(record["stream"])),
    Column(title="state", text=lambda record: str(record["state"])),
    Column(
        title="result",
        text=lambda record: json_text(record["result"]) if "result" in record else str(record.get("reason", "")),
        elastic=True,
    ),
)


@events.command("redeliver")
@which
@wait_options
@with_app
@on_branch
@on_space_or_server
@as_list
def redeliver_events(
    *,
    names: tuple[str, ...],
    every: bool,
    timeout: str,
    no_wait: bool,
    app: str | None,
    branch: str,
    url: str | None,
    space: str | None,
    token_file: Path | None,
    form: Form,
) -> None:
    """Deliver failed events once more, and tell what came of each.

    By the process that has the space open; if nobody has, and at a server, by the app that --app names.
    """
    target = _target(branch, url, space, token_file, app)
    limit = timeout_ms(timeout, no_wait=no_wait)
    there = listed(target, waiting=False)
    chosen = _chosen(names, every, there)
    records: list[Record] = []
    codes: list[Exit] = []

    def tell(told: EventTold | HeadwaterError) -> None:
        event = chosen[len(records)]
        if isinstance(told, HeadwaterError):
            records.append(
                {"event": event.event, "state": "not delivered", "stream": event.stream, "reason": str(told)}
            )
            codes.append(exit_of(type(told)))
            return
        records.append(_record(told))
        trouble = None if no_wait else trouble_in(told)
        codes.append(Exit.DONE if trouble is None else exit_of(type(trouble)))

    if chosen:
        asks = [target.ask("redeliver", event=event.event, timeout_ms=limit) for event in chosen]
        do(target, asks, tell, "delivering an event")
    column = Column(title="event", text=lambda record: str(record["event"]), shown=_shortest(records))
    show(records, (column, *_OUTCOME), form, empty="no failed events")
    worst = next((code for code in (Exit.FAILED, Exit.NOT_FOUND, Exit.REFUSED, Exit.TIMED_OUT) if code in codes), None)
    if worst is not None:
        raise click.exceptions.Exit(worst)


@events.command("drop")
@which
@on_branch
@on_space_or_server
@as_list
def drop_events(
    *,
    names: tuple[str, ...],
    every: bool,
    branch: str,
    url: str | None,
    space: str | None,
    token_file: Path | None,
    form: Form,
) -> None:
    """Forget events that failed or wait, for good.

    Of one that failed, all that was kept goes. One that waits is not handled any more.
    """
    if bool(names) == every:
        raise click.UsageError("Name events, or say --all.")
    found = dropped(_target(branch, url, space, token_file), names, every=every)
    records = [{"event": event.event, "stream": event.stream} for event in found]
    if form is None and is_terminal():
        note(f"dropped {count_text(len(records), 'event')}" if records else "no failed events")
        return
    show(records, (Column(title="event", text=lambda record: str(record["event"])),), form, empty="no failed events")
