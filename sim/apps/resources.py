"""Resources of generated apps: what they ask for outside, and what the outside answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Final

import msgspec

from sim.apps import parts as p

LATENCIES_S: Final = (0.0, 0.001, 0.01, 0.1, 0.3)
"""How long answers take, in turns."""

SOURCE: Final = """\
@app.resource({options})
async def {name}(n: int) -> int:
    return await ask("{name}", n)


@app.sink
def {name}_shown() -> None:
    match {name}({cell}.value):
        case hw.Ready(value):
            show("{name}", value)
        case hw.Pending():
            show("{name}", "pending")
        case _:
            show("{name}", "failed")
"""


class Resource(p.Part, frozen=True):
    """A resource with the value of a cell as its argument, and a sink that shows its state."""

    cell: str
    fresh: int = 0
    """Milliseconds; 0: for ever."""
    retries: int = 0


class Answer(msgspec.Struct, frozen=True):
    """What the outside was asked."""

    name: str
    argument: int


class Outside:
    """Answers requests. It outlives the process."""

    def __init__(self) -> None:
        self.asked: list[Answer] = []
        self.epochs: Counter[str] = Counter()
        """By resource: what it answers changes with each."""
        self.failing: Counter[str] = Counter()
        """By resource, requests that will fail."""
        self.failed: Counter[tuple[str, int]] = Counter()
        """By resource and argument, requests that have failed since the last success."""

    async def ask(self, name: str, argument: int) -> int:
        self.asked.append(Answer(name, argument))
        await asyncio.sleep(LATENCIES_S[len(self.asked) % len(LATENCIES_S)])
        if self.failing[name]:
            self.failing[name] -= 1
            self.failed[name, argument] += 1
            raise OSError("generated")
        self.failed[name, argument] = 0
        return self.value(name, argument)

    def value(self, name: str, argument: int, epoch: int | None = None) -> int:
        return (argument * 7 + (self.epochs[name] if epoch is None else epoch)) % 997

    def clear(self) -> None:
        """Before the first opening of a world."""
        self.asked.clear()
        for each in (self.epochs, self.failing, self.failed):
            each.clear()


OUTSIDE: Final = Outside()


def declaration(part: Resource) -> str:
    """Its source."""
    options = [f'fresh_for="{part.fresh}ms"'] if part.fresh else []
    options += [f'retry=hw.Retry({part.retries}, backoff="50ms", on=OSError)'] if part.retries else []
    return SOURCE.format(name=part.name, cell=part.cell, options=", ".join(options))
