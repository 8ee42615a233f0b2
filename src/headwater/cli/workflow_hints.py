"""Workflows, runs and inputs as records; times and suggested commands for people."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from headwater.cli.output import Line, local, utc
from headwater.cli.target import Target
from headwater.values.text import inert
from headwater.workflow.wording.schedule_text import ago_in_words, due_in_words
from headwater.workflow.wording.views import FlowView, RunDetails, RunView

# --- times ----------------------------------------------------------------------------------------------------


def clock(ms: int, now: int) -> str:
    """A time in the zone of this machine, without the day if it is today."""
    if local(ms, "%Y-%m-%d") == local(now, "%Y-%m-%d"):
        return local(ms, "%H:%M:%S")
    is_this_year = local(ms, "%Y") == local(now, "%Y")
    return local(ms, "%m-%d %H:%M" if is_this_year else "%Y-%m-%d")


def due(at: int | None, now: int) -> str:
    """The time until then."""
    return "" if at is None else due_in_words(at, now)


def ago(at: int, now: int) -> str:
    """The time since then."""
    found = ago_in_words(at, now)
    return "just now" if found == "now" else found


# --- for programs ---------------------------------------------------------------------------------------------


def record_of(view: msgspec.Struct) -> dict[str, object]:
    """The record that `--json` prints, with times in UTC."""
    record: dict[str, object] = {}
    for name in view.__struct_fields__:
        value = getattr(view, name)
        if name == "at" or name.endswith("_at"):
            record[name] = None if value is None else utc(value)
        elif isinstance(value, msgspec.Struct):
            record[name] = record_of(value)
        elif isinstance(value, list):
            record[name] = [record_of(each) if isinstance(each, msgspec.Struct) else each for each in value]
        else:
            record[name] = value
    return record


# --- what to do -----------------------------------------------------------------------------------------------


def flow_hints(target: Target, view: FlowView, *, hosted: bool) -> list[tuple[str, str]]:
    """The commands for a workflow, each with its effect."""
    name, run = view.name, view.run
    hints: list[tuple[str, str]] = []
    if view.block_kind is not None and run is not None and view.intent != "archived":
        hints += block_hints(target, view.block_kind, name, run, can_ask=view.can_ask)
        hints += _abandon(target, run) if view.has_effect else []
    if view.intent == "paused":
        hints.append((target.command("workflow", "resume", name), "go on"))
    elif view.intent == "archived":
        hints.append((target.command("workflow", "restore", name), "bring it back, paused"))
    if view.parked:
        hints.append(
            (target.command("inputs", "ls", "--workflow", name, "--status", "parked"), "see what was put aside")
        )
        hints.append((target.command("workflow", "reprocess", name), "try all of it again"))
    if view.stale:
        listing = target.command("inputs", "ls", "--workflow", name, "--status", "pending")
        hints.append((listing, "see what has waited for more than a week"))
    if view.gone and view.intent == "active":
        hints.append((target.command("workflow", "pause", name), "it is not in the program: pause it, then archive it"))
    elif view.gone and view.intent == "paused":
        hints.append((target.command("workflow", "archive", name), "it is not in the program: put it out of the way"))
    elif not hosted and view.intent == "active":
        hints.append((target.command("run", "MODULE:APP"), "run it: no process does now"))
    return hints


def block_hints(target: Target, kind: str, name: str, run: int, *, can_ask: bool) -> list[tuple[str, str]]:
    """The commands for the cause that blocks a workflow."""
    if kind == "ask":
        return [
            (target.command("runs", "show", run), "see what it is about"),
            (target.command("approve", run), "do it"),
            (target.command("reject", run), "do not do it; what it was about is skipped"),
        ]
    if kind in ("indeterminate", "hung"):
        applied = target.command("reconcile", run, "--applied", "JSON")
        again = (target.command("reconcile", run, "--again"), "have it looked up once more")
        return [
            (target.command("runs", "show", run), "see what was called, and with which key"),
            (applied, "it happened, and this came of it"),
            (target.command("reconcile", run, "--not-applied"), "it did not happen; do it anew"),
            (target.command("reconcile", run, "--skip"), "go on without it"),
            # A hung call is looked up when it returns; without a `reconcile`, never.
            *([again] if kind == "indeterminate" and can_ask else []),
        ]
    return [
        (target.command("runs", "show", run), "see what went wrong"),
        (target.command("workflow", "resume", name), "try again"),
    ]


def answers(target: Target, run: RunView) -> list[tuple[str, str]]:
    """The commands for a run that waits for a person."""
    if run.waits_for is None:
        return []
    hints = block_hints(target, run.waits_for, run.workflow, run.id, can_ask=run.can_ask)
    return hints if run.waits_for in ("ask", "indeterminate") else [*hints, *_cancel(target, run)]


def run_hints(target: Target, details: RunDetails) -> list[tuple[str, str]]:
    """The commands for a chain of runs."""
    head = details.chain[-1]
    if head.waits_for is not None:
        return answers(target, head)[1:]
    if head.retry_at is not None:
        return [(target.command("runs", "retry", head.id), "try again now"), *_cancel(target, head)]
    if head.aside == "kept" and head.followed_by is None:
        return [(target.command("runs", "retry", head.id), "take it up again, after its effect")]
    return []


def _cancel(target: Target, head: RunView) -> list[tuple[str, str]]:
    """The command that ends a chain: cancel before its effect, abandon after it."""
    if head.kind == "consumer" and head.outcome in ("applied", "skipped"):
        return _abandon(target, head.id)
    if head.kind != "consumer" or not head.taken or head.outcome not in ("none", "failed"):
        return []
    return [(target.command("runs", "cancel", head.id), "give it up; what it was about is skipped")]


def _abandon(target: Target, run: int) -> list[tuple[str, str]]:
    return [(target.command("runs", "abandon", run), "put it aside with its result; go on with other events")]


def hint_lines(hints: Sequence[tuple[str, str]], width: int) -> list[Line]:
    """One line for each command. Commands are not wrapped: people copy them."""
    commands = [inert(command) for command, _ in hints]
    longest = max(map(len, commands))
    if longest + max(len(purpose) for _, purpose in hints) + 5 <= width:
        return [
            Line(f"  {command:{longest}}   ", rest=purpose, rest_style="dim", whole=True)
            for command, (_, purpose) in zip(commands, hints, strict=True)
        ]
    lines = []
    for command, (_, purpose) in zip(commands, hints, strict=True):
        lines += [Line(f"  {purpose}:", "dim", whole=True), Line(f"    {command}", whole=True)]
    return lines
