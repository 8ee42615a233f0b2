"""Text for people: control and invisible characters are escaped; durations, sizes and counts are written in one way."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_ACTIVE: Final = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # control characters, the escape that starts ANSI sequences among them
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"  # not shown: soft hyphen, joiners, fillers
    "\u200b-\u200f\u2028-\u202e\u2060-\u206f"  # zero width, line separators, marks that turn the direction of a line
    "\u2800\u3164\uffa0"  # blank, though they count as letters and signs
    "\ufe00-\ufe0d\ufeff\ufff0-\ufffb\ufffe\uffff"  # variations, byte order mark, annotations, no characters at all
    "\ud800-\udfff"  # half a character; cannot be encoded
    "\ue000-\uf8ff"  # private use: each font shows something else
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"  # format characters of shorthand and of music
    "\U000e0000-\U0010ffff"  # tags (invisible letters), variations, private use
    "]"
)
"""All characters that Unicode classifies as control, format, surrogate, private use or default ignorable, except spaces
of any width and the two variation selectors for text and emoji presentation."""

_SHORT: Final = {"\n": "\\n", "\r": "\\r", "\t": "\\t"}

_SECOND: Final = 1000
_MINUTE: Final = 60 * _SECOND
_HOUR: Final = 60 * _MINUTE
_DAY: Final = 24 * _HOUR
_UNITS: Final = ((_DAY, "d", _HOUR, "h"), (_HOUR, "h", _MINUTE, "min"), (_MINUTE, "min", _SECOND, "s"))


def inert(text: str) -> str:
    r"""The text on one line, with active or invisible characters escaped as in JSON, such as \u001b."""
    if text.isascii() and text.isprintable():
        return text
    return _ACTIVE.sub(_escaped, text)


def inert_lines(text: str) -> str:
    """The same for text of several lines; line breaks stay."""
    return "\n".join(inert(line.removesuffix("\r")) for line in text.split("\n"))


def _escaped(found: re.Match[str]) -> str:
    if found[0] in _SHORT:
        return _SHORT[found[0]]
    code = ord(found[0])
    if code > 0xFFFF:  # noqa: PLR2004  # JSON writes such a character as two
        code -= 0x10000
        return f"\\u{0xD800 + (code >> 10):04x}\\u{0xDC00 + (code & 0x3FF):04x}"
    return f"\\u{code:04x}"


def span(ms: float) -> str:
    """A duration in at most two units: `250 ms`, `1.5 s`, `3 min 20 s`, `1 h 30 min`."""
    ms = max(ms, 0)
    if ms < _SECOND:
        return f"{ms:.0f} ms"
    if ms < _MINUTE:
        return f"{int(ms / 100) / 10:.1f} s"
    for size, unit, part, small in _UNITS:
        if ms >= size:
            whole, rest = int(ms // size), int(ms % size // part)
            return f"{whole:,} {unit} {rest} {small}" if rest else f"{whole:,} {unit}"
    raise AssertionError(ms)


def rough_span(ms: float) -> str:
    """A rounded duration: whole seconds, from a minute on whole minutes, from a day on whole hours."""
    for step, below in ((_SECOND, _MINUTE), (_MINUTE, _DAY)):
        rounded = int((ms + step // 2) // step) * step
        if rounded < _MINUTE:
            return f"{rounded // _SECOND} s"
        if step > _SECOND and rounded < below:
            return span(rounded)
    return span(int((ms + _HOUR // 2) // _HOUR) * _HOUR)


def size_text(count: int) -> str:
    """A number of bytes in units."""
    size = float(count)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if abs(size) < 1024:  # noqa: PLR2004  # what a unit is
            return f"{size:,.0f} {unit}" if unit == "bytes" else f"{size:,.1f} {unit}"
        size /= 1024
    return f"{size:,.1f} TiB"


def count_text(count: int, one: str, many: str = "") -> str:
    """`1 document`, `2,000 documents`."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def listed_text(names: Sequence[str], limit: int) -> str:
    """`a, b and 3 more`: at most so many names, and the number of the others."""
    more = f" and {len(names) - limit:,} more" if len(names) > limit else ""
    return ", ".join(names[:limit]) + more
