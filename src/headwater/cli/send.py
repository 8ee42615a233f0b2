"""Sending an event to a handler: send."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING

import click

from headwater.cli.delivery import Target, do, timeout_ms, trouble_in, wait_options, with_app
from headwater.cli.options import on_branch, on_space
from headwater.cli.output import json_text, note, show_value, write
from headwater.errors import HeadwaterError, SchemaError, UsageError

if TYPE_CHECKING:
    from headwater.inspect.records import EventTold


@click.command
@click.argument("handler")
@click.argument("pairs", metavar="[NAME=VALUE]...", nargs=-1)
@click.option("--json", "text", metavar="OBJECT", help="What the event carries as one JSON object; - reads it.")
@click.option("--id", "name", metavar="ID", help="A name of your own: sent again, it is handled once.")
@click.option("--by", metavar="NAME", help="Whose name that is, such as a webhook's; else the actor's.")
@wait_options
@click.option("--full", is_flag=True, help="One JSON object: event, state, result, reason.")
@with_app
@on_branch
@on_space
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
    app: str | None,
    branch: str,
    url: str | None,
    space: str | None,
) -> None:
    """Send an event to a HANDLER, wait for its result and print that.

    \b
    headwater send submit note=gift              text, if it is no JSON
    headwater send submit amount=3 'tags=["a"]'
    headwater send submit --json '{"amount": 3}' --id order-17
    headwater send "tick of timer eggs"          a handler of a piece

    By the process that has the space open; if nobody has, by the app that --app names. With --no-wait, an event that
    is not handled yet is only in the memory of that process: it is lost if that is killed, not if it closes the space.
    """  # noqa: D301  # a real backspace: click's mark for lines that stay as they are
    if by is not None and name is None:
        raise click.UsageError("--by says whose name --id is; give both.")
    if name == "" or by == "":
        raise click.UsageError("A name is expected, not an empty text.")
    target = Target(url, space, branch, app)
    limit = timeout_ms(timeout, no_wait=no_wait)
    fields = json.dumps(_fields(pairs, text))
    ask = target.ask("send", node=handler, fields=fields, name=name or "", by=by or "", timeout_ms=limit)
    outcome: list[EventTold | HeadwaterError] = []
    do(target, [ask], outcome.append, "sending an event")
    [told] = outcome
    if isinstance(told, HeadwaterError):
        raise _with_hint(told, pairs)
    trouble = None if no_wait else trouble_in(told)
    if full or trouble is None:
        _print(told, full=full)
    if trouble is not None:
        raise trouble


def _with_hint(error: HeadwaterError, pairs: tuple[str, ...]) -> HeadwaterError:
    """A word that happens to be JSON is none; most likely text was meant."""
    if isinstance(error, SchemaError) and "expected str" in error.message:
        for name, _, value in (pair.partition("=") for pair in pairs):
            if f"/{name}:" in error.message and not isinstance(_value(value), str):
                hint = f"{name}={json.dumps(value, ensure_ascii=False)}"
                return SchemaError(
                    f"{error.message}; what can be read as JSON is no text, unless it is quoted: '{hint}'"
                )
    return error


def _print(told: EventTold, *, full: bool) -> None:
    if full:
        record = {
            "event": told.event,
            "handler": told.handler.removesuffix("()"),
            "stream": told.stream,
            "state": told.state,
            "handled_before": told.handled_before,
            "result": None if told.result is None else json.loads(told.result),
            "reason": told.reason,
            **({} if told.facts is None else {"facts": json.loads(told.facts)}),
        }
        write(json_text(record))
    elif told.result is not None:
        show_value(json.loads(told.result))
        # Where both go to the same place, the result comes first.
        sys.stdout.flush()
        if told.handled_before:
            note(f"{told.event} was handled before; this is what came of it then")
        else:
            note(f"{told.event} was handled by {told.handler}")
    else:
        # Whoever does not wait can ask for it later.
        write(told.event)


def _fields(pairs: tuple[str, ...], text: str | None) -> dict[str, object]:
    """What the event carries: the object, and what is named one by one."""
    from headwater.cli.change import read_json

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
    """JSON if it is, else the text itself."""
    from headwater.cli.change import parse_json

    try:
        return parse_json(text)
    except UsageError:
        return text
