"""The kinds of worlds. A module has `generate(rng, *, small)`, which makes a plan, and `play(world)`.

A world is named by its kind and its seed: `shared:81734`, or `small-shared:81734` with a small plan. A plain number
means a world of the kind that is drawn from the number.
"""

from __future__ import annotations

import random
import re
from importlib import import_module
from importlib.util import find_spec
from typing import Final, Protocol, cast

import msgspec

from sim.plan import Outcome, Plan

KINDS: Final = tuple(
    kind for kind in ("program", "shared", "spaces", "storage", "workflow") if find_spec(f"sim.kinds.{kind}")
)
"""Those that are played unless one is asked for."""

SMALL: Final = "small-"
"""The prefix of a kind with small plans."""

SEED_MAX: Final = 2**53
"""A report is JSON, and some of its readers have no larger integers."""


class _Kind(Protocol):
    """What a module of a kind has, besides `play(world)`, and `source(plan)` if it generates programs."""

    def generate(self, rng: random.Random, *, small: bool = False) -> Plan: ...


class UnknownWorldError(ValueError):
    """A name of a world that means nothing."""


def module_of(kind: str) -> _Kind:
    """The module of a kind. A dotted kind is a module elsewhere: tests have kinds of their own."""
    bare = kind.removeprefix(SMALL)
    return cast("_Kind", import_module(bare if "." in bare else f"sim.kinds.{bare}"))


def kind_of(seed: int) -> str:
    """The kind of the world that a plain number names."""
    rng = random.Random(f"kind-{seed}")
    kind = rng.choice(KINDS)
    return f"{SMALL}{kind}" if rng.random() < 0.5 else kind


def parse(text: str, kind: str | None = None) -> tuple[str, int]:
    """Read `81734` or `shared:81734`. `kind` is that of a plain number, if it is given."""
    named, colon, digits = text.strip().rpartition(":")
    if colon and kind is not None and named != kind:
        raise UnknownWorldError(f"{text!r} names the kind {named!r}, and --kind asks for {kind!r}")
    if not re.fullmatch(r"[0-9]{1,16}", digits) or int(digits) >= SEED_MAX:
        raise UnknownWorldError(
            f"{text!r} is no seed: expected a number such as 81734, or a kind with it, such as shared:81734"
        )
    seed = int(digits)
    return check_kind(named or kind) if named or kind else kind_of(seed), seed


def check_kind(kind: str | None) -> str:
    """The kind, if there is one of that name."""
    bare = (kind or "").removeprefix(SMALL)
    if bare in KINDS or ("." in bare and find_spec(bare)):
        return kind or ""
    raise UnknownWorldError(
        f"there is no kind of worlds {kind!r}; there are: {', '.join(KINDS)}, each also as small-..."
    )


def make_plan(kind: str, seed: int) -> Plan:
    """The plan of a world: all chance of it comes from one stream."""
    return module_of(kind).generate(random.Random(f"plan-{seed}"), small=kind.startswith(SMALL))


def source_of(kind: str, plan: Plan) -> str | None:
    """The program of a plan as Python; None: programs of this kind are not generated."""
    made = getattr(module_of(kind), "source", None)
    return None if made is None else cast("str", made(plan))


def play_seed(kind: str, seed: int, *, record: bool = False) -> Outcome:
    """Make the plan of a world and play it."""
    return play_plan(make_plan(kind, seed), seed, record=record)


def play_plan(plan: Plan, seed: int, *, record: bool = False) -> Outcome:
    """Play a plan, and note its digest in the outcome."""
    from sim.world import play  # noqa: PLC0415  # a world imports the product, and the names of worlds do not need it

    return msgspec.structs.replace(play(plan, seed, record=record), plan=plan.digest())
