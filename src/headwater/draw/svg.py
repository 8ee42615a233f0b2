"""A picture as SVG.

Kinds differ in their outline, states in a sign and a word; colors only repeat that. Text that does not fit in a box is
in its tip, which browsers show under the pointer.
"""

from __future__ import annotations

from html import escape
from textwrap import wrap
from typing import Final, NamedTuple

from headwater.draw.layout import Rect, Route, lay_out
from headwater.draw.node_captions import columns, cut
from headwater.draw.picture import LABELS, Arrow, Box, Picture, picture
from headwater.draw.style import POINT, border, outline, sheet, sign
from headwater.scheduler.inspect.graph_snapshot import Snapshot

MARGIN: Final = 28
WIDTH_MIN: Final = 720
"""The smallest width of a picture: its title and its legend need it."""

_NAME: Final = 7.7
"""Pixels of a column of a name. A fixed-width font of 12.5 pixels is narrower."""
_FACT: Final = 5.9
"""Pixels of a column of the smaller text: slightly more than the average."""
_BODY: Final = 6.6
_INSET: Final = 15
_LINE: Final = 14

_READ: Final = {"data": "is read by", "envelope": "may write what is read by", "parent": "made"}
"""The three kinds of arrows, in words."""


class _Item(NamedTuple):
    """One entry of the legend: a drawing, 34 by 18 at most, and its words."""

    drawing: str
    words: str


def svg(snapshot: Snapshot) -> str:
    """The picture as one `<svg>` element, for a file or a page."""
    shown = picture(snapshot)
    places = lay_out(
        {box.id: _size(box) for box in shown.boxes}, [(arrow.source, arrow.target) for arrow in shown.arrows]
    )
    width = max(WIDTH_MIN, places.width + 2 * MARGIN)
    head, top = _head(shown.title, shown.summary, shown.note, width)
    names = {box.id: box.name for box in shown.boxes}
    body = [
        _edge(arrow, route, places.boxes[arrow.source], names)
        for arrow, route in zip(shown.arrows, places.routes, strict=True)
    ]
    body += [_card(box, places.boxes[box.id]) for box in shown.boxes]
    if not shown.boxes:
        body.append('<text class="hw-soft hw-body" x="0" y="14">Nothing is declared here, or nothing has run.</text>')
    floor = top + max(places.height, 20) + MARGIN
    legend, height = _legend(floor, width, shown)
    label = escape(f"The graph of {shown.title}. {shown.summary}")
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" class="hw-graph" role="img" aria-label="{label}" '
        f'width="{width}" height="{height}" viewBox="0 0 {width} {height}">\n<style>\n{sheet()}</style>\n'
        f'<rect class="hw-ground" width="{width}" height="{height}"/>\n{head}'
        f'<g transform="translate({MARGIN} {top})">\n{"".join(body)}</g>\n{legend}</svg>\n'
    )


def _text(x: float, y: float, classes: str, text: str, more: str = "") -> str:
    return f'<text class="{classes}" x="{x:g}" y="{y:g}"{more}>{escape(text)}</text>'


