"""Mutants that the worlds do not find, with the reason: blind spots that are known.

A mutant that survives and is not in this list breaks `./hw mutants`. One that no world can ever find is not here: it
has `equivalent`.
"""

from __future__ import annotations

from typing import Final

SURVIVORS: Final[dict[str, str]] = {}
"""By area and name: what a world would need to find it."""
