"""Values as text for people: one line in a terminal, a small table in a notebook."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from html import escape
from typing import Final

from headwater.values.author_text import safe_repr

LINE_MAX: Final = 80
"""Characters of a value in a repr: it shares a line with a name."""

ROWS_MAX: Final = 20
"""Rows of a table in a notebook. A million rows would stop the browser."""

_inside: Final[ContextVar[bool]] = ContextVar("headwater-showing", default=False)

_TABLE: Final = "border-collapse:collapse;font-family:ui-monospace,monospace;font-size:90%"
_HEAD: Final = "text-align:left;padding:2px 8px;border-bottom:1px solid #8888"
_NAME: Final = "text-align:left;padding:2px 8px;color:#888;vertical-align:top"
_VALUE: Final = "text-align:left;padding:2px 8px"


def shorten(text: str, limit: int = LINE_MAX) -> str:
    """The text, shortened in the middle to the limit."""
    if len(text) <= limit:
        return text
    half = (limit - 3) // 2
    return f"{text[:half]}...{text[-half:]}"


def brief(value: object, limit: int = LINE_MAX) -> str:
    """The repr of a value, shortened to the limit. Only the beginning of a long list is read."""
    return shorten(_brief(value, limit), limit)


def _brief(value: object, limit: int) -> str:
    if isinstance(value, list):
        return f"[{_joined((_brief(item, limit) for item in value), limit)}]"
    if isinstance(value, dict):
        return f"{{{_joined((f'{safe_repr(key)}: {_brief(item, limit)}' for key, item in value.items()), limit)}}}"
    try:
        return repr(value)
    except Exception:  # noqa: BLE001  # an author's __repr__; the exceptions that end a run are no subclass of Exception
        return safe_repr(value)


def _joined(parts: Iterable[str], limit: int) -> str:
    found: list[str] = []
    for part in parts:
        if limit < 0:
            found.append("...")
            break
        found.append(part)
        limit -= len(part)
    return ", ".join(found)


def once(short: str, full: Callable[[], str]) -> str:
    """The repr of a handle: full, but short inside another one, because handles may refer to each other."""
    if _inside.get():
        return short
    token = _inside.set(True)
    try:
        return full()
    finally:
        _inside.reset(token)


def cell_html(name: str, expected: str, value: object, problem: str | None) -> str:
    """A cell as a table: its entries, or the value alone."""
    if problem is not None:
        return _table(name, expected, [("", f"<i>{escape(problem)}</i>")])
    if isinstance(value, Mapping) and value:
        return _table(name, expected, _rows([(str(key), item) for key, item in _first(value.items())], len(value)))
    if isinstance(value, Sequence) and not isinstance(value, str | bytes) and value:
        return _table(
            name, expected, _rows([(str(index), item) for index, item in _first(enumerate(value))], len(value))
        )
    return _table(name, expected, _rows([("", value)], 1))


def record_html(name: str, kind: str, fields: Sequence[tuple[str, object]]) -> str:
    """A document as a table of its fields."""
    return _table(name, kind, _rows(list(fields)[:ROWS_MAX], len(fields)))


def _first(items: object) -> list[tuple[object, object]]:
    found: list[tuple[object, object]] = []
    for item in items:  # type: ignore[attr-defined]
        if len(found) == ROWS_MAX:
            break
        found.append(item)
    return found


def _rows(items: list[tuple[str, object]], count: int) -> list[tuple[str, str]]:
    rows = [(name, escape(brief(value, 200))) for name, value in items]
    if count > len(rows):
        rows.append(("", f"<i>and {count - len(rows):,} more</i>"))
    return rows


def _table(name: str, kind: str, rows: Sequence[tuple[str, str]]) -> str:
    body = "".join(
        f'<tr><td style="{_NAME}">{escape(label)}</td><td style="{_VALUE}">{text}</td></tr>' for label, text in rows
    )
    head = f'<th style="{_HEAD}">{escape(name)}</th><th style="{_HEAD};color:#888">{escape(kind)}</th>'
    return f'<table style="{_TABLE}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>'
