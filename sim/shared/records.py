"""What clients did and what they were told about it: compared with the log of the server at the end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import msgspec

from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.declare.events.ticket import Ticket
from headwater.errors import HeadwaterError, PoisonedError, StoreFullError, UnconfirmedError
from headwater.store.commit import Committed
from sim.shared.shared_app import Reading
from sim.shared.workload import PAID_MAX, Act, Step, numbers, paid_number

Fate = Literal["committed", "not", "unknown"]


@dataclass(slots=True)
class Record:
    """One transaction, as its client sees it. The handle is looked at when the world is over."""

    act: Act
    client: str
    opening: int
    has_folder: bool
    began: float
    handle: Transaction | Ticket[str] | None = None
    readings: list[Reading] = field(default_factory=list)
    # Raised where the transaction was made.
    error: BaseException | None = None
    # The numbers it has written, and those of events that it has sent.
    written: tuple[int, ...] = ()
    sent: tuple[int, ...] = ()
    # The token of the client was revoked.
    is_cut_off: bool = False
    # A backup was restored afterwards: whether it is in the log says nothing.
    is_put_back: bool = False
    # The opening was closed in order before its verdict came.
    was_closed: bool = False

    @property
    def is_over(self) -> bool:
        """Whether the client has learned its end."""
        if isinstance(self.handle, Ticket):
            return self.handle.state in ("confirmed", "refused", "rejected", "failed")
        return self.handle is None or self.handle.status not in (Status.OPEN, Status.PENDING)

    @property
    def is_committed(self) -> bool:
        """Whether the client was told so, whatever has happened since."""
        return isinstance(self.handle, Transaction) and self.handle.status is Status.COMMITTED

    @property
    def fate(self) -> Fate:
        """What the client was told."""
        handle = self.handle
        if self.is_put_back:
            return "unknown"
        if handle is None:
            return "not" if self.error is not None else "unknown"
        if isinstance(handle, Ticket):
            return self._fate_of_event(handle)
        if handle.status is Status.COMMITTED:
            return "committed"
        if handle.status in (Status.OPEN, Status.PENDING):
            return "unknown"
        return self._fate_of(handle.error)

    def _fate_of(self, error: HeadwaterError | None) -> Fate:
        if isinstance(error, UnconfirmedError):
            return "unknown"
        # With a folder, an opening that ends leaves its commits to the next one.
        return "unknown" if error is not None and self.has_folder and not isinstance(error, StoreFullError) else "not"

    def _fate_of_event(self, ticket: Ticket[str]) -> Fate:
        if isinstance(ticket._event.error, UnconfirmedError | PoisonedError):
            # HW204: a commit that was pending is stored completely or not at all. `result()` says so, too.
            return "unknown"
        match ticket.state:
            case "confirmed":
                return "committed"
            case "failed" | "rejected":
                # A session that ends for good leaves events whose commits may be stored.
                return "unknown" if self.is_cut_off else "not"
            case "refused":
                # Handled before, perhaps by this client in an earlier life.
                return "unknown" if self.act.how == "once" else "not"
            case _:
                return "unknown"

    @property
    def seq(self) -> int | None:
        """Its place in the log, if the client was told."""
        if self.is_put_back:
            return None
        if isinstance(self.handle, Transaction) and isinstance(self.handle.verdict, Committed):
            return self.handle.verdict.seq
        return None

    def appended(self) -> list[tuple[Step, int]]:
        """The appends to registers of a transaction block, with their numbers."""
        if self.act.how != "block" or self.error is not None:
            return []
        by_index = numbers(self.act)
        return [(step, by_index[index]) for index, step in enumerate(self.act.steps) if step[0] == "append"]

    def read(self) -> list[Reading]:
        """What it read, if that is known."""
        if isinstance(self.handle, Ticket):
            if self.handle.state != "confirmed" or self.act.how != "event":
                return []
            found = msgspec.json.decode(str(self.handle._answer()))  # without waiting
            return [(doc, tuple(path), value) for doc, path, value in found]
        return self.readings


UNSURE = ("send", "incr", "tally", "same", "pair", "drop", "delete", "tdel", "edit", "fail", "reject")
"""Steps that write no number, or only if there is something to write it to."""


def begin(act: Act, client: str, opening: int, began: float, *, has_folder: bool) -> Record:
    """A record for a transaction that is about to begin."""
    made = Record(act, client, opening, has_folder, began)
    if act.how == "once":
        made.written, made.sent = (paid_number(act),), (paid_number(act) - PAID_MAX,)
        return made
    by_index = numbers(act)
    made.written = tuple(number for index, number in by_index.items() if act.steps[index][0] not in UNSURE)
    made.sent = tuple(number for index, number in by_index.items() if act.steps[index][0] == "send")
    return made
