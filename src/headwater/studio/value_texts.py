"""Values as JSON text, cut where they are large; texts with links."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from headwater.studio.answers import Part, ValueText
from headwater.studio.limits import VALUE_BYTES
from headwater.values.text import inert_lines

_ADDRESS: Final = re.compile(r"[^\s,;:()'\"]+(?::[^\s,;()'\"]+)?")


def value_text(value: object, limit: int = VALUE_BYTES) -> ValueText:
    """A value that `codec.to_json` made."""
    return json_text(msgspec.json.encode(value), limit)


def json_text(data: bytes, limit: int = VALUE_BYTES) -> ValueText:
    """JSON as it was stored or made."""
    size = len(data)
    if size <= limit:
        return ValueText(text=data.decode(), size=size)
    # A character of several bytes may be cut in the middle.
    return ValueText(text=data[:limit].decode(errors="ignore"), size=size, cut=True)


def optional_text(value: object, limit: int = VALUE_BYTES) -> ValueText | None:
    """None for what is missing."""
    return None if value is None or value is msgspec.UNSET else value_text(value, limit)


def sentence_parts(line: str, nodes: dict[str, str], documents: frozenset[str]) -> tuple[Part, ...]:
    """A sentence whose names of functions and documents are links. `nodes`: the id of each name."""
    parts: list[Part] = []
    start = 0
    line = inert_lines(line)
    for found in _ADDRESS.finditer(line):
        word = found[0].rstrip(".")
        kind, target = ("function", nodes[word]) if word in nodes else ("document", word)
        if word not in nodes and word not in documents:
            continue
        if found.start() > start:
            parts.append(Part(text=line[start : found.start()]))
        parts.append(Part(text=word, kind="function" if kind == "function" else "document", target=target))
        start = found.start() + len(word)
    if start < len(line):
        parts.append(Part(text=line[start:]))
    return tuple(parts)


def first_line(text: str, limit: int = 200) -> str:
    """The first line of an error."""
    line = text.strip().split("\n", 1)[0]
    return line if len(line) <= limit else f"{line[: limit - 1]}…"
