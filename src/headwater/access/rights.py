"""Rights in a space: none, read, write, own. Each includes those before it."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

EVERY_SPACE: Final = "*"
"""In place of a name: all spaces of a server."""


class Right(IntEnum):
    """Ordered: compare with `right >= Right.WRITE`."""

    NONE = 0
    READ = 1
    WRITE = 2
    OWN = 3

    @property
    def word(self) -> str:
        """The word used by commands and files."""
        return self.name.lower()


WORDS: Final = {right.word: right for right in Right if right is not Right.NONE}
"""Rights that can be granted, by word."""
