"""Worlds of the kind `storage` that repeat one situation, with small changes: what free draws hardly ever make."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final, NamedTuple

import msgspec

from sim.faults import DISK, Full, SlowDisk, generate_faults, time_of
from sim.plan import Fault, Knobs, Plan
from sim.storage.workload import Act, Care, Look, Step, Writer

SHARE: Final = 0.25
"""Of the worlds."""
ELIDED_SHARE: Final = 0.05
"""Of the others."""
FAULTS_SHARE: Final = 0.2
"""Of these worlds: faults of any kind besides."""
BITS_SHARE: Final = 0.04


class Scenario(NamedTuple):
    """What is drawn in place of the free choices."""

    name: str
    knobs: Knobs
    writers: tuple[Writer, ...]
    operations: tuple[Act | Care, ...]
    faults: tuple[Fault, ...]


def draw(rng: random.Random, knobs: Knobs, node: str, *, small: bool) -> Plan | None:
    """One of them, or None. From a stream of its own: plans of other worlds stay as they are."""
    rng = random.Random(f"scenario-{rng.getstate()[1][:2]}")
    name = rng.choice(("closings", *sorted(_DRAW))) if rng.random() < SHARE else ""
    if name:
        drawn = _DRAW[name]
    elif rng.random() < ELIDED_SHARE:
        drawn = _elided
    else:
        return None
    found = drawn(rng, knobs, node, 4 if small else 12)
    faults = found.faults
    if rng.random() < FAULTS_SHARE:
        faults += generate_faults(rng, DISK, (node,), found.operations[-1].at, least=1)
    return Plan(
        kind="storage",
        features=(found.name,),
        knobs=found.knobs,
        nodes=found.writers,
        operations=found.operations,
        faults=tuple(sorted(faults, key=time_of)),
    )


def draw_bits(rng: random.Random) -> tuple[str, ...]:
    """Whether bits of the file are flipped at the end. From a stream of its own, too."""
    return ("flipped bits",) if random.Random(f"bits-{rng.getstate()[1][:2]}").random() < BITS_SHARE else ()


def _act(number: int, at: float, session: str, *steps: Step, **more: object) -> Act:
    return Act(at=round(at, 3), number=number, session=session, steps=steps, **more)  # type: ignore[arg-type]  # as named


def _large_first(rng: random.Random, knobs: Knobs, node: str, rounds: int) -> Scenario:
    """There is room for what comes after a commit, and not for that."""
    writers = (Writer("a", True, 8), Writer("b", rng.random() < 0.5, 3))
    found: list[Act | Care] = []
    faults: list[Fault] = []
    number = 0
    for round_ in range(1, rounds + 1):
        at = round_ * 0.5
        faults.append(Full(at=at, node=node, seconds=rng.choice((0.02, 0.1, 0.3)), room=rng.randint(8_000, 45_000)))
        for index in range(rng.randint(2, 6)):
            number += 1
            how = "large" if index == 0 or rng.random() < 0.2 else rng.choice(("set", "increment", "append"))
            path = {"increment": ("n",), "append": ("l",)}.get(how, ())
            session = "a" if index < 2 else rng.choice("aab")
            found.append(_act(number, at + 0.001, session, Step(how, rng.choice(("d0", "d1")), path)))  # type: ignore[arg-type]  # a How
    return Scenario("large first", knobs, writers, tuple(found), tuple(faults))


def _closings(rng: random.Random, knobs: Knobs, node: str, rounds: int) -> Scenario:
    """Threads are about to submit when another one closes the file."""
    del node
    writers = tuple(Writer(name, False, 8) for name in "abcd"[: rng.randint(2, 4)])
    found: list[Act | Care] = []
    number = 0
    for round_ in range(1, rounds + 1):
        at = round_ * 0.25
        for _ in range(rng.randint(6, 14)):
            number += 1
            found.append(_act(number, at, rng.choice(writers).name, Step("set", rng.choice(("d0", "d1", "d2")))))
        found.append(Care(at=at, what="reopen", interrupt=rng.choice((0, *(rng.randint(20, 400) for _ in range(4))))))
    busy = msgspec.structs.replace(knobs, switch=rng.choice((0.5, 0.9)), pct=0, group_max=rng.choice((1, 2, 3)))
    return Scenario("closings", busy, writers, tuple(found), ())


def _stored_untold(rng: random.Random, knobs: Knobs, node: str, rounds: int) -> Scenario:
    """Ctrl-C between the commit of a table transaction and its telling; commits of others follow."""
    del node
    writers = (Writer("a", False, 3), Writer("b", True, 3))
    found: list[Act | Care] = []
    number = 0
    for round_ in range(1, rounds + 1):
        at = round_ * 0.1
        for session in rng.choice(("a", "ab", "ba")):
            number += 1
            is_alone = session == "a" and rng.random() < 0.7
            after = -rng.randint(1, 25) if session == "a" else 0
            found.append(_act(number, at, session, Step("set", "d0"), alone=is_alone, interrupt=after, waits=True))
    return Scenario("stored and not told", knobs, writers, tuple(found), ())


def _shifted(rng: random.Random, knobs: Knobs, node: str, rounds: int) -> Scenario:
    """A write of another session comes before a pending one, whose effect is then elsewhere; a read rests on both."""
    writers = (Writer("a", rng.random() < 0.5, 8), Writer("b", rng.random() < 0.5, 8))
    found: list[Act | Care] = []
    number = 0
    for round_ in range(1, rounds * 2 + 1):
        at = round_ * 0.1
        doc = rng.choice(("d0", "d1"))
        if rng.random() < 0.5:
            other = Step("replace", doc, ("l", rng.choice((0, 1, 1))))
            mine = Step(rng.choice(("remove", "insert")), doc, ("l", 0))
            look = Look(doc, ("l", rng.choice((0, 1))))
        else:
            other = Step(rng.choice(("replace", "increment")), doc, ("n",))
            mine = Step("move", doc, ("m", "k2"))
            look = Look(doc, ("m", "k2"))
        first, second = rng.sample(("a", "b"), 2)
        steps = [(first, other, ()), (second, mine, ()), (second, Step("set", "d2"), (look,))]
        if round_ % 4 == 1:
            steps.insert(0, (first, Step("set", doc), ()))
        for session, step, looks in steps:
            number += 1
            found.append(_act(number, at, session, step, looks=looks))
    slow = (SlowDisk(at=0.0, node=node, seconds=rounds * 0.3, sync_ms=rng.choice((5.0, 20.0))),)
    return Scenario("shifted", knobs, writers, tuple(found), slow)


def _elided(rng: random.Random, knobs: Knobs, node: str, rounds: int) -> Scenario:
    """The result of a run is stored already; while its commit is pending, another one of its session reads it."""
    writers = (Writer("a", rng.random() < 0.5, 8), Writer("b", rng.random() < 0.5, 8))
    found: list[Act | Care] = []
    for round_ in range(1, rounds + 1):
        at, number = round_ * 0.1, round_ * 4
        first, second = rng.sample(("a", "b"), 2)
        doc = rng.choice(("q0", "q1"))
        # Results are equal if their numbers are both even.
        found += [
            _act(number, at, first, Step("result", doc), waits=True),
            _act(number + 2, at + 0.05, second, Step("result", doc)),
            _act(number + 1, at + 0.05, second, Step("set", rng.choice(("d0", "d1"))), looks=(Look(doc),)),
        ]
    slow = (SlowDisk(at=0.0, node=node, seconds=rounds * 0.2, sync_ms=5.0),)
    return Scenario("elided", knobs, writers, tuple(found), slow)


_Draw = Callable[[random.Random, Knobs, str, int], Scenario]

_DRAW: Final[dict[str, _Draw]] = {
    "large first": _large_first,
    "closings": _closings,
    "stored untold": _stored_untold,
    "shifted": _shifted,
}
