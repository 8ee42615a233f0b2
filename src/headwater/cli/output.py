"""The output of commands: a table on a terminal, tab-separated in a pipe, JSON with `--json`; progress on stderr.

The fields of a record are declared once, as columns: for the table, for JSON and for the text of `--help`. All that
needs rich is in `terminal.py`, which is imported where standard output is a terminal.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib import import_module
from itertools import islice
from typing import Any, Final, Literal, TextIO, TypeAlias

from headwater.machine import machine
from headwater.values.text import inert, inert_lines

Form: TypeAlias = Literal["json", "jsonl"] | None
"""The form of the output; None: a table, or lines of fields."""

Record: TypeAlias = Mapping[str, object]
"""One answer, as `--json` prints it."""

Progress: TypeAlias = Callable[[int, int], None]
"""Called with the amount done and the total; 0: the total is unknown."""

_TABLE_ROWS: Final = 500
"""Rows of a table drawn at once. They determine the widths, and memory stays bounded."""

PROGRESS_AFTER_S = 0.5
"""Shorter work shows no bar: it would flicker."""

_PREVIEW: Final = 200
"""Characters of a value in a table. `get` prints all of it."""


@dataclass(frozen=True, slots=True)
class Column:
    """One field of a record. `text` is the full text for a pipe; `shown` the text for a terminal, if it differs."""

    name: str
    """Its key in JSON."""
    title: str | None = None
    """The heading of its column. Default: the name."""
    text: Callable[[Record], str] | None = None
    shown: Callable[[Record], str] | None = None
    number: bool = False
    elastic: bool = False
    """Shortened if the terminal is narrow."""

    @property
    def heading(self) -> str:
        return self.name if self.title is None else self.title

    def in_pipe(self, record: Record) -> str:
        """The text for a pipe."""
        return field_text(record.get(self.name)) if self.text is None else self.text(record)

    def on_screen(self, record: Record) -> str:
        """The text for a terminal."""
        return self.in_pipe(record) if self.shown is None else self.shown(record)


def picked(view: object, names: str, **more: object) -> dict[str, object]:
    """A record of these fields of a view, in this order, and of others."""
    return {name: getattr(view, name) for name in names.split()} | more


def field_text(value: object) -> str:
    """A field as text: empty for None, JSON for nested values."""
    if value is None:
        return ""
    return json_text(value) if isinstance(value, dict | list | tuple) else str(value)


def json_column(name: str, title: str | None = None, *, none: str = "") -> Column:
    """A column of JSON values. A table shows the beginning."""
    return Column(
        name,
        title,
        text=lambda record: json_text(record[name]) if name in record else "",
        shown=lambda record: preview(record[name]) if name in record else none,
        elastic=True,
    )


def is_terminal(stream: TextIO | None = None) -> bool:
    """Whether a stream is a terminal. Default: standard output."""
    stream = stream or sys.stdout
    return stream is not None and stream.isatty()


def terminal() -> Any:  # noqa: ANN401  # a module
    """The module that draws. It is loaded at its first use: rich takes as long to import as most commands to run."""
    return import_module("headwater.cli.terminal")


# --- one answer -----------------------------------------------------------------------------------------------


def answer(record: Record, *, sentence: str, plain: object, form: Form) -> None:
    """Print the result of a command: a sentence on a terminal, one or more fields in a pipe."""
    if form is not None:
        write(json_text(record))
    elif is_terminal():
        write(inert_lines(sentence))
    else:
        write_fields(*(plain if isinstance(plain, tuple) else (plain,)))


def show_value(value: object) -> None:
    """Print a value as JSON: on a terminal in several lines and in color, otherwise on one line."""
    if is_terminal():
        terminal().print_json(json_text(value, indent=2))
    else:
        write(json_text(value))


def write(line: str) -> None:
    """Print one line to standard output."""
    print(line)


def write_fields(*fields: object) -> None:
    """Print one line of fields, for a pipe."""
    write("\t".join(inert(str(field)) for field in fields))


def note(line: str) -> None:
    """Print a note for people to stderr."""
    print(inert(line), file=sys.stderr)


# --- many answers ---------------------------------------------------------------------------------------------


def show(
    records: Iterable[Record],
    fields: Iterable[Column | str],
    form: Form,
    *,
    empty: str,
    without: Collection[str] = (),
    shown: Mapping[str, Callable[[Record], str]] | None = None,
) -> None:
    """Print a list, record by record. `empty` is the note for an empty list on a terminal.

    `without` names columns to leave out; `shown` replaces the text of columns on a terminal.
    """
    columns = columns_of(fields, without, shown)
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
                write_row(record, columns)


def columns_of(
    fields: Iterable[Column | str],
    without: Collection[str] = (),
    shown: Mapping[str, Callable[[Record], str]] | None = None,
) -> tuple[Column, ...]:
    """The columns of a record. Fields without a column are in JSON only."""
    columns = [each for each in fields if isinstance(each, Column) and each.name not in without]
    changed = shown or {}
    return tuple(_shown_as(each, changed[each.name]) if each.name in changed else each for each in columns)


def _shown_as(column: Column, shown: Callable[[Record], str]) -> Column:
    return Column(column.name, column.title, column.text, shown, column.number, column.elastic)


def write_row(record: Record, columns: Sequence[Column]) -> None:
    """Print one record, for a pipe."""
    write_fields(*(column.in_pipe(record) for column in columns))


def _write_array(records: Iterable[Record]) -> None:
    before = "[\n"
    for record in records:
        sys.stdout.write(before + json_text(record))
        before = ",\n"
    write("[]" if before == "[\n" else "\n]")


def _draw(records: Iterator[Record], columns: Sequence[Column]) -> bool:
    """Draw tables, the first with titles. Returns whether there was a record."""
    drawn = False
    while page := list(islice(records, _TABLE_ROWS)):
        draw(Table(page, columns, titles=not drawn))
        drawn = True
    return drawn


# --- pictures -------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Line:
    """Text on a terminal, in one or two styles. A `whole` line is not wrapped."""

    text: str = ""
    style: str = ""
    rest: str = ""
    """The text after the first style."""
    rest_style: str = ""
    whole: bool = False
    cut: bool = False
    """Ends in an ellipsis if it is too long."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Rows of cells. The last column is wrapped."""

    rows: Sequence[Sequence[Line | str]]
    titles: Sequence[str] = ()
    right: Collection[int] = ()
    """Columns of numbers."""


