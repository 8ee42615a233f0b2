"""The two halves of the suite: how they are told apart, how many examples each runs, and in which order.

`./hw test` runs the fast half: every test that is not marked `slow`, with a tenth of the examples of a property.
`./hw test --rest` runs what the fast half leaves out: the tests marked `slow`, and every property again, with all of
its examples. Without `--half`, pytest runs every test once, with all examples.

A property is a test that tries as many examples as it is given: one of hypothesis, or one that is marked `property`
or `machine` because it calls `examples()` itself. A state machine is marked `machine`.
"""

from __future__ import annotations

import gc
import os
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from enum import IntEnum
from itertools import accumulate, groupby
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, is_hypothesis_test, settings
from hypothesis.internal.conjecture import engine, providers

if TYPE_CHECKING:
    from _pytest.mark import ParameterSet

HALVES = ("fast", "rest")

FULL = 100
"""Examples of a property, unless it says otherwise."""

FAST = 10
"""As many of `FULL` run in the fast half, and in proportion of what a test says itself."""

SHRINKING_S = 10
"""For the first property that fails in a process; half as long for each one after it, down to a second.

A failure is worth less than a minute of shrinking: the examples run first and are small already, and one mistake in
the engine fails many properties. hypothesis itself stops after 300 s for each.
"""

ITEMS: pytest.StashKey[list[pytest.Item]] = pytest.StashKey()
"""Every test that was collected, whichever half is run."""

_running: list[pytest.Item] = []


class Kind(IntEnum):
    """What a test is, in the order in which they run: the one that names a mistake best runs first."""

    EXAMPLE = 0
    PROPERTY = 1
    MACHINE = 2


# --- examples ----------------------------------------------------------------------------------------------


def load_profile(half: str | None) -> None:
    """Set how many examples hypothesis tries. HEADWATER_HYPOTHESIS names a profile: ci, fast or nightly."""
    # `ci` and `fast` try the same examples every time, so that a change lands or fails for what it is; `nightly` tries
    # new ones. No deadlines and no health check of slow generation: a busy machine is not a fault of the code.
    settings.register_profile(
        "ci",
        derandomize=True,
        print_blob=True,
        deadline=None,
        max_examples=FULL,
        suppress_health_check=[HealthCheck.too_slow],
    )
    settings.register_profile("fast", settings.get_profile("ci"), max_examples=FAST)
    settings.register_profile("nightly", settings.get_profile("ci"), max_examples=FULL * 50, derandomize=False)
    name = os.environ.get("HEADWATER_HYPOTHESIS", "fast" if half == "fast" else "ci")
    settings.load_profile(name)
    if settings.get_profile(name).derandomize:
        # Hypothesis also tries constants of the modules that are loaded, which depend on what else a worker runs.
        providers._get_local_constants = lambda: providers._local_constants
    engine.MAX_SHRINKING_SECONDS = SHRINKING_S


def examples(full: int = FULL) -> int:
    """How many examples to try where all are `full`: for `settings(max_examples=...)`, and for loops over seeds."""
    assert not _running or kind_of(_running[-1]) is not Kind.EXAMPLE, "mark this test `property`: it calls examples()"
    return max(1, full * settings().max_examples // FULL)


def seeds(full: int) -> list[ParameterSet]:
    """Seeds for `parametrize`: the first tenth is in the fast half, the others are in the rest."""
    fast = max(1, full * FAST // FULL)
    return [pytest.param(seed, marks=[] if seed < fast else [pytest.mark.slow]) for seed in range(full)]


# --- tests -------------------------------------------------------------------------------------------------


def kind_of(item: pytest.Item) -> Kind:
    """Tell what a test is, by its marks and by what hypothesis says of it."""
    if item.get_closest_marker("machine"):
        return Kind.MACHINE
    if item.get_closest_marker("property") or is_hypothesis_test(getattr(item, "obj", None)):
        return Kind.PROPERTY
    return Kind.EXAMPLE


def halves_of(item: pytest.Item) -> set[str]:
    """Where a test runs. A property that is in both halves has fewer examples in the fast one."""
    if item.get_closest_marker("slow"):
        return {"rest"}
    return {"fast"} if kind_of(item) is Kind.EXAMPLE else {"fast", "rest"}


def arranged(items: Sequence[pytest.Item], workers: int) -> list[pytest.Item]:
    """Order the tests by kind for each of the workers.

    `--dist worksteal` begins by giving each worker as long a part of the list, the first one the first part. So each
    part has to be in order, and not the list.
    """
    parts: list[list[pytest.Item]] = [[] for _ in range(workers)]
    done = 0
    for _, group in groupby(sorted(items, key=kind_of), key=kind_of):
        same = list(group)
        first = 0
        for number, part in enumerate(parts):
            # As many as if they were dealt out one by one, from the last; but neighbours stay together.
            count = len(range((-1 - number - done) % workers, len(same), workers))
            part.extend(same[first : first + count])
            first += count
        done += len(same)
    return [item for part in parts for item in part]


def rotated(folders: Sequence[tuple[str, int]], workers: int, number: int) -> list[str]:
    """Order folders, each with a size, so that every worker begins with another part of about the same size."""
    start = sum(size for _, size in folders) * number // workers
    before = list(accumulate((size for _, size in folders), initial=0))
    first = bisect_left(before, start, hi=max(0, len(folders) - 1))
    return [name for name, _ in (*folders[first:], *folders[:first])]


# --- the hooks of conftest.py --------------------------------------------------------------------------------


def share_compiling(config: pytest.Config) -> None:
    """Let each worker begin to collect in another folder.

    All workers collect everything. The first one at a module compiles it, which takes longer than the rest of
    collecting; the others find what it has written. `choose` restores the order.
    """
    number = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    if number.isdigit() and config.args_source is pytest.Config.ArgsSource.TESTPATHS:
        tests = config.rootpath / "tests"
        folders = sorted(path for path in tests.iterdir() if path.is_dir() and any(path.rglob("test_*.py")))
        sizes = [(str(path), sum(file.stat().st_size for file in path.rglob("*.py"))) for path in folders]
        config.args[:] = rotated(sizes, int(os.environ["PYTEST_XDIST_WORKER_COUNT"]), int(number))


def choose(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the tests of the half that is asked for, in their order."""
    items.sort(key=lambda item: item.path.relative_to(config.rootpath).parts[:2])  # see share_compiling
    config.stash[ITEMS] = list(items)
    half = config.getoption("half")
    chosen = [item for item in items if half is None or half in halves_of(item)]
    if len(chosen) < len(items):
        kept = set(chosen)
        config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = arranged(chosen, int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", "1")))


def begin_collecting() -> None:
    """Leave out garbage collections while tests are collected: nothing of that is garbage, and it is visited again."""
    gc.disable()


def forget_collecting() -> None:
    """Take what there is by now out of every later garbage collection: some tests ask for dozens."""
    gc.collect()
    gc.freeze()
    gc.enable()


@contextmanager
def noted(item: pytest.Item) -> Iterator[None]:
    """For `examples()`, which has to be called by properties alone; and for shrinking, after a failure."""
    _running.append(item)
    try:
        yield
    except Exception:
        if kind_of(item) is not Kind.EXAMPLE:
            engine.MAX_SHRINKING_SECONDS = max(1, engine.MAX_SHRINKING_SECONDS // 2)
        raise
    finally:
        _running.pop()
