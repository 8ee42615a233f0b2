"""L2 between two operations: whatever has to be done is asked for.

At such a moment no pass runs, and none is asked for. So nobody is about to do what was left: an event that could be
handled, work on pieces, a delay whose time is not that of the timer. Looks only, and takes no lock: the order of
threads stays as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headwater.errors import InvariantError
from headwater.host.loop_opening import LoopOpening
from headwater.runtime.opening import Opening
from headwater.testing.invariants.event_invariants import i4_lanes

if TYPE_CHECKING:
    from sim.program.program import ProgramWorld, Session

SLACK_MS = 0.01
"""Times are rounded."""


def check_quiet(program: ProgramWorld, session: Session) -> None:
    """Look at a session, unless it is busy."""
    runtime = session.runtime
    if runtime.closed or _is_asked(runtime):
        return
    if runtime._pieces is not None and runtime._pieces._due:
        program.world.violate("L2", "work on pieces is left, and no pass is asked for", program.spec.name)
    turn: Any = runtime.replica.lock
    if runtime.inbox or session.under_way or turn.locked():
        # An outcome has arrived, or another thread is in the middle of something.
        return
    _check_timer(program, runtime)
    _check_lanes(program, session)


def _is_asked(runtime: Opening) -> bool:
    """Whether a pass runs, or will run by itself or at the end of an operation."""
    lock: Any = runtime.lock
    if lock.locked() or runtime.runtime.has_work or (runtime.fetching is not None and runtime.fetching.has_news):
        return True
    return isinstance(runtime, LoopOpening) and (runtime.runtime.is_busy() or bool(runtime.runtime.flights.waits))


def _check_timer(program: ProgramWorld, runtime: Opening) -> None:
    """A space in a loop is woken when something is due."""
    if not isinstance(runtime, LoopOpening):
        return
    due, set_for = runtime.scheduler.outstanding().wake_at, runtime.runtime._wake_at
    if due is not None and (set_for is None or set_for > due + SLACK_MS):
        text = f"something may be due at {due:.3f} ms, and the timer is set for {set_for}"
        program.world.violate("L2", text, program.spec.name)


def _check_lanes(program: ProgramWorld, session: Session) -> None:
    """An event that waits has a reason to, besides its time, which plain code does not notice by itself."""
    runtime = session.runtime
    lanes = [(lane, lane.head, lane.parked) for lane in runtime.scheduler.lanes]
    times = [parked.until for _, _, parked in lanes if parked is not None and parked.until is not None]
    if any(until <= runtime.now() + SLACK_MS for until in times):
        return
    try:
        i4_lanes(runtime.scheduler)
    except InvariantError as error:
        # Looking may take a lock: it counts if nothing has happened meanwhile.
        is_same = lanes == [(lane, lane.head, lane.parked) for lane in runtime.scheduler.lanes]
        if is_same and not session.under_way and not runtime.closed and not _is_asked(runtime) and not runtime.inbox:
            program.world.violate("L2", f"no pass is asked for: {error}", program.spec.name)
