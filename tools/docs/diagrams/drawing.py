"""A drawing: boxes, arrows and text on a grid, checked for overlaps, rendered as SVG in two themes.

Coordinates are pixels, set by hand: a concept diagram is drawn for a reader. Text that does not fit, covers another
text, or lies on a line raises `LayoutError`. Widths are those of the widest font in the list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, pairwise
from typing import Final, Literal
from xml.sax.saxutils import escape, quoteattr

from tools.docs.diagrams.themes import THEMES

Point = tuple[float, float]
Anchor = Literal["start", "middle", "end"]

FONT: Final = "ui-sans-serif, system-ui, 'Segoe UI', Roboto, 'Liberation Sans', Arial, sans-serif"
CODE: Final = "ui-monospace, SFMono-Regular, Menlo, Consolas, 'DejaVu Sans Mono', monospace"
MARGIN: Final = 10
"""Between text and the edge of the drawing."""
PADDING: Final = 4
"""Between text and the edge of its box."""
BOLD: Final = 600

# Advance of DejaVu Sans in parts of the font size; all other characters: OTHER.
_ADVANCES: Final = (("iljI.,:;'|!", 0.33), ("ftr()[] -/", 0.41), ('"*', 0.5), ("mMwW@%", 0.99), ("QOGNDHU&+=", 0.8))
OTHER: Final = 0.63
MONOSPACE: Final = 0.61
BOLD_FACTOR: Final = 1.1
_WIDTHS: Final = {letter: width for letters, width in _ADVANCES for letter in letters}


class LayoutError(ValueError):
    """Something in a drawing does not fit, or covers something else."""


@dataclass(frozen=True, slots=True)
class Area:
    """A rectangle, with what it holds."""

    left: float
    top: float
    right: float
    bottom: float
    name: str

    def overlaps(self, other: Area) -> bool:
        """Whether the two have a point in common."""
        beside = self.right <= other.left or other.right <= self.left
        return not beside and self.top < other.bottom and other.top < self.bottom

    def contains(self, other: Area) -> bool:
        """Whether the other one lies within this one."""
        return (
            self.left <= other.left
            and self.top <= other.top
            and other.right <= self.right
            and other.bottom <= self.bottom
        )

    def grown(self, by: float) -> Area:
        """The area with a margin around it, or less of it."""
        return Area(self.left - by, self.top - by, self.right + by, self.bottom + by, self.name)

    def is_crossed(self, start: Point, end: Point) -> bool:
        """Whether the line between two points has a part of it inside the area."""
        low, high = 0.0, 1.0
        spans = ((start[0], end[0], self.left, self.right), (start[1], end[1], self.top, self.bottom))
        for begin, finish, least, most in spans:
            way = finish - begin
            if way == 0:
                if not least < begin < most:
                    return False
                continue
            first, last = sorted(((least - begin) / way, (most - begin) / way))
            low, high = max(low, first), min(high, last)
        return low < high


@dataclass(frozen=True, slots=True)
class Transition:
    """What an arrow of a state diagram claims: a signal leads from one state to another."""

    before: str
    signal: str
    after: str


def text_width(words: str, size: float, *, bold: bool = False, code: bool = False) -> float:
    """The width of a line of text in the widest font of the list."""
    if code:
        return len(words) * size * MONOSPACE
    return sum(_WIDTHS.get(letter, OTHER) for letter in words) * size * (BOLD_FACTOR if bold else 1)


@dataclass(slots=True)
class Drawing:
    """Collects shapes; `svg` renders them. `tone` is the name of a color of the theme."""

    title: str
    description: str
    width: int
    height: int
    parts: list[str] = field(default_factory=list)
    texts: list[Area] = field(default_factory=list)
    boxes: list[Area] = field(default_factory=list)
    lines: list[tuple[Point, Point]] = field(default_factory=list)
    tips: dict[str, None] = field(default_factory=dict)

    def text(
        self,
        at: Point,
        words: str,
        *,
        size: float = 11.5,
        tone: str = "ink-3",
        bold: bool = False,
        anchor: Anchor = "middle",
        code: bool = False,
    ) -> Area:
        """One line of text; `at` is on its baseline."""
        x, y = at
        wide = text_width(words, size, bold=bold, code=code)
        left = {"start": x, "middle": x - wide / 2, "end": x - wide}[anchor]
        area = Area(left, y - 0.76 * size, left + wide, y + 0.22 * size, words)
        family = f' font-family="{CODE}"' if code else ""
        weight = ' font-weight="650"' if bold else ""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" font-size="{size:g}"{weight}{_fill(tone)} text-anchor="{anchor}"{family}>'
            f"{_plain(words)}</text>"
        )
        self.texts.append(area)
        return area

    def note(self, at: Point, *words: str, anchor: Anchor = "start", tone: str = "ink-3") -> None:
        """Lines of small text, one below the other."""
        for row, line in enumerate(words):
            self.text((at[0], at[1] + 15 * row), line, tone=tone, anchor=anchor)

    def heading(self, at: Point, words: str, anchor: Anchor = "start") -> None:
        """The title of a part of the drawing."""
        self.text(at, words, size=12, bold=True, anchor=anchor)

    def box(
        self,
        corner: Point,
        size: Point,
        title: str,
        *lines: str,
        tone: str = "dormant",
        code: bool = False,
        dashed: bool = False,
        title_size: float = 14,
    ) -> Area:
        """A box with a title and lines below it. Everything has to fit."""
        (x, y), (wide, high) = corner, size
        area = Area(x, y, x + wide, y + high, title)
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="9"{_fill(f"{tone}-soft")}'
            f'{_stroke(tone)} stroke-width="1.4"{dash}/>'
        )
        middle = x + wide / 2
        top = y + high / 2 + 5 - 8 * len(lines)
        inside = [self.text((middle, top), title, size=title_size, tone=_title(tone), bold=True, code=code)]
        inside += [
            self.text((middle, top + 18 + 15 * row), line, size=12, tone="ink-2") for row, line in enumerate(lines)
        ]
        for words in inside:
            if not area.grown(-PADDING).contains(words):
                raise LayoutError(
                    f"{self.title}: {words.name!r} does not fit into its box: {words.right - words.left:.0f} of "
                    f"{wide - 2 * PADDING:g} px wide, {words.top - y:.0f} to {words.bottom - y:.0f} of {high:g} px high"
                )
        self.boxes.append(area)
        return area

    def bar(self, corner: Point, wide: float, words: str, tone: str) -> None:
        """A box on a time line."""
        self.box(corner, (wide, 30), words, tone=tone, title_size=12.5)

    def arrow(
        self,
        *points: Point,
        tone: str = "line-strong",
        dashed: bool = False,
        both: bool = False,
        claims: Transition | None = None,
    ) -> None:
        """An arrow along the points. In a state diagram it says which transition it stands for."""
        self.tips[tone] = None
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        start = f' marker-start="url(#tip-{tone})"' if both else ""
        claim = ""
        if claims is not None:
            claim = f' data-from="{claims.before}" data-signal="{claims.signal}" data-to="{claims.after}"'
        self.parts.append(
            f'<path d="{_path(points)}" fill="none"{_stroke(tone)} stroke-width="1.6" stroke-linejoin="round"'
            f'{dash}{start} marker-end="url(#tip-{tone})"{claim}/>'
        )
        self.lines.extend(pairwise(points))

    def line(self, *points: Point, tone: str = "line", dashed: bool = False) -> None:
        """A line without a tip."""
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        self.parts.append(f'<path d="{_path(points)}" fill="none"{_stroke(tone)} stroke-width="1.2"{dash}/>')
        self.lines.extend(pairwise(points))

    def frame(self, corner: Point, size: Point, tone: str = "line-strong") -> None:
        """A dashed line around a part of the drawing."""
        (x, y), (wide, high) = corner, size
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{wide:g}" height="{high:g}" rx="12" fill="none"'
            f'{_stroke(tone)} stroke-width="1.4" stroke-dasharray="5 4"/>'
        )
        corners = ((x, y), (x + wide, y), (x + wide, y + high), (x, y + high), (x, y))
        self.lines.extend(pairwise(corners))

    def dot(self, at: Point, tone: str, radius: float = 4) -> None:
        """A point on a line."""
        self.parts.append(f'<circle cx="{at[0]:g}" cy="{at[1]:g}" r="{radius:g}"{_fill(tone)}/>')

    def check(self) -> None:
        """Raise LayoutError if text leaves the drawing, covers text, or a line runs through text or a box."""
        for wrong in (*self._text_outside(), *self._overlaps(), *self._crossings()):
            raise LayoutError(f"{self.title}: {wrong}")

    def _text_outside(self) -> Iterator[str]:
        page = Area(0, 0, self.width, self.height, "the drawing").grown(-MARGIN)
        for words in self.texts:
            if not page.contains(words):
                yield f"{words.name!r} leaves the drawing: {words}"

    def _overlaps(self) -> Iterator[str]:
        for one, other in combinations(self.texts, 2):
            if one.overlaps(other):
                yield f"{one.name!r} and {other.name!r} overlap: {one}, {other}"
        for words in self.texts:
            for box in self.boxes:
                if box.overlaps(words) and not box.contains(words):
                    yield f"{words.name!r} lies on the edge of {box.name!r}: {words}, {box}"
        for one, other in combinations(self.boxes, 2):
            if one.overlaps(other):
                yield f"the boxes {one.name!r} and {other.name!r} overlap"

    def _crossings(self) -> Iterator[str]:
        for start, end in self.lines:
            for area in (*self.texts, *(box.grown(-2) for box in self.boxes)):
                if area.is_crossed(start, end):
                    yield f"the line from {start} to {end} runs through {area.name!r}: {area}"

    def svg(self, theme: str) -> str:
        """The drawing as SVG."""
        self.check()
        size = f'viewBox="0 0 {self.width} {self.height}" width="{self.width}" height="{self.height}"'
        tips = "".join(
            f'<marker id="tip-{tone}" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" '
            f'orient="auto-start-reverse"><path d="M0 0.6 L7.4 4 L0 7.4 z"{_fill(tone)}/></marker>'
            for tone in self.tips
        )
        page = f'<rect width="{self.width}" height="{self.height}" rx="14"{_fill("surface")}/>'
        parts = "\n".join((tips, page, *self.parts)).format_map(THEMES[theme])
        return (
            f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-labelledby="t d" font-family="{FONT}">\n'
            f'<title id="t">{escape(self.title)}</title>\n<desc id="d">{escape(self.description)}</desc>\n'
            f"{parts}\n</svg>\n"
        )


def _fill(tone: str) -> str:
    return f" fill={quoteattr('{' + tone + '}')}"


def _stroke(tone: str) -> str:
    return f" stroke={quoteattr('{' + tone + '}')}"


def _title(tone: str) -> str:
    return "ink" if tone == "dormant" else tone


def _plain(words: str) -> str:
    return escape(words).replace("{", "{{").replace("}", "}}")


def _path(points: Sequence[Point]) -> str:
    return " ".join(f"{'L' if number else 'M'}{x:g} {y:g}" for number, (x, y) in enumerate(points))
