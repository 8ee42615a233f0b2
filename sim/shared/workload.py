"""What clients of a shared world do, as data."""

from __future__ import annotations

from typing import Final, Literal, TypeAlias

import msgspec

Step: TypeAlias = tuple[str, ...]
"""A read or write inside a transaction: its verb and its target. See sim/shared/shared_app.py."""

READS: Final = ("reg", "rec", "key", "keys", "len", "tree", "board", "of", "loose", "sum", "cnt")
"""Verbs of reads. A transaction reads first, then writes."""

FIRST_NUMBER: Final = 1_000_000
"""Numbers that transactions write are above this one, each is written once."""


PAID_MAX: Final = 400
"""Events with an id: each writes a number a little below, which its follow-up event writes less this."""


class ServerNode(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The server."""

    name: str = "s"


class ClientNode(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A client."""

    name: str
    mode: Literal["plain", "async"] = "plain"
    local: bool = False
    """Keeps documents and commits in a folder."""
    actor: str = ""
    can: Literal["read", "write", "own"] = "own"
    space: str = "main"
    reads_after: float = 0.0
    """From then on, it opens the space with a token that may only read. 0: never."""


class Act(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A transaction of a client."""

    at: float
    node: str
    number: int
    """Which numbers it writes follows from this."""
    steps: tuple[Step, ...]
    how: Literal["block", "event", "once", "plain"] = "block"
    """A transaction block; an event; an event with an id, which several clients may send; a block per write."""
    key: str = ""
    """Of an event that is handled once: its id."""
    pause: float = 0.0
    """Seconds between the reads and the writes of a block."""
    settles: bool = True
    """Whether the client takes in what has arrived before it begins."""


class Sync(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Wait for all verdicts."""

    at: float
    node: str


class Reopen(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Close the space, and open it again after some seconds."""

    at: float
    node: str
    after: float = 0.0


class Revoke(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Revoke the token of a client, at the server."""

    at: float
    node: str


class Upkeep(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Work at the server while clients go on."""

    at: float
    node: str = "s"
    what: Literal["backup", "compact", "fold", "restart", "restore", "older"] = "backup"
    """`restore` puts the last backup in place of the space, as the command does; `older` copies the file only."""


class Twin(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A second connection takes the session of a client: as a client that was copied, or whose old connection hangs."""

    at: float
    node: str


class Release(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Let go of documents, as the runtime does with those of pieces that ended."""

    at: float
    node: str
    docs: tuple[str, ...]
    """`#items`: those of the board."""


class Forge(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """A client breaks the protocol on purpose: it changes the receipt of an event."""

    at: float
    node: str = "x"


Operation: TypeAlias = Act | Sync | Reopen | Revoke | Upkeep | Twin | Release | Forge


def numbers(act: Act) -> dict[int, int]:
    """The number that each writing step of a transaction writes, by the index of the step."""
    return {
        index: FIRST_NUMBER + act.number * 100 + index for index, step in enumerate(act.steps) if step[0] not in READS
    }


def paid_number(act: Act) -> int:
    """The number that an event with an id writes: the same for all that send it."""
    return FIRST_NUMBER - 1 - int(act.key)
