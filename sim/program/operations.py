"""What the threads of a program do, as data."""

from __future__ import annotations

from typing import Literal

import msgspec

from sim.apps import parts as p

RESULT_S = 20.0
"""Virtual seconds that a thread waits for an event."""


class Program(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """The node: its sessions, and for each thread the session that it uses."""

    name: str = "p"
    sessions: int = 1
    threads: tuple[int, ...] = (0,)
    demand: Literal["lazy", "eager"] = "lazy"
    durability: Literal["full", "normal"] = "full"
    loop: bool = False
    """Whether its sessions are spaces in event loops, used by threads: what runs there runs by itself."""
    watched: bool = False
    """Whether the invariants are checked at each run."""


class Operation(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """One action of a thread, some virtual seconds after the one before."""

    thread: int = 0
    gap: float = 0.0


class Write(Operation, frozen=True, kw_only=True):
    """One step outside of a transaction."""

    step: p.Step


class Block(Operation, frozen=True, kw_only=True):
    """A transaction, noted in the ledger under its tag."""

    tag: str
    steps: tuple[p.Step, ...]
    n: int = 0
    pause: float = 0.0
    """Virtual seconds between its first step and the others: other threads commit meanwhile."""
    inner: tuple[p.Step, ...] = ()
    """The steps of a nested block, which fails."""
    hold: float = 0.0
    """Virtual seconds between its last step and its end: other threads have passes and commits meanwhile."""
    gives_up: bool = False
    """Whether it is rolled back after that."""
    beside: tuple[p.Step, ...] = ()
    """What another thread writes between its last step and its end."""


class Send(Operation, frozen=True, kw_only=True):
    """An event."""

    tag: str
    handler: str
    n: int
    wait: bool = False
    once: str = ""
    """An id that several events share."""


class SendTwice(Operation, frozen=True, kw_only=True):
    """An event with an id, sent by each session before it has heard of the other."""

    handler: str
    once: str
    n: int


class Call(Operation, frozen=True, kw_only=True):
    """Call a function."""

    fn: str
    argument: int | None = None


class Settle(Operation, frozen=True, kw_only=True):
    """Run what is due."""


class Sync(Operation, frozen=True, kw_only=True):
    """Wait for the disk."""


class Pass(Operation, frozen=True, kw_only=True):
    """Let time pass, in which delayed functions run."""

    seconds: float


class StopSink(Operation, frozen=True, kw_only=True):
    """Until the next opening."""

    sink: str


class Piece(Operation, frozen=True, kw_only=True):
    """Start a piece, send it an event, or stop it."""

    tag: str
    pattern: str
    key: str
    given: int
    how: Literal["start", "tick", "stop"]


class Resume(Operation, frozen=True, kw_only=True):
    """Stop a piece; then change a cell and start the piece again, before the change is on disk."""

    pattern: str
    key: str
    given: int
    cell: str
    value: int


class ChangeOutside(Operation, frozen=True, kw_only=True):
    """A resource answers otherwise from now on; or its next requests fail."""

    resource: str
    fails: int = 0


class Redeliver(Operation, frozen=True, kw_only=True):
    """Failed events, once more."""


class Reopen(Operation, frozen=True, kw_only=True):
    """Close all sessions, and open them again."""

    edit: bool = False
    """With the next version of the app."""
    abrupt: bool = False
    """Without waiting until everything is at rest: events are left for the next opening."""
    aside: tuple[tuple[str, int], ...] = ()
    """What another program writes meanwhile: cells, or results of functions, with their new values."""


class Care(Operation, frozen=True, kw_only=True):
    """What an administrator does."""

    how: Literal["fold", "verify", "fork", "merge", "compact"]


class Gate(Operation, frozen=True, kw_only=True):
    """Set or clear a delay of a function while the program runs."""

    fn: str
    debounce: int = 0
    throttle: int = 0


class Overtake(Operation, frozen=True, kw_only=True):
    """Write a cell; while functions run for that, another thread writes it again."""

    cell: str
    value: int
    later: tuple[tuple[float, int], ...]
    """Virtual seconds after the write before, and the value."""
    session: int = 0
    """Of the other thread."""


class Undercut(Operation, frozen=True, kw_only=True):
    """A transaction that the store rejects, because another session was first; and what follows while it is shown."""

    hot: str
    """What the transaction reads, and the other session has written."""
    target: str
    """What it writes."""
    value: int
    then: Literal["repeat", "show"]
    """Another transaction writes the same value; or the transaction has a change group, and a sink of it runs."""
    cold: str
    """What the other transaction reads; or what the sink reads besides."""


class Interrupt(Operation, frozen=True, kw_only=True):
    """Write, and wait for the disk, interrupted as by Ctrl-C: see `Act.interrupt` of storage worlds."""

    cell: str
    lines: int
    target: str = ""
    """Then another thread does it, while a transaction is open that reads the cell after that, and writes this one."""
    value: int = 0


class Preempt(Operation, frozen=True, kw_only=True):
    """Two threads write; the one that runs functions is preempted just before it says that there is no more work."""

    cell: str
    other: str
    sink: str
    """It shows both."""
    value: int


class OtherCode(Operation, frozen=True, kw_only=True):
    """Another program has the file open, with another version of a function: it counts in a cell that this reads."""

    fn: str
    cell: str


class Lane(msgspec.Struct, frozen=True, kw_only=True, repr_omit_defaults=True):
    """Operations of one thread, in one session."""

    session: int = 0
    operations: tuple[Operation, ...]


class Together(Operation, frozen=True, kw_only=True):
    """Several threads at the same time, each with operations of its own. The operation ends when all of them have."""

    lanes: tuple[Lane, ...]
