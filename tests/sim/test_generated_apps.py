"""Generated apps: their source is a program, and the naive model agrees with it."""

from __future__ import annotations

import random
from contextlib import suppress

import pytest

import headwater as hw
from headwater.host.space_facade import opening_of
from headwater.host.storage import storage_of
from sim.apps import parts as p
from sim.apps.edits import edited
from sim.apps.generate import draw, draw_features
from sim.apps.module import SCREENS, add, load
from sim.apps.naive import Model
from sim.apps.source import block, source
from sim.oracles.moments import moments
from sim.oracles.values import check_calls, check_history, check_screens

NOT_HERE = frozenset({"async", "gates", "restless", "slow"})
"""They need simulated time."""


def generated(seed: int) -> tuple[p.App, random.Random]:
    rng = random.Random(seed)
    return p.App(parts=tuple(draw(rng, draw_features(rng, NOT_HERE), rng.randrange(3, 20)).parts)), rng


@pytest.mark.parametrize("seed", range(12))
def test_model_agrees_with_the_app(seed: int) -> None:
    rng = random.Random(seed)
    draft = draw(rng, draw_features(rng, NOT_HERE), rng.randrange(3, 20))
    app = p.App(parts=tuple(draft.parts))
    module, found, blocks = load(source(app)), list[tuple[str, str]](), dict[str, tuple[p.Step, ...]]()
    with module.app.open("memory:", on_error=lambda _: None) as space:
        for number in range(10):
            tag = f"x{number}"
            blocks[tag] = draft.steps(2, param=True)
            body = add(module, block(app, "body", blocks[tag], logged=True), "body")
            with suppress(ValueError, KeyError, module.Odd, hw.Reject), space.transaction() as tx:
                body(tx, tag, number)
            if draft.handlers:
                getattr(module, draft.pick(draft.handlers)).send(number % 5, f"e{number}")
        space.sync()
        log = storage_of(opening_of(space)._lease).call(lambda engine: list(moments(engine)))
        model = Model(app, log[-1].after if log else {}, at_rest=True)
        check_screens(model, SCREENS.by_space.get(opening_of(space), {}), lambda *broken: found.append(broken))
        check_calls(app, module, model, lambda *broken: found.append(broken))
        check_history(app, log, blocks, lambda *broken: found.append(broken))
    assert found == []


def test_app_without_a_part_has_nothing_that_needs_it() -> None:
    for seed in range(30):
        app, rng = generated(seed)
        left = app.without(frozenset({rng.randrange(len(app.parts))}))
        names = left.named()
        assert all(name in names for part in left.parts for name in p.names_in(part))
        compile(source(left), "left", "exec")


def test_edited_app_is_a_program() -> None:
    for seed in range(30):
        app, rng = generated(seed)
        compile(source(edited(app, rng)), "edited", "exec")
