"""How the threads of a plain program perform the operations of a plan."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from msgspec.structs import replace

from headwater.cells.transaction import Transaction
from headwater.errors import NotFoundError
from headwater.machine import machine
from sim.apps import parts as p
from sim.apps.module import add, beside
from sim.apps.resources import OUTSIDE
from sim.apps.source import block, source
from sim.program import final_scene_steps
from sim.program import operations as o
from sim.program.program import URL, ProgramWorld, Session
from sim.program.told import SentEvent


def perform(program: ProgramWorld, operation: o.Operation, session: Session, thread: int) -> None:  # noqa: C901, PLR0912, PLR0915  # all kinds
    """Perform one operation. Raises what the product raises."""
    space, module = session.space, program.module
    names = program.app.named()
    match operation:
        case o.Write(step=step):
            if _fits(step, names):
                function = add(module, block(program.app, "write", (step,), logged=False), "write")
                function(None, "write", 0)
        case o.Block():
            if all(_fits(step, names) for step in (*operation.steps, *operation.inner, *operation.beside)):
                _block(program, operation, session)
        case o.Send(handler=handler) if handler in names:
            _send(program, operation, session, thread)
        case o.SendTwice(handler=handler) if handler in names:
            _send_twice(program, operation, handler, thread)
        case o.Call(fn=fn, argument=argument) if fn in names:
            function = getattr(module, fn)
            function() if argument is None else function(argument)
        case o.Settle():
            space.settle()
        case o.Sync():
            space.sync()
            program.told.look()
        case o.Pass(seconds=seconds):
            space.wait(f"{int(seconds * 1000)}ms")
        case o.StopSink(sink=sink) if sink in names:
            getattr(module, sink).stop()
            session.stopped.add(sink)
        case o.Piece(pattern=pattern) if pattern in names:
            _piece(program, operation, session, thread)
        case o.Resume(pattern=pattern, cell=cell) if pattern in names and cell in names:
            _resume(program, operation, session)
        case o.ChangeOutside(resource=resource, fails=fails):
            OUTSIDE.epochs[resource] += not fails
            OUTSIDE.failing[resource] = fails
        case o.OtherCode(fn=fn, cell=cell) if fn in names and cell in names:
            _run_other_code(program, fn, cell)
        case o.Redeliver():
            _redeliver(program, session, thread)
        case o.Reopen():
            program.reopening = operation
            program.is_stopping = True
        case o.Care(how=how):
            _care(program, session, how)
        case o.Overtake() | o.Undercut() | o.Interrupt() | o.Preempt():
            final_scene_steps.perform(program, operation, session)
        case o.Gate(fn=fn) if fn in names:
            node = session.space.nodes.get(getattr(module, fn))
            session.spy.loosened(fn)
            if node is not None:
                _gate(session, node, operation)


def _fits(node: p.Node, names: dict[str, p.Part]) -> bool:
    """Whether the version of the app has what the step needs."""
    return all(name in names for name in p.names_in(node))


def _block(program: ProgramWorld, operation: o.Block, session: Session) -> None:
    text = block(program.app, "body", operation.steps, logged=True)
    body = add(program.module, text, "body")
    program.told.versions[operation.tag] = program.version
    with suppress(_RollBack), session.space.transaction() as tx:
        assert isinstance(tx, Transaction)
        program.told.began(operation.tag, operation.steps, tx)
        if operation.inner:
            _inner(program, operation, session)
        if operation.pause:
            looks = tuple(p.Look(step.value) for step in operation.steps if isinstance(step, p.Put | p.Follow | p.Look))
            add(program.module, block(program.app, "look", looks, logged=False), "look")(tx, "", operation.n)
            machine().sleep(operation.pause)
        body(tx, operation.tag, operation.n)
        if operation.beside:
            final_scene_steps.beside(program, session, operation.beside)
        if operation.hold:
            machine().sleep(operation.hold)
        if operation.gives_up:
            raise _RollBack


def _inner(program: ProgramWorld, operation: o.Block, session: Session) -> None:
    inner = add(program.module, block(program.app, "inner", operation.inner, logged=False), "inner")
    with suppress(_RollBack), session.space.transaction() as tx:
        inner(tx, operation.tag, operation.n)
        raise _RollBack


class _RollBack(Exception):  # noqa: N818  # the end of a block
    """A block is rolled back; the one around a nested one is not."""


def _send(program: ProgramWorld, operation: o.Send, session: Session, thread: int) -> None:
    handler = getattr(program.module, operation.handler)
    sender = handler.once(operation.once, by="world") if operation.once else handler
    tag = operation.once or operation.tag
    if operation.once:
        program.told.asked_again(tag, session.runtime)
    ticket = sender.send(operation.n, tag)
    program.order += 1
    program.told.sent(
        SentEvent(
            tag,
            thread,
            program.opening,
            program.order,
            operation.once,
            ticket,
            handler=operation.handler,
            space=session.runtime,
        )
    )
    if operation.wait:
        ticket.result(timeout=f"{int(o.RESULT_S)}s")


def _send_twice(program: ProgramWorld, operation: o.SendTwice, handler: str, thread: int) -> None:
    sender = getattr(program.module, handler).once(operation.once, by="world")
    for session in program.sessions:
        with session.entered():
            program.told.asked_again(operation.once, session.runtime)
            ticket = sender.send(operation.n, operation.once)
            program.order += 1
            program.told.sent(
                SentEvent(
                    operation.once,
                    thread,
                    program.opening,
                    program.order,
                    operation.once,
                    ticket,
                    handler=handler,
                    space=session.runtime,
                )
            )


def _redeliver(program: ProgramWorld, session: Session, thread: int) -> None:
    space = session.space
    for event in sorted(program.told.events.values(), key=lambda each: each.order):
        is_own = event.thread >= 0 and program.spec.threads[event.thread] == program.spec.threads[thread]
        if event.state == "failed" and is_own and event.opening == program.opening:
            try:
                space.scheduler.redeliver(event.ticket.id)
            except NotFoundError:
                # Another thread or session is just storing a failed event: the record of this one is written after its
                # ticket says "failed", and again if that commit was overtaken. Then it is there. Unless there was no
                # room for it, which was reported.
                space.sync()
                if event.ticket._event.not_stored:
                    continue
                space.scheduler.redeliver(event.ticket.id)
            event.state = "redelivered"
    space.settle()


def _piece(program: ProgramWorld, operation: o.Piece, session: Session, thread: int) -> None:
    pattern = getattr(program.module, operation.pattern)
    piece = session.space.start(pattern, operation.key, key=operation.key, given=operation.given)
    if operation.how == "stop":
        piece.stop()
    elif operation.how == "tick":
        ticket = piece.outputs["tick"].send(operation.given, operation.tag)
        program.order += 1
        program.told.sent(SentEvent(operation.tag, -1 - thread, program.opening, program.order, "", ticket))


def _resume(program: ProgramWorld, operation: o.Resume, session: Session) -> None:
    pattern, key = getattr(program.module, operation.pattern), operation.key
    session.space.start(pattern, key, key=key, given=operation.given).stop()
    session.space.sync()
    getattr(program.module, operation.cell).value = operation.value
    session.space.start(pattern, key, key=key, given=operation.given)


def _run_other_code(program: ProgramWorld, fn: str, cell: str) -> None:
    names = program.app.named()
    part = names[fn]
    assert isinstance(part, p.Computed)
    other = replace(part, body=p.Binary("+", part.body, p.Const(100)))
    with beside(source(p.App(parts=(names[cell], other)))) as module, module.app.open(URL, on_error="log") as space:
        getattr(module, cell).increment(1)
        space.sync()


def _care(program: ProgramWorld, session: Session, how: str) -> None:
    storage = session.storage
    if how == "fold":
        storage.call(lambda engine: engine.fold())
    elif how == "verify":
        from headwater.store.verification import verify  # noqa: PLC0415  # rarely

        report = storage.call(verify)
        if not report.ok:
            program.world.violate("INV-9", f"verify: {report}", program.spec.name)
    elif how == "fork":
        program.order += 1
        storage.fork(f"b{program.order}")


def _gate(session: Session, node: Any, operation: o.Gate) -> None:  # a node
    scheduler = session.space.scheduler
    with session.runtime.lock:
        if operation.debounce:
            scheduler.set_debounce(node, float(operation.debounce))
        elif operation.throttle:
            scheduler.set_throttle(node, float(operation.throttle))
        else:
            scheduler.clear_debounce(node)
            scheduler.clear_throttle(node)
