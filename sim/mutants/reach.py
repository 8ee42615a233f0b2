"""Says why a mutant survives: whether unchanged worlds come to its code at all, and whether it would act otherwise.

The piece of each mutant is replaced by itself, counted. A condition that the mutant makes constant changes something
only where the condition has the other value.
"""

from __future__ import annotations

import ast
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from sim.kinds import KINDS, play_seed
from sim.mutants.hunt import names_of, warm
from sim.mutants.mutant import Mutant, apply
from sim.plan import Outcome
from sim.runner import Result, run

_COUNTER: Final = "__reached__"


class Reach(msgspec.Struct, frozen=True, kw_only=True):
    """How often worlds came to the code of one mutant."""

    name: str
    reached: int
    changed: int | None
    """How often its condition had the other value; None: its piece is no condition."""
    worlds: int


def probe(mutant: Mutant) -> Mutant:
    """The same piece, counted."""
    try:
        ast.parse(mutant.old, mode="eval")
        ast.parse(mutant.new, mode="eval")
    except SyntaxError:
        return msgspec.structs.replace(mutant, new=f"{_COUNTER}({_key(mutant)!r}, True)\n{mutant.old}")
    return msgspec.structs.replace(mutant, new=f"{_COUNTER}({_key(mutant)!r}, {mutant.old})")


def _key(mutant: Mutant) -> str:
    return f"{mutant.area}.{mutant.name}"


def reached(
    mutants: Sequence[Mutant], *, seconds: float, worlds: int | None, jobs: int, kinds: Sequence[str] | None
) -> list[Reach]:
    """Play unchanged worlds and count, for all of these mutants at once."""
    warm()
    counted: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    sums = {"worlds": 0}
    names = names_of([kind for kind in KINDS if not kinds or kind in kinds])
    begin = time.monotonic()

    def prepare() -> None:
        import builtins  # noqa: PLC0415  # in the child only

        def count(name: str, value: Any) -> Any:  # whatever the piece is
            counts[f"{name} reached"] += 1
            counts[f"{name} {bool(value)}"] += 1
            return value

        setattr(builtins, _COUNTER, count)
        by_function: dict[str, list[Mutant]] = {}
        for mutant in mutants:
            by_function.setdefault(mutant.where, []).append(probe(mutant))
        for probes in by_function.values():
            apply(*probes)

    def play(kind: str, seed: int) -> Outcome:
        counts.clear()
        play_seed(kind, seed)
        return Outcome(counts=dict(counts))

    def take(result: Result) -> None:
        counted.update(result.outcome.counts)
        sums["worlds"] += 1

    def goes_on() -> bool:
        return time.monotonic() - begin < seconds and (worlds is None or sums["worlds"] < worlds)

    run(names, play, jobs=jobs, on_result=take, prepare=prepare, tick=goes_on)
    found = []
    for mutant in mutants:
        other = {"False": "True", "True": "False"}.get(mutant.new)
        found.append(
            Reach(
                name=_key(mutant),
                reached=counted[f"{_key(mutant)} reached"],
                changed=None if other is None else counted[f"{_key(mutant)} {other}"],
                worlds=sums["worlds"],
            )
        )
    return found
