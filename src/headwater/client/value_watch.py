"""The values at an address of a server's space, as they change."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from headwater.cells.pending_commit import Pulled
from headwater.client.server_link import ServerLink
from headwater.client.server_url import ServerUrl
from headwater.client.space_link import linked
from headwater.errors import HeadwaterError
from headwater.machine import Empty, ThreadQueue, machine
from headwater.store.applying import apply_operation
from headwater.store.commit import CommitOutcome, Committed
from headwater.sync.client_session import ClientPhase, Item
from headwater.sync.frames import Docs, Watch
from headwater.values.address import parse_address, settle_path, split_key
from headwater.values.ids import DocKey
from headwater.values.tree import ABSENT, Maybe, get, same

_POLL_S: Final = 0.5
"""Seconds between two checks whether the connection has ended."""

_NO_SEQ: Final = 2**62
"""Not the number of a commit: the server sends the document in any case."""


def values_of(url: ServerUrl, token: str | None, text: str, branch: str) -> Iterator[tuple[int, Maybe]]:
    """The current value at an address, then each new value."""
    doc, steps = parse_address(text)
    received: ThreadQueue[Item] = machine().queue()

    def deliver(items: list[Item]) -> None:
        for item in items:
            received.put(item)

    with linked(url, token, branch, split_key(doc)[0].user, deliver=deliver) as link:
        answer = link.ask(Watch(0, ((doc, _NO_SEQ),)))
        assert isinstance(answer, Docs)
        root: Maybe = ABSENT
        seq = 0
        for found in answer.docs:
            root, seq = found.content, found.seq
        last = get(root, settle_path(root, steps))
        yield seq, last
        for at, then in _roots(link, received, doc, root, seq):
            value = get(then, settle_path(then, steps))
            if not same(value, last):
                last = value
                yield at, value


def _roots(
    link: ServerLink, received: ThreadQueue[Item], doc: DocKey, root: Maybe, seq: int
) -> Iterator[tuple[int, Maybe]]:
    """The document after each commit that changes it."""
    while True:
        try:
            item = received.get(timeout=_POLL_S)
        except Empty:
            if link.phase is ClientPhase.OVER:
                error = link.session.error
                raise error if error is not None else HeadwaterError("the connection has ended") from None
            continue
        if isinstance(item, Pulled) and item.doc == doc and item.found.seq > seq:
            root, seq = item.found.value, item.found.seq
            yield seq, root
        elif isinstance(item, CommitOutcome) and isinstance(item.verdict, Committed) and item.verdict.seq > seq:
            mine = [each for each in item.commit.operations if each.doc == doc]
            for operation in mine:
                root, _ = apply_operation(root, operation)
            if mine:
                seq = item.verdict.seq
                yield seq, root