@dataclass(frozen=True, slots=True)
class Table:
    """Records in columns."""

    records: Iterable[Record]
    columns: Sequence[Column]
    titles: bool = True


Picture: TypeAlias = Line | Grid | Table
"""A part of what is drawn on a terminal."""


def draw(*parts: Picture) -> None:
    """Draw on the terminal."""
    terminal().draw(parts)


def stay(frames: Iterable[Sequence[Picture] | None]) -> None:
    """Draw each frame in place of the last one. None: nothing has changed."""
    terminal().stay(frames)
    note("it was closed")


def width() -> int:
    """Columns of the terminal."""
    found: int = terminal().console().width
    return found


# --- text -----------------------------------------------------------------------------------------------------


def json_text(value: object, *, indent: int | None = None) -> str:
    """JSON in the encoding of the output: characters other than ASCII are escaped unless it is UTF-8."""
    encoding = (sys.stdout.encoding if sys.stdout is not None else None) or ""
    separators = (",", ": ") if indent is not None else (", ", ": ")
    ascii_only = not encoding.lower().startswith("utf")
    return inert_lines(json.dumps(value, ensure_ascii=ascii_only, indent=indent, separators=separators))


def preview(value: object) -> str:
    """The beginning of a value as JSON, for a table."""
    text = json_text(value)
    return text if len(text) <= _PREVIEW else text[: _PREVIEW - 1] + "…"


def utc(ms: float) -> str:
    """A time for programs: ISO 8601 in UTC."""
    return datetime.fromtimestamp(ms / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def local(ms: float, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """A time for people, in the time zone of this machine."""
    return machine().local_time(ms / 1000, form)


def local_time(text: object, form: str = "%Y-%m-%d %H:%M:%S") -> str:
    """The same, for a time in ISO 8601."""
    return datetime.fromisoformat(str(text)).astimezone().strftime(form) if text else ""


def number(value: object) -> float:
    """A field of a record as a number; 0 if it is none."""
    return float(value) if isinstance(value, int | float) else 0.0


# --- progress -------------------------------------------------------------------------------------------------


@contextmanager
def progress(title: str, unit: str = "") -> Iterator[Progress]:
    """A progress bar on stderr, if stderr is a terminal. It is removed at the end.

    With a unit, such as "documents", it has their number, how many there are per second, and how long it will take.
    """
    if not is_terminal(sys.stderr) or os.environ.get("TERM") == "dumb":
        yield lambda _done, _total: None
        return
    begin = machine().monotonic()
    bars: list[Any] = []

    def advance(done: int, total: int) -> None:
        if not bars and machine().monotonic() - begin >= PROGRESS_AFTER_S:
            bars.append(terminal().Bar(title, unit))
        for bar in bars:
            bar.advance(done, total)

    try:
        yield advance
    finally:
        for bar in bars:
            bar.close()
