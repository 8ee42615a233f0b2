"""Diagrams of states: transactions, events, runs of workflows. Their arrows are the tables of the product.

Each diagram iterates over a table and looks up where to draw the arrow. A transition that the product has and the
diagram does not know raises KeyError; the test of the stored files finds the opposite case.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

from headwater.cells.transaction_states import TRANSITIONS, Status, TransactionSignal
from headwater.scheduler.events.event import EVENT_TRANSITIONS, EventSignal, EventState
from headwater.workflow.phases import RunPosition, RunStep, apply_step
from headwater.workflow.rows import EffectOutcome, RunPhase, RunStatus
from headwater.workflow.workflow_limits import RECONCILE_TRIES
from tools.docs.diagrams.drawing import Anchor, Drawing, Point, Transition

# Where each arrow runs, its color, its words, and where these are.
Route = tuple[tuple[Point, ...], str, str, Point, Anchor]


def pending() -> Drawing:
    """Two programs and one seat, and the states of a transaction."""
    d = Drawing(
        "Pending, confirmed, rejected",
        "Ann and Bob both book seat 12A. Both see their own write at once as pending. The server accepts Ann's commit. "
        "Bob's commit read an empty seat, so it is rejected: his write is rolled back in the same step in which Ann's "
        "arrives, and his handler runs again and returns False. Below: an open transaction becomes pending, and then "
        "committed or rejected.",
        880,
        590,
    )
    for y, program in ((76, "Ann's program"), (166, "Server"), (256, "Bob's program")):
        d.text((30, y + 5), program, size=13, tone="ink", bold=True, anchor="start")
    d.text((860, 36), "time", anchor="end")
    d.arrow((760, 32), (822, 32))
    d.line((145, 76), (170, 76), tone="line-strong")
    d.line((145, 166), (306, 166), tone="line-strong")
    d.line((434, 166), (456, 166), tone="line-strong")
    d.line((584, 166), (860, 166), tone="line-strong")
    d.line((145, 256), (190, 256), tone="line-strong")
    d.bar((170, 61), 230, "seat = ann, pending", "waiting")
    d.bar((402, 61), 458, "seat = ann, confirmed", "clean")
    d.bar((190, 241), 370, "seat = bob, pending", "waiting")
    d.bar((562, 241), 298, "seat = ann, confirmed", "clean")
    d.arrow((300, 91), (336, 145))
    d.box((306, 148), (128, 36), "accepts Ann's", tone="clean")
    d.arrow((392, 148), (412, 94), tone="clean")
    d.arrow((300, 241), (462, 186))
    d.box((456, 148), (128, 36), "rejects Bob's", tone="failed")
    d.arrow((540, 184), (570, 238), tone="failed")
    d.note((600, 188), "Bob's transaction read an empty seat;", "Ann's commit has changed that value since")
    d.note((520, 292), "one step: the rollback and", "Ann's commit arrive together", anchor="middle")
    d.note((745, 292), "his handler runs again on the", "new data and returns False", anchor="middle")
    d.line((30, 330), (860, 330))
    d.heading((30, 358), "States of a transaction")
    boxes: dict[str, tuple[Point, Point, str]] = {
        "open": ((40, 424), (120, 42), "dormant"),
        "pending": ((330, 424), (120, 42), "waiting"),
        "committed": ((610, 374), (130, 40), "clean"),
        "rejected": ((610, 478), (130, 40), "failed"),
        "aborted": ((40, 538), (120, 36), "dormant"),
    }
    _draw_states(d, boxes, {claim_of(*row): _TRANSACTION_ROUTES[row[:2]] for row in transaction_rows()})
    d.note((752, 390), "hw.status() is", "“confirmed”")
    d.note((752, 494), "rolled back,", "ConflictError")
    return d


_TRANSACTION_ROUTES: Final[dict[tuple[Status, TransactionSignal], Route]] = {
    (Status.OPEN, TransactionSignal.SENT): (((160, 445), (326, 445)), "line-strong", "sent", (243, 438), "middle"),
    (Status.OPEN, TransactionSignal.ACCEPTED): (
        ((100, 424), (100, 386), (606, 386)),
        "clean",
        "accepted: there was nothing to write",
        (330, 379),
        "middle",
    ),
    (Status.OPEN, TransactionSignal.REJECTED): (
        ((120, 466), (120, 506), (606, 506)),
        "failed",
        "rejected: a value that it read had changed before it was sent",
        (350, 500),
        "middle",
    ),
    (Status.OPEN, TransactionSignal.ABORTED): (
        ((80, 466), (80, 534)),
        "line-strong",
        "aborted: an exception, or tx.abort()",
        (92, 528),
        "start",
    ),
    (Status.PENDING, TransactionSignal.ACCEPTED): (
        ((450, 438), (545, 438), (545, 402), (606, 402)),
        "clean",
        "accepted",
        (497, 431),
        "middle",
    ),
    (Status.PENDING, TransactionSignal.REJECTED): (
        ((450, 452), (545, 452), (545, 490), (606, 490)),
        "failed",
        "rejected",
        (497, 466),
        "middle",
    ),
}


def event_way() -> Drawing:
    """The states of an event, from sent to its end."""
    d = Drawing(
        "The states of an event",
        "An event is queued, its handler runs, and its result is pending until the store accepts it: then it is "
        "confirmed. After a conflict, or if a value is not ready, it is queued again. An event that was handled before "
        "is refused and still gives the stored result. hw.Reject in the handler rejects it. An exception fails it, and "
        "the event is kept.",
        880,
        470,
    )
    boxes: dict[str, tuple[Point, Point, str]] = {
        "queued": ((40, 120), (130, 46), "dormant"),
        "running": ((270, 120), (130, 46), "running"),
        "pending": ((500, 120), (130, 46), "waiting"),
        "confirmed": ((715, 120), (130, 46), "clean"),
        "refused": ((650, 234), (110, 36), "dormant"),
        "rejected": ((650, 304), (110, 36), "invalid"),
        "failed": ((650, 374), (110, 36), "failed"),
    }
    _draw_states(d, boxes, {claim_of(*row): _EVENT_ROUTES[row[:2]] for row in event_rows()})
    d.arrow((20, 143), (36, 143))
    d.note((117, 106), "waits for its turn")
    d.note((282, 104), "in one transaction")
    d.note((768, 240), "handled before,", "or its sender", "was rolled back")
    d.note((768, 318), "hw.Reject in", "the handler")
    d.note((768, 382), "an exception;", "kept for", "redelivery")
    for at, tone in (
        ((300, 252), "dormant"),
        ((530, 252), "dormant"),
        ((565, 322), "invalid"),
        ((370, 392), "failed"),
        ((600, 392), "failed"),
    ):
        d.dot(at, tone)
    d.line((30, 428), (850, 428))
    d.text(
        (440, 453),
        "The same event delivered again is refused. Its ticket gives the stored result of the first delivery.",
        size=12,
        tone="ink-2",
    )
    return d


_EVENT_ROUTES: Final[dict[tuple[EventState, EventSignal], Route]] = {
    (EventState.QUEUED, EventSignal.DISPATCHED): (
        ((170, 136), (266, 136)),
        "line-strong",
        "dispatched",
        (218, 129),
        "middle",
    ),
    (EventState.RUNNING, EventSignal.ROLLED_BACK): (
        ((270, 152), (174, 152)),
        "line-strong",
        "not ready",
        (220, 167),
        "middle",
    ),
    (EventState.RUNNING, EventSignal.APPLIED): (
        ((400, 143), (496, 143)),
        "line-strong",
        "handled",
        (447, 136),
        "middle",
    ),
    (EventState.PENDING, EventSignal.ACCEPTED): (((630, 143), (711, 143)), "clean", "accepted", (669, 136), "middle"),
    (EventState.PENDING, EventSignal.ROLLED_BACK): (
        ((565, 120), (565, 62), (105, 62), (105, 116)),
        "line-strong",
        "conflict: rolled back, and handled again before the events behind it",
        (335, 54),
        "middle",
    ),
    (EventState.QUEUED, EventSignal.REFUSED): (((70, 166), (70, 252), (646, 252)), "dormant", "", (0, 0), "start"),
    (EventState.QUEUED, EventSignal.REJECTED): (((105, 166), (105, 322), (646, 322)), "invalid", "", (0, 0), "start"),
    (EventState.QUEUED, EventSignal.FAILED): (((140, 166), (140, 392), (646, 392)), "failed", "", (0, 0), "start"),
    (EventState.RUNNING, EventSignal.REFUSED): (((300, 166), (300, 252), (646, 252)), "dormant", "", (0, 0), "start"),
    (EventState.RUNNING, EventSignal.FAILED): (((370, 166), (370, 392), (646, 392)), "failed", "", (0, 0), "start"),
    (EventState.PENDING, EventSignal.REFUSED): (((530, 166), (530, 252), (646, 252)), "dormant", "", (0, 0), "start"),
    (EventState.PENDING, EventSignal.REJECTED): (((565, 166), (565, 322), (646, 322)), "invalid", "", (0, 0), "start"),
    (EventState.PENDING, EventSignal.FAILED): (((600, 166), (600, 392), (646, 392)), "failed", "", (0, 0), "start"),
}


def run_phases() -> Drawing:
    """The phases of a run of a workflow, what is stored in each, and the unknown outcome."""
    d = Drawing(
        "A workflow run: phases and the unknown outcome",
        "prepare makes a plan, which is stored. Before mutate is called, a record of the call is stored: from here the "
        "outcome is unknown. The result is stored, next runs, and one commit ends the run. After a crash, a timeout or "
        "an exception while the outcome is unknown, reconcile is asked.",
        880,
        470,
    )
    methods = {"preparing": "prepare()", "mutating": "mutate()", "emitting": "next()"}
    tones = {"none": "dormant", "unknown": "invalid", "applied": "clean"}
    d.heading((24, 34), "Your methods, the phases of a run with its outcome, and what is on disk")
    for number, (phase, outcome) in enumerate(phases_of_a_run()):
        x = 24 + number * 141
        d.box((x, 78), (116, 54), phase, outcome, tone=tones[outcome])
        if number:
            d.arrow((x - 25, 105), (x - 4, 105))
        if phase in methods:
            d.text((x + 58, 66), methods[phase], size=13, tone="accent", bold=True, code=True)
    stored = {
        1: ("the plan",),
        2: ("a record of the call,", "before it is made"),
        3: ("the result",),
        5: ("consumed events, state,", "new events: one commit"),
    }
    for number, lines in stored.items():
        d.note((24 + number * 141 + 50, 153), *lines, anchor="middle")
    d.box((126, 222), (140, 54), "approval", "ask=True: a person", tone="waiting")
    d.arrow((205, 164), (200, 218), tone="waiting", both=True)
    d.note((196, 296), "headwater approve,", "headwater reject", anchor="middle")
    d.frame((286, 196), (578, 250), "invalid")
    d.arrow((346, 178), (346, 228), tone="invalid")
    d.text(
        (370, 218),
        "Crash, timeout or exception: there is no new call until the outcome is known.",
        tone="ink-2",
        anchor="start",
    )
    d.box((302, 232), (136, 54), "reconcile()", "asked with run.key", tone="invalid", code=True)
    answers = (
        ("Applied(result)", "clean", ("next() runs with this result,", "as if mutate had returned it")),
        ("NotApplied()", "dormant", ("the events are released; a new", "run prepares, with a new key")),
        ("Unknown()", "failed", (f"asked up to {RECONCILE_TRIES} more times; then", "a person: headwater reconcile")),
    )
    for number, (answer, tone, lines) in enumerate(answers):
        y = 234 + 70 * number
        d.box((484, y), (152, 44), answer, tone=tone, code=True)
        d.note((646, y + 18), *lines, tone="ink-2")
    d.arrow((438, 256), (480, 256), tone="clean")
    d.arrow((438, 266), (466, 266), (466, 326), (480, 326))
    d.arrow((438, 276), (452, 276), (452, 396), (480, 396), tone="failed")
    for row, words in enumerate(
        (
            "Outside the dashed frame every",
            "outcome is known: there was no call,",
            "or its result is stored. A retry is safe.",
        )
    ):
        d.text((24, 392 + 17 * row), words, size=12, tone="ink-2", anchor="start")
    return d


def phases_of_a_run() -> list[tuple[str, str]]:
    """Each phase with the outcome that is known in it, by the steps of a run that succeeds."""
    position = RunPosition(RunPhase.PREPARING, RunStatus.ACTIVE, EffectOutcome.NONE)
    passed = [position]
    for step in (RunStep.PREPARED, RunStep.IN_FLIGHT, RunStep.APPLIED, RunStep.EMITTING, RunStep.COMMITTED):
        position = apply_step(position, step)
        passed.append(position)
    return [(place.phase.value, place.outcome.value) for place in passed]


def transaction_rows() -> list[tuple[Status, TransactionSignal, Status]]:
    """The table of a transaction, row by row."""
    return [(before, signal, after) for (before, signal), after in TRANSITIONS.items()]


def event_rows() -> list[tuple[EventState, EventSignal, EventState]]:
    """The table of an event, row by row."""
    return [(before, signal, after) for (before, signal), after in EVENT_TRANSITIONS.items()]


def claim_of(before: Enum, signal: Enum, after: Enum) -> Transition:
    """What an arrow says about a row of a table."""
    return Transition(str(before.value), signal.name.lower(), str(after.value))


def _draw_states(d: Drawing, boxes: dict[str, tuple[Point, Point, str]], arrows: dict[Transition, Route]) -> None:
    """Draw a box for each state, and an arrow for each transition."""
    for state in dict.fromkeys(name for row in arrows for name in (row.before, row.after)):
        corner, size, tone = boxes[state]
        d.box(corner, size, state, tone=tone)
    for row, (points, tone, words, at, anchor) in arrows.items():
        d.arrow(*points, tone=tone, claims=row)
        if words:
            d.text(at, words, anchor=anchor)
