"""Inspection of a file that no process has open: documents by a third of the modules, so that `get` starts quickly."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeVar

from headwater.host.storage import Storage
from headwater.inspect.answers import TraceLine
from headwater.inspect.commands import AnyCommand, SetValue
from headwater.inspect.document_reading import history_page, value_at
from headwater.inspect.inspector import BaseInspector
from headwater.inspect.names import InspectScope, check_space
from headwater.inspect.questions import AnyQuestion, GetHistory, GetValue, ListDocuments, Question
from headwater.inspect.stored_inspector import StoredInspector

A = TypeVar("A")


class ClosedFile(BaseInspector):
    """Of a file that this process has opened for it. Closing the inspector closes it."""

    def __init__(self, storage: Storage, scope: InspectScope) -> None:
        self._storage = storage
        self._scope = scope
        check_space(storage.name, scope.space)

    def answer(self, question: AnyQuestion) -> object:
        """From the file."""
        branch, call = self._scope.branch, self._storage.call
        match question:
            case GetValue():
                return call(lambda engine: value_at(engine, branch, question))
            case GetHistory():
                return call(lambda engine: history_page(engine, branch, question))
            case ListDocuments():
                from headwater.inspect.documents import documents_page  # noqa: PLC0415  # see above

                return call(lambda engine: documents_page(engine, branch, question))
            case _:
                return self._stored().answer(question)

    def carry_out(self, command: AnyCommand) -> object:
        """In the file."""
        if isinstance(command, SetValue):
            from headwater.inspect.documents import write  # noqa: PLC0415  # see above

            return write(self._storage, self._scope.branch, command)
        return self._stored().carry_out(command)

    def changes(self, question: Callable[[A | None], Question[A]]) -> Iterator[A | None]:
        """Nothing changes in a closed space."""
        return self._stored().changes(question)

    def follow(self, kind: str = "") -> Iterator[TraceLine]:
        """No function runs in a closed space."""
        return self._stored().follow(kind)

    def close(self) -> None:
        """Release the file."""
        self._storage.close()

    def _stored(self) -> StoredInspector:
        from headwater.inspect.stored_inspector import StoredInspector  # noqa: PLC0415  # see above

        return StoredInspector(self._storage, self._scope)
