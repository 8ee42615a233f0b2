"""Events: send, events ls, show, redeliver, drop."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from typing import Final

import click

from headwater.cli import output as out
from headwater.cli.event_delivery import Outcome, deliver, failure_of, timeout_ms
from headwater.cli.exits import Exit, exit_of
from headwater.cli.function_syntax import DELIVERY, EVENT
from headwater.cli.json_input import read_json
from headwater.cli.output import Column, Form, Record
from headwater.cli.target import Target
from headwater.errors import HeadwaterError, NameRefusedError, NotFoundError, SchemaError, UsageError
from headwater.inspect.event_records import DropEvent, EventReport, ListEvents, RedeliverEvent, SendEvent, ShowEvent
from headwater.inspect.inspector import Inspector
from headwater.inspect.stored_events import droppable, meant_by
from headwater.values.space_ids import check_space_id
from headwater.values.strict_json import parse_json
from headwater.values.text import count_text, inert, inert_lines

_SHORT: Final = 8
"""Characters of an id in a table, if the ids differ in these."""

_WIDE: Final = 90
"""Columns of a terminal that is wide enough for payloads."""


def _record(event: EventReport) -> dict[str, object]:
    """The record that `--json` prints, without unknown fields."""
    record: dict[str, object] = {"event": event.event, "state": event.state, "stream": event.stream}
    known = {
        "handler": event.handler.removesuffix("()"),
        "app": event.app,
        "to": event.to,
        "at": out.utc(event.at_ms) if event.at_ms else "",
        "attempts": event.attempts,
        "reason": event.reason,
        "traceback": event.traceback,
    }
    record |= {name: value for name, value in known.items() if value}
    return record | _texts(event)


def _texts(event: EventReport) -> dict[str, object]:
    texts = {"payload": event.payload, "result": event.result, "facts": event.facts}
    return {name: json.loads(text) for name, text in texts.items() if text is not None}


# --- ls -------------------------------------------------------------------------------------------------------


def list_events(*, waiting: bool, outgoing: bool, target: Target, form: Form) -> None:
    """Carry out `events ls`."""
    if waiting and outgoing:
        raise click.UsageError("Say --waiting or --outgoing.")
    with target.inspector() as inspector:
        found = inspector.ask(ListEvents(waiting=waiting, outgoing=outgoing))
        records: list[Record] = list(map(_record, found))
    fields = [
        replace(each, title="sent")
        if (waiting or outgoing) and isinstance(each, Column) and each.name == "at"
        else each
        for each in EVENT
    ]
    without = ["attempts" if waiting or outgoing else "state"]
    # A narrow terminal has no room for the payload.
    without += ["payload"] if out.is_terminal() and out.width() < _WIDE else []
    empty = "no event waits" if waiting else "no failed events"
    empty = "nothing waits for another space" if outgoing else empty
    out.show(records, fields, form, empty=empty, without=without, shown={"event": _shortest(records)})


def _shortest(records: Iterable[Record]) -> Callable[[Record], str]:
    """The shortest prefix of each id that is unique."""
    letters = [str(record["event"]).partition(":")[2] for record in records]
    length = _SHORT
    while len({each[:length] for each in letters}) < len(set(letters)):
        length += 1
    return lambda record: str(record["event"]).partition(":")[2][:length]


# --- show -----------------------------------------------------------------------------------------------------


def show_event(*, event: str, target: Target, form: Form) -> None:
    """Carry out `events show`."""
    with target.inspector() as inspector:
        found = inspector.ask(ShowEvent(event=event))
    record = _record(found)
    if form is not None:
        out.answer(record, sentence="", plain="", form=form)
    elif out.is_terminal():
        out.write("\n".join(_story(found)))
    else:
        for name, value in record.items():
            text = out.json_text(value) if name in ("payload", "result", "facts") else str(value).rstrip("\n")
            # The name is before the first line of a text.
            out.write(f"{name}\t" + inert_lines(text).replace("\n", "\n\t"))


def _story(event: EventReport) -> list[str]:
    """For people: the facts in a column, long texts below them."""
    tries = f", after {count_text(event.attempts, 'try', 'tries')}" if event.attempts else ""
    facts = {
        "state": event.state,
        "stream": event.stream,
        "handler": event.handler,
        "failed" if event.state == "failed" else "sent": f"{out.local(event.at_ms)}{tries}" if event.at_ms else "",
        "why": event.reason,
    }
    lines = [inert(event.event)]
    for name, text in facts.items():
        if text:
            first, *more = inert_lines(text).split("\n")
            lines += [f"  {name:8} {first}", *(f"{'':11}{line}" for line in more)]
    for name, value in _texts(event).items():
        lines += ["", f"{name}:", *_indented(out.json_text(value, indent=2))]
    if event.traceback:
        lines += ["", *_indented(inert_lines(event.traceback.rstrip("\n")))]
    return lines


def _indented(text: str) -> list[str]:
    return [f"  {line}" for line in text.split("\n")]


# --- redeliver, drop ------------------------------------------------------------------------------------------


def _check_names(names: tuple[str, ...], *, every: bool) -> None:
    if bool(names) == every:
        raise click.UsageError("Name events, or say --all.")


def redeliver_events(
    *, names: tuple[str, ...], every: bool, to: str, timeout: str, no_wait: bool, target: Target, form: Form
) -> None:
    """Carry out `events redeliver`."""
    limit = timeout_ms(timeout, no_wait=no_wait)
    _check_names(names, every=every)
    if to:
        _check_id(to)
    with target.inspector() as inspector:
        failed = list(inspector.ask(ListEvents()))
        if to and not every:
            # What waits for a space that is gone has not failed.
            failed += [event for event in inspector.ask(ListEvents(outgoing=True)) if event.state == "undelivered"]
        chosen = failed if every else _chosen(names, failed, inspector)
    records: list[Record] = []
    codes: list[Exit] = []

    def report(outcome: Outcome) -> None:
        event = chosen[len(records)]
        if isinstance(outcome, HeadwaterError):
            about = {"event": event.event, "state": "not delivered", "stream": event.stream}
            records.append({**about, "reason": str(outcome)})
            codes.append(exit_of(type(outcome)))
            return
        records.append(_record(outcome))
        failure = None if no_wait or outcome.to else failure_of(outcome)
        codes.append(Exit.DONE if failure is None else exit_of(type(failure)))

    if chosen:
        deliver(target, [RedeliverEvent(event=event.event, timeout_ms=limit, to=to) for event in chosen], report)
    out.show(records, DELIVERY, form, empty="no failed events", shown={"event": _shortest(records)})
    worst = next((code for code in (Exit.FAILED, Exit.NOT_FOUND, Exit.REFUSED, Exit.TIMED_OUT) if code in codes), None)
    if worst is not None:
        raise click.exceptions.Exit(worst)


def _check_id(to: str) -> None:
    """An event would wait for ever for a space that cannot exist."""
    try:
        check_space_id(to)
    except NameRefusedError as error:
        raise NameRefusedError(f"--to: {error.message}; `headwater spaces ls` lists ids", id=to) from None


def _chosen(names: tuple[str, ...], failed: list[EventReport], inspector: Inspector) -> list[EventReport]:
    """The failed events of these names. All names are looked up before the first command."""
    chosen: dict[str, EventReport] = {}
    for name in names:
        found = meant_by(name, failed)
        if found is None:
            # The id of a ticket, if it was sent to another space.
            with suppress(NotFoundError):
                found = meant_by(inspector.ask(ShowEvent(event=name)).event, failed)
        if found is None:
            message = f"there is no failed event {name}; `headwater events ls` lists them"
            raise NotFoundError(f"{message}, `events show` tells whether it waits or was handled", event=name)
        chosen[found.event] = found
    return list(chosen.values())


def drop_events(*, names: tuple[str, ...], every: bool, target: Target, form: Form) -> None:
    """Carry out `events drop`."""
    _check_names(names, every=every)
    with target.inspector() as inspector:
        # Look up all names before the first command; two names may mean one event.
        asked = inspector.ask(ListEvents()) if every else [inspector.ask(ShowEvent(event=name)) for name in names]
        chosen = {event.event: droppable(event) for event in asked}
        if target.server is not None:
            _check_failed(chosen.values(), str(target.server.url))
        dropped = [inspector.do(DropEvent(event=event)) for event in chosen]
    records = [{"event": event.event, "stream": event.stream} for event in dropped]
    if form is None and out.is_terminal():
        out.note(f"dropped {count_text(len(records), 'event')}" if records else "no failed events")
        return
    out.show(records, (Column("event"),), form, empty="no failed events")


def _check_failed(events: Iterable[EventReport], url: str) -> None:
    """Reject waiting events of a server: a program that has the space open may be about to handle them."""
    waits = next((event.event for event in events if event.state != "failed"), None)
    if waits is not None:
        message = f"{waits} waits, and a program that has {url} open may be about to handle it"
        raise UsageError(f"{message}: only what failed can be dropped there", event=waits)


# --- send -----------------------------------------------------------------------------------------------------


def send_event(
    *,
    handler: str,
    pairs: tuple[str, ...],
    text: str | None,
    name: str | None,
    by: str | None,
    timeout: str,
    no_wait: bool,
    full: bool,
    target: Target,
) -> None:
    """Carry out `send`."""
    if by is not None and name is None:
        raise click.UsageError("--by says whose name --id is; give both.")
    if name == "" or by == "":
        raise click.UsageError("A name is expected, not an empty text.")
    limit = timeout_ms(timeout, no_wait=no_wait)
    fields = json.dumps(_fields(pairs, text))
    command = SendEvent(handler=handler, fields=fields, name=name or "", by=by or "", timeout_ms=limit)
    outcomes: list[Outcome] = []
    deliver(target, [command], outcomes.append)
    [outcome] = outcomes
    if isinstance(outcome, HeadwaterError):
        raise _with_hint(outcome, pairs)
    failure = None if no_wait else failure_of(outcome)
    if full or failure is None:
        _print_sent(outcome, full=full)
    if failure is not None:
        raise failure


def _with_hint(error: HeadwaterError, pairs: tuple[str, ...]) -> HeadwaterError:
    """The error, with a hint if a value was parsed as JSON where text is expected."""
    if isinstance(error, SchemaError) and "expected str" in error.message:
        for name, _, value in (pair.partition("=") for pair in pairs):
            if f"/{name}:" in error.message and not isinstance(_value(value), str):
                hint = f"{name}={json.dumps(value, ensure_ascii=False)}"
                return SchemaError(
                    f"{error.message}; what can be read as JSON is no text, unless it is quoted: '{hint}'"
                )
    return error


def _print_sent(event: EventReport, *, full: bool) -> None:
    if full:
        record = {
            "event": event.event,
            "handler": event.handler.removesuffix("()"),
            "stream": event.stream,
            "state": event.state,
            "handled_before": event.handled_before,
            "result": None if event.result is None else json.loads(event.result),
            "reason": event.reason,
            **({} if event.facts is None else {"facts": json.loads(event.facts)}),
        }
        out.write(out.json_text(record))
    elif event.result is not None:
        out.show_value(json.loads(event.result))
        # The result comes first if stdout and stderr are one stream.
        sys.stdout.flush()
        if event.handled_before:
            out.note(f"{event.event} was handled before; this is its result")
        else:
            out.note(f"{event.event} was handled by {event.handler}")
    else:
        # The id, for `events show`.
        out.write(event.event)


def _fields(pairs: tuple[str, ...], text: str | None) -> dict[str, object]:
    """The payload: the fields of the object, and the fields given as NAME=VALUE."""
    fields: dict[str, object] = {}
    if text is not None:
        given = read_json(text)
        if not isinstance(given, dict):
            raise UsageError(f"--json takes an object, such as '{{\"amount\": 3}}', not {text[:60]}")
        fields.update(given)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{pair!r} does not say which field it is; write NAME=VALUE.")
        if name in fields:
            raise click.UsageError(f"{name} is given twice.")
        fields[name] = _value(value)
    return fields


def _value(text: str) -> object:
    """The value of JSON text; other text as it is."""
    try:
        return parse_json(text)
    except UsageError:
        return text
