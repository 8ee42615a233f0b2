"""The chain of a run as a picture: a line for each attempt, what was called, and what can be done about it.

Must never know: how it is found.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Final

from headwater.cli.asking import Place
from headwater.cli.output import count_text, json_text, preview
from headwater.cli.runtime import utc
from headwater.cli.telling import clock, hints_drawn, run_hints
from headwater.values.text import inert, inert_lines, span

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from headwater.inspect.workflow_answers import RunReport
    from headwater.workflow.wording.views import CallView, EventView, RunDetails, RunView

_NAMED: Final = 8
"""Events and inputs that are named; of more it is told how many there are."""


def plainly(place: Place, found: RunReport) -> list[tuple[str, ...]]:
    """For a pipe: all that people are told; a name at the beginning of each line, and what it stands for."""
    details, now = found.details, found.at
    run = details.run
    lines: list[tuple[str, ...]] = [("run", str(run.id)), ("workflow", run.workflow), ("what", run.text)]
    if said := summary(details, now):
        lines.append(("summary", said))
    lines += [("attempt", *_attempt(each)) for each in details.chain]
    for call in details.calls:
        lines.append(("call", str(call.run), call.operation, utc(call.at)))
        facts = _call_facts(call, now).items()
        lines += [("call error" if name == "error" else name, text) for name, text in facts if text]
    lines += [("decision", str(made.run), utc(made.at), made.sentence) for made in details.decisions]
    if run.error and run.error_kind != "ask":
        lines.append(("error", run.error))
    if run.service:
        lines.append(("service", run.service))
    lines += [("event", event.id, event.topic, *_event_became(event)) for event in details.events]
    lines += [("input", title) for title in details.inputs]
    lines += [("hint", command) for command, _ in run_hints(place, details)]
    lines += [("traceback", line) for line in authors_part((details.details or "").strip("\n")).split("\n") if line]
    return lines


def _attempt(run: RunView) -> tuple[str, ...]:
    times = utc(run.created_at), utc(run.updated_at)
    return str(run.attempt), str(run.id), *times, run.why, run.phase, run.state, run.outcome, story(run)


def drawn(place: Place, found: RunReport, width: int) -> RenderableType:
    """For people."""
    from rich.console import Group as Rows
    from rich.text import Text

    details, now = found.details, found.at
    run = details.run
    headline = Text.assemble((f"Run {run.id} of {inert(run.workflow)}", "bold"), f"  {inert(run.text)}")
    parts: list[RenderableType] = [headline]
    if said := summary(details, now):
        parts.append(Text(inert(said)))
    parts += [Text(), _attempts(details, now)]
    for call in details.calls:
        parts += [Text(), _call(call, now)]
    about = _about(details, now)
    if about is not None:
        parts += [Text(), about]
    hints = run_hints(place, details)
    if hints:
        parts += [Text(), Text("what you can do", "bold"), hints_drawn(hints, width)]
    if details.details:
        lines = inert_lines(authors_part(details.details.rstrip("\n"))).split("\n")
        # Not broken: the marks below a line stand where they belong.
        parts += [Text(), *(Text(f"  {line}", no_wrap=True, overflow="ignore") for line in lines)]
    return Rows(*parts)


def authors_part(traceback: str) -> str:
    """Without the calls inside of Headwater: nobody looks for a fault of theirs there."""
    import headwater

    ours = f'  File "{Path(headwater.__file__).parent}{os.sep}'
    kept: list[str] = []
    is_ours = False
    for line in traceback.split("\n"):
        if line.startswith("  File "):
            is_ours = line.startswith(ours)
        elif not line.startswith("    "):
            is_ours = False
        if not is_ours:
            kept.append(line)
    # If there is nothing else, it is.
    return "\n".join(kept) if any(line.startswith("  File ") for line in kept) else traceback


def summary(details: RunDetails, now: int) -> str:
    """The whole chain, in a line; of a single attempt only what its own line does not say."""
    first, last = details.chain[0], details.chain[-1]
    count = len(details.chain)
    if last.status == "committed":
        took = span(last.updated_at - first.created_at)
        return f"{last.sentence.rstrip('.')}, {f'after {count} attempts in' if count > 1 else 'in'} {took}."
    said = [last.sentence, f"That was attempt {count}."] if count > 1 else []
    if last.retry_at is not None and last.retry_at > now:
        said.append(f"The next one is due in {span(last.retry_at - now)}.")
    return " ".join(said)


# --- attempts -------------------------------------------------------------------------------------------------


def _attempts(details: RunDetails, now: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for title in ("attempt", "run", "started", "took"):
        table.add_column(title, justify="left" if title == "started" else "right", no_wrap=True)
    table.add_column("what happened", overflow="fold")
    for run in details.chain:
        number = f"> {run.attempt}" if run.id == details.run.id and len(details.chain) > 1 else str(run.attempt)
        table.add_row(number, str(run.id), clock(run.created_at, now), took(run, now), Text(inert(story(run))))
    return table


def story(run: RunView) -> str:
    """Why it started, how far it came, what happened."""
    return f"Because {run.because}, it {run.reached}. {run.sentence}"


def took(run: RunView, now: int) -> str:
    """How long it was at it; of one that was interrupted nobody knows."""
    if run.status == "crashed":
        return ""
    if run.status == "active":
        return f"{span(now - run.created_at)} …"
    return span(run.updated_at - run.created_at)


# --- the mutation ---------------------------------------------------------------------------------------------


def _call(call: CallView, now: int) -> Table:
    from rich.table import Table
    from rich.text import Text

    facts = {f"call of run {call.run}": f"{call.operation}, at {clock(call.at, now)}"}
    facts |= {f"  {name}": text for name, text in _call_facts(call, now, preview).items()}
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts.items():
        if text:
            table.add_row(Text(name, "" if name[0] != " " else "dim"), Text(inert(" ".join(text.split()))))
    return table


def _call_facts(call: CallView, now: int, written: Callable[[object], str] = json_text) -> dict[str, str]:
    known = call.sentence
    if call.resolved_at is not None:
        known = f"{known.rstrip('.')}, {span(call.resolved_at - call.at)} after it had left."
    if call.next_at is not None:
        known = f"{known} The next time is {'now' if call.next_at <= now else 'in ' + span(call.next_at - now)}."
    return {
        "key": call.key,
        "known": known,
        "error": call.error or "",
        "with": written(call.params),
        "result": "" if call.result is None else written(call.result),
    }


def _about(details: RunDetails, now: int) -> Table | None:
    """What it took, what people know that by, and what they decided."""
    from rich.table import Table
    from rich.text import Text

    decisions = [f"run {made.run}, {clock(made.at, now)}: {made.sentence}" for made in details.decisions]
    facts = {
        "decisions": " ".join(decisions),
        "service": details.run.service or "",
        "events": _listed([_event(event) for event in details.events]),
        "inputs": _listed(details.inputs),
    }
    if not any(facts.values()):
        return None
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in facts.items():
        if text:
            table.add_row(name, Text(inert(text)))
    return table


def _event(event: EventView) -> str:
    return f"{event.id} of {event.topic} ({', '.join(_event_became(event))})"


def _event_became(event: EventView) -> tuple[str, ...]:
    became = _BECAME.get(event.disposition, event.disposition)
    return (became, count_text(event.attempt, "try", "tries")) if event.attempt > 1 else (became,)


_BECAME: Final = {
    "reserved": "held",
    "released": "given back",
    "moved": "held by a later attempt",
    "parked": "put aside",
}


def _listed(names: list[str]) -> str:
    more = len(names) - _NAMED
    return "; ".join(names[:_NAMED]) + (f"; and {more:,} more" if more > 0 else "")
