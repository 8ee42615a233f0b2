"""Draws a plan of a program with several spaces."""

from __future__ import annotations

import random
from typing import Final, get_args

from msgspec.structs import replace

from sim.faults import FaultName, generate_faults
from sim.plan import Plan, draw_knobs
from sim.spaces.parts import CELLS, Function, Functions, Spaces, Step, StepKind

NODE: Final = "p"

FAULTS: Final[tuple[FaultName, ...]] = ("kill", "kill in io", "slow disk", "pause")
"""A disk that is full or fails is for the worlds of one space: nothing of it is different here."""

THREADS: Final[tuple[StepKind, ...]] = ("write", "call", "deal", "block", "ask", "settle", "sync", "pass")
"""The steps of a thread with one space."""

OFTEN: Final[tuple[StepKind, ...]] = ("write", "write", "deal", "deal", "call", "block", "ask")


def generate(rng: random.Random, *, small: bool = False) -> Plan:
    """Draw functions, steps and faults."""
    knobs = draw_knobs(rng)
    count = rng.choice((2, 2, 3)) if small else rng.choice((2, 3, 4))
    is_delaying, has_threads = rng.random() < 0.3, rng.random() < 0.25
    program = Spaces(count=count, together=rng.random() < 0.6, patient=rng.random() < 0.3, threads=has_threads)
    functions: list[Function] = []
    places = [(space, number) for space in range(count) for number in range(CELLS + 1)]
    for number in range(rng.randint(2, 5) if small else rng.randint(4, 12)):
        earlier = [each.name for each in functions]
        functions.append(
            Function(
                name=f"f{number}",
                space=rng.randrange(count),
                cells=tuple(rng.sample(places, rng.randint(1, 3))),
                calls=tuple(rng.sample(earlier, min(rng.randint(0, 2), len(earlier)))),
                modulus=rng.choice((2, 3, 1000)),
                is_shown=rng.random() < 0.5,
                is_delayed=is_delaying and rng.random() < 0.3,
            )
        )
    kinds = THREADS if has_threads else get_args(StepKind)
    steps = tuple(_step(rng, count, kinds) for _ in range(rng.randint(8, 25) if small else rng.randint(30, 90)))
    until = max(sum(step.gap for step in steps), 0.5)
    faults = generate_faults(rng, FAULTS, (NODE,), until) if rng.random() < 0.6 else ()
    return Plan(
        kind="spaces",
        features=(*(("delays",) if is_delaying else ()), *(("threads",) if has_threads else ())),
        knobs=knobs,
        nodes=(program,),
        app=Functions(parts=tuple(functions)),
        operations=steps,
        faults=faults,
    )


def _step(rng: random.Random, count: int, kinds: tuple[StepKind, ...]) -> Step:
    kind: StepKind = rng.choice(OFTEN) if rng.random() < 0.6 else rng.choice(kinds)
    space = rng.randrange(count)
    step = Step(
        kind=kind,
        space=space,
        to=(space + rng.randrange(1, count)) % count,
        number=rng.randrange(12),
        value=rng.randrange(5),
        gap=rng.choice((0.0, 0.0, 0.0, 0.001, 0.05, 0.5)),
    )
    return replace(step, gap=step.gap or 0.5) if kind == "pass" else step
