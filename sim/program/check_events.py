"""What has to hold of events when a program is at rest: receipts, the outbox, what an opening left for the next one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sim.apps.module import SCREENS
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
    if program.world.plan.faults:
        # A process that is killed again and again gives its events up.
        return
    parts = program.app.named()
    for event in told.left:
        if event.handler in parts and event.tag not in places and not SCREENS.called[event.tag]:
            complain("I11", f"event {event.tag} waited when the space was closed, and was never handled")


def _check_outbox(documents: Mapping[str, Any], complain: Complain) -> None:
    """An event that has a receipt does not wait."""
    outbox = documents.get("events:outbox")
    for letters in sorted(outbox or ()):
        if f"receipt:{letters}" in documents:
            complain("I11", f"event:{letters} was handled, and is still in the outbox")


def check_sent(entries: list[dict[str, Any]], places: Mapping[str, list[int]], complain: Complain) -> None:
    """I10: an event is handled after the transaction that sent it has committed."""
    for index, entry in enumerate(entries):
        for tag in entry["sent"]:
            if tag in places and places[tag][0] < index:
                complain("I10", f"event {tag} was handled before {entry['tag']} committed, which sent it")
