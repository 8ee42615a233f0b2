"""What a computation keeps in memory does not become more: objects and bytes, which are the same on every machine."""

from __future__ import annotations

import gc
import sys
from collections import Counter
from typing import Final

import pytest

import headwater as hw
from bench.reactive_counts import plus_one
from bench.table import is_compiled

COMPUTATIONS: Final = 500

OBJECTS: Final = 7
"""That the collector of Python looks after, for each computation that has run: with its document, the mark that all
readers of the document share, and its state in the store. It may only shrink."""

RECORDS: Final = {"Node": 1, "Computed": 1, "Cell": 0, "FunctionFingerprint": 0}
"""Of the scheduler and of the declaration, for each computation. A number may only shrink."""

BYTES: Final = {(3, 11): 528}
"""Of these records without what they refer to, by version of Python: `sys.getsizeof` is exact, and differs from version
to version. A number may only shrink."""


def _made() -> list[object]:
    """What is there after computations with one read each have run, and was not before. Their cells were written."""
    app = hw.App("bench")
    cells = [app.cell(f"cell{number}", 0) for number in range(COMPUTATIONS)]
    functions = [plus_one(cell) for cell in cells]
    with app.open("memory:") as space:
        for cell in cells:
            cell.value += 1
        space.sync()
        gc.collect()
        # Held: the id of an object that is gone could be that of a new one.
        before = gc.get_objects()
        known = {id(each) for each in before}
        computeds = [app.computed(name=f"computed{number}")(fn) for number, fn in enumerate(functions)]
        for computed in computeds:
            computed()
        space.sync()
        gc.collect()
        ours = (before, known, computeds)
        return [each for each in gc.get_objects() if id(each) not in known and not any(each is own for own in ours)]


@pytest.mark.skipif(is_compiled(), reason="compiled classes have other sizes")
def test_a_computation_keeps_no_more_than_it_did() -> None:
    made = _made()
    count = Counter(type(each).__name__ for each in made)
    # Rounded down: some of the last commits are still with the thread that decides them.
    assert len(made) // COMPUTATIONS <= OBJECTS
    assert {name: count[name] // COMPUTATIONS for name in RECORDS} == RECORDS
    size = sum(sys.getsizeof(each) for each in made if type(each).__name__ in RECORDS) // COMPUTATIONS
    assert size <= BYTES.get(sys.version_info[:2], size)
