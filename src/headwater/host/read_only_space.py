"""The file of a space that no program has open, read for a link: opened for moments, and never written.

The file is locked while it is open, and other programs may want to open it. So it is held for at most a second, and
marked as held by a reader: a program that opens it meanwhile waits for that moment (`host.space_files`). Documents are
read as of one sequence number. A changed file is read again, from its new end.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, NoReturn

from headwater.cells.replica import Replica
from headwater.cells.space_port import SpacePort
from headwater.errors import HeadwaterError, UnavailableError, UsageError
from headwater.host.space_files import READ_HOLD_S, open_for_reading
from headwater.host.storage import Storage
from headwater.machine import machine
from headwater.store.commit import Submission
from headwater.store.document import StoredDocument
from headwater.values.ids import MAIN, DocKey, Seq, SessionId, SpaceId

_HELD_S: Final = READ_HOLD_S / 2
"""How long a file stays open after it was opened: half of the time that others wait for it."""


class ReadOnlyFile:
    """The upstream of a replica: a file that is open only while documents are loaded from it."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = machine().rlock()
        self._storage: Storage | None = None
        self._stamp = _stamp(path)
        with self._lock:
            storage = self._held()
            self.name, self.identity = storage.name, storage.identity
            self.head: Seq = storage.call(lambda engine: engine.head)

    def load(self, doc: DocKey, through: Seq) -> StoredDocument | None:
        """The document as of a sequence number."""
        with self._lock:
            return self._checked().load(MAIN, doc, through)

    def load_many(self, docs: Sequence[DocKey], through: Seq) -> Mapping[DocKey, StoredDocument]:
        """The documents as of the sequence number, by few lookups for all."""
        with self._lock:
            return self._checked().load_many(MAIN, docs, through)

    def span(self, index: str, lo: bytes, hi: bytes, *, limit: int | None, reverse: bool, through: Seq) -> list[bytes]:
        """The confirmed keys of a span as of a sequence number."""
        with self._lock:
            return self._checked().span(MAIN, index, lo, hi, limit=limit, reverse=reverse, through=through)

    def submit(self, submission: Submission) -> NoReturn:
        """Nothing is written."""
        del submission
        raise UsageError(f"{self.path} was opened for a link, only to be read; open it with its app")

    def is_changed(self) -> bool:
        """Whether a program has written to the file since, or it is gone."""
        with self._lock:
            return self._storage is None and _stamp(self.path) != self._stamp

    def release(self) -> None:
        """Close the file. It is opened again when a document is needed."""
        with self._lock:
            storage, self._storage = self._storage, None
            if storage is not None:
                with suppress(HeadwaterError):
                    storage.close()
                self._stamp = _stamp(self.path)

    def _checked(self) -> Storage:
        storage = self._held()
        if storage.identity != self.identity:
            message = f"{self.path} holds another space now; read the link again"
            raise UnavailableError(message, path=str(self.path))
        return storage

    def _held(self) -> Storage:
        if self._storage is None:
            self._storage = open_for_reading(self.path, self.release)
            machine().thread(self._let_go, name="headwater-reader").start()
        return self._storage

    def _let_go(self) -> None:
        machine().sleep(_HELD_S)
        self.release()


def _stamp(path: Path) -> tuple[int, ...]:
    """Changes when another program writes the file."""
    try:
        found = machine().files.stat(path)
    except OSError:
        return ()
    return found.st_ino, found.st_size, found.st_mtime_ns


class ReadOnlySpace(SpacePort):
    """The documents of a space without an app and without functions, for links."""

    def __init__(self, file: ReadOnlyFile, actor: str | None) -> None:
        self.file = file
        replica = Replica(file, SessionId(machine().token()), seq=file.head)
        super().__init__(replica, file.name, None, machine(), actor)
        self.space_id: SpaceId = file.identity.id
        self.lineage: bytes = file.identity.lineage
        self.read_only = "it was opened for a link, only to be read"
