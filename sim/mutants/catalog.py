"""All mutants, by area."""

from __future__ import annotations

from typing import Final

from sim.mutants import (
    cells,
    client,
    events,
    resume,
    runtime,
    scheduler,
    serving,
    spaces,
    storage,
    store,
    sync,
    workflow,
)
from sim.mutants.mutant import Mutant

AREAS: Final[dict[str, tuple[Mutant, ...]]] = {
    "store": store.MUTANTS,
    "storage": storage.MUTANTS,
    "cells": cells.MUTANTS,
    "scheduler": scheduler.MUTANTS,
    "events": events.MUTANTS,
    "resume": resume.MUTANTS,
    "runtime": runtime.MUTANTS,
    "workflow": workflow.MUTANTS,
    "spaces": spaces.MUTANTS,
    "sync": sync.MUTANTS,
    "client": client.MUTANTS,
    "serving": serving.MUTANTS,
}

MUTANTS: Final[tuple[Mutant, ...]] = tuple(mutant for mutants in AREAS.values() for mutant in mutants)


def find(name: str) -> Mutant:
    """A mutant by its name, with its area (`sync.not_sent_again`) or without it. Raises KeyError."""
    area, _, short = name.rpartition(".")
    return next(each for each in MUTANTS if each.name == short and area in ("", each.area))
