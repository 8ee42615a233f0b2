"""The chain of a run: its attempts, its calls, and the commands that decide about it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

import headwater
from headwater.cli.output import Grid, Line, Picture, json_text, preview, utc, width
from headwater.cli.target import Target
from headwater.cli.workflow_hints import clock, hint_lines, run_hints
from headwater.values.text import count_text, inert, inert_lines, span
from headwater.workflow.wording.views import CallView, EventView, RunDetails, RunView

_NAMED: Final = 8
"""Events and inputs that are named. More are counted."""


def lines_of(target: Target, details: RunDetails, now: int) -> list[tuple[str, ...]]:
    """The lines for a pipe. The first field of each line names the others."""
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
    lines += [("hint", command) for command, _ in run_hints(target, details)]
    lines += [("traceback", line) for line in authors_part((details.details or "").strip("\n")).split("\n") if line]
    return lines


def _attempt(run: RunView) -> tuple[str, ...]:
    times = utc(run.created_at), utc(run.updated_at)
    return str(run.attempt), str(run.id), *times, run.why, run.phase, run.state, run.outcome, story(run)


def picture_of(target: Target, details: RunDetails, now: int) -> list[Picture]:
    """The picture for a terminal."""
    run = details.run
    parts: list[Picture] = [Line(f"Run {run.id} of {inert(run.workflow)}", "bold", f"  {inert(run.text)}")]
    if said := summary(details, now):
        parts.append(Line(inert(said)))
    parts += [Line(), _attempts(details, now)]
    for call in details.calls:
        facts = {f"call of run {call.run}": f"{call.operation}, at {clock(call.at, now)}"}
        facts |= {f"  {name}": " ".join(text.split()) for name, text in _call_facts(call, now, preview).items()}
        parts += [Line(), _facts(facts)]
    about = _about(details, now)
    if any(about.values()):
        parts += [Line(), _facts(about)]
    hints = run_hints(target, details)
    if hints:
        parts += [Line(), Line("what you can do", "bold"), *hint_lines(hints, width())]
    if details.details:
        lines = inert_lines(authors_part(details.details.rstrip("\n"))).split("\n")
        # Not wrapped: the marks below a line keep their position.
        parts += [Line(), *(Line(f"  {line}", whole=True) for line in lines)]
    return parts


def _facts(facts: dict[str, str]) -> Grid:
    """Names and texts. An indented name is dim."""
    rows = [(name, text) for name, text in facts.items() if text]
    return Grid([(Line(name, "dim" if name[0] == " " else ""), inert(text)) for name, text in rows])


def authors_part(traceback: str) -> str:
    """The traceback without calls inside of Headwater, unless it has no others."""
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
    return "\n".join(kept) if any(line.startswith("  File ") for line in kept) else traceback


def summary(details: RunDetails, now: int) -> str:
    """The chain in one line. Of a single attempt: only what its own line does not say."""
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


def _attempts(details: RunDetails, now: int) -> Grid:
    rows = []
    for run in details.chain:
        number = f"> {run.attempt}" if run.id == details.run.id and len(details.chain) > 1 else str(run.attempt)
        rows.append((number, str(run.id), clock(run.created_at, now), took(run, now), inert(story(run))))
    return Grid(rows, ("attempt", "run", "started", "took", "what happened"), right=(0, 1, 3))


def story(run: RunView) -> str:
    """The cause of a run, its progress and its outcome."""
    return f"Because {run.because}, it {run.reached}. {run.sentence}"


def took(run: RunView, now: int) -> str:
    """The duration of a run; empty for an interrupted run."""
    if run.status == "crashed":
        return ""
    if run.status == "active":
        return f"{span(now - run.created_at)} …"
    return span(run.updated_at - run.created_at)


# --- the mutation ---------------------------------------------------------------------------------------------


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


def _about(details: RunDetails, now: int) -> dict[str, str]:
    """The events of a run, their inputs, and the decisions about it."""
    decisions = [f"run {made.run}, {clock(made.at, now)}: {made.sentence}" for made in details.decisions]
    return {
        "decisions": " ".join(decisions),
        "service": details.run.service or "",
        "events": _listed([_event(event) for event in details.events]),
        "inputs": _listed(details.inputs),
    }


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
