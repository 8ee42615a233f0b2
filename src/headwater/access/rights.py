"""What somebody may do to a space: nothing, read, write, own; each has all of those before it.

Must never know: who it is, or how that is known.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Final

EVERY_SPACE: Final = "*"
"""What stands for all spaces of a server where the name of one is expected."""


class Right(IntEnum):
    """Ordered: `right >= Right.WRITE` is the question to ask."""

    NONE = 0
    READ = 1
    WRITE = 2
    OWN = 3

    @property
    def word(self) -> str:
        """As commands and files have it."""
        return self.name.lower()


WORDS: Final = {right.word: right for right in Right if right is not Right.NONE}
"""What can be granted, by its word."""
