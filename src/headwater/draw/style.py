"""Colors, shapes and signs.

Rules use plain classes and plain colors, so that viewers without CSS variables show the light picture. Every class
begins with `hw-`, and there are no ids: one page can have many pictures.
"""

from __future__ import annotations

from typing import Final

# The class, the property, its light color, its dark color.
_COLORS: Final = (
    ("ground", "fill", "#fbfbf9", "#14171c"),
    ("rule", "stroke", "#dcdcd6", "#333a45"),
    ("card", "fill", "#ffffff", "#1f242c"),
    ("card", "stroke", "#8a929e", "#77818f"),
    ("document .hw-card", "fill", "#eef2f7", "#232c3a"),
    ("document .hw-card", "stroke", "#8fa3bd", "#6d86a8"),
    ("invalid .hw-card", "fill", "#fff6dc", "#372d12"),
    ("invalid .hw-card", "stroke", "#b07d00", "#d3a02a"),
    ("failed .hw-card", "fill", "#fdeceb", "#3d1d1f"),
    ("failed .hw-card", "stroke", "#c0312b", "#f0716b"),
    ("running .hw-card", "stroke", "#1f66c9", "#6aa7ff"),
    ("border", "stroke", "#0b7285", "#4bc0d3"),
    ("ink", "fill", "#1b1f26", "#eceff3"),
    ("soft", "fill", "#59616d", "#a9b2bf"),
    ("alarm", "fill", "#a8241f", "#ff9c96"),
    ("busy", "fill", "#1a57ad", "#8fbcff"),
    ("sign", "stroke", "#2b7a3d", "#67c47c"),
    ("never-ran .hw-sign", "stroke", "#7b838f", "#98a2b0"),
    ("invalid .hw-sign", "stroke", "#8f6500", "#f0bf4c"),
    ("waiting .hw-sign", "stroke", "#8f6500", "#f0bf4c"),
    ("failed .hw-sign", "stroke", "#c0312b", "#ff8d87"),
    ("bar", "fill", "#4c9a5f", "#4c9a5f"),
    ("never-ran .hw-bar", "fill", "#b9bfc8", "#5d6672"),
    ("invalid .hw-bar", "fill", "#dfa400", "#d3a02a"),
    ("waiting .hw-bar", "fill", "#dfa400", "#d3a02a"),
    ("failed .hw-bar", "fill", "#c0312b", "#f0716b"),
    ("line", "stroke", "#7c8796", "#7f8b9b"),
    ("head", "fill", "#7c8796", "#7f8b9b"),
    ("envelope .hw-line", "stroke", "#8b5fb5", "#b78fdf"),
    ("envelope .hw-head", "fill", "#8b5fb5", "#b78fdf"),
    ("against .hw-line", "stroke", "#c4562c", "#f08a5d"),
    ("against .hw-head", "fill", "#c4562c", "#f08a5d"),
    ("edge:hover .hw-line", "stroke", "#1f66c9", "#6aa7ff"),
    ("edge:hover .hw-head", "fill", "#1f66c9", "#6aa7ff"),
)

_SHAPES: Final = """\
.hw-graph{font-family:ui-sans-serif,system-ui,"Segoe UI","Liberation Sans",Arial,sans-serif}
.hw-graph .hw-name{font:600 12.5px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace}
.hw-graph .hw-kind{font-size:8.5px;letter-spacing:.08em}
.hw-graph .hw-fact{font-size:10.5px}
.hw-graph .hw-title{font-size:17px;font-weight:650}
.hw-graph .hw-body{font-size:12px}
.hw-graph .hw-card{stroke-width:1.2}
.hw-graph .hw-invalid .hw-card{stroke-width:1.6}
.hw-graph .hw-failed .hw-card,.hw-graph .hw-running .hw-card{stroke-width:2.2}
.hw-graph .hw-dormant .hw-card{stroke-dasharray:5 4}
.hw-graph .hw-border{fill:none;stroke-width:1.4;stroke-dasharray:2 3}
.hw-graph .hw-sign{fill:none;stroke-width:1.4;stroke-linecap:round;stroke-linejoin:round}
.hw-graph .hw-line{fill:none;stroke-width:1.3}
.hw-graph .hw-envelope .hw-line{stroke-dasharray:7 4}
.hw-graph .hw-parent .hw-line{stroke-dasharray:1.5 4;stroke-linecap:round}
.hw-graph .hw-edge:hover .hw-line{stroke-width:2.6}
"""


