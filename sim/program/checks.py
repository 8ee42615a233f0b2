"""What has to hold when a program is at rest, and after it was opened again."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import partial
from typing import Any

from headwater.errors import ClosedError, InvariantError, PoisonedError
from headwater.machine import machine
from headwater.testing.invariants.event_invariants import i11_log
from headwater.testing.invariants.restore_invariants import i7_restart_equivalence
from headwater.testing.invariants.scheduler_invariants import check as check_invariants
from headwater.values.ids import DocKey
from headwater.values.tree import ABSENT, same
from sim.apps import parts as p
from sim.apps.module import SCREENS
from sim.apps.naive import Model, ModelError
from sim.faults import Eio, Full
from sim.oracles import values
from sim.oracles.moments import SCOPE, Complain, Moment, moments, whole_log
from sim.program.check_events import check_events, check_sent
from sim.program.check_pieces import check_pieces
from sim.program.check_resources import check_asked, check_resources, has_ageing, is_asking
from sim.program.operations import Gate, OtherCode
from sim.program.program import ProgramWorld, Session

ROUNDS_MAX = 60
"""Rounds in which sessions exchange what they have, and delays pass."""

STEP_S = 9.0
"""Longer than any delay of a generated function, and than the longest rest of one that does not settle."""


LOOP_STEP_S = 0.2
"""In which a space in a loop does what it has been woken for."""


def check(program: ProgramWorld) -> None:
    """All rules at rest; then the program is closed, opened again, looked at again, and closed."""
    try:
        _check(program)
    except (PoisonedError, ClosedError) as error:
        # The disk had failed, and nothing was written since.
        program.met(error, "rest")
        program.leave()
        program.open()
        _check(program)


def _check(program: ProgramWorld) -> None:
    program.is_stopping = False
    if not _come_to_rest(program):
        return
    if program.is_stopping:
        # The disk had failed: a new opening goes on.
        program.leave()
        program.open()
        program.is_stopping = False
        if not _come_to_rest(program):
            return
    before = len(program.world.violations)
    documents = program.documents = _look(program)
    _check_ledger(program, documents)
    stopped = frozenset(name for session in program.sessions for name in session.stopped)
    program.leave()
    if len(program.world.violations) == before and not program.is_stopping:
        _check_restart(program, stopped)


def _complain(program: ProgramWorld, rule: str, text: str) -> None:
    program.world.violate(rule, text, program.spec.name)


def _come_to_rest(program: ProgramWorld) -> bool:
    """L1: everything ends within the time. Delays pass, and sessions hear of each other."""
    started = program.world.now
    last: object = None
    for _ in range(ROUNDS_MAX):
        for session in program.sessions:
            _let_run(program, session)
        program.told.look()
        if program.is_stopping:
            # The disk had failed: nothing comes to its end in this opening.
            return True
        waits = [each for each in map(partial(_wake_in, program), program.sessions) if each is not None]
        state = [(each.space.stats.seq, each.space.stats.commits) for each in program.sessions]
        # An async function awaits something for longer than a step; a disk that was slow is still writing.
        waits += [LOOP_STEP_S for each in program.sessions if each.space.scheduler.outstanding().in_flight]
        waits += [LOOP_STEP_S for each in program.sessions if is_asking(each)]
        waits += [STEP_S for each in program.sessions if each.loop is not None and each.space.stats.pending]
        if not waits and state == last:
            break
        last = state
        machine().sleep(min(max(waits, default=0.0) + 0.001, STEP_S))
    else:
        held = [each.space.scheduler.outstanding() for each in program.sessions]
        _complain(program, "L1", f"not at rest after {program.world.now - started:.0f} s: {held}")
        return False
    if pending := program.told.pending:
        _complain(program, "L1", f"without an outcome at rest: {pending}")
    for session in program.sessions:
        outstanding = session.space.scheduler.outstanding()
        if not outstanding.is_idle or session.space.stats.pending:
            _complain(program, "L1", f"at rest, and {outstanding}, {session.space.stats.pending} pending")
    return True


def _wake_in(program: ProgramWorld, session: Session) -> float | None:
    """Seconds until something is due, besides what is asked for again and again."""
    if not has_ageing(program):
        return session.runtime.wake_in()
    with session.runtime.lock:
        wake_at = session.space.scheduler.outstanding().wake_at
    return None if wake_at is None else max(wake_at - session.runtime.now(), 0.0) / 1000


def _let_run(program: ProgramWorld, session: Session) -> None:
    with session.entered():
        try:
            if session.loop is not None:
                # Nothing is asked for: what is to happen happens by itself.
                machine().sleep(LOOP_STEP_S)
            else:
                session.space.settle()
                session.space.sync()
            if session.storage.call(lambda engine: getattr(engine.backend, "_poison", None)) is not None:
                # The disk has failed, and nothing was written since: some requests are tried again for ever.
                program.is_stopping = True
        except Exception as error:  # noqa: BLE001  # sorted there
            program.met(error, "rest")


def _look(program: ProgramWorld) -> Mapping[str, Any]:
    """All rules at rest. Returns the documents."""

    def complain(rule: str, text: str) -> None:
        _complain(program, rule, text)

    log: list[Moment] = []
    storage = program.sessions[0].storage
    storage.call(lambda engine: log.extend(moments(engine)))
    is_whole = storage.call(whole_log)
    documents: Mapping[str, Any] = log[-1].after if log else {}
    stopped = frozenset(name for session in program.sessions for name in session.stopped)
    for session in program.sessions:
        with session.entered():
            _check_replica(session, documents, complain)
            _check_scheduler(session, complain)
            for rule, text in session.spy.found:
                complain(rule, text)
            _check_forced_pass(program, session, complain)
            _check_restored(program, session, complain)
            model = Model(program.app, documents, at_rest=True)
            screen = SCREENS.by_space.get(session.runtime, {})
            values.check_screens(model, screen, complain, without=frozenset(session.stopped), stopped=stopped)
            check_pieces(program, session, documents, complain)
            check_resources(program, session, model, complain)
    # A delayed function that is not observed waits for its time at a call: it answers with its last value until then.
    machine().sleep(STEP_S)
    for session in program.sessions:
        if session is not program.sessions[0] and _has_delays(program):
            # The calls in the session before have changed results that it reads here.
            machine().sleep(STEP_S)
        with session.entered():
            model = Model(program.app, documents, at_rest=True)
            values.check_calls(program.app, program.module, model, complain, ask=session.ask)
    if is_whole and program.version == 0 and len(program.sessions) == 1:
        gated = {each.fn for each in program.world.plan.operations if isinstance(each, Gate)}
        values.check_history(program.app, log, program.told.blocks, complain, gated=gated)
    if is_whole:
        check_asked(program, log, complain)
    program.world.counts["commits"] += len(log)
    _check_log(log, complain)
    return documents


def _check_log(log: list[Moment], complain: Complain) -> None:
    """S1, INV-11: no commit of a session twice; no receipt twice."""
    seen: set[tuple[str, int]] = set()
    for moment in log:
        key = (str(moment.entry.session), int(moment.entry.local_seq))
        if key in seen:
            complain("INV-11", f"commit {key} is in the log twice")
        seen.add(key)
    try:
        i11_log(moment.entry for moment in log)
    except InvariantError as error:
        complain("I11", str(error))


def _check_replica(session: Session, documents: Mapping[str, Any], complain: Complain) -> None:
    """INV-9: what a session sees is the fold of the log."""
    replica = session.runtime.replica
    for name in sorted(documents):
        if "!" in name:
            continue
        found = replica.read(DocKey(SCOPE + name))
        if found is ABSENT or not same(found, documents[name]):
            complain("INV-9", f"{name} is {found!r} in the session, and {documents[name]!r} in the log")


def _check_scheduler(session: Session, complain: Complain) -> None:
    try:
        with session.runtime.lock:
            check_invariants(session.space.scheduler)
        if session.watch is not None:
            session.watch.check()
    except InvariantError as error:
        complain(str(error.facts.get("invariant", "INV")), str(error))


def _check_restored(program: ProgramWorld, session: Session, complain: Complain) -> None:
    """I7: what was restored is as it is kept. Observations of runs that wrote nothing are stored by `sync()`."""
    if program.spec.sessions > 1:
        # Another session may have forgotten what this one has restored.
        return
    try:
        session.space.sync()
    except Exception as error:  # noqa: BLE001  # what was lost before is reported by the first sync
        program.met(error, "sync at rest")
    try:
        session.storage.call(lambda engine: i7_restart_equivalence(session.space.scheduler, engine))
    except InvariantError as error:
        complain("I7", str(error))


def _check_forced_pass(program: ProgramWorld, session: Session, complain: Complain) -> None:
    """L2: what a forced pass finds was a lost wake-up."""
    if has_ageing(program):
        # Time passes in a pass that waits for requests: others get old.
        return
    before = session.space.stats
    if session.loop is not None and session.runtime.pieces._due:
        complain("L2", "a thread has left work on pieces to the next pass, and there is none")
    session.storage.nudge()
    if session.loop is not None:
        session.loop.force()
    session.space.settle()
    after = session.space.stats
    if (before.runs, before.commits, before.seq) != (after.runs, after.commits, after.seq):
        ran = {name: count for name, count in after.runs.items() if count != before.runs.get(name)}
        complain("L2", f"a forced pass ran {ran}, commits {before.commits} -> {after.commits}")
    if program.spec.sessions == 1 and session.runtime.wake_in() is not None:
        complain("M", f"a timer is left: {session.runtime.wake_in()} s")


def _check_ledger(program: ProgramWorld, documents: Mapping[str, Any]) -> None:  # noqa: C901, PLR0912  # claim by claim
    """S1, I10, I11: what was acknowledged happened once, what was rolled back did not."""
    told = program.told
    # After a disk failed, an opening is over: what it did not confirm may be on disk or not.
    is_sure = not any(isinstance(fault, Eio) for fault in program.world.plan.faults)

    def complain(rule: str, text: str) -> None:
        _complain(program, rule, text)

    entries = values.ledger(documents)
    places: dict[str, list[int]] = {}
    for index, entry in enumerate(entries):
        places.setdefault(entry["tag"], []).append(index)
    own = {tag: where for tag, where in places.items() if not _is_of_sink(tag)}
    for tag, where in own.items():
        if len(where) > 1:
            complain("I11", f"{tag} is in the ledger {len(where)} times")
    for tag in sorted(told.committed):
        if tag not in own:
            complain("S1", f"block {tag} was committed, and is not in the ledger")
    for tag in sorted((told.rejected if is_sure else set()) | told.rolled_back):
        if tag in own:
            complain("INV-7", f"block {tag} was rolled back, and is in the ledger")
    for event in told.events.values():
        is_there = event.tag in own
        if event.state == "confirmed" and not is_there:
            complain("S1", f"event {event.tag} was confirmed, and is not in the ledger")
        if event.state in ("failed", "rejected") and is_there and is_sure and not event.once:
            complain("I11", f"event {event.tag} is {event.state}, and is in the ledger")
    # Of a handler that this version of the app does not have, events are kept.
    plan = program.world.plan
    marks = {each.mark: each.handler for each in p.followed((plan.operations, program.first_app.parts))}
    left = _set_aside(documents)
    for entry in entries:
        for tag in entry["sent"]:
            is_declared = marks.get(tag.rpartition(".")[2]) in (None, *program.app.named())
            if tag not in own and not SCREENS.called[tag] and is_declared and tag not in left:
                complain("I10", f"event {tag}, sent by {entry['tag']}, was never handled")
    sent = {tag for entry in entries for tag in entry["sent"]}
    for tag in own:
        if "." in tag and tag not in sent:
            complain("I10", f"event {tag} was handled, and its origin is not in the ledger")
    check_sent(program, entries, own, complain)
    check_events(program, documents, own, complain)
    _check_order(program, own, complain)


def _set_aside(documents: Mapping[str, Any]) -> set[str]:
    """Events that are kept as failed without a call, because processes ended while they were to be handled."""
    failed = [each for name, each in documents.items() if name.startswith("failed:")]
    return {each["payload"]["tag"] for each in failed if "processes ended while it was" in each["reason"]}


def _is_of_sink(tag: str) -> bool:
    return tag.partition(".")[0].startswith("s")


def _check_order(program: ProgramWorld, places: Mapping[str, list[int]], complain: Complain) -> None:
    """I4: events of one thread in one opening are handled in the order in which they were sent.

    The next event does not wait for the verdict: one that met a conflict returns before those that still wait, and
    commits after those that were handled meanwhile.
    """
    last: dict[tuple[int, int], tuple[int, str]] = {}
    for event in sorted(program.told.events.values(), key=lambda each: each.order):
        if event.once or event.thread < 0 or event.state != "confirmed" or event.tag not in places:
            continue
        if event.ticket._event.rejected_at is not None:
            # Its handling was rolled back: it has returned to its place before those that still waited.
            continue
        key = (event.thread, event.opening)
        place = places[event.tag][0]
        if key in last and last[key][0] > place:
            complain("I4", f"event {event.tag} was handled before {last[key][1]}, and sent after it")
        if event.ticket._event.rejected_at is None:
            last[key] = (place, event.tag)


def _check_restart(program: ProgramWorld, stopped: Collection[str]) -> None:
    """I7: opened again with the same code, only sinks run, and what failed."""
    program.open()
    if len(program.sessions) != program.spec.sessions:
        return

    def complain(rule: str, text: str) -> None:
        _complain(program, rule, text)

    if not _come_to_rest(program):
        return
    log: list[Moment] = []
    program.sessions[0].storage.call(lambda engine: log.extend(moments(engine)))
    documents: Mapping[str, Any] = log[-1].after if log else {}
    model = Model(program.app, documents, at_rest=True)
    for session in program.sessions:
        with session.entered():
            _check_runs(program, session, model, stopped, complain)
            values.check_screens(model, SCREENS.by_space.get(session.runtime, {}), complain, without=frozenset())
    for session in program.sessions:
        if _has_delays(program):
            # As at rest: sinks, which run at an opening, may have changed what a delayed function reads.
            machine().sleep(STEP_S)
        with session.entered():
            values.check_calls(program.app, program.module, model, complain, ask=session.ask)
            _check_runs(program, session, model, stopped, complain)
    program.leave()


def _has_delays(program: ProgramWorld) -> bool:
    is_delayed = any(getattr(part, "debounce", 0) or getattr(part, "throttle", 0) for part in program.app.parts)
    return is_delayed or any(isinstance(each, Gate) for each in program.world.plan.operations)


def _check_runs(
    program: ProgramWorld, session: Session, model: Model, stopped: Collection[str], complain: Complain
) -> None:
    if program.spec.sessions > 1 or any(isinstance(fault, Eio | Full) for fault in program.world.plan.faults):
        # What another session wrote, or could not be stored, is no proof: then a function runs.
        return
    runs = session.space.stats.runs
    parts = program.app.named()
    written = _written_at_start(program.app, stopped)
    # The digest of a run names an observation that the other program has replaced: it is not kept, as documented.
    replaced = {each.fn for each in program.world.plan.operations if isinstance(each, OtherCode)}
    for part in program.app.parts:
        reached = values.reached(program.app, [part])
        if part.name in {*stopped, *replaced} or any(isinstance(parts[name], p.Derived) for name in reached):
            # What only the run of a list can make again is not kept.
            continue
        if not written.isdisjoint(reached):
            continue
        match part:
            case p.Computed(takes="", target="") | p.Choice() | p.Materializer() | p.Listing():
                if runs.get(part.name, 0) and not _fails(model, part):
                    why = session.space.explain_resume()
                    complain("I7", f"{part.name} ran {runs[part.name]} times after a clean restart: {why}")
            case p.Sink(quiet=True):
                if runs.get(part.name, 0) and not _fails_sink(model, part):
                    why = session.space.explain_resume()
                    complain("I7", f"quiet sink {part.name} ran {runs[part.name]} times after a clean restart: {why}")


def _written_at_start(app: p.App, stopped: Collection[str]) -> set[str]:
    """The cells that a stopped sink may change: an opening starts it again, as `sink.stop()` is documented."""
    parts, written = app.named(), set[str]()
    while True:
        before = len(written)
        for part in app.parts:
            if part.name not in stopped and written.isdisjoint(values.reached(app, [part])):
                continue
            if isinstance(part, p.Computed | p.Sink | p.Materializer) and part.target:
                written.add(part.target)
            if isinstance(part, p.Sink) and isinstance(handler := parts.get(part.sends), p.Handler):
                written.update(step.cell for step in handler.steps if isinstance(step, p.Put))
        if len(written) == before:
            return written


def _fails(model: Model, part: p.Part) -> bool:
    if isinstance(part, p.Materializer):
        return False
    return isinstance(values.expected(model, part.name), str)


def _fails_sink(model: Model, part: p.Sink) -> bool:
    try:
        for each in part.shows:
            model.eval(each, None)
    except ModelError:
        return True
    return False
