"""What has to hold of resources when a program is at rest."""

from __future__ import annotations

from typing import Any

from headwater.machine import machine
from sim.apps.module import SCREENS
from sim.apps.naive import Model
from sim.apps.resources import OUTSIDE, Resource
from sim.apps.source import APP
from sim.oracles.moments import Complain, Moment
from sim.program.program import ProgramWorld, Session

AGE_S = 3.0
"""Longer than any value of a generated resource is fresh, with the longest answer."""


def is_asking(session: Session) -> bool:
    """Whether a request is under way, or a result has come that no pass has taken."""
    fetcher: Any = session.runtime._fetcher  # the oracles look inside
    return fetcher is not None and bool(fetcher.under_way)


def resources_of(program: ProgramWorld) -> list[Resource]:
    """Of this version of the app."""
    return [part for part in program.app.parts if isinstance(part, Resource)]


def has_ageing(program: ProgramWorld) -> bool:
    """Whether something is asked for again and again: then a timer is always left."""
    return any(part.fresh for part in resources_of(program))


def check_resources(program: ProgramWorld, session: Session, model: Model, complain: Complain) -> None:
    """What is observed is there; what gets old is asked for again; what failed is tried again."""
    parts = [part for part in resources_of(program) if f"{part.name}_shown" not in session.stopped]
    if not parts:
        return
    if session.loop is None:
        session.space.wait(f"{int(AGE_S * 1000)}ms")
    else:
        machine().sleep(AGE_S)
    shown = SCREENS.by_space.get(session.runtime, {})
    for part in parts:
        argument = model.cell(part.cell)
        found = shown.get(part.name, "nothing")
        epochs = [OUTSIDE.epochs[part.name]] if part.fresh else range(OUTSIDE.epochs[part.name] + 1)
        wanted = {OUTSIDE.value(part.name, argument, epoch) for epoch in epochs}
        if found == "failed" and not part.fresh and OUTSIDE.failed[part.name, argument] > part.retries:
            # Nothing is asked again by itself.
            continue
        if found not in wanted:
            complain("V", f"resource {part.name}({argument}) shows {found}, expected one of {sorted(wanted)}")


def check_asked(program: ProgramWorld, log: list[Moment], complain: Complain) -> None:
    """S1: the outside is asked for nothing that is not on disk."""
    for part in resources_of(program):
        first = [each for each in program.first_app.parts if each.name == part.cell]
        # Edits change the default of a cell by one.
        start = getattr(first[0], "default", 0) if first else 0
        known = {start + more for more in range(program.version + 1)}
        known |= {moment.after.get(f"{APP}.{part.cell}", start) for moment in log}
        for answer in OUTSIDE.asked:
            if answer.name == part.name and answer.argument not in known:
                complain("S1", f"{part.name}({answer.argument}) was asked for, and {part.cell} never had that value")
