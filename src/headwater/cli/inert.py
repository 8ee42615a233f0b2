"""Text that does nothing: what a terminal would obey is written out instead.

Must never know: where the text came from. Everything that is not ours to trust passes through here.
"""

from __future__ import annotations

import re
from typing import Final

_ACTIVE: Final = re.compile(
    "["
    "\x00-\x1f\x7f-\x9f"  # control characters, the escape that starts ANSI sequences among them
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # turn the direction of what follows
    "\u2028\u2029"  # start a new line
    "\ufeff\ufff9-\ufffb"  # are not seen
    "\ud800-\udfff"  # half a character; cannot be encoded
    "]"
)


def inert(text: str) -> str:
    r"""The text on one line, with control characters as \u001b and the like: what JSON also understands."""
    return _ACTIVE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def inert_lines(text: str) -> str:
    """The same for text of several lines, which stay lines."""
    return "\n".join(inert(line.removesuffix("\r")) for line in text.split("\n"))
