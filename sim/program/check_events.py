"""What has to hold of events when a program is at rest: receipts, the outbox, what an opening left for the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.apps.module import SCREENS
from sim.faults import Eio, Full
from sim.oracles.moments import Complain
from sim.program.program import ProgramWorld


def check_events(
    program: ProgramWorld, documents: Mapping[str, Any], places: Mapping[str, list[int]], complain: Complain
) -> None:
    """`places`: by tag, its entries in the ledger."""
    told = program.told
    told.check_again()
    for rule, text in told.found:
        complain(rule, text)
    _check_outbox(documents, complain)
    if any(isinstance(fault, Eio) for fault in program.world.plan.faults):
        # It is not known what is on disk.
        return
    parts = program.app.named()
    for event in told.left:
        record = event.ticket._event
        if record.not_stored or f"failed:{record.letters}" in documents:
            # There was no room for it; or process after process ended before its turn.
            continue
        if event.handler in parts and event.tag not in places and not SCREENS.called[event.tag]:
            complain("I11", f"event {event.tag} waited when the space was closed, and was never handled")


def _check_outbox(documents: Mapping[str, Any], complain: Complain) -> None:
    """An event that has a receipt does not wait."""
    outbox = documents.get("events:outbox")
    for letters in sorted(outbox or ()):
        if f"receipt:{letters}" in documents:
            complain("I11", f"event:{letters} was handled, and is still in the outbox")


def check_sent(
    program: ProgramWorld, entries: list[dict[str, Any]], places: Mapping[str, list[int]], complain: Complain
) -> None:
    """I10: an event is handled after the transaction that sent it has committed. I4: in the order of sending."""
    # An event whose handling was rolled back returns to its place before those that still wait: others may be over.
    is_ordered = program.spec.sessions == 1 and not any(
        isinstance(fault, Eio | Full) for fault in program.world.plan.faults
    )
    for index, entry in enumerate(entries):
        last = ""
        for tag in entry["sent"]:
            if tag not in places:
                continue
            if places[tag][0] < index:
                complain("I10", f"event {tag} was handled before {entry['tag']} committed, which sent it")
            if last and is_ordered and places[tag][0] < places[last][0]:
                complain("I4", f"event {tag} was handled before {last}, and sent after it")
            last = tag
