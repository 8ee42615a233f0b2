"""What the plan of a program with several spaces consists of."""

from __future__ import annotations

from typing import Final, Literal, Self

import msgspec

CELLS: Final = 2
"""Cells of each space that the workload writes. One more, by this number, has what arrived by events."""

DEBOUNCE_S: Final = 0.2

StepKind = Literal[
    "write",
    "call",
    "deal",
    "block",
    "ask",
    "aside",
    "settle",
    "sync",
    "delivered",
    "pass",
    "reopen",
    "restart",
    "alone",
]

EXACT: Final = frozenset({"write", "call", "settle", "sync", "restart", "alone"})
"""After these, it is known which functions had reason to run."""


class Function(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A computed: it adds up cells and earlier functions, of any space."""

    name: str
    space: int
    cells: tuple[tuple[int, int], ...]
    """Each as (space, number)."""
    calls: tuple[str, ...] = ()
    modulus: int = 1000
    is_shown: bool = False
    """By a sink of its space."""
    is_delayed: bool = False


class Functions(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """All of them, in an order in which each calls only earlier ones."""

    parts: tuple[Function, ...] = ()

    def without(self, indices: frozenset[int]) -> Self:
        """The app without these, and without those that call them."""
        kept: dict[str, Function] = {}
        for index, part in enumerate(self.parts):
            if index not in indices and all(call in kept for call in part.calls):
                kept[part.name] = part
        return msgspec.structs.replace(self, parts=tuple(kept.values()))


class Spaces(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The program."""

    count: int
    together: bool = True
    """Whether all are opened by `hw.together`; otherwise one after the other."""
    patient: bool = False
    """Whether deliveries go on by themselves at the end; otherwise `delivered` asks for them."""
    threads: bool = False
    """Whether each space has a thread of its own."""


class Step(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """One step of the workload."""

    kind: StepKind
    space: int = 0
    to: int = 0
    number: int = 0
    value: int = 0
    gap: float = 0.0
    """Virtual seconds before it."""
