"""Whose a result is: the narrowest scope among what its run has read.

Must never know: how a result is written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from headwater.cells.traverse import BREADTH

if TYPE_CHECKING:
    from headwater.cells.journal import ReadKey

EVERYBODYS: Final = "space/"
"""How the keys of documents begin that are not one user's own."""


def narrowest(reads: Mapping[ReadKey, object]) -> str:
    """The narrowest scope that was read, if it is not everybody's: whose the result has to be."""
    narrow = {doc.partition("/")[0] for doc, _, _ in reads if not doc.startswith(EVERYBODYS)}
    return max(narrow, key=lambda instance: BREADTH[instance.partition(":")[0]], default="")
