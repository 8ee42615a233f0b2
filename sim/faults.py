"""Faults as data, and how a plan draws them. `sim.performer` performs them."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Sequence
from typing import Final, Literal

from headwater.testing.disk import IoKind
from sim.plan import Fault

KEEPS: Final = (0.0, 0.5, 1.0)
"""Of a kill: a power failure that loses all un-synced changes, or some; only the process dies."""

KINDS_MAX: Final = 4
"""More kinds of faults in one world hide each other."""

DOWN_S: Final = (0.05, 5.0)

IO_KINDS: Final[tuple[IoKind, ...]] = ("write", "write", "sync", "sync", "truncate", "unlink", "open", "rename")
EIO_KINDS: Final[tuple[IoKind, ...]] = ("sync", "sync", "write", "truncate", "read", "open")


class Cut(Fault, frozen=True, kw_only=True):
    """Connections break; each side learns it in its own time, and what is on its way is lost from some byte on."""

    node: str
    every: bool = False
    """All of the node, or one of them."""


class HalfOpen(Fault, frozen=True, kw_only=True):
    """One direction of the node's connections is silent."""

    node: str
    seconds: float
    inward: bool
    then_cut: bool = False


class Isolate(Fault, frozen=True, kw_only=True):
    """The node is unreachable: what is sent arrives afterwards."""

    node: str
    seconds: float


class Refuse(Fault, frozen=True, kw_only=True):
    """New connections to the node are refused."""

    node: str
    seconds: float


class Late(Fault, frozen=True, kw_only=True):
    """New connections to the node are accepted late."""

    node: str
    seconds: float
    at_most: float


class Delay(Fault, frozen=True, kw_only=True):
    """Bytes from and to the node take longer."""

    node: str
    seconds: float
    factor: float


class Again(Fault, frozen=True, kw_only=True):
    """Frames of clients arrive twice, with a probability."""

    seconds: float
    rate: float


class Kill(Fault, frozen=True, kw_only=True):
    """SIGKILL, and a restart after some time."""

    node: str
    keep: float
    """The chance of each un-synced change to survive; 1.0: only the process dies."""
    down: float
    """Seconds."""


class KillInIo(Fault, frozen=True, kw_only=True):
    """SIGKILL before or after an access to the disk."""

    node: str
    kind: IoKind
    nth: int
    """Counted from `at` on."""
    after: bool
    keep: float
    down: float
    again: int = 0
    """So many of the following lives end the same way."""


class Pause(Fault, frozen=True, kw_only=True):
    """SIGSTOP for a while."""

    node: str
    seconds: float


class Full(Fault, frozen=True, kw_only=True):
    """The disk has room for a few bytes only."""

    node: str
    seconds: float
    room: int = 0


class Eio(Fault, frozen=True, kw_only=True):
    """The next accesses of a kind fail."""

    node: str
    kind: IoKind
    count: int = 1
    inside: str = ""
    """From the first one in a function of this name on."""


class SlowDisk(Fault, frozen=True, kw_only=True):
    """Each sync takes long, and perhaps each write."""

    node: str
    seconds: float
    sync_ms: float
    write_ms: float = 0.0


class LyingSync(Fault, frozen=True, kw_only=True):
    """From here on, syncs succeed and make nothing durable, as of a drive that answers from its volatile cache.

    Never drawn, because commits are lost then: it is there to see that the oracles find that.
    """

    node: str


class Clock(Fault, frozen=True, kw_only=True):
    """The wall clock is set, or the clocks run faster or slower."""

    node: str
    jump: float = 0.0
    rate: float = 1.0


class Code(Fault, frozen=True, kw_only=True):
    """The node is stopped and started again with other code: `World.on_code` says what that is."""

    node: str
    edit: int
    """Which edit: a number that the kind of world understands."""
    down: float = 0.1
    keep: float = 1.0


# --- drawing -------------------------------------------------------------------------------------------------------

FaultName = Literal[
    "cut",
    "half-open",
    "isolate",
    "refuse",
    "late",
    "delay",
    "again",
    "kill",
    "kill in io",
    "pause",
    "full",
    "eio",
    "slow disk",
    "clock",
    "code",
]

