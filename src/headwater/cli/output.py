"""How answers look: a table on a terminal, tab-separated in a pipe, JSON when asked for; progress on stderr.

Must never know: spaces, documents.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal, TextIO, TypeAlias

from headwater.machine import machine
from headwater.values.text import inert, inert_lines

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table

Form: TypeAlias = Literal["json", "jsonl"] | None
"""What was asked for; None: whatever suits where the output goes."""

Record: TypeAlias = Mapping[str, object]
"""One answer, as `--json` prints it."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with how much is done and how much there is; 0 for unknown."""

_TABLE_ROWS: Final = 500
"""Rows of a table drawn at once: columns are as wide as these need, and memory stays bounded."""

_ELASTIC_LEAST: Final = 8
"""Characters that are left of a value even where the rest needs all the room."""

PROGRESS_AFTER_S = 0.5
"""What is done by then needs no bar: it would only flicker."""

_PREVIEW: Final = 200
"""Characters of a value in a table. More than a line has; a table is for looking, `get` is for reading."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a list. `text` is what a pipe gets, complete; `shown` what a person sees, if that differs."""

    title: str
    text: Callable[[Record], str]
    shown: Callable[[Record], str] | None = None
    number: bool = False
    elastic: bool = False
    """Gives way when the terminal is narrow."""


def is_terminal(stream: TextIO | None = None) -> bool:
    """Is a person looking? `stream` is standard output unless said otherwise."""
    stream = stream or sys.stdout
    return stream is not None and stream.isatty()


# --- one answer -----------------------------------------------------------------------------------------------


def answer(record: Record, *, sentence: str, plain: object, form: Form) -> None:
    """What a command that did something says: a sentence to people, one or more plain fields to a pipe."""
    if form is not None:
        write(json_text(record))
    elif is_terminal():
        write(inert_lines(sentence))
    else:
        fields = plain if isinstance(plain, tuple) else (plain,)
        write("\t".join(inert(str(field)) for field in fields))


def show_value(value: object) -> None:
    """A value as JSON: on a terminal over several lines and in colour, else on one line."""
    if not is_terminal():
        write(json_text(value))
        return
    from rich.highlighter import JSONHighlighter
    from rich.text import Text

    # Not rich's JSON: it reads the text and writes it anew, with control characters as they were.
    text = Text(json_text(value, indent=2))
    JSONHighlighter().highlight(text)
    console().print(text, soft_wrap=True)


def write(line: str) -> None:
    """One line to standard output."""
    print(line)


def note(line: str) -> None:
    """A remark for people, on stderr: nothing a script would read."""
    print(inert(line), file=sys.stderr)


# --- many answers ---------------------------------------------------------------------------------------------


def show(records: Iterable[Record], columns: Sequence[Column], form: Form, *, empty: str) -> None:
    """A list, as it comes. `empty` is said to people if there is nothing in it."""
    match form:
        case "json":
            _write_array(records)
        case "jsonl":
            for record in records:
                write(json_text(record))
        case None if is_terminal():
            if not _draw(iter(records), columns):
                note(empty)
        case None:
            for record in records:
                write("\t".join(inert(column.text(record)) for column in columns))


def _write_array(records: Iterable[Record]) -> None:
    before = "[\n"
    for record in records:
        sys.stdout.write(before + json_text(record))
        before = ",\n"
    write("[]" if before == "[\n" else "\n]")


def _draw(records: Iterator[Record], columns: Sequence[Column]) -> bool:
    """Tables one below the other, the first with titles. Tells whether there was anything to draw."""
    screen = console()
    drawn = False
    while page := list(islice(records, _TABLE_ROWS)):
        screen.print(table(page, columns, screen.width, titles=not drawn))
        drawn = True
    return drawn


def table(records: Iterable[Record], columns: Sequence[Column], width: int, *, titles: bool = True) -> Table:
    """One table, for a terminal of so many columns."""
    from rich.table import Table
    from rich.text import Text

    drawn = Table(box=None, pad_edge=False, show_header=titles, header_style="bold", padding=(0, 2, 0, 0))
    page = [_cells(record, columns) for record in records]
    room = _room(page, columns, width)
    for column in columns:
        drawn.add_column(
            column.title,
            justify="right" if column.number else "left",
            no_wrap=column.number or column.elastic,
            overflow="ellipsis" if column.elastic else "fold",
            max_width=room if column.elastic else None,
        )
    for cells in page:
        drawn.add_row(*map(Text, cells))
    return drawn


def _cells(record: Record, columns: Sequence[Column]) -> list[str]:
    return [inert((column.shown or column.text)(record)) for column in columns]


def _room(page: list[list[str]], columns: Sequence[Column], width: int) -> int:
    """How wide each elastic column may be, so that the others are shown whole."""
    from rich.cells import cell_len

    elastic = sum(column.elastic for column in columns)
    wanted = [max(map(cell_len, (column.title, *cells))) for column, *cells in zip(columns, *page, strict=True)]
    fixed = sum(2 + (0 if column.elastic else need) for column, need in zip(columns, wanted, strict=True))
    return max((width - fixed) // elastic, _ELASTIC_LEAST) if elastic else 0


# --- text -----------------------------------------------------------------------------------------------------


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON that the output can carry: other than ASCII characters as they are where that is UTF-8, else escaped."""
    encoding = (sys.stdout.encoding if sys.stdout is not None else None) or ""
    separators = (",", ": ") if indent is not None else (", ", ": ")
    ascii_only = not encoding.lower().startswith("utf")
    return inert_lines(json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators))


def preview(value: object) -> str:
    """The beginning of a value as JSON, for a table."""
    text = json_text(value)
    return text if len(text) <= _PREVIEW else text[: _PREVIEW - 1] + "…"


def size_text(count: int) -> str:
    """Bytes as people say them."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:  # noqa: PLR2004  # what a unit is
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def count_text(count: int, one: str, many: str = "") -> str:
    """`1 document`, `2,000 documents`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


# --- terminals ------------------------------------------------------------------------------------------------


def console(*, stderr: bool = False) -> Console:
    """Rich's view of a stream. No colour at all if NO_COLOR says so, and no reading of markup in what is printed."""
    from rich.console import Console

    plain = bool(os.environ.get("NO_COLOR"))
    return Console(
        stderr=stderr,
        color_system=None if plain else "auto",
        no_color=plain,
        markup=False,
        emoji=False,
        highlight=False,
    )


@contextmanager
def progress(title: str) -> Iterator[Progress]:
    """A bar on stderr while something long goes on, if a person can see it; it leaves no trace."""
    if not is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb":
        yield lambda _done, _total: None
        return
    with ExitStack() as stack:
        begin = machine().monotonic()
        bar: Progress | None = None

        def advance(done: int, total: int) -> None:
            nonlocal bar
            if bar is None and machine().monotonic() - begin >= PROGRESS_AFTER_S:
                bar = stack.enter_context(_bar(title))
            if bar is not None:
                bar(done, total)

        yield advance


@contextmanager
def _bar(title: str) -> Iterator[Progress]:
    from rich import progress as bars

    columns = (
        bars.TextColumn("{task.description}", markup=False),
        bars.BarColumn(),
        bars.TaskProgressColumn(),
        bars.TimeElapsedColumn(),
    )
    with bars.Progress(*columns, console=console(stderr=True), transient=True) as bar:
        task = bar.add_task(inert(title), total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total or None)
