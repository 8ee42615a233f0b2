"""Texts in and beside boxes.

Every text made here is inert: it has no character that moves a cursor, changes the direction of text, or is invalid in
XML.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from typing import Final

from headwater.scheduler.inspect.graph_snapshot import NodeView, Snapshot
from headwater.values.text import inert as escaped
from headwater.values.text import span

NAME_MAX: Final = 30
"""Columns of a name in a box. A wider name would make every box of its column wider; the tip has the whole name."""

NOTE_MAX: Final = 40
"""Columns of an error, or of the reason for waiting: its text is smaller than that of a name."""

LISTED_MAX: Final = 12
"""Addresses in a tip: it covers the picture while it is read."""

TIP_MAX: Final = 400
"""Characters of one line in a tip."""

MARKS_MAX: Final = 3
"""Marks on one letter. No script uses more, and a hundred would cover the boxes above."""

_MARKS: Final = frozenset({"Mn", "Me", "Mc"})
_SECOND: Final = 1000
_BRIEF: Final = 0.01
_YEARS: Final = range(10**11, 253_402_300_800_000)  # 1973 to 9999


def inert(text: str) -> str:
    """Text without active or invisible characters, and with few marks on one letter: more would cover other boxes."""
    plain = escaped(text)
    if plain.isascii():
        return plain
    found: list[str] = []
    marks = 0
    for character in plain:
        marks = marks + 1 if unicodedata.category(character) in _MARKS else 0
        if marks <= MARKS_MAX:
            found.append(character)
    return "".join(found)


def label(name: str) -> str:
    """A name, as a box shows it."""
    return squeeze(inert(name)) if name.strip() else "(no name)"


def columns(text: str) -> int:
    """The number of columns in a fixed-width font. Marks on a letter count: not every terminal combines them."""
    return len(text) if text.isascii() else sum(map(_breadth, text))


def _breadth(character: str) -> int:
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def cut(text: str, limit: int) -> str:
    """The text, or its beginning if it does not fit."""
    return text if columns(text) <= limit else _beginning(text, limit - 1, _breadth) + "…" if limit > 0 else ""


def squeeze(text: str, limit: int = NAME_MAX) -> str:
    """The text, or its beginning and its end if it does not fit: long names often differ in the end."""
    if columns(text) <= limit:
        return text
    end = (limit - 1) // 3
    return f"{_beginning(text, limit - 1 - end, _breadth)}…{_beginning(text[::-1], end, _breadth)[::-1]}"


def _beginning(text: str, limit: int, breadth: Callable[[str], int]) -> str:
    for at, character in enumerate(text):
        limit -= breadth(character)
        if limit < 0:
            return text[:at]
    return text


def several(count: int, noun: str) -> str:
    """1 run, 2 runs, 3,000 runs."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def took(ms: float) -> str:
    """The duration of a run: three digits below a second."""
    if ms >= _SECOND:
        return span(ms)
    return "<0.01 ms" if 0 < ms < _BRIEF else f"{ms:.3g} ms"


def moment(ms: int) -> str:
    """A time as a date, if the clock counts from 1970. Simulated time is a small number, and is shown as such."""
    if ms not in _YEARS:
        return f"{ms:,} ms"
    return datetime.fromtimestamp(ms // _SECOND, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def states(nodes: Iterable[NodeView]) -> list[str]:
    """The numbers of nodes in unusual states: 3 invalid, 1 failed."""
    failed = invalid = fresh = running = dormant = waiting = 0
    for node in nodes:
        failed += bool(node.error)
        invalid += node.status == "invalid"
        fresh += node.status == "never-ran"
        running += node.in_flight
        dormant += not node.live
        waiting += node.waiting
    counted = ((failed, "failed"), (invalid, "invalid"), (running, "running"), (fresh, "never ran"))
    found = [f"{count:,} {word}" for count, word in (*counted, (dormant, "dormant")) if count]
    return [*found, f"{several(waiting, 'event')} waiting"] if waiting else found


def summary(snapshot: Snapshot) -> str:
    """The line below a picture's title."""
    remarkable = ", ".join(states(snapshot.nodes))
    nodes = several(len(snapshot.nodes), "node") + (f" ({remarkable})" if remarkable else "")
    documents = several(len(snapshot.sources), "document")
    return f"{nodes} · {documents} · commit {snapshot.seq:,} · {moment(snapshot.at_ms)}"


def state(node: NodeView) -> str:
    """The state, in one or two words."""
    status = node.status.replace("-", " ")
    if node.kind == "handler":
        # It has no value that could be invalid.
        status = f"{node.waiting:,} waiting" if node.waiting else "idle" if node.runs else status
    if not node.error:
        return status
    return "failed" if status in ("clean", "idle") else f"failed, {status}"


def facts(node: NodeView) -> str:
    """The line below the name."""
    if not node.runs:
        return f"{state(node)} · restored" if node.restored else state(node)
    return f"{state(node)} · {several(node.runs, 'run')} · {took(node.mean_ms)}"


def notes(node: NodeView) -> tuple[str, ...]:
    """The line with what must be visible at once."""
    found = []
    if node.error:
        found.append(cut(inert(node.error.strip().split("\n", 1)[0]), NOTE_MAX))
    if node.gate:
        found.append(cut(inert(f"waits: {node.gate}"), NOTE_MAX))
    return tuple(found)


def titled(node: NodeView) -> str:
    """The name, with its piece: names of several pieces are the same."""
    return f"{node.name} of {node.piece}" if node.piece else node.name


def tip(node: NodeView, parent: str) -> str:
    """All facts about a node, in lines."""
    alive = f"live: {node.why_live}" if node.live and node.why_live else "live" if node.live else "dormant"
    runs = f"{several(node.runs, 'run')}, {took(node.mean_ms)} each" if node.runs else "no runs"
    runs = f"restored, {runs}" if node.restored else runs
    lines = [
        titled(node),
        f"{node.kind}, {state(node)}, {'running, ' if node.in_flight else ''}{alive}",
        f"{runs}, invalidated {several(node.invalidated, 'time')}, rank {node.rank}",
    ]
    if node.kind == "handler":
        lines[1:] = [f"{node.kind}, {state(node)}{', running' if node.in_flight else ''}", runs]
    lines += [
        f"{word} {text}"
        for word, text in (
            ("failed:", node.error),
            ("waits:", node.gate),
            ("reads", _listed(node.reads)),
            ("writes", _listed(node.outputs)),
            ("may write below", _listed(node.envelopes)),
            ("made by", parent),
            ("declared in", f"{node.file}:{node.line}" if node.file else ""),
        )
        if text
    ]
    return "\n".join(cut(inert(line), TIP_MAX) for line in lines)


def group_tip(title: str, states: Sequence[str], names: Sequence[str]) -> str:
    """The caption of a box that represents several nodes."""
    lines = [title, ", ".join(states), _listed(names)]
    return "\n".join(cut(inert(line), TIP_MAX) for line in lines if line)


def _listed(texts: Sequence[str]) -> str:
    more = len(texts) - LISTED_MAX
    return ", ".join(texts[:LISTED_MAX]) + (f" and {more:,} more" if more > 0 else "")
