"""How workflows, runs and inputs are told of: as records for programs, and as words for people.

Must never know: how the answer is found.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from headwater.cli.asking import Place
from headwater.cli.runtime import utc
from headwater.machine import machine

if TYPE_CHECKING:
    from msgspec import Struct
    from rich.console import RenderableType

    from headwater.workflow.wording.views import FlowView, RunDetails, RunView

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_UNITS: Final = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", _SECOND, "s"))

# --- times ----------------------------------------------------------------------------------------------------


def clock(ms: int, now: int) -> str:
    """When that was, as clocks here show it: the time if it was today, else the day with it."""
    local = machine().local_time
    if local(ms / 1000, "%Y-%m-%d") == local(now / 1000, "%Y-%m-%d"):
        return local(ms / 1000, "%H:%M:%S")
    is_this_year = local(ms / 1000, "%Y") == local(now / 1000, "%Y")
    return local(ms / 1000, "%m-%d %H:%M" if is_this_year else "%Y-%m-%d")


def due(at: int | None, now: int) -> str:
    """How long until then."""
    from headwater.workflow.wording.schedule_text import due_in_words

    return "" if at is None else due_in_words(at, now)


def ago(at: int, now: int) -> str:
    """How long since then."""
    from headwater.workflow.wording.schedule_text import ago_in_words

    found = ago_in_words(at, now)
    return "just now" if found == "now" else found


# --- for programs ---------------------------------------------------------------------------------------------


def record_of(view: Struct) -> dict[str, object]:
    """As `--json` prints it: times as everywhere, and what authors' code has made as it is."""
    import msgspec

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


def flow_hints(place: Place, view: FlowView, *, hosted: bool) -> list[tuple[str, str]]:
    """What a person can do about a workflow: a command to type, and what comes of it."""
    name, run = view.name, view.run
    hints: list[tuple[str, str]] = []
    if view.block_kind is not None and run is not None and view.intent != "archived":
        hints += block_hints(place, view.block_kind, name, run, can_ask=view.can_ask)
        hints += _abandon(place, run) if view.has_effect else []
    if view.intent == "paused":
        hints.append((place.command("workflow", "resume", name), "go on"))
    elif view.intent == "archived":
        hints.append((place.command("workflow", "restore", name), "bring it back, paused"))
    if view.parked:
        hints.append(
            (place.command("inputs", "ls", "--workflow", name, "--status", "parked"), "see what was put aside")
        )
        hints.append((place.command("workflow", "reprocess", name), "try all of it again"))
    if view.stale:
        listing = place.command("inputs", "ls", "--workflow", name, "--status", "pending")
        hints.append((listing, "see what has waited for more than a week"))
    if view.gone and view.intent == "active":
        hints.append((place.command("workflow", "pause", name), "it is not in the program: pause it, then archive it"))
    elif view.gone and view.intent == "paused":
        hints.append((place.command("workflow", "archive", name), "it is not in the program: put it out of the way"))
    elif not hosted and view.intent == "active":
        hints.append((place.command("run", "MODULE:APP"), "run it: nobody does now"))
    return hints


def block_hints(place: Place, kind: str, name: str, run: int, *, can_ask: bool) -> list[tuple[str, str]]:
    """What a person can do about what stands in the way."""
    if kind == "ask":
        return [
            (place.command("runs", "show", run), "see what it is about"),
            (place.command("approve", run), "do it"),
            (place.command("reject", run), "do not do it; what it was about is skipped"),
        ]
    if kind in ("indeterminate", "hung"):
        applied = place.command("reconcile", run, "--applied", "JSON")
        again = (place.command("reconcile", run, "--again"), "have it looked up once more")
        return [
            (place.command("runs", "show", run), "see what was called, and with which key"),
            (applied, "it happened, and this came of it"),
            (place.command("reconcile", run, "--not-applied"), "it did not happen; do it anew"),
            (place.command("reconcile", run, "--skip"), "go on without it"),
            # A call that has not come back is looked up when it has; without a `reconcile`, never.
            *([again] if kind == "indeterminate" and can_ask else []),
        ]
    return [
        (place.command("runs", "show", run), "see what went wrong"),
        (place.command("workflow", "resume", name), "try again"),
    ]


def answers(place: Place, run: RunView) -> list[tuple[str, str]]:
    """What a person can do about a run that waits for one."""
    if run.waits_for is None:
        return []
    hints = block_hints(place, run.waits_for, run.workflow, run.id, can_ask=run.can_ask)
    return hints if run.waits_for in ("ask", "indeterminate") else [*hints, *_cancel(place, run)]


def run_hints(place: Place, details: RunDetails) -> list[tuple[str, str]]:
    """What a person can do about a chain of runs."""
    head = details.chain[-1]
    if head.waits_for is not None:
        return answers(place, head)[1:]
    if head.retry_at is not None:
        return [(place.command("runs", "retry", head.id), "try again now"), *_cancel(place, head)]
    if head.aside == "kept" and head.followed_by is None:
        return [(place.command("runs", "retry", head.id), "take it up again, after its effect")]
    return []


def _cancel(place: Place, head: RunView) -> list[tuple[str, str]]:
    """Before its effect, if it was about something; after it, it can only be put aside."""
    if head.kind == "consumer" and head.outcome in ("applied", "skipped"):
        return _abandon(place, head.id)
    if head.kind != "consumer" or not head.taken or head.outcome not in ("none", "failed"):
        return []
    return [(place.command("runs", "cancel", head.id), "give it up; what it was about is skipped")]


def _abandon(place: Place, run: int) -> list[tuple[str, str]]:
    return [(place.command("runs", "abandon", run), "put it aside with its result; go on with other events")]


def hints_drawn(hints: Sequence[tuple[str, str]], width: int) -> RenderableType:
    """The commands below each other, each on a line of its own and never broken: they are there to be copied."""
    from rich.text import Text

    from headwater.values.text import inert

    commands = [inert(command) for command, _ in hints]
    longest = max(map(len, commands))
    lines = []
    if longest + max(len(purpose) for _, purpose in hints) + 5 <= width:
        lines = [
            Text.assemble(f"  {command:{longest}}   ", (purpose, "dim"))
            for command, (_, purpose) in zip(commands, hints, strict=True)
        ]
    else:
        for command, (_, purpose) in zip(commands, hints, strict=True):
            lines += [Text(f"  {purpose}:", "dim"), Text(f"    {command}")]
    drawn = Text("\n", no_wrap=True, overflow="ignore").join(lines)
    drawn.no_wrap, drawn.overflow = True, "ignore"
    return drawn
