"""`space.load`: which documents are fetched before they are read, in several questions."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice
from typing import Any, Final, Self, TypeAlias, cast

from headwater.cells.address_lookup import resolve_address
from headwater.cells.cell import Cell
from headwater.cells.display import shorten
from headwater.cells.document_class import Doc
from headwater.cells.document_operations import address_in
from headwater.cells.linked_documents import linked
from headwater.cells.list_and_map import List, Map
from headwater.cells.query import Query
from headwater.cells.reading import Readable
from headwater.cells.replica import Replica
from headwater.cells.space_port import SpacePort
from headwater.cells.span_records import is_span_mark
from headwater.errors import HeadwaterError, NotReadyError, OfflineError, UsageError
from headwater.machine import Future, machine
from headwater.runtime.storage_port import StoragePort
from headwater.sync.frame_limits import PREFETCH_MAX
from headwater.values.author_text import safe_repr
from headwater.values.ids import DocKey

Loadable: TypeAlias = Doc | Cell[Any] | List[Any] | Map[Any, Any] | Query[Any] | str
"""A document, a cell, a list, a map, or the address of one, which for a document is its id; or a query."""


LINKED_MAX: Final = PREFETCH_MAX
"""Documents that a load fetches because links lead to them: no more than the server sends with one question. A program
loads the elements of a longer list in parts."""

LINKED_FIRST: Final = 64
"""The same, for documents that runs wait for. What a run reads next it requests itself, more with each attempt."""


class DocumentLoad:
    """The documents that are asked for: first those named, then those that their links lead to."""

    def __init__(
        self, replica: Replica, storage: StoragePort, docs: Iterable[DocKey], linked_max: int | None = None
    ) -> None:
        self._replica = replica
        self._storage = storage
        self._roots = tuple(docs)
        # Queries, whose documents are fetched slice by slice.
        self._queries: tuple[Query[Any], ...] = ()
        self._linked_max = LINKED_MAX if linked_max is None else linked_max
        self._asked: set[DocKey] = set()
        self.docs: tuple[DocKey, ...] = ()
        """To be asked for now; empty at the end."""
        if self._replica.is_partial:
            self.advance()

    @classmethod
    def of(cls, space: SpacePort, storage: StoragePort, things: Iterable[object]) -> Self:
        """A load of cells, documents, lists, maps or addresses. Raises UsageError for anything else."""
        given = list(things)
        load = cls(space.replica, storage, [_doc_of(space, thing) for thing in given if not isinstance(thing, Query)])
        load._queries = tuple([thing for thing in given if isinstance(thing, Query)])
        load._look_at_queries()
        return load

    def _look_at_queries(self) -> None:
        """Collect what queries have to wait for. Where code waits, they are read here."""
        if not self._replica.is_partial:
            return
        missing: list[DocKey] = []
        for query in self._queries:
            try:
                with self._replica.requests:
                    for _ in query:
                        pass
            except NotReadyError as error:
                missing.append(cast("DocKey", error.facts.get("doc") or error.facts["keys"]))
        self.docs = tuple(dict.fromkeys((*self.docs, *missing)))

    def advance(self) -> None:
        """Collect what is not loaded and was not asked for yet."""
        replica = self._replica
        wanted = dict.fromkeys(doc for doc in self._roots if not replica.is_loaded(doc))
        if not wanted:
            roots = [doc for doc in self._roots if not is_span_mark(doc)]
            found = (other for doc in roots for other in reversed(list(linked(replica.read(doc)))))
            # The first ones of each list: `linked` starts at the end.
            wanted = dict.fromkeys(other for other in islice(found, self._linked_max) if not replica.is_loaded(other))
        self.docs = tuple(doc for doc in wanted if doc not in self._asked)
        self._asked.update(self.docs)
        if self._queries:
            self._look_at_queries()

    def ask(self) -> tuple[Future[HeadwaterError | None], float]:
        """Ask. Returns the future answer, and how many seconds to wait for it."""
        answer: Future[HeadwaterError | None] = machine().future()
        # A caller that stopped waiting has cancelled it.
        tell = answer.set_result
        patience_s = self._storage.bring(
            self.docs,
            lambda error: tell(error) if answer.set_running_or_notify_cancel() else None,
            self._linked_max,
        )
        return answer, patience_s

    def wait(self) -> None:
        """Ask, and wait. Raises OfflineError."""
        answer, patience_s = self.ask()
        try:
            error = answer.result(patience_s)
        except TimeoutError:
            answer.cancel()
            raise self.late(patience_s) from None
        if error is not None:
            raise error

    def late(self, patience_s: float) -> OfflineError:
        """The error for a server that did not answer."""
        url = self._storage.connection().url
        message = f"{url} was asked for {len(self.docs):,} documents and has not answered for {patience_s:g} s"
        return OfflineError(f"{message}; they are read when it is back", url=url)


def _doc_of(space: SpacePort, thing: object) -> DocKey:
    if isinstance(thing, str):
        return resolve_address(thing, space)[0]
    if isinstance(thing, Doc | Readable):
        return address_in(thing, space)[0]
    message = f"space.load takes cells, documents, lists, queries and addresses, not {shorten(safe_repr(thing))}"
    raise UsageError(message)
