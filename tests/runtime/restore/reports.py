"""A program to kill: it writes cells, asks for what follows from them, and tells when that is on disk.

Usage: python -c "from tests.runtime.restore.reports import main; main(PATH, SEED)"
"""

from __future__ import annotations

import random
import sys
from pathlib import Path

import headwater as hw

CELLS = 4

app = hw.App("reports")
cells = [app.cell(f"cell{number}", 0) for number in range(CELLS)]
which = app.cell("which", 0)
log = app.cell("log", 0)
acknowledged = app.cell("acknowledged", 0)


@app.computed
def low() -> int:
    return cells[0].value % 3


@app.computed
def chosen() -> int:
    """Reads another cell each time `which` changes, and often comes to the same."""
    return cells[which.value % CELLS].value % 2


@app.computed(writes=[log])
def total() -> int:
    log.value = low() * 100
    return low() + chosen()


@app.computed
def times(number: int) -> int:
    return cells[1].value * number


@app.computed(eager=True)
def mirror() -> int:
    return cells[2].value + total()


def state() -> tuple[int, ...]:
    """What is looked at."""
    return (low(), chosen(), total(), log.value, times(2), times(3), mirror())


def right() -> tuple[int, ...]:
    """What it has to be, made anew."""
    values = [cell.value for cell in cells]
    expected_low, expected_chosen = values[0] % 3, values[which.value % CELLS] % 2
    both = expected_low + expected_chosen
    return (expected_low, expected_chosen, both, expected_low * 100, values[1] * 2, values[1] * 3, values[2] + both)


def main(path: str, seed: int) -> None:
    """Until it is killed."""
    rng = random.Random(seed)
    with app.open(Path(path)) as space:
        start = acknowledged.value
        while True:
            start += 1
            with space.transaction():
                rng.choice([*cells, which]).value = rng.randrange(6)
                acknowledged.value = start
            assert state() == right()
            if rng.random() < 0.3:
                space.sync()
                sys.stdout.write(f"{start}\n")
                sys.stdout.flush()
