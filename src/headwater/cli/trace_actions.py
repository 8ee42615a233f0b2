"""The recorded steps of functions: trace."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Final

import click

from headwater.cli import output as out
from headwater.cli.function_syntax import STEP, shorter_ids, without_number
from headwater.cli.output import Column, Form, Record
from headwater.cli.target import Target
from headwater.errors import UsageError
from headwater.inspect.function_records import GetTrace
from headwater.scheduler.trace import TRACE_KINDS
from headwater.values.suggestions import did_you_mean
from headwater.values.text import count_text, inert

# --- in words -------------------------------------------------------------------------------------------------


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
    return f"run {record['number']}, {out.number(record['ms']):.2f} ms, read {record['reads']}, {result}"


def _parked(record: Record) -> str:
    until = record.get("until_ms")
    left = "" if until is None else f", for {out.number(until) - out.number(record['at_ms']):,.0f} ms"
    return f"{record['event']}: {record['reason']}{left}"


def _dispatched(record: Record) -> str:
    tries = int(out.number(record["number"]))
    return f"{record['event']}" + (f", try {tries:,}" if tries > 1 else "")


_DETAILS: Final[dict[str, Callable[[Record], str]]] = {
    "registered": lambda it: (
        f"{it['kind']}" + (f", made by {without_number(it['parent'])}" if it.get("parent") else "")
    ),
    "invalidated": lambda it: f"by {it['cause']} ({it['change']})",
    "started": _started,
    "finished": _finished,
    "failed": lambda it: f"run {it['number']}: {it['error']}",
    "taken-back": lambda it: f"run {it['number']}: {it['reason']}",
    "suspended": lambda it: f"run {it['number']} waits",
    "demand": lambda it: "is live" if it["live"] else "is dormant",
    "gated": lambda it: f"{it['reason']}, for {out.number(it['until_ms']) - out.number(it['at_ms']):,.0f} ms",
    "restless": lambda it: f"after {it['runs']} runs",
    "pass": lambda it: f"{it['number']} ended, {count_text(int(out.number(it['runs'])), 'run')}",
    "sent": lambda it: f"{it['event']}, number {it['ordinal']}" + (", with a transaction" if it.get("origin") else ""),
    "parked": _parked,
    "dispatched": _dispatched,
    "ended": lambda it: f"{it['event']}: {it['state']}" + (f", {it['reason']}" if it.get("reason") else ""),
    "decided": lambda it: f"{it['name']} {'came to be' if it['came_to_be'] else 'was rolled back'}, with what it sent",
    "restored": lambda it: f"{it['outcome']}" + (f": {it['reason']}" if it.get("reason") else ""),
}


def _detail(record: Record) -> str:
    words = _DETAILS.get(str(record["type"]))
    return "" if words is None else words(record)


_FIELDS: Final = (
    *STEP,
    Column("detail", "", text=_detail, shown=lambda record: shorter_ids(_detail(record)), elastic=True),
)

# --- trace ----------------------------------------------------------------------------------------------------


def show_trace(*, kind: str | None, follow: bool, target: Target, form: Form) -> None:
    """Carry out `trace`."""
    if kind is not None and kind not in TRACE_KINDS:
        hint = did_you_mean(kind, TRACE_KINDS) or f"; there are {', '.join(TRACE_KINDS)}"
        raise UsageError(f"{kind!r} is no kind of record{hint}", kind=kind)
    if follow:
        if form == "json":
            raise click.UsageError("--follow has no end, so it is no JSON in one piece; use --jsonl.")
        _follow(target, kind or "", form)
        return
    with target.inspector() as inspector:
        views = inspector.ask(GetTrace(kind=kind or ""))
    if form is None:
        for view in views:
            out.note(view.headline)
    records = (_record(view.label, step) for view in views for step in view.trace)
    empty = "no records were kept; --follow shows what happens from now on"
    out.show(records, _FIELDS, form, empty=empty, without=["app"] if len(views) == 1 else [])


def _follow(target: Target, kind: str, form: Form) -> None:
    with target.inspector() as inspector:
        views = inspector.ask(GetTrace(kind=kind)) if inspector.is_live else ()
        lines = inspector.follow(kind)
        if form is None:
            for view in views:
                out.note(view.headline)
        for line in lines:
            if line.missed:
                out.note(f"{count_text(line.missed, 'record')} missed: they came faster than they were read")
            if line.record is not None:
                _write(_record(line.app, line.record), form)
    out.note("it was closed")


def _write(record: Record, form: Form) -> None:
    """Print one step, and flush."""
    columns = out.columns_of(_FIELDS, ["app"])
    if form is not None:
        out.write(out.json_text(record))
    elif out.is_terminal():
        when, node, what, detail = (inert(column.on_screen(record)) for column in columns)
        out.write(f"{when}  {node:20}  {what:11}  {detail}".rstrip())
    else:
        out.write_row(record, columns)
    sys.stdout.flush()


def _record(app: str, step: Record) -> Record:
    return {"app": app, "at": out.utc(out.number(step["at_ms"])), **step}
