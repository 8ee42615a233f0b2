"""Strict JSON: no NaN, no Infinity, no duplicate keys."""

from __future__ import annotations

import json

from headwater.errors import UsageError


def parse_json(text: str) -> object:
    """Parse JSON. Rejects NaN, Infinity and duplicate keys. Raises UsageError."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_pairs)
    except json.JSONDecodeError as error:
        raise UsageError(_explain(text, error)) from None
    except RecursionError:
        raise UsageError("this JSON is nested too deep") from None
    except ValueError as error:
        raise UsageError(f"this is not JSON: {error}") from None


def _explain(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return "there is no JSON here: the value is empty"
    where = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"character {error.colno}"
    near = text[max(error.pos - 20, 0) : error.pos + 20]
    what = f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]} at {where}, near {near!r}"
    first = text.strip()[0]
    if first not in '{["' and "\n" not in text:
        # Most likely a word whose quotes the shell has removed.
        return f"""{what}; text needs its own quotes: '{json.dumps(text, ensure_ascii=False)}'"""
    if first in "{[" and '"' not in text:
        return f"""{what}; put the whole value in single quotes, so that the shell leaves its "quotes" alone"""
    return what


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number that JSON has")


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} is in a map twice")
    return found
