"""A client that breaks the protocol on purpose: it changes receipts, which say that an event was handled."""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from headwater.errors import HeadwaterError
from headwater.machine import machine
from headwater.store.commit import DeleteDoc, SetDoc
from headwater.store.engine import Engine
from headwater.sync.frames import Transact
from headwater.sync.server_session import RECEIPT
from headwater.values.ids import DocKey, LocalSeq
from sim.oracles.history import History, Mirror
from sim.shared.client import URL
from sim.shared.shared_app import SharedApp

if TYPE_CHECKING:
    from sim.shared.shared_world import SharedWorld

NUMBER: Final = LocalSeq(1_000)
"""Above those of commits that the client makes by itself."""

HEARD_S: Final = 1.0
"""In this time, the server has answered."""


def forge(shared: SharedWorld, name: str) -> None:
    """Open the space in a process of its own, and send commits that the server has to refuse."""
    storage = shared.storage("main")
    if storage is None:
        return
    receipts = shared.at_server(partial(storage.call, _receipts), "receipts")
    done: list[bool] = []
    node = shared.world.node(name)
    node.start("main", lambda: done.append(_send(shared, name, receipts)))
    shared.wait(lambda: bool(done), 60.0)


def _receipts(engine: Engine) -> list[DocKey]:
    mirror = Mirror()
    mirror.look(engine)
    return [doc for doc in mirror.history().docs if doc.startswith(RECEIPT)]


def _send(shared: SharedWorld, name: str, receipts: list[DocKey]) -> bool:
    with suppress(HeadwaterError):
        app = SharedApp()
        with app.app.open(f"{URL}main", token=shared.tokens[name], on_error=lambda _error: None) as space:
            storage: Any = space._opening._lease.storage
            link = storage._link  # no client of ours does this
            forged = DocKey(f"{RECEIPT}forged")
            operations: list[SetDoc | DeleteDoc] = [SetDoc(forged, 1)]
            for doc in receipts[:1]:
                operations += [DeleteDoc(doc), SetDoc(doc, 1)]
            for index, operation in enumerate(operations):
                link.soon(partial(link.send, Transact(LocalSeq(NUMBER + index), (operation,))))
            machine().sleep(HEARD_S)
            shared.world.say(name, f"sent {len(operations)} forged commits")
    return True


def wrong_receipts(history: History) -> list[str]:
    """Receipts that were changed, or made without the condition that there was none (I11)."""
    return [
        f"commit {seq} writes {operation.doc}, which says that an event was handled"
        for seq, entry in history.entries.items()
        for operation in entry.operations
        if operation.doc.startswith(RECEIPT)
        and (not isinstance(operation, SetDoc) or "forged" in operation.doc or history.has(operation.doc, before=seq))
    ]