def sheet() -> str:
    """The style sheet of a picture."""
    light = "".join(f".hw-graph .hw-{name}{{{what}:{color}}}\n" for name, what, color, _ in _COLORS)
    dark = "".join(f".hw-graph .hw-{name}{{{what}:{color}}}\n" for name, what, _, color in _COLORS)
    return f"{_SHAPES}{light}@media (prefers-color-scheme:dark){{\n{dark}}}\n"


def outline(kind: str, x: int, y: int, width: int, height: int) -> str:
    """The card of one kind.

    A document has a folded corner, an effect points outwards, a handler is a ticket, and a computation is round.
    """
    right, bottom = x + width, y + height
    if kind == "document":
        fold = min(11, height // 2)
        return (
            f'<path class="hw-card" d="M{x} {y}H{right - fold}L{right} {y + fold}V{bottom}H{x}Z"/>'
            f'<path class="hw-card" d="M{right - fold} {y}V{y + fold}H{right}"/>'
        )
    if kind == "effect":
        tip, middle = right - POINT, y + height / 2
        return f'<path class="hw-card" d="M{x} {y}H{tip}L{right} {middle:g}L{tip} {bottom}H{x}Z"/>'
    if kind == "handler":
        r = min(6, height // 4)
        punched = right - 2 * r
        above, below = f"a{r} {r} 0 0 0 {2 * r} 0", f"a{r} {r} 0 0 0 {-2 * r} 0"
        edge = f"M{x} {y}H{punched - 2 * r}{above}H{right}V{bottom}H{punched}{below}H{x}Z"
        return f'<path class="hw-card" d="{edge}"/>'
    return f'<rect class="hw-card" x="{x}" y="{y}" width="{width}" height="{height}" rx="{min(9, height // 2)}"/>'


def border(x: int, y: int, width: int, height: int) -> str:
    """The dotted line around a box of another space."""
    by = BORDER
    return (
        f'<rect class="hw-border" x="{x - by}" y="{y - by}" width="{width + 2 * by}" height="{height + 2 * by}" '
        f'rx="{min(9 + by, height // 2 + by)}"/>'
    )


def sign(name: str, x: int, y: int) -> str:
    """A small mark, 10 by 10: a tick, a ring, an exclamation mark in a triangle, an hourglass, a cross in a ring."""
    ring = f'<circle class="hw-sign" cx="{x + 5}" cy="{y + 5}" r="4.8"/>'
    marks = {
        "clean": f'<path class="hw-sign" d="M{x + 1} {y + 5.5}l3 3.2l5-7"/>',
        "never-ran": ring,
        "invalid": f'<path class="hw-sign" d="M{x + 5} {y - 1}l6 11h-12zM{x + 5} {y + 3}v3.2m0 1.9v.1"/>',
        "waiting": f'<path class="hw-sign" d="M{x + 1} {y}h8l-8 10h8z"/>',
        "failed": f'{ring}<path class="hw-sign" d="M{x + 3.2} {y + 3.2}l3.6 3.6m0-3.6l-3.6 3.6"/>',
        "running": f'<path class="hw-busy" d="M{x + 1} {y}l8.5 5l-8.5 5z"/>',
    }
    return marks[name]


BORDER: Final = 5
"""The distance of a border from its box."""

POINT: Final = 11
"""The length of the point of an effect."""
