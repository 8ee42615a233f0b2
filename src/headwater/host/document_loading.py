"""`space.load`: fetches documents before they are read, in plain code and in an event loop."""

from __future__ import annotations

from typing import Any, TypeAlias

from headwater.cells.address_lookup import resolve_address
from headwater.cells.cell import Cell
from headwater.cells.display import shorten
from headwater.cells.document_class import Doc
from headwater.cells.document_operations import address_in
from headwater.cells.linked_documents import linked
from headwater.cells.list_and_map import List, Map
from headwater.cells.reading import Readable
from headwater.errors import HeadwaterError, OfflineError, UsageError
from headwater.machine import Future, machine
from headwater.runtime.lease import Lease
from headwater.runtime.space_runtime import SpaceRuntime
from headwater.values.author_text import safe_repr
from headwater.values.ids import DocKey

Loadable: TypeAlias = Doc | Cell[Any] | List[Any] | Map[Any, Any] | str
"""A document, a cell, a list, a map, or the address of one; a document's id is its address."""


class PlainLoading(SpaceRuntime):
    """A space for plain code, which waits."""

    def load(self, *things: Loadable) -> None:
        """Have documents here, with what their links lead to: cells, documents, lists, or addresses.

        At a server they come in one answer, and reading them waits for nothing then. Elsewhere everything is here.
        Raises OfflineError if the server does not answer.
        """
        self.check_open()
        asking = _Asking(self, self._lease, [_doc_of(self, thing) for thing in things])
        while asking.docs:
            asking.wait()
            self._attached.refresh()
            self.catch_up()
            asking.document()


class AsyncLoading(SpaceRuntime):
    """A space for code in an event loop, which is not held up."""

    async def load(self, *things: Loadable) -> None:
        """Have documents here, with what their links lead to: cells, documents, lists, or addresses.

        At a server they come in one answer; the loop goes on meanwhile. Elsewhere everything is here. Raises
        OfflineError if the server does not answer.
        """
        self.check_open()
        await self._have_here(_Asking(self, self._lease, [_doc_of(self, thing) for thing in things]))

    async def _have_here(self, asking: _Asking) -> None:
        from asyncio import sleep, timeout, wrap_future  # noqa: PLC0415  # plain programs need not load it

        # Also if everything is here by now: a loop of calls lets other tasks run.
        await sleep(0)
        while asking.docs:
            answer, patience_s = asking.ask()
            try:
                async with timeout(patience_s):
                    error = await wrap_future(answer)
            except TimeoutError:
                raise asking.late(patience_s) from None
            if error is not None:
                raise error
            self.check_open()
            self._attached.refresh()
            self.catch_up()
            asking.document()

    async def _until_come(self) -> bool:
        """Wait for documents that runs here wait for. Returns whether any has arrived."""
        docs = self.scheduler.arrivals.docs
        if not docs or self.connection.state != "live":
            return False
        try:
            await self._have_here(_Asking(self, self._lease, docs))
        except OfflineError:
            return False
        return True


class _Asking:
    """What is asked for, until it is here: documents, and then what their links lead to and did not come along."""

    def __init__(self, space: SpaceRuntime, lease: Lease, docs: list[DocKey]) -> None:
        self._space = space
        self._lease = lease
        self._roots = docs
        self._asked: set[DocKey] = set()
        self.docs: tuple[DocKey, ...] = ()
        if space.replica.is_partial:
            self.document()

    def document(self) -> None:
        """What is not here, and was not asked for yet."""
        replica = self._space.replica
        wanted = dict.fromkeys(doc for doc in self._roots if not replica.is_loaded(doc))
        if not wanted:
            found = (other for doc in self._roots for other in linked(replica.read(doc)))
            wanted = dict.fromkeys(other for other in found if not replica.is_loaded(other))
        self.docs = tuple(doc for doc in wanted if doc not in self._asked)
        self._asked.update(self.docs)

    def ask(self) -> tuple[Future[HeadwaterError | None], float]:
        """Ask; the answer, and how long to be patient."""
        answer: Future[HeadwaterError | None] = machine().future()
        # Who waits no longer has cancelled it.
        tell = answer.set_result
        patience_s = self._lease.storage.bring(
            self.docs, lambda error: tell(error) if answer.set_running_or_notify_cancel() else None
        )
        return answer, patience_s

    def wait(self) -> None:
        """Ask, and wait."""
        answer, patience_s = self.ask()
        try:
            error = answer.result(patience_s)
        except TimeoutError:
            answer.cancel()
            raise self.late(patience_s) from None
        if error is not None:
            raise error

    def late(self, patience_s: float) -> OfflineError:
        """The server did not answer."""
        url = self._space.connection.url
        message = f"{url} was asked for {len(self.docs):,} documents and has not answered for {patience_s:g} s"
        return OfflineError(f"{message}; they are read when it is back", url=url)


def _doc_of(space: SpaceRuntime, thing: object) -> DocKey:
    if isinstance(thing, str):
        return resolve_address(thing, space)[0]
    if isinstance(thing, Doc | Readable):
        return address_in(thing, space)[0]
    message = f"space.load takes cells, documents, lists and addresses, not {shorten(safe_repr(thing))}"
    raise UsageError(message)