DISK: Final[tuple[FaultName, ...]] = ("kill", "kill in io", "full", "eio", "slow disk")
"""What goes wrong in a world without a network."""
NODE: Final[tuple[FaultName, ...]] = (*DISK, "pause", "clock", "code")
NETWORK: Final[tuple[FaultName, ...]] = ("cut", "half-open", "isolate", "refuse", "late", "delay", "again")
ALL: Final[tuple[FaultName, ...]] = (*NODE, *NETWORK)


def generate_faults(
    rng: random.Random,
    kinds: Sequence[FaultName],
    nodes: Sequence[str],
    until: float,
    *,
    least: int = 0,
    servers: Collection[str] = (),
) -> tuple[Fault, ...]:
    """Draw at most four of these kinds, and for each up to three faults before a time.

    `nodes` are those to which faults happen. Of `servers` among them, twice as often.
    """
    count = rng.randint(min(least, len(kinds)), min(KINDS_MAX, len(kinds)))
    places = [*nodes, *(each for each in nodes if each in servers)]
    drawn = rng.sample(list(kinds), count)
    found = [
        _DRAW[kind](rng, round(rng.uniform(0.05, 1.0) * until, 3), rng.choice(places), until)
        for kind in drawn
        for _ in range(rng.choice((1, 1, 2, 3)))
    ]
    return tuple(sorted(found, key=time_of))


def time_of(fault: Fault) -> float:
    """The key of their order."""
    return fault.at


def _seconds(rng: random.Random, least: float, most: float) -> float:
    """Short ones are as probable as long ones."""
    return float(round(least * (most / least) ** rng.random(), 3))


_Draw = Callable[[random.Random, float, str, float], Fault]

_DRAW: Final[dict[FaultName, _Draw]] = {
    "cut": lambda r, at, node, _: Cut(at=at, node=node, every=r.random() < 0.5),
    "half-open": lambda r, at, node, _: HalfOpen(
        at=at, node=node, seconds=_seconds(r, 1, 300), inward=r.random() < 0.5, then_cut=r.random() < 0.5
    ),
    "isolate": lambda r, at, node, _: Isolate(at=at, node=node, seconds=_seconds(r, 0.5, 60)),
    "refuse": lambda r, at, node, _: Refuse(at=at, node=node, seconds=_seconds(r, 0.5, 30)),
    "late": lambda r, at, node, until: Late(at=at, node=node, seconds=until, at_most=_seconds(r, 0.5, 30)),
    "delay": lambda r, at, node, until: Delay(at=at, node=node, seconds=until, factor=_seconds(r, 3, 100)),
    "again": lambda r, at, _, until: Again(at=at, seconds=until, rate=r.choice((0.05, 0.5))),
    "kill": lambda r, at, node, _: Kill(at=at, node=node, keep=r.choice(KEEPS), down=_seconds(r, *DOWN_S)),
    "kill in io": lambda r, at, node, _: KillInIo(
        at=at,
        node=node,
        kind=r.choice(IO_KINDS),
        nth=int(_seconds(r, 1, 60)),
        after=r.random() < 0.5,
        keep=r.choice(KEEPS),
        down=_seconds(r, *DOWN_S),
        again=r.choice((0, 0, 1, 3)),
    ),
    "pause": lambda r, at, node, _: Pause(at=at, node=node, seconds=_seconds(r, 1, 120)),
    "full": lambda r, at, node, _: Full(
        at=at, node=node, seconds=_seconds(r, 0.2, 60), room=r.choice((0, 0, 100, 5_000, 20_000))
    ),
    "eio": lambda r, at, node, _: Eio(at=at, node=node, kind=r.choice(EIO_KINDS), count=r.choice((1, 1, 2, 5))),
    "slow disk": lambda r, at, node, _: SlowDisk(
        at=at, node=node, seconds=_seconds(r, 1, 60), sync_ms=_seconds(r, 1, 5_000)
    ),
    "clock": lambda r, at, node, _: _clock(r, at, node),
    "code": lambda r, at, node, _: Code(at=at, node=node, edit=r.randrange(1 << 16)),
}


def _clock(rng: random.Random, at: float, node: str) -> Clock:
    if rng.random() < 0.5:
        return Clock(at=at, node=node, rate=rng.choice((0.9, 0.99, 1.01, 1.1)))
    return Clock(at=at, node=node, jump=rng.choice((-1, 1)) * _seconds(rng, 0.01, 3_600) * rng.choice((1, 1, 1, 720)))
