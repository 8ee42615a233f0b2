"""Where code stands: which space is open around it, and which transaction it is part of.

A context variable holds the innermost frame. It goes along with `await`, with tasks, and with threads that
`asyncio.to_thread` starts; a plain thread starts with none and then means the only opening there is.

Must never know: cells.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING, Final, Protocol

from headwater.errors import AmbiguousError, NotOpen

if TYPE_CHECKING:
    from headwater.cells.home import Home
    from headwater.cells.transaction import Transaction


class Addressed(Protocol):
    """Something that can say where it stands."""

    @property
    def address(self) -> str:
        """As text."""


class Owner(Protocol):
    """Whom a cell belongs to: an app, which may be open somewhere, or one open space."""

    def sole_home(self, what: str | Addressed) -> Home:
        """The only place `what` can mean where nothing around the code says which. Raises NotOpen, AmbiguousError."""


class Frame:
    """One step inwards: a space was opened (no transaction), a transaction was begun in it, or a function is called.

    Such a function may only read in the transaction that is around it: `read_only` says why.
    """

    __slots__ = ("home", "memo", "outer", "read_only", "tx")

    def __init__(self, home: Home, tx: Transaction | None, outer: Frame | None, read_only: str = "") -> None:
        self.home = home
        self.tx = tx
        self.outer = outer
        self.read_only = read_only
        # Here and not only in the transaction: a cell finds what it has read before with one look.
        self.memo: dict[object, object] = _NOTHING if tx is None else tx.memo


_NOTHING: Final[dict[object, object]] = {}

HERE: Final[ContextVar[Frame | None]] = ContextVar("headwater", default=None)


def find(owner: Owner, what: str | Addressed) -> tuple[Home, Transaction | None]:
    """The space that something of `owner` means here, and the transaction this code is part of, if any."""
    frame = first = HERE.get()
    while frame is not None:
        home = frame.home
        if home.owner is owner or home is owner:
            if home.wary:
                home.check(what)
            if frame is not first and frame.tx is not (first.tx if first is not None else None):
                _reach_out(first, frame)
            return home, frame.tx
        frame = frame.outer
    home = owner.sole_home(what)
    if home.wary:
        home.check(what)
    _reach_out(first, None)
    return home, None


def _reach_out(frame: Frame | None, until: Frame | None) -> None:
    """Code in these transactions uses what is none of theirs: of that, nobody can tell them when it changes."""
    while frame is not None and frame is not until:
        if frame.tx is not None and frame.tx is not (until.tx if until is not None else None):
            frame.tx.reaches_out = True
            if frame.tx.node is not None:
                # Whoever has asked for its result reads that, and is told of it.
                return
        frame = frame.outer


OPEN: Final[list[Home]] = []
"""Every space that is open in this process, in the order of opening."""


def sole_open(what: str) -> tuple[Home, Transaction | None]:
    """The innermost open space, or the only one there is: for what is no app's. Raises NotOpen, AmbiguousError."""
    around = innermost(what)
    if around is not None:
        return around
    homes = list(OPEN)
    if not homes:
        raise NotOpen(f"{what} needs an open space, and there is none here; wrap the code in `with app.open(...)`")
    if len(homes) > 1:
        names = ", ".join(repr(home.name) for home in homes)
        message = (
            f"{what} could go into any of {len(homes)} open spaces ({names}), and none of them is around this code; "
            "use it inside the `with` block that is meant"
        )
        raise AmbiguousError(message)
    home = homes[0]
    if home.wary:
        home.check(what)
    return home, None


def innermost(what: str) -> tuple[Home, Transaction | None] | None:
    """The innermost open space, whosever it is; None if there is none around this code."""
    frame = HERE.get()
    if frame is None:
        return None
    if frame.home.wary:
        frame.home.check(what)
    return frame.home, frame.tx


def called(what: str | Addressed) -> str:
    """A name for messages: made only when there is one."""
    return what if isinstance(what, str) else what.address
