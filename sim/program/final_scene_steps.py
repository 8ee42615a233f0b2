"""How the operations of scenes are performed: two threads, or two sessions, whose steps meet in one order."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.errors import ConflictError, RejectedError
from headwater.machine import machine
from sim.apps import parts as p
from sim.apps.module import SCREENS, add
from sim.apps.source import block
from sim.program import operations as o
from sim.program.program import ProgramWorld, Session
from sim.storage.interruption import interrupted

GROUP: Final = "scene"
"""The change group of transactions and sinks of scenes."""

MOMENT_S: Final = 0.0005
"""In which a loop runs what it has been woken for, and the thread of the storage does not begin yet."""

DELIVERED_S: Final = 0.01
"""In which the thread of the storage goes on with what another thread has left."""

LATE_S: Final = 9.0
"""Longer than the longest rest of a function."""


def perform(program: ProgramWorld, operation: o.Operation, session: Session) -> None:
    """Perform an operation, if the version of the app has what it needs. Raises what the product raises."""
    names = program.app.named()
    match operation:
        case o.Overtake(cell=cell) if cell in names and operation.session < len(program.sessions):
            _overtake(program, operation)
        case o.Undercut(hot=hot, target=target, cold=cold) if {hot, target, cold} <= names.keys():
            if len(program.sessions) > 1:
                _undercut(program, operation, session)
        case o.Interrupt(cell=cell, target=target) if {cell, target or cell} <= names.keys() and session.loop is None:
            _interrupt(program, operation, session)
        case o.Preempt(cell=cell, other=other, sink=sink) if {cell, other, sink} <= names.keys():
            _preempt(program, operation, session)
        case _:
            pass


@contextmanager
def _meanwhile(program: ProgramWorld, session: Session, work: Callable[[], object]) -> Iterator[None]:
    """Another thread does something in a session. It has ended when this block has."""

    def run() -> None:
        with session.entered():
            try:
                work()
            except Exception as error:  # noqa: BLE001  # sorted there
                program.met(error, "beside")

    actor = program.world.node(program.spec.name).start("beside", run)
    try:
        yield
    finally:
        program.world.conductor.join(actor)


def beside(program: ProgramWorld, session: Session, steps: tuple[p.Step, ...]) -> None:
    """Single writes of another thread."""
    function = add(program.module, block(program.app, "beside", steps, logged=False), "beside")
    with _meanwhile(program, session, lambda: function(None, "beside", 0)):
        pass


def _overtake(program: ProgramWorld, operation: o.Overtake) -> None:
    cell = getattr(program.module, operation.cell)

    def write() -> None:
        for seconds, value in operation.later:
            machine().sleep(seconds)
            cell.value = value

    with _meanwhile(program, program.sessions[operation.session], write):
        cell.value = operation.value


def _undercut(program: ProgramWorld, operation: o.Undercut, session: Session) -> None:
    module, value = program.module, operation.value
    hot, target, cold = (getattr(module, name) for name in (operation.hot, operation.target, operation.cold))
    other = next(each for each in program.sessions if each is not session)
    with other.entered():
        hot.value = value
    group = GROUP if operation.then == "show" else None
    with suppress(ConflictError), session.space.transaction(change_group=group):
        hot.value  # noqa: B018
        target.value = value
    second: Transaction | None = None
    if operation.then == "repeat":
        with session.space.transaction() as second:
            cold.value  # noqa: B018
            target.value = value
    else:
        cold.increment(1)
        if session.loop is not None:
            machine().sleep(MOMENT_S)
    with suppress(RejectedError):
        session.space.sync()
    if second is not None and second.status is Status.COMMITTED and target.value != value:
        text = f"a transaction that made {operation.target} {value} is committed, and it is {target.value}"
        program.world.violate("S1", text, program.spec.name)


def _interrupt(program: ProgramWorld, operation: o.Interrupt, session: Session) -> None:
    """INV-9: a commit that is not rejected is shown, however often the outcomes before it are delivered."""
    space, cell, value = session.space, getattr(program.module, operation.cell), operation.value

    def write() -> None:
        cell.increment(1)
        with interrupted(program.world, operation.lines):
            # The part of `space.sync()` that can be interrupted: what follows takes the outcomes in.
            session.storage.wait()

    if not operation.target:
        write()
        return
    target = getattr(program.module, operation.target)
    with space.transaction() as tx:
        with _meanwhile(program, session, write):
            pass
        # The thread of the storage delivers what was not delivered completely.
        machine().sleep(DELIVERED_S)
        cell.value  # noqa: B018
        target.value = value
    if (shown := target.value) != value and tx.status is not Status.REJECTED:
        text = f"a transaction has made {operation.target} {value} and is {tx.status.value}, and it is shown as {shown}"
        program.world.violate("INV-9", text, program.spec.name)


def _preempt(program: ProgramWorld, operation: o.Preempt, session: Session) -> None:
    """L2: what two threads have written is shown, without a further write."""
    cell, other = getattr(program.module, operation.cell), getattr(program.module, operation.other)
    settle: Any = session.space.scheduler._settle
    tick = settle._tick

    def preempted(due: bool) -> None:  # noqa: FBT001  # as the scheduler calls it
        if not due:
            machine().sleep(0.0)
        tick(due)

    def write() -> None:
        other.value = operation.value

    settle._tick = preempted
    try:
        with _meanwhile(program, session, write):
            cell.value = operation.value
            machine().sleep(MOMENT_S)
    finally:
        settle._tick = tick
    wanted, until = (operation.value, operation.value), program.world.now + LATE_S
    while (shown := SCREENS.by_space.get(session.runtime, {}).get(operation.sink)) != wanted:
        if program.world.now > until:
            text = f"{operation.sink} shows {shown}, and two threads have written {wanted} {LATE_S:g} s ago"
            program.world.violate("L2", text, program.spec.name)
            return
        machine().sleep(0.05)
