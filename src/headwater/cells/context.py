"""The context of running code: the open spaces around it, and its transaction.

A context variable holds the innermost frame. It is inherited by `await`, by tasks, and by threads that
`asyncio.to_thread` starts. A plain thread starts without a frame, and then uses the only opening there is.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

from headwater.cells.context_frame import ContextFrame
from headwater.cells.cross_space import READ, crossing_error, nesting_error, read_only_error
from headwater.errors import AmbiguousError, NotOpen
from headwater.machine import machine

if TYPE_CHECKING:  # the space and the transaction use the context
    from headwater.cells.space_port import SpacePort
    from headwater.cells.transaction import Transaction


class Addressed(Protocol):
    """Something with an address."""

    @property
    def address(self) -> str:
        """As text."""


class Owner(Protocol):
    """The owner of a cell: an app, or one open space."""

    def sole_space(self, what: str | Addressed) -> SpacePort:
        """The only space that `what` can refer to without a context. Raises NotOpen, AmbiguousError."""


CONTEXT: Final[ContextVar[ContextFrame | None]] = ContextVar("headwater", default=None)

PEEKING: Final[ContextVar[bool]] = ContextVar("headwater-peeking", default=False)
"""True inside a block of `hw.untracked()`. Checked by transactions around such a block."""


UNTRACKED: Final = ""
"""A use that no transaction records: a peek, a repr, an event that waits for its sender."""


def find(owner: Owner, what: str | Addressed, use: str = READ) -> tuple[SpacePort, Transaction | None]:
    """The space of `owner` in this context, and the transaction of this code, if any.

    `use` is a participle such as "read". Openings that share a runtime share its transactions. If a run or transaction
    of another runtime is nearer to this code than any of that space, a read goes through its reads there (`FarReads`);
    UNTRACKED is recorded nowhere; everything else is refused.
    """
    frame = first = CONTEXT.get()
    while frame is not None:
        space = frame.space
        if space.owner is owner or space is owner:
            if frame is not first and frame.tx is not (first.tx if first is not None else None):
                if space.closed and _is_around_run(frame, first):
                    frame = frame.outer
                    continue
                return _leave(first, frame, space, what, use)
            if space.needs_check:
                space.check(what)
            return space, frame.tx
        if frame.tx is not None and owner in space.runtime.by_owner:
            # Another app in the same runtime: one transaction for both.
            beside = space.runtime.by_owner[owner]
            if frame is not first and frame.tx is not (first.tx if first is not None else None):
                return _leave(first, frame, beside, what, use)
            if beside.needs_check:
                beside.check(what)
            return beside, frame.tx
        frame = frame.outer
    return _find_without_frame(first, owner, what, use)


def _is_around_run(frame: ContextFrame, first: ContextFrame | None) -> bool:
    """A frame belongs to plain code that happened to start this run: a later opening of the app may be meant."""
    return frame.tx is None and first is not None and first.tx is not None and bool(first.tx.name)


def _find_without_frame(
    first: ContextFrame | None, owner: Owner, what: str | Addressed, use: str
) -> tuple[SpacePort, Transaction | None]:
    """The space of an owner that no frame is of: in the runtime of this code, or the only one there is."""
    space = None if first is None else first.space.runtime.by_owner.get(owner)
    if space is None:
        try:
            space = owner.sole_space(what)
        except NotOpen:
            # The run is not restored: it may succeed when the app is open.
            _note_outside(first)
            raise
    if space.read_only and use and use != READ:
        raise read_only_error(space, name_of(what), use)
    if first is not None:
        return _leave(first, None, space, what, use)
    if space.needs_check:
        space.check(what)
    return space, None


def check_crossing(space: SpacePort, what: str | Addressed, use: str) -> None:
    """Raise CrossSpaceError if a run or transaction of another runtime is nearer to this code than any of `space`."""
    first = frame = CONTEXT.get()
    while frame is not None and frame.space.runtime is not space.runtime:
        frame = frame.outer
    if first is not None and first is not frame:
        _leave(first, frame, space, what, use)


def _leave(
    first: ContextFrame | None, until: ContextFrame | None, space: SpacePort, what: str | Addressed, use: str
) -> tuple[SpacePort, Transaction | None]:
    """Code in the transactions of these frames uses another space."""
    frame, own = first, None if until is None else until.tx
    while frame is not None and frame is not until:
        tx = frame.tx
        if tx is not None and tx is not own:
            if own is not None and own.is_open and not tx.name:
                # A block of plain code inside a block of that space: what belongs to the outer one is part of that.
                frame = frame.outer
                continue
            if use and tx.is_open and frame.is_bounded and not _is_peer(tx, frame.space, space):
                if use != READ:
                    raise crossing_error(tx, frame.space, space, name_of(what), use, _read_only(frame))
                return space, frame.space.reads_in(tx, space, what)
            tx.reads_outside = True
            if tx.node is not None:
                # Outer runs depend on the result of this node, and are notified through it.
                break
        frame = frame.outer
    if space.needs_check:
        space.check(what)
    return space, own


def _read_only(frame: ContextFrame | None) -> str:
    """Why nothing may be written in the transaction of a frame, with {} for the address; empty if it may."""
    tx = frame.tx if frame is not None else None
    while frame is not None and frame.tx is tx:
        if frame.read_only:
            return frame.read_only
        frame = frame.outer
    return "" if tx is None else tx.read_only


def is_nested(space: SpacePort) -> bool:
    """Whether a block of another space is around this code. Raises NestedTransactionError in a run or handling."""
    frame, found = CONTEXT.get(), False
    while frame is not None and frame.space.runtime is not space.runtime:
        tx = frame.tx
        if tx is not None and tx.is_open and frame.is_bounded and not _is_peer(tx, frame.space, space):
            if tx.name:
                raise nesting_error(tx, frame.space, space)
            found = True
        frame = frame.outer
    return found


def carrier_to(space: SpacePort) -> ContextFrame | None:
    """The frame of the transaction around this code, if it belongs to another space and can send to `space`."""
    frame = CONTEXT.get()
    while frame is not None and frame.tx is None:
        frame = frame.outer
    if frame is None or frame.tx is None or not frame.tx.is_open or not frame.is_bounded:
        return None
    if frame.space.storage_key == space.storage_key or _is_peer(frame.tx, frame.space, space):
        return None
    return frame


def _note_outside(frame: ContextFrame | None) -> None:
    """What a run does next depends on more than documents."""
    while frame is not None:
        if frame.tx is not None:
            frame.tx.reads_outside = True
        frame = frame.outer


def _is_peer(tx: Transaction, inside: SpacePort, outside: SpacePort) -> bool:
    """A transaction block of plain code uses another opening of the same app, which acts as a separate program."""
    return not tx.name and inside.owner is not None and inside.owner is outside.owner


def without_transactions(frame: ContextFrame | None) -> ContextFrame | None:
    """The same context without its transactions, for a callback that is not part of a run."""
    if frame is None:
        return None
    outer = without_transactions(frame.outer)
    return frame if frame.tx is None and outer is frame.outer else ContextFrame(frame.space, None, outer)


class _OpenSpaces:
    """Per-process state."""

    def __init__(self) -> None:
        self.spaces: list[SpacePort] = []


def open_spaces() -> list[SpacePort]:
    """Every space that is open in this process, in the order of opening."""
    return machine().state(_OpenSpaces).spaces


def sole_open(what: str) -> tuple[SpacePort, Transaction | None]:
    """The innermost open space, or the only one of the process. Raises NotOpen, AmbiguousError."""
    around = innermost(what)
    if around is not None:
        return around
    spaces = list(open_spaces())
    if not spaces:
        raise NotOpen(f"{what} needs an open space, and there is none here; wrap the code in `with app.open(...)`")
    if any(space.runtime is not spaces[0].runtime for space in spaces):
        names = ", ".join(repr(space.name) for space in spaces)
        message = (
            f"{what} could go into any of {len(spaces)} open spaces ({names}), and none of them is around this code; "
            "use it inside the `with` block that is meant"
        )
        raise AmbiguousError(message)
    space = spaces[0]
    if space.needs_check:
        space.check(what)
    return space, None


def innermost(what: str) -> tuple[SpacePort, Transaction | None] | None:
    """The innermost open space of any owner; None without a context."""
    frame = CONTEXT.get()
    if frame is None:
        return None
    if frame.space.needs_check:
        frame.space.check(what)
    return frame.space, frame.tx


def name_of(what: str | Addressed) -> str:
    """The name in messages. The address is computed only here, when a message is made."""
    return what if isinstance(what, str) else what.address
