"""A process to kill: delivers every event, some of which send others, and says what it does.

Usage: handlers_to_kill.py PATH EVENTS SEED STUCK_AT

Printed are: `in N`, a handler is at work on event N; `stuck`, it will be for ever, as the STUCK_AT-th call is; `out N`,
event N was handled and that is on disk; `done`, they all were.
"""

from __future__ import annotations

import random
import signal
import sys
from itertools import count as counting

import headwater as hw

app = hw.App("post")
# How often each was handled.
handled = app.cell("handled", dict[str, int]())
noted = app.cell("noted", dict[str, int]())
count = app.cell("count", 0)
calls = counting(1)
stuck_at = int(sys.argv[4])


def say(words: str) -> None:
    sys.stdout.write(f"{words}\n")
    sys.stdout.flush()


def count_in(cell: hw.Cell[dict[str, int]], key: str) -> None:
    """Reads what is there: one that is handled twice is seen."""
    cell.key(key).value = cell.value.get(key, 0) + 1


@app.computed
def doubled() -> int:
    return 2 * count.value


@app.handler
def letter(number: int) -> int:
    """Sees what is computed of the count, and counts. Some have a consequence or two."""
    call = next(calls)
    say(f"in {number}")
    seen = doubled()
    assert seen == 2 * count.value, "a handler sees what is current"
    count_in(handled, str(number))
    if number % 3 == 0:
        note.send(f"{number} a")
        note.send(f"{number} b")
    if call == stuck_at:
        say("stuck")
        signal.pause()
    count.value += 1
    return number


@app.handler
def note(key: str) -> None:
    """Some of these have another."""
    say(f"in {key}")
    count_in(noted, key)
    if key.endswith("a"):
        note.send(f"{key} again")


def main(path: str, events: str, seed: str) -> None:
    rng = random.Random(int(seed))
    numbers = rng.sample(range(int(events)), int(events))
    with app.open(path):
        while numbers:
            batch = [numbers.pop() for _ in range(min(len(numbers), rng.randrange(1, 20)))]
            tickets = [letter.once(str(number), by="the post").send(number) for number in batch]
            for number, ticket in zip(batch, tickets, strict=True):
                assert ticket.result() == number, "also of those that were handled in an earlier life"
                say(f"out {number}")
    say("done")


if __name__ == "__main__":
    main(*sys.argv[1:4])
