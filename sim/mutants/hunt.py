"""Plays worlds on a mutant until one fails that does not fail without it."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final, Literal, TypeAlias

import msgspec

from sim.kinds import KINDS, SMALL, play_seed
from sim.mutants.mutant import Mutant, apply
from sim.plan import Outcome
from sim.runner import run
from sim.worker import Name, Result
from sim.world import progress

SECONDS: Final = 60.0
"""For each mutant, on all cores: the worlds that a change has to pass take as long."""

TEXT_MAX: Final = 300
"""Characters of what went wrong that are kept."""

_RULES: Final = {"too slow": "stuck", "stuck": "stuck", "died": "crash", "too big": "crash", "error": "crash"}
"""The rule that a world without an outcome breaks."""

Verdict: TypeAlias = Literal["killed", "survived", "equivalent", "unplayed"]


class SourceChangedError(Exception):
    """Files of the product or of the worlds were changed while worlds were played: nothing that is found counts."""


class Finding(msgspec.Struct, frozen=True, kw_only=True):
    """What the worlds found of one mutant."""

    area: str
    name: str
    verdict: Verdict
    kind: str = ""
    """Of the world that killed it, with its seed and the rule that did not hold there."""
    seed: int = 0
    rule: str = ""
    text: str = ""
    worlds: int = 0
    """Played until then."""
    seconds: float = 0.0


class Hunt:
    """Plays worlds of the seeds from 1 on. The worlds of the unchanged product are played when one is needed, once."""

    def __init__(
        self,
        *,
        jobs: int,
        seconds: float = SECONDS,
        worlds: int | None = None,
        kinds: tuple[str, ...] = (),
        on_world: Callable[[], None] = lambda: None,
    ) -> None:
        self._jobs, self._seconds, self._worlds, self._kinds = jobs, seconds, worlds, kinds
        self._on_world = on_world
        self._unchanged: dict[Name, frozenset[str]] = {}
        self._source = _state_of_source()
        warm()

    def kinds_of(self, mutant: Mutant) -> list[str]:
        """Kinds that exist by now, and that are asked for."""
        return [
            kind for kind in mutant.kinds if (kind in KINDS or "." in kind) and (not self._kinds or kind in self._kinds)
        ]

    def knows(self, broken: Mapping[Name, frozenset[str]]) -> None:
        """Rules that do not hold in unchanged worlds that were played already."""
        self._unchanged.update(broken)

    def hunt(self, mutant: Mutant, names: Iterable[Name] | None = None) -> Finding:
        """Play until the mutant is killed, the time is over, or all of `names` are played."""
        found = Finding(area=mutant.area, name=mutant.name, verdict="unplayed")
        if mutant.equivalent:
            return msgspec.structs.replace(found, verdict="equivalent", text=mutant.equivalent)
        if not (kinds := self.kinds_of(mutant)):
            return found
        chosen = iter(names_of(kinds) if names is None else names)
        search = Search(itertools.islice(chosen, self._worlds), self._seconds, self._on_world)
        while not search.is_over:
            search.claims.clear()
            if not run(
                search.names(),
                _play,
                jobs=self._jobs,
                on_result=search.take,
                prepare=lambda: apply(mutant),
                tick=search.goes_on,
                progress=progress,
            ):
                raise KeyboardInterrupt
            if _state_of_source() != self._source:
                # Modules that a child imports late would not fit those of its parent: any world fails then.
                raise SourceChangedError
            for claim in search.claims:
                if new := rules_of(claim) - self.without(claim.name):
                    return msgspec.structs.replace(
                        _killed(found, claim, new), worlds=search.played, seconds=search.spent
                    )
        return msgspec.structs.replace(found, verdict="survived", worlds=search.played, seconds=search.spent)

    def without(self, name: Name) -> frozenset[str]:
        """Rules that do not hold in this world without a mutant: they are no evidence."""
        if name not in self._unchanged:
            results: list[Result] = []
            if not run([name], _play, jobs=1, on_result=results.append, progress=progress):
                raise KeyboardInterrupt
            self._unchanged[name] = frozenset(rule for result in results for rule in rules_of(result))
        return self._unchanged[name]


class Search:
    """Worlds of one mutant, played until one of them fails. That one may turn out to be no evidence."""

    def __init__(self, names: Iterator[Name], seconds: float, on_world: Callable[[], None]) -> None:
        self._names, self._seconds, self._on_world = names, seconds, on_world
        self._begin, self._is_at_end = time.monotonic(), False
        self.claims: list[Result] = []
        self.played = 0
        self._begun: dict[Name, None] = {}

    @property
    def spent(self) -> float:
        return time.monotonic() - self._begin

    @property
    def is_over(self) -> bool:
        return self._is_at_end or self.spent >= self._seconds

    def names(self) -> Iterator[Name]:
        """The next worlds; first those that were begun when the run was stopped."""
        for name in itertools.chain(list(self._begun), self._names):
            self._begun[name] = None
            yield name
        self._is_at_end = True

    def take(self, result: Result) -> None:
        if self.claims:
            # Played beside the one that failed: if that is no evidence, this one is played again.
            return
        self.played += 1
        del self._begun[result.name]
        self._on_world()
        if result.is_failure:
            self.claims.append(result)

    def goes_on(self) -> bool:
        return not self.claims and self.spent < self._seconds


def _killed(found: Finding, claim: Result, rules: frozenset[str]) -> Finding:
    violation = next((each for each in claim.outcome.violations if each.rule in rules), None)
    rule, text = (min(rules), claim.text) if violation is None else (violation.rule, violation.text)
    return msgspec.structs.replace(
        found, verdict="killed", kind=claim.kind, seed=claim.seed, rule=rule, text=text[:TEXT_MAX]
    )


def names_of(kinds: list[str]) -> Iterator[Name]:
    """Worlds of the kinds in turns, small ones and usual ones."""
    for seed in itertools.count(1):
        for kind in kinds:
            yield (f"{SMALL}{kind}" if seed % 2 else kind), seed


def rules_of(result: Result) -> frozenset[str]:
    """The rules that do not hold in a world; empty if all do."""
    if result.status in _RULES:
        return frozenset({_RULES[result.status]})
    return frozenset(each.rule for each in result.outcome.violations)


def _state_of_source() -> int:
    """Another one after a file was written."""
    root = Path(__file__).resolve().parents[2]
    files = [path for folder in ("src", "sim") for path in (root / folder).rglob("*.py")]
    return hash(tuple(sorted((str(path), path.stat().st_mtime_ns) for path in files)))


def warm() -> None:
    """Import the product and all kinds once, in the parent of all children."""
    for kind in KINDS:
        __import__(f"sim.kinds.{kind}")


def _play(kind: str, seed: int) -> Outcome:
    return msgspec.structs.replace(play_seed(kind, seed), lines=())
