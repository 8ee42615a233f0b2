"""Rates: how many calls of a consumer leave in a time.

Calls are spaced: between two of them is the interval of the rate, at least. So no window of time has more calls than
the rate allows for it, and one. The time of the next call is stored before a call leaves, and survives the process.
"""

from __future__ import annotations

from math import ceil
from typing import Final

from headwater.errors import DeclarationError
from headwater.values.ids import Millis
from headwater.workflow.rows import HandlerRow
from headwater.workflow.run_lanes import before_its_call
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_limits import EARLY_US
from headwater.workflow.workflow_rows import set_handler
from headwater.workflow.workflow_spec import ConsumerSpec

_MS: Final = 1000
"""Microseconds."""

_UNITS: Final = {"s": 1_000_000, "m": 60_000_000, "h": 3_600_000_000, "d": 86_400_000_000}


def interval_of(rate: object, where: str) -> int:
    """The microseconds between two calls, of a rate such as "50/s". Raises DeclarationError."""
    count, slash, unit = rate.partition("/") if isinstance(rate, str) else ("", "", "")
    if not slash or not count.isdecimal() or not count.isascii() or not int(count) or unit not in _UNITS:
        message = (
            f'{where}: rate={rate!r}; a number of calls in a second, minute, hour or day is expected, as in "50/s"'
        )
        raise DeclarationError(f'{message}, "100/m", "20/h" or "500/d"')
    if int(count) * _MS > _UNITS[unit]:
        raise DeclarationError(f"{where}: rate={rate!r} is more than 1000 calls a second; leave it out")
    return ceil(_UNITS[unit] / int(count))


def call_at(tables: WorkflowTables, row: HandlerRow, consumer: ConsumerSpec) -> Millis | None:
    """When the next call may leave, if that is later than now."""
    at = row.call_at or 0
    return Millis(-(-at // _MS)) if consumer.interval_us and at > tables.now * _MS else None


def begin_at(tables: WorkflowTables, row: HandlerRow, consumer: ConsumerSpec) -> tuple[bool, Millis | None]:
    """Whether a run that will call may begin now, and otherwise when; without a time, when another run has gone on.

    Runs begin ahead of their calls by a second at most, so that no thread is occupied by a long wait.
    """
    if not consumer.interval_us or not consumer.mutates:
        return True, None
    at = call_at(tables, row, consumer)
    if at is not None:
        return False, at
    ahead = before_its_call(tables, row.flow, consumer.name)
    return not ahead or ahead * consumer.interval_us <= EARLY_US, None


def take_call(tables: WorkflowTables, row: HandlerRow, consumer: ConsumerSpec) -> Millis | None:
    """Let a call leave now, which moves the time of the next one; or return when it may leave."""
    if not consumer.interval_us:
        return None
    at = call_at(tables, row, consumer)
    if at is None:
        set_handler(tables, row, call_at=tables.now * _MS + consumer.interval_us)
    return at


def correct_call_at(tables: WorkflowTables, row: HandlerRow, consumer: ConsumerSpec) -> bool:
    """W11: after the clock was set back, the next call is one interval away at most."""
    latest = tables.now * _MS + consumer.interval_us
    if row.call_at is None or row.call_at <= latest:
        return False
    set_handler(tables, row, call_at=latest)
    return True
