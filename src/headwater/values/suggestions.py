"""Suggestions for misspelt names."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

CLOSE: Final = 0.65
"""How similar names must be for a suggestion: two swapped letters in a short one are, two different words are not."""


def did_you_mean(word: str, names: Iterable[str]) -> str:
    """`; did you mean notes?`, or nothing."""
    close = get_close_matches(word, names, n=3, cutoff=CLOSE)
    return f"; did you mean {' or '.join(close)}?" if close else ""
