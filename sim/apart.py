"""Plays plans in processes of their own, for tests: a world leaves blocked threads behind.

The process is a fresh interpreter and not a fork, because a process that runs tests has threads.
"""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from sim.kinds import play_plan
from sim.plan import Outcome, Plan
from sim.runner import run
from sim.worker import Result
from sim.world import progress

ROOT: Final = Path(__file__).resolve().parent.parent


class ApartError(RuntimeError):
    """A world did not come to its end."""


def play(plan: Plan, seed: int, *, record: bool = False) -> Outcome:
    """As `sim.world.play`."""
    return play_all([(plan, seed)], record=record)[0]


def play_all(worlds: Sequence[tuple[Plan, int]], *, record: bool = False, hash_seed: int = 0) -> list[Outcome]:
    """Play several, in one process after another."""
    env = {**os.environ, "PYTHONHASHSEED": str(hash_seed)}
    task = pickle.dumps((record, list(worlds)))
    done = subprocess.run(
        [sys.executable, "-m", "sim.apart"], input=task, capture_output=True, cwd=ROOT, env=env, check=False
    )
    if done.returncode:
        raise ApartError(done.stderr.decode(errors="replace"))
    results = msgspec.msgpack.decode(done.stdout, type=list[Result])
    for result in results:
        if result.status not in ("ok", "failed"):
            raise ApartError(f"seed {result.seed}: {result.status}: {result.text}")
    return [result.outcome for result in results]


def main() -> None:
    """The process: plans from the standard input, results to the standard output."""
    record, worlds = pickle.loads(sys.stdin.buffer.read())  # noqa: S301  # from the caller above
    found: dict[int, Result] = {}

    def play_one(_: str, index: int) -> Outcome:
        plan, seed = worlds[index]
        return play_plan(plan, seed, record=record)

    def keep(result: Result) -> None:
        found[result.seed] = result

    names = [(plan.kind, index) for index, (plan, _) in enumerate(worlds)]
    run(names, play_one, jobs=1, on_result=keep, progress=progress)
    sys.stdout.buffer.write(msgspec.msgpack.encode([found[index] for index in range(len(worlds))]))


if __name__ == "__main__":
    main()
