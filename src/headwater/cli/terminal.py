"""Drawing on terminals: all that needs rich."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence

from rich import progress as bars
from rich.cells import cell_len
from rich.console import Console, Group, RenderableType
from rich.highlighter import JSONHighlighter
from rich.table import Table as RichTable
from rich.text import Text

from headwater.cli.output import Column, Grid, Line, Picture, Table
from headwater.values.text import inert

_ELASTIC_LEAST = 8
"""The smallest width of an elastic column."""


def console(*, stderr: bool = False) -> Console:
    """The console of rich for a stream: without color if NO_COLOR is set, and without markup."""
    plain = bool(os.environ.get("NO_COLOR"))
    return Console(
        stderr=stderr,
        color_system=None if plain else "auto",
        no_color=plain,
        markup=False,
        emoji=False,
        highlight=False,
    )


def print_json(text: str) -> None:
    """Print JSON in color."""
    # Not rich's JSON: it would print control characters unescaped.
    drawn = Text(text)
    JSONHighlighter().highlight(drawn)
    console().print(drawn, soft_wrap=True)


def draw(parts: Iterable[Picture]) -> None:
    """Print the parts, one below the other."""
    screen = console()
    screen.print(Group(*(_rendered(part, screen.width) for part in parts)), crop=False)


def stay(frames: Iterable[Sequence[Picture] | None]) -> None:
    """Draw each frame in place of the last one. The final frame stays in view.

    None: nothing has changed, but the terminal may have another size.
    """
    screen = console()
    last: Sequence[Picture] | None = None
    size = screen.size
    try:
        with screen.screen() as shown:
            for frame in frames:
                last = last if frame is None else frame
                if last is not None and (frame is not None or screen.size != size):
                    size = screen.size
                    shown.update(Group(*(_rendered(part, size.width) for part in last)))
    finally:
        if last is not None:
            draw(last)


# --- parts ----------------------------------------------------------------------------------------------------


def _rendered(part: Picture, width: int) -> RenderableType:
    match part:
        case Line():
            return _text(part)
        case Grid():
            return _grid(part)
        case Table():
            return _table(part, width)


def _text(line: Line | str) -> Text:
    if isinstance(line, str):
        return Text(line)
    text = Text.assemble((line.text, line.style), (line.rest, line.rest_style))
    if line.whole or line.cut:
        text.no_wrap, text.overflow = True, "ellipsis" if line.cut else "ignore"
    return text


def _grid(grid: Grid) -> RichTable:
    table = RichTable(
        box=None, pad_edge=False, show_header=bool(grid.titles), header_style="bold", padding=(0, 2, 0, 0)
    )
    count = len(grid.titles or grid.rows[0])
    for number in range(count):
        is_last = number == count - 1
        table.add_column(
            grid.titles[number] if grid.titles else "",
            justify="right" if number in grid.right else "left",
            no_wrap=not is_last,
            overflow="fold" if is_last else "ellipsis",
        )
    for row in grid.rows:
        table.add_row(*map(_text, row))
    return table


def _table(table: Table, width: int) -> RichTable:
    drawn = RichTable(box=None, pad_edge=False, show_header=table.titles, header_style="bold", padding=(0, 2, 0, 0))
    columns = table.columns
    page = [[inert(column.on_screen(record)) for column in columns] for record in table.records]
    elastic_width = _elastic_width(page, columns, width)
    for column in columns:
        drawn.add_column(
            column.heading,
            justify="right" if column.number else "left",
            no_wrap=column.number or column.elastic,
            overflow="ellipsis" if column.elastic else "fold",
            max_width=elastic_width if column.elastic else None,
        )
    for cells in page:
        drawn.add_row(*map(Text, cells))
    return drawn


def _elastic_width(page: list[list[str]], columns: Sequence[Column], width: int) -> int:
    """The width of each elastic column if the others are shown in full."""
    elastic = sum(column.elastic for column in columns)
    needs = [max(map(cell_len, (column.heading, *cells))) for column, *cells in zip(columns, *page, strict=True)]
    fixed = sum(2 + (0 if column.elastic else need) for column, need in zip(columns, needs, strict=True))
    return max((width - fixed) // elastic, _ELASTIC_LEAST) if elastic else 0


class _Rate(bars.ProgressColumn):
    """How many are done, and how many per second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: bars.Task) -> Text:
        speed = task.finished_speed or task.speed
        rate = "" if speed is None else f", {speed:,.0f}/s"
        return Text(f"{task.completed:,.0f} {self._unit}{rate}")


class Bar:
    """A progress bar on stderr, removed when it is closed."""

    def __init__(self, title: str, unit: str = "") -> None:
        columns: tuple[bars.ProgressColumn, ...] = (
            bars.TextColumn("{task.description}", markup=False),
            bars.BarColumn(),
            bars.TaskProgressColumn(),
            bars.TimeElapsedColumn(),
        )
        if unit:
            columns = (*columns[:3], _Rate(unit), bars.TextColumn("ETA"), bars.TimeRemainingColumn())
        self._bar = bars.Progress(*columns, console=console(stderr=True), transient=True)
        self._bar.start()
        self._task = self._bar.add_task(inert(title), total=None)

    def advance(self, done: int, total: int) -> None:
        self._bar.update(self._task, completed=done, total=total or None)

    def close(self) -> None:
        self._bar.stop()