def _head(title: str, summary: str, note: str, width: int) -> tuple[str, int]:
    """The lines at the top, and the height at which the picture begins."""
    room = int((width - 2 * MARGIN) / _BODY)
    lines = [_text(MARGIN, 38, "hw-ink hw-title", cut(title, room // 2))]
    y = 41
    for text, color in ((summary, "hw-soft"), (note, "hw-alarm")):
        for line in wrap(text, room):
            y += 17
            lines.append(_text(MARGIN, y, f"{color} hw-body", line))
    return "\n".join(lines) + "\n", y + 26


# -- boxes -------------------------------------------------------------------------------------------------


def _size(box: Box) -> tuple[int, int]:
    caption, badge = _caption(box)
    small = max([_FACT * columns(line) for line in box.notes] + [16 + _FACT * columns(box.facts) if box.facts else 0])
    widest = max(_NAME * columns(box.name), small, 7.4 * len(caption) + (14 + 7.4 * len(badge) if badge else 0))
    height = 42 + (_LINE + 2 if box.facts else 0) + _LINE * len(box.notes)
    return max(96, round(widest) + 2 * _INSET + (POINT if box.kind == "effect" else 0)), height


def _caption(box: Box) -> tuple[str, str]:
    """The kind of a box, and on the other side what is special about it."""
    kind = f"{box.kind}s" if box.count > 1 else box.kind
    special = [word for word, is_so in (("dormant", box.dormant), ("running", box.running)) if is_so]
    return kind.upper(), ", ".join(special).upper()


def _state(box: Box) -> str:
    return "failed" if box.failed else "waiting" if box.waiting else box.status


def _card(box: Box, rect: Rect) -> str:
    x, y, width, height = rect
    classes = ["hw-box", f"hw-{_state(box)}"]
    classes += [f"hw-{name}" for name, is_so in (("dormant", box.dormant), ("running", box.running)) if is_so]
    parts = [f'<g class="{" ".join(classes)}"><title>{escape(box.tip)}</title>']
    stack = 6 if box.count > 1 else 0
    if box.space:
        parts.append(border(x, y - stack, width + stack, height + stack))
    if stack:
        parts += [outline(box.kind, x + shift, y - shift, width, height) for shift in (6, 3)]
    parts.append(outline(box.kind, x, y, width, height))
    if box.kind != "document":
        parts.append(f'<rect class="hw-bar" x="{x + 5}" y="{y + 9}" width="3.5" height="{height - 18}" rx="1.75"/>')
    caption, badge = _caption(box)
    left, right = x + _INSET, x + width - _INSET - (POINT if box.kind == "effect" else 0)
    parts.append(_text(left, y + 15, "hw-soft hw-kind", caption))
    if badge:
        color = "hw-busy" if box.running else "hw-soft"
        parts.append(_text(right, y + 15, f"{color} hw-kind", badge, ' text-anchor="end"'))
    parts.append(_text(left, y + 31, "hw-ink hw-name", box.name))
    line = y + 31
    if box.facts:
        line += _LINE + 2
        parts += [sign(_state(box), left, line - 9), _text(left + 16, line, "hw-soft hw-fact", box.facts)]
    for at, note in enumerate(box.notes):
        line += _LINE
        parts.append(_text(left, line, f"{'hw-alarm' if box.failed and at == 0 else 'hw-soft'} hw-fact", note))
    return "".join(parts) + "</g>\n"


# -- arrows ------------------------------------------------------------------------------------------------


def _edge(arrow: Arrow, route: Route, source: Rect, names: dict[str, str]) -> str:
    circle = arrow.circle and route.course != "along"
    tip = f"{names[arrow.source]} {_READ[arrow.kind]} {names[arrow.target]}"
    if arrow.count > 1:
        tip += f" ({arrow.count:,} edges)"
    if circle:
        tip += "\ncloses a circle"
    drawn = _loop(source) if route.course == "loop" else _line(route)
    return (
        f'<g class="hw-edge hw-{arrow.kind}{" hw-against" if circle else ""}"><title>{escape(tip)}</title>{drawn}</g>\n'
    )


def _line(route: Route) -> str:
    points = route.points
    way = 1 if route.course == "along" else -1
    (x, y), (end, level) = points[0], points[-1]
    # It begins inside its box, which is drawn over it: the side of an effect is not straight.
    path = [f"M{x - way * POINT} {y}H{x}"]
    stop = end - way * 7
    for at in range(1, len(points), 2):
        (a, b), (c, d) = points[at - 1], points[at]
        c = stop if at == len(points) - 1 else c
        middle = (a + c) / 2
        path.append(f"C{middle:g} {b} {middle:g} {d} {c} {d}" if b != d else f"H{c}")
        if at + 1 < len(points):
            path.append(f"H{points[at + 1][0]}")
    head = f"M{end} {level}l{-8 * way} -4v8z"
    return f'<path class="hw-line" d="{"".join(path)}"/><path class="hw-head" d="{head}"/>'


def _loop(rect: Rect) -> str:
    """From the upper side of a box to its right side, round the corner."""
    right, y = rect.x + rect.width, rect.y
    bow = f"C{right - 30} {y - 20} {right + 26} {y - 16} {right + 22} {y + 8}"
    path = f"M{right - 30} {y + 2}{bow}Q{right + 20} {y + 16} {right + 6} {y + 16}"
    return f'<path class="hw-line" d="{path}"/><path class="hw-head" d="M{right - 1} {y + 16}l8 -4v8z"/>'


# -- the legend --------------------------------------------------------------------------------------------


def _legend(top: int, width: int, shown: Picture) -> tuple[str, int]:
    """The legend, in rows, and the height at which the picture ends.

    Handlers and other spaces are explained if there are any.
    """
    handlers, far = any(box.kind == "handler" for box in shown.boxes), any(box.space for box in shown.boxes)
    drawn = [f'<path class="hw-rule" d="M{MARGIN} {top}H{width - MARGIN}"/>\n<g class="hw-legend">\n']
    y = top + 14
    for items in (_kinds(handlers=handlers, far=far), _states(handlers=handlers), _arrow_kinds()):
        x = MARGIN
        for item in items:
            taken = 44 + round(columns(item.words) * _FACT) + 18
            if x > MARGIN and x + taken > width - MARGIN:
                x, y = MARGIN, y + 24
            drawn.append(f'<g transform="translate({x} {y})">{item.drawing}')
            drawn.append(_text(43, 13, "hw-soft hw-fact", item.words) + "</g>\n")
            x += taken
        y += 24
    return "".join(drawn) + "</g>\n", y + 12


def _kinds(*, handlers: bool, far: bool) -> list[_Item]:
    def card(kind: str, classes: str = "") -> str:
        return f'<g class="hw-{kind} {classes}">{outline(kind, 1, 1, 32, 16)}</g>'

    stack = outline("computation", 5, 0, 28, 13) + outline("computation", 1, 4, 28, 13)
    handler = [_Item(card("handler"), "handler: called for each event")] if handlers else []
    return [
        _Item(card("document"), "document: read, and written by no node"),
        _Item(card("computation"), LABELS["computation"]),
        _Item(card("effect"), LABELS["effect"]),
        *handler,
        *([_Item(border(7, 6, 20, 6), "dotted border: of another space")] if far else []),
        _Item(stack, "several in one box"),
        _Item(card("computation", "hw-dormant"), "dashed: dormant, runs when asked"),
    ]


def _states(*, handlers: bool) -> list[_Item]:
    words = {
        "clean": "clean",
        "invalid": "invalid: what it read has changed",
        "never-ran": "never ran",
        "failed": "failed: its last run raised",
        "running": "running now",
        **({"waiting": "events wait for it"} if handlers else {}),
    }
    return [_Item(f'<g class="hw-{name}">{sign(name, 14, 4)}</g>', said) for name, said in words.items()]


def _arrow_kinds() -> list[_Item]:
    line = _line(Route(((POINT, 9), (34, 9)), "along"))
    circle = _Item(f'<g class="hw-data hw-against">{line}</g>', "closes a circle")
    return [_Item(f'<g class="hw-{kind}">{line}</g>', said) for kind, said in _READ.items()] + [circle]
