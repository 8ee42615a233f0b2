"""Determinism: each world is played in two fresh interpreters with different hash seeds, and the digests are compared.

A real clock, a real random number or the order of a set that leaves its function makes two runs of one seed differ.
One of the two plays the worlds in the opposite order: state that a world leaves to the next one is found as well.
The two may also be the two forms of the core, compiled and from its sources.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec

from sim.apart import ROOT
from sim.kinds import play_seed
from sim.plan import Line, Outcome
from sim.runner import run
from sim.storage.interruption import COUNTED
from sim.worker import Name, Result
from sim.world import progress

HASH_SEEDS: Final = (1, 2)

ONE_FORM: Final = ("", "")
"""Both play on the core as it is imported here."""

FORMS: Final = ("", "1")
"""HEADWATER_PURE of the two: the second one plays on the sources. The first one is compiled if this interpreter is."""

BATCH: Final = 40
"""Worlds for one start of two interpreters."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """A world whose two runs differ."""

    kind: str
    seed: int
    digests: tuple[str, str]
    lines: tuple[str, str]
    """The first lines of the timelines that differ; equal if only what is in no timeline differs."""
    before: tuple[str, ...] = ()
    """The last lines that are the same."""

    def tell(self) -> str:
        """For a person."""
        rows = [f"{self.kind}:{self.seed} differs: digests {' and '.join(self.digests)}"]
        rows += [f"    {row}" for row in self.before]
        rows += [f"  {hash_seed}: {line}" for hash_seed, line in zip(HASH_SEEDS, self.lines, strict=True)]
        return "\n".join(rows)


def compare(
    names: Iterable[Name],
    *,
    forms: tuple[str, str] = ONE_FORM,
    jobs: int = 2,
    on_batch: Callable[[int, list[Difference]], None] | None = None,
) -> tuple[int, list[Difference]]:
    """The number of worlds compared, and those that differ.

    Of the two forms, worlds are not compared that are interrupted at lines of Python: a compiled core has none.
    """
    played, differences = 0, list[Difference]()
    for batch in _batches(names):
        orders = (batch, batch[::-1])
        halves = [
            _Half(order, seed, form, max(1, jobs // 2), record=False)
            for order, seed, form in zip(orders, HASH_SEEDS, forms, strict=True)
        ]
        found = [half.results() for half in halves]
        for one, other in zip(found[0], reversed(found[1]), strict=True):
            if not (one.outcome.digest and other.outcome.digest):
                # A world without an end has none: that says nothing about order, and a busy machine may be the cause.
                continue
            if forms == FORMS and other.outcome.counts.get(COUNTED):
                played -= 1
                continue
            if _digest(one) != _digest(other):
                differences.append(_explain(one.kind, one.seed, forms, (_digest(one), _digest(other))))
        played += len(batch)
        if on_batch is not None:
            on_batch(played, differences)
    return played, differences


def _digest(result: Result) -> str:
    return result.outcome.digest or result.status


def _explain(kind: str, seed: int, forms: tuple[str, str], digests: tuple[str, str]) -> Difference:
    """Play the world twice more, with all details."""
    halves = [
        _Half([(kind, seed)], hash_seed, form, 1, record=True)
        for hash_seed, form in zip(HASH_SEEDS, forms, strict=True)
    ]
    one, other = (half.results()[0].outcome.lines for half in halves)
    before: list[str] = []
    for left, right in itertools.zip_longest(one, other):
        if left != right:
            return Difference(
                kind=kind, seed=seed, digests=digests, lines=(_row(left), _row(right)), before=tuple(before[-5:])
            )
        before.append(_row(left))
    same = "(alone the two runs are equal: an earlier world of the process leaves state behind)"
    return Difference(kind=kind, seed=seed, digests=digests, lines=(same, same), before=tuple(before[-5:]))


def _row(line: Line | None) -> str:
    return "(the end)" if line is None else f"{line.at:.6f} {line.node} {line.text}"


def _batches(names: Iterable[Name]) -> Iterator[list[Name]]:
    rest = iter(names)
    while batch := list(itertools.islice(rest, BATCH)):
        yield batch


class _Half:
    """One of two interpreters. Both play at the same time."""

    def __init__(self, names: Sequence[Name], hash_seed: int, form: str, jobs: int, *, record: bool) -> None:
        env = {**os.environ, "PYTHONHASHSEED": str(hash_seed), "HEADWATER_PURE": form}
        command = [sys.executable, "-m", "sim.twice"]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, cwd=ROOT, env=env)
        assert self._process.stdin is not None
        with self._process.stdin as pipe:
            pipe.write(msgspec.msgpack.encode((list(names), jobs, record)))

    def results(self) -> list[Result]:
        assert self._process.stdout is not None
        with self._process.stdout as pipe:
            data = pipe.read()
        if code := self._process.wait():
            raise RuntimeError(f"an interpreter that played worlds ended with exit code {code}")
        return msgspec.msgpack.decode(data, type=list[Result])


def main() -> None:
    """One half: names of worlds from the standard input, results to the standard output, in the order of the names."""
    names, jobs, record = msgspec.msgpack.decode(sys.stdin.buffer.read(), type=tuple[list[Name], int, bool])
    found: dict[Name, Result] = {}

    def play(kind: str, seed: int) -> Outcome:
        outcome = play_seed(kind, seed, record=record)
        return outcome if record else msgspec.structs.replace(outcome, lines=())

    def keep(result: Result) -> None:
        found[result.name] = result

    run(names, play, jobs=jobs, on_result=keep, progress=progress)
    sys.stdout.buffer.write(msgspec.msgpack.encode([found[name] for name in names]))


if __name__ == "__main__":
    main()
