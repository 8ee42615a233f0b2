"""Later versions of a generated app: what a programmer changes between two starts."""

from __future__ import annotations

import random

from msgspec.structs import replace

from sim.apps import parts as p


def version(app: p.App, number: int) -> p.App:
    """The app as it is after so many edits."""
    found = app
    for seed in app.edits[:number]:
        found = edited(found, random.Random(f"edit-{seed}"))  # a stream of the plan
    return found


def edited(app: p.App, rng: random.Random) -> p.App:
    """Another version of a program: a changed body, a lost or renamed declaration, a new number of a version."""
    parts = list(app.parts)
    index = rng.randrange(len(parts))
    failing = [at for at, each in enumerate(parts) if isinstance(each, p.Computed) and _fails(each.body)]
    if failing and rng.random() < 0.3:
        index = rng.choice(failing)
    part = parts[index]
    kind = rng.randrange(6)
    if kind == 0 and len(parts) > 3:
        return app.without(frozenset({index}))
    if kind == 1:
        return app
    match part:
        case p.Computed():
            parts[index] = (
                replace(part, body=p.Binary("+", part.body, p.Const(1)))
                if kind < 4
                else replace(part, version=part.version + 1)
            )
        case p.Sink():
            parts[index] = replace(part, shows=part.shows[::-1], quiet=not part.quiet)
        case p.IntCell():
            parts[index] = replace(part, default=part.default + 1)
        case p.Derived():
            parts[index] = replace(part, body=p.Binary("+", part.body, p.Const(1)))
        case p.Handler():
            parts[index] = replace(part, result=p.Binary("+", part.result, p.Const(1)))
        case p.Pattern():
            parts[index] = replace(part, body=p.Binary("+", part.body, p.Const(1)))
    return replace(app, parts=tuple(parts))


def _fails(e: p.Expr) -> bool:
    """Whether it raises by itself: what readers have caught is kept with their results."""
    inner = [getattr(e, field) for field in e.__struct_fields__]
    return isinstance(e, p.Fail) or any(_fails(each) for each in inner if isinstance(each, p.Expr))
