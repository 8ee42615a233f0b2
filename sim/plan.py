"""What a world consists of, as data: a seed makes a plan, and a plan with a seed makes a world.

`repr(plan)` is Python that makes the plan again: regression tests are written that way.
"""

from __future__ import annotations

import hashlib
import random
from typing import Final, Protocol, Self

import msgspec

SWITCHES: Final = (0.0, 0.02, 0.1, 0.5)
"""Probabilities of a hand-over at a lock or event. 0 finds what needs no race, 0.5 makes threads step by step."""

PCT_SHARE: Final = 0.25
"""The share of worlds with random priorities: they find orders that a uniform draw hardly ever makes."""

PCT_DEPTH_MAX: Final = 3
"""Most bugs of order need at most three changes of priority."""

PCT_STEPS: Final = 4000
"""About as many hand-overs as a usual world has: the changes of priority are drawn among them."""


class Knobs(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """How threads are scheduled, and limits of the product that a world makes small. None: as the product has it."""

    switch: float = 0.0
    """The probability that an actor hands over where it need not wait."""
    pct: int = 0
    """0: the next actor is drawn uniformly. Otherwise random priorities, lowered at so many points."""
    pct_steps: int = PCT_STEPS
    """The points are drawn among the first hand-overs of the world, as many as this."""
    group_max: int | None = None
    """Commits in one transaction of the storage."""
    window: int | None = None
    """Commits that a client sends before a verdict."""
    fold_after: int | None = None
    """Effects of a document in the log, before a snapshot is made."""
    cache: int | None = None
    """Documents that the store keeps in memory."""
    checkpoint_pages: int | None = None
    """Pages in the WAL of SQLite, before it is copied into the file."""
    out_bytes: int | None = None
    """Bytes that wait for a client that does not read, in the server and in the system, before it is cut off."""


def draw_knobs(rng: random.Random) -> Knobs:
    """Always the same number of draws, so that a change of one choice leaves the rest of the plan as it is."""
    switch = rng.choice(SWITCHES)
    is_pct, depth = rng.random() < PCT_SHARE, rng.randint(1, PCT_DEPTH_MAX)
    group_max = rng.choice((None, None, 1, 3, 64))
    window = rng.choice((None, None, 1, 8))
    fold_after = rng.choice((None, None, 2))
    cache = rng.choice((None, None, 0, 2))
    checkpoint_pages = rng.choice((None, None, 4))
    # From a stream of its own, which takes nothing of the plan's: plans of known seeds stay as they are.
    more = random.Random(f"knobs-{rng.getstate()[1][:2]}")
    out_bytes = more.choice((None,) * 9 + (8_000,))
    return Knobs(
        switch=switch,
        pct=depth if is_pct else 0,
        group_max=group_max,
        window=window,
        fold_after=fold_after,
        cache=cache,
        checkpoint_pages=checkpoint_pages,
        out_bytes=out_bytes,
    )


class Fault(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """What goes wrong at a time. Its kinds are in sim/faults.py."""

    at: float
    """Virtual seconds since the start of the world."""


class App(Protocol):
    """A generated program. Shrinking removes parts of it."""

    @property
    def parts(self) -> tuple[object, ...]: ...

    def without(self, indices: frozenset[int]) -> Self:
        """The app without these parts, and without what cannot be without them."""
        ...


class Plan(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """One world, before chance: the order of threads, delays of the network and images of disks come from the seed."""

    kind: str
    """A module of sim/kinds."""
    features: tuple[str, ...] = ()
    """The subset of what the kind can do that was drawn for this world."""
    knobs: Knobs = Knobs()
    nodes: tuple[msgspec.Struct, ...] = ()
    app: msgspec.Struct | None = None
    """If it is as `App` has it, shrinking removes parts of it."""
    operations: tuple[msgspec.Struct, ...] = ()
    """What the workload does. Each kind has structs of its own."""
    faults: tuple[Fault, ...] = ()

    def digest(self) -> str:
        """Two commits that make one plan of a seed agree about this."""
        return hashlib.sha256(repr(self).encode()).hexdigest()[:16]


class Violation(msgspec.Struct, frozen=True):
    """A rule that did not hold."""

    rule: str
    """As in docs/internals/simulation.md: V, S1, L1, stuck, ..."""
    at: float
    """Virtual seconds."""
    node: str
    text: str


class Line(msgspec.Struct, frozen=True):
    """One line of the timeline."""

    at: float
    """Virtual seconds."""
    node: str
    text: str
    detail: bool = False
    """A frame, a disk write or a switch: shown with `--every`."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """What is left of a world that was played."""

    violations: tuple[Violation, ...] = ()
    sometimes: dict[str, int] = {}
    """How often each declared situation occurred: sim/sometimes.py."""
    counts: dict[str, int] = {}
    """Figures: operations, commits, kills, cuts."""
    digest: str = ""
    """Of every hand-over, frame, disk write, and line of the workload."""
    lines: tuple[Line, ...] = ()
    """The timeline, if it was recorded."""
    plan: str = ""
    """The digest of the plan: a seed of another commit may have another plan."""
    virtual_s: float = 0.0
    switches: int = 0
