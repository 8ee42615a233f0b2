"""What happened in a space, step by step: trace."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from headwater.cli.options import as_list, on_space
from headwater.cli.output import Column, Form, Record, count_text, is_terminal, json_text, note, show, write
from headwater.cli.runtime import again, calling, inquire, of_app, request, utc
from headwater.errors import UsageError
from headwater.values.text import inert

if TYPE_CHECKING:
    from headwater.inspect.records import Ask


_EVENT: Final = re.compile(r"\b(event:[a-z0-9]{8})[a-z0-9]+")

# --- in words -------------------------------------------------------------------------------------------------


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _started(record: Record) -> str:
    causes = record["causes"]
    because = "asked for"
    if record["first"]:
        because = "the first"
    elif isinstance(causes, list) and causes:
        because = f"because {', '.join(map(str, causes))} changed"
    return f"run {record['number']} in pass {record['pass_number']}, {because}"


def _finished(record: Record) -> str:
    result = "changed" if record["changed"] else "nothing changed"
    return f"run {record['number']}, {_number(record['ms']):.2f} ms, read {record['reads']}, {result}"


def _sent(record: Record) -> str:
    return f"{record['event']}, number {record['ordinal']}" + (", with a transaction" if record.get("origin") else "")


def _parked(record: Record) -> str:
    until = record.get("until_ms")
    left = "" if until is None else f", for {_number(until) - _number(record['at_ms']):,.0f} ms"
    return f"{record['event']}: {record['reason']}{left}"


def _dispatched(record: Record) -> str:
    number = int(_number(record["number"]))
    return f"{record['event']}" + (f", try {number:,}" if number > 1 else "")


def _ended(record: Record) -> str:
    return f"{record['event']}: {record['state']}" + (f", {record['reason']}" if record.get("reason") else "")


def _decided(record: Record) -> str:
    return f"{record['name']} {'came to be' if record['came_to_be'] else 'was taken back'}, with what it sent"


_DETAILS: Final[dict[str, Callable[[Record], str]]] = {
    "registered": lambda it: f"{it['kind']}" + (f", made by {_short(it['parent'])}" if it.get("parent") else ""),
    "invalidated": lambda it: f"by {it['cause']} ({it['change']})",
    "started": _started,
    "finished": _finished,
    "failed": lambda it: f"run {it['number']}: {it['error']}",
    "taken-back": lambda it: f"run {it['number']}: {it['reason']}",
    "suspended": lambda it: f"run {it['number']} waits",
    "demand": lambda it: "is live" if it["live"] else "is dormant",
    "gated": lambda it: f"{it['reason']}, for {_number(it['until_ms']) - _number(it['at_ms']):,.0f} ms",
    "restless": lambda it: f"after {it['runs']} runs",
    "pass": lambda it: f"{it['number']} ended, {count_text(int(_number(it['runs'])), 'run')}",
    "sent": _sent,
    "parked": _parked,
    "dispatched": _dispatched,
    "ended": _ended,
    "decided": _decided,
    "restored": lambda it: f"{it['outcome']}" + (f": {it['reason']}" if it.get("reason") else ""),
}


def _detail(record: Record) -> str:
    """The rest, in words."""
    words = _DETAILS.get(str(record["type"]))
    return "" if words is None else words(record)


def _shown_detail(record: Record) -> str:
    """With as much of the ids of events as tells them apart."""
    return _EVENT.sub(lambda found: found[1], _detail(record))


def _short(node: object) -> str:
    """Without the number that tells two of the same name apart."""
    name = str(node).removeprefix("handler:")
    return name.rpartition("#")[0] or name


def _clock(record: Record) -> str:
    from datetime import datetime

    return datetime.fromisoformat(str(record["at"])).astimezone().strftime("%H:%M:%S.%f")[:-3]


_APP: Final = Column(title="app", text=lambda record: str(record["app"]))
_COLUMNS: Final = (
    Column(title="when", text=lambda record: str(record["at"]), shown=_clock),
    Column(title="node", text=lambda record: str(record["node"]), shown=lambda record: _short(record["node"])),
    Column(title="what", text=lambda record: str(record["type"])),
    Column(title="", text=_detail, shown=_shown_detail, elastic=True),
)


# --- trace ----------------------------------------------------------------------------------------------------


@click.command
@click.option("--kind", metavar="KIND", help="Only one kind, such as started, finished, failed or invalidated.")
@click.option("-f", "--follow", is_flag=True, help="Go on with what happens from now on, until Ctrl-C.")
@of_app
@on_space
@as_list
def show_trace(
    *, kind: str | None, follow: bool, app: str | None, url: str | None, space: str | None, form: Form
) -> None:
    """Tell what happened, step by step: what was invalidated by what, what ran, what came of it.

    An open space keeps records if its program says so. With --follow they are made while you look.
    """
    if kind is not None:
        _check_kind(kind)
    ask = request("trace", kind=kind or "", follow=follow)
    if follow:
        if form == "json":
            raise click.UsageError("--follow has no end, so it is no JSON in one piece; use --jsonl.")
        _follow(ask, app, url, space, form)
        return
    views = inquire(url, space, app, ask).views
    if form is None:
        for view in views:
            note(view.headline)
    records = (_record(view.label, told) for view in views for told in view.opening.trace)
    wanted = (record for record in records if kind is None or record["type"] == kind)
    columns = (_APP, *_COLUMNS) if len(views) > 1 else _COLUMNS
    show(wanted, columns, form, empty="no records were kept; --follow shows what happens from now on")


def _check_kind(kind: str) -> None:
    from headwater.cli.spaces import did_you_mean
    from headwater.scheduler.inspect.trace import TRACE_KINDS

    if kind not in TRACE_KINDS:
        hint = did_you_mean(kind, TRACE_KINDS) or f"; there are {', '.join(TRACE_KINDS)}"
        raise UsageError(f"{kind!r} is no kind of record{hint}", kind=kind)


def _follow(ask: Ask, app: str | None, url: str | None, space: str | None, form: Form) -> None:
    with calling(url, space) as caller:
        answer = again(caller, ask, space, app)
        views = [] if answer is None else answer.views
        if form is None:
            for view in views:
                note(view.headline)
        wanted = {view.opening.app for view in views}
        for told in caller.follow():
            if app is not None and told.app not in wanted:
                continue
            if told.missed:
                note(f"{count_text(told.missed, 'record')} missed: they came faster than they were read")
            if told.record is not None:
                _write(_record(told.app, told.record), form)
    note("it was closed")


def _write(record: Record, form: Form) -> None:
    """At once: whoever follows wants to see it now."""
    if form is not None:
        write(json_text(record))
    elif is_terminal():
        when, node, what, detail = (inert((column.shown or column.text)(record)) for column in _COLUMNS)
        write(f"{when}  {node:20}  {what:11}  {detail}".rstrip())
    else:
        write("\t".join(inert(column.text(record)) for column in _COLUMNS))
    sys.stdout.flush()


def _record(app: str, told: Record) -> Record:
    return {"app": app, "at": utc(_number(told["at_ms"])), **told}
