"""Plays unchanged worlds and counts how often they come to the code of mutants, and how often it would act otherwise.

The piece of each mutant is replaced by itself, counted. A condition that the mutant makes constant changes something
only where the condition has the other value. It says why a mutant survives, and which worlds cannot kill it: a world
that never comes to the piece passes with the mutant as it does without.
"""

from __future__ import annotations

import ast
import builtins
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec

from sim.kinds import KINDS, kind_of, play_seed
from sim.mutants.hunt import names_of, rules_of, warm
from sim.mutants.mutant import Mutant, apply
from sim.plan import Outcome
from sim.runner import run
from sim.worker import Name, Result
from sim.world import progress

_COUNTER: Final = "__reached__"

PLAYED: Final = "played"
"""The count of a world that came to its end."""


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
    counted: Counter[str] = Counter()
    sums = {"worlds": 0}
    begin = time.monotonic()

    def take(result: Result) -> None:
        counted.update(result.outcome.counts)
        sums["worlds"] += 1

    def goes_on() -> bool:
        return time.monotonic() - begin < seconds and (worlds is None or sums["worlds"] < worlds)

    _play(mutants, names_of([kind for kind in KINDS if not kinds or kind in kinds]), jobs, take, goes_on)
    found = []
    for mutant in mutants:
        other = _other(mutant)
        found.append(
            Reach(
                name=_key(mutant),
                reached=counted[f"{_key(mutant)} reached"],
                changed=None if other is None else counted[f"{_key(mutant)} {other}"],
                worlds=sums["worlds"],
            )
        )
    return found


class Sieve(msgspec.Struct, frozen=True, kw_only=True):
    """The worlds of the first seeds, as `./hw sim --from 1` plays them, by the mutants that they can kill."""

    seeds: int
    worlds: dict[str, list[Name]]
    """By area and name of a mutant, in the order of the seeds."""
    broken: dict[Name, frozenset[str]]
    """Rules that do not hold without a mutant."""


def sieve(mutants: Sequence[Mutant], seeds: range, *, jobs: int, on_world: Callable[[], None]) -> Sieve:
    """Play the unchanged worlds of these seeds. Raises KeyboardInterrupt."""
    found: dict[str, list[Name]] = {_key(mutant): [] for mutant in mutants}
    broken: dict[Name, frozenset[str]] = {}

    def take(result: Result) -> None:
        on_world()
        broken[result.name] = rules_of(result)
        counts = result.outcome.counts
        for mutant in mutants:
            if PLAYED not in counts or counts.get(f"{_key(mutant)} {_other(mutant) or 'reached'}"):
                found[_key(mutant)].append(result.name)

    if not _play(mutants, ((kind_of(seed), seed) for seed in seeds), jobs, take):
        raise KeyboardInterrupt
    worlds = {name: sorted(names, key=lambda name: name[1]) for name, names in found.items()}
    return Sieve(seeds=len(seeds), worlds=worlds, broken=broken)


def _other(mutant: Mutant) -> str | None:
    """The value of the piece in which the mutant acts otherwise; None: in each."""
    return {"False": "True", "True": "False"}.get(mutant.new)


def _play(
    mutants: Sequence[Mutant],
    names: Iterable[Name],
    jobs: int,
    take: Callable[[Result], None],
    goes_on: Callable[[], bool] | None = None,
) -> bool:
    """Play worlds with all probes. False: it was interrupted."""
    warm()
    counts: Counter[str] = Counter()

    def count(name: str, value: Any) -> Any:  # whatever the piece is
        counts[f"{name} reached"] += 1
        counts[f"{name} {bool(value)}"] += 1
        return value

    def prepare() -> None:
        setattr(builtins, _COUNTER, count)
        by_function: dict[str, list[Mutant]] = {}
        for mutant in mutants:
            by_function.setdefault(mutant.where, []).append(probe(mutant))
        for probes in by_function.values():
            apply(*probes)

    def play(kind: str, seed: int) -> Outcome:
        counts.clear()
        outcome = play_seed(kind, seed)
        return Outcome(violations=outcome.violations, counts={PLAYED: 1, **counts})

    return run(names, play, jobs=jobs, on_result=take, prepare=prepare, tick=goes_on, progress=progress)
