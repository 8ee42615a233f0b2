"""A picture as Mermaid text.

Names may contain anything. In a label, each character that Mermaid, Markdown or HTML could interpret is written as its
number. The ids are our own.
"""

from __future__ import annotations

import re
from typing import Final

from headwater.draw.picture import Arrow, Box, Picture, picture
from headwater.scheduler.inspect.graph_snapshot import Snapshot

TEXT_MAX: Final = 50_000
"""Characters of a diagram. Mermaid rejects longer ones, unless its `maxTextSize` was changed."""

EDGES_MAX: Final = 500
"""Likewise its `maxEdges`."""

BOXES_MAX: Final = 250
"""The number of boxes that usually fits."""

# The kind: the text before and after the label.
_SHAPES: Final = {
    "document": ("[(", ")]"),
    "computation": ("(", ")"),
    "effect": (">", "]"),
    "handler": ("{{", "}}"),
}

_LINES: Final = {"data": "-->", "envelope": '-. "may write" .->', "parent": '-. "made" .->'}

# Filled, with their own text color: readable on a light page and on a dark one.
_CLASSES: Final = """\
classDef clean fill:#eaf5ec,stroke:#2b7a3d,color:#14171c
classDef invalid fill:#fff1c9,stroke:#b07d00,color:#14171c,stroke-width:2px
classDef failed fill:#fbdcda,stroke:#c0312b,color:#14171c,stroke-width:3px
classDef fresh fill:#f3f4f6,stroke:#7b838f,color:#14171c
classDef document fill:#e6edf6,stroke:#6d86a8,color:#14171c
classDef dormant stroke-dasharray:5 4
classDef running stroke:#1f66c9,stroke-width:4px
classDef note fill:#ffffff,stroke:#c0312b,color:#a8241f
"""

_FAR: Final = "classDef far fill:none,stroke:#0b7285,stroke-dasharray:2 3"
"""The border of another space."""

# Plain characters of a name stay readable: row(3), shop.total_price. A colon before a word may name an icon, lines at
# the edge of a word mean emphasis, a number at the beginning begins a list.
_TAKEN: Final = re.compile(r"""[!"#$%&*+;<=>?@\[\\\]^`{|}~-]|:(?=\S)|\b_|_\b|__+|^\d+(?=[.)])""")


def mermaid(snapshot: Snapshot) -> str:
    """The flowchart, within the default limits of Mermaid."""
    boxes = BOXES_MAX
    while True:
        shown = _chart(picture(snapshot, boxes, EDGES_MAX))
        if len(shown) <= TEXT_MAX or boxes == 1:
            return shown
        boxes //= 2


def _chart(shown: Picture) -> str:
    number = {box.id: f"n{at}" for at, box in enumerate(shown.boxes)}
    lines = ["flowchart LR"]
    if shown.note:
        lines.append(f'  note["{_quoted(shown.note)}"]:::note')
    lines += [f"  {number[box.id]}{_box(box)}" for box in shown.boxes if not box.space]
    spaces = dict.fromkeys(box.space for box in shown.boxes if box.space)
    for at, space in enumerate(spaces):
        lines.append(f'  subgraph s{at}["{_quoted(f"space {space}")}"]')
        lines += [f"    {number[box.id]}{_box(box)}" for box in shown.boxes if box.space == space]
        lines.append("  end")
    lines += [f"  {_arrow(arrow, number)}" for arrow in shown.arrows]
    lines += [f"  {line}" for line in _CLASSES.splitlines()]
    members: dict[str, list[str]] = {}
    for box in shown.boxes:
        for name in _classes(box):
            members.setdefault(name, []).append(number[box.id])
    lines += [f"  class {','.join(ids)} {name}" for name, ids in members.items()]
    if spaces:
        lines += [f"  {_FAR}", f"  class {','.join(f's{at}' for at in range(len(spaces)))} far"]
    return "\n".join(lines) + "\n"


def _box(box: Box) -> str:
    before, after = _SHAPES[box.kind]
    special = [word for word, is_so in (("dormant", box.dormant), ("running", box.running)) if is_so]
    kind = ", ".join([box.kind, *special])
    label = "<br/>".join(_quoted(line) for line in (box.name, kind, box.facts, *box.notes) if line)
    return f'{before}"{label}"{after}'


def _classes(box: Box) -> list[str]:
    state = "failed" if box.failed else {"never-ran": "fresh"}.get(box.status, box.status)
    return [state, *(["dormant"] if box.dormant else []), *(["running"] if box.running else [])]


def _arrow(arrow: Arrow, number: dict[str, str]) -> str:
    return f"{number[arrow.source]} {_LINES[arrow.kind]} {number[arrow.target]}"


def _quoted(text: str) -> str:
    """Write characters that could be interpreted as their numbers."""
    return _TAKEN.sub(lambda found: "".join(f"#{ord(sign)};" for sign in found[0]), text) or " "
