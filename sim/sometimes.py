"""Situations that worlds have to reach. A long run in which one never occurs fails: the generator has gone blind.

Situations inside the product are counted by `sim/watchpoints.py`, others with `world.sometimes[name] += 1`. A name
that is not declared here is a mistake, which a test finds.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

STRICT_MINUTES: Final = 30
"""A run of so many minutes fails if a situation did not occur. A shorter one may be unlucky."""


class Sometimes(msgspec.Struct, frozen=True):
    """A situation, and how often it has to occur."""

    name: str
    kind: str
    """The kind of worlds that reaches it: those of other kinds are not counted."""
    least: int = 1
    """In 1,000 worlds of the kind, small or not."""


DECLARED: Final = (
    # Sync: a server, its clients, their folders.
    Sometimes("rejected after reconnect", "shared"),
    Sometimes("cascade of 3 or more", "shared"),
    Sometimes("receipt race lost", "shared"),
    Sometimes("rejoined while the disk was full", "shared"),
    Sometimes("commit replayed from a folder", "shared"),
    Sometimes("takeover of a session", "shared"),
    Sometimes("incomplete watch", "shared"),
    Sometimes("stalled session sent again", "shared"),
    Sometimes("room broken and opened anew", "shared"),
    Sometimes("slow consumer cut", "shared"),
    # One process with restarts.
    Sometimes("kill in checkpoint", "program"),
    Sometimes("kill in fold", "program"),
    Sometimes("recovery killed twice", "program"),
    Sometimes("elided commit replayed", "program"),
    Sometimes("adopted run", "program"),
    Sometimes("restored run dirty", "program"),
    Sometimes("failure restored", "program"),
    Sometimes("event left behind and taken up", "program"),
    Sometimes("orphan stopped", "program"),
    Sometimes("parked behind a gate", "program"),
    Sometimes("ring dropped", "program"),
    Sometimes("backoff at its cap", "program"),
    Sometimes("piece rebuilt while its child runs", "program"),
    # Workflows.
    Sometimes("needs_reconcile resolved as done", "workflow"),
    Sometimes("needs_reconcile resolved as not done", "workflow"),
    Sometimes("approval of an older version", "workflow"),
    Sometimes("needs_reconcile skipped", "workflow"),
    Sometimes("unknown outcome looked up: done", "workflow"),
    Sometimes("unknown outcome looked up: not done", "workflow"),
    Sometimes("effect arrives late", "workflow"),
    Sometimes("effect refused", "workflow"),
    Sometimes("effect timed out after it happened", "workflow"),
    Sometimes("workflow paused in a run", "workflow"),
    Sometimes("wake clamped", "workflow"),
    Sometimes("clock set back in a wait", "workflow"),
    Sometimes("kill in migration", "storage"),
)


def declared(kinds: Iterable[str]) -> tuple[Sometimes, ...]:
    """Those of some kinds, which are named without `small-`."""
    wanted = set(kinds)
    return tuple(each for each in DECLARED if each.kind in wanted)


def undeclared(found: Iterable[str]) -> list[str]:
    """Names that worlds counted and that are not in the list."""
    names = {each.name for each in DECLARED}
    return sorted(set(found) - names)


def too_rare(found: Mapping[str, int], worlds: Mapping[str, int]) -> list[Sometimes]:
    """Those that occurred less often than declared, with regard to the number of worlds of their kind."""
    return [each for each in declared(worlds) if found.get(each.name, 0) * 1000 < each.least * worlds[each.kind]]
