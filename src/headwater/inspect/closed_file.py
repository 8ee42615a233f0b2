"""Inspection of a file that no process has open. Reading one document loads only a third of the modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from headwater.host.storage import Storage
from headwater.inspect.document_reading import read_document
from headwater.inspect.document_records import GetHistory, GetValue
from headwater.inspect.envelope import TraceLine
from headwater.inspect.inspector import AnsweringInspector, Inspector
from headwater.inspect.names import InspectScope, check_space
from headwater.inspect.request import Question

A = TypeVar("A")


class ClosedFile(AnsweringInspector):
    """The inspector of a file that this process has opened. It closes the file."""

    def __init__(self, storage: Storage, scope: InspectScope) -> None:
        self._storage = storage
        self._scope = scope
        check_space(storage.name, scope.space)

    def answer(self, question: Any) -> object:  # noqa: ANN401  # all that exist
        """Answer from the file."""
        if isinstance(question, GetValue | GetHistory):
            return read_document(self._storage, self._scope.branch, question)
        return self._stored().ask(question)

    def carry_out(self, command: Any) -> object:  # noqa: ANN401  # all that exist
        """Carry out in the file."""
        return self._stored().do(command)

    def changes(self, question: Callable[[A | None], Question[A]]) -> Iterator[A | None]:
        """Raises NotFoundError: nothing changes in a closed space."""
        return self._stored().changes(question)

    def follow(self, kind: str = "") -> Iterator[TraceLine]:
        """Raises NotFoundError: no function runs in a closed space."""
        return self._stored().follow(kind)

    def close(self) -> None:
        """Release the file."""
        self._storage.close()

    def _stored(self) -> Inspector:
        from headwater.inspect.stored_inspector import StoredInspector  # noqa: PLC0415  # events, functions, workflows

        return StoredInspector(self._storage, self._scope)
