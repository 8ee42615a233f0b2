"""Worlds that fail by a finding that is not mended yet, each named with its rule and its cause as far as known.

A run is clean although one of them fails by its rule. A change of a generator makes other worlds of the seeds: entries
have to be looked at again then. An entry whose world passes is reported, and has to be removed.
"""

from __future__ import annotations

from typing import Final, NamedTuple


class Finding(NamedTuple):
    """A world that fails."""

    world: str
    """As in `--replay`."""
    rule: str
    """The first rule that does not hold."""
    cause: str


OPEN: Final[tuple[Finding, ...]] = ()

_RULES: Final = {each.world: each.rule for each in OPEN}


def is_open(world: str, rule: str) -> bool:
    """Whether this world is known to fail by this rule."""
    return _RULES.get(world) == rule


def is_named(world: str) -> bool:
    """Whether this world is known to fail."""
    return world in _RULES
