"""What the tests of cells and documents share: two openings of one file, what was sent to the store, what was read."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import headwater as hw
from headwater.cells.transaction import Transaction
from headwater.store.commit import Commit, Operation, PatchDoc, Submission
from headwater.store.document import StoredDocument
from headwater.values.address import Depth
from headwater.values.ids import DocKey, Seq
from headwater.values.link import LinkRecord, link_to
from headwater.values.patch import PatchOp
from headwater.values.tree import ABSENT, Maybe, freeze

DEEP = Depth.DEEP
SHALLOW = Depth.SHALLOW


@contextmanager
def inside(space: hw.Space) -> Iterator[hw.Space]:
    """Code in here means this opening, whichever was opened last."""
    space._opening.enter()
    try:
        yield space
    finally:
        space._opening.leave()


@contextmanager
def twice(app: hw.App, folder: Path) -> Iterator[tuple[hw.Space, hw.Space]]:
    """One file, opened two times: two replicas of one store. The second is around the code."""
    url = str(folder / "twice.db")
    with app.open(url, durability="normal") as one, app.open(url, durability="normal") as two:
        yield one, two


class Sent:
    """Everything an opening sends to the store from now on."""

    def __init__(self, space: hw.Space) -> None:
        self.commits: list[Commit] = []
        self._port = space._opening.replica._upstream
        space._opening.replica._upstream = self

    def load(self, doc: DocKey, through: Seq) -> StoredDocument | None:
        return self._port.load(doc, through)

    def load_many(self, docs: Sequence[DocKey], through: Seq) -> Mapping[DocKey, StoredDocument]:
        return self._port.load_many(docs, through)

    def span(self, index: str, lo: bytes, hi: bytes, *, limit: int | None, reverse: bool, through: Seq) -> list[bytes]:
        return self._port.span(index, lo, hi, limit=limit, reverse=reverse, through=through)

    def submit(self, submission: Submission) -> None:
        self.commits.append(submission.commit)
        self._port.submit(submission)  # type: ignore[arg-type]

    @property
    def operations(self) -> list[Operation]:
        return [operation for commit in self.commits for operation in commit.operations]

    @property
    def patches(self) -> list[PatchOp]:
        """All operations, every one of which is to be a patch."""
        found: list[PatchOp] = []
        for operation in self.operations:
            assert isinstance(operation, PatchDoc), operation
            found += operation.ops
        return found


def stored(space: hw.Space, doc: str) -> Any:
    """The document as it stands, links and all; ABSENT if there is none."""
    return space._opening.replica.read(DocKey(doc if "/" in doc else f"space/{doc}"))


def put(space: hw.Space, doc: str, value: object) -> None:
    """Store a document as it is: links too."""
    space.cell(doc).value = value


def link(doc: str | None = None, *path: str | int, scope: str | None = None, redirect: bool = False) -> Any:
    """A link as it stands in a document."""
    return LinkRecord(doc=cast("Any", doc), path=path, scope=scope, redirect=redirect).to_value()


def depends(tx: Transaction) -> set[tuple[str, tuple[str | int, ...], Depth]]:
    """What would wake the reader: document, path, depth."""
    return {(_name(entry.doc), entry.path, entry.depth) for entry in tx.journal.dependencies()}


def checks(tx: Transaction) -> set[tuple[str, tuple[str | int, ...], Depth]]:
    """What must not have changed when it is committed."""
    return {(_name(entry.doc), entry.path, entry.depth) for entry in tx.journal.conflicts()}


def _name(key: DocKey) -> str:
    return key.removeprefix("space/")


__all__ = [
    "ABSENT",
    "DEEP",
    "SHALLOW",
    "Maybe",
    "Sent",
    "checks",
    "depends",
    "freeze",
    "inside",
    "link",
    "link_to",
    "put",
    "stored",
    "twice",
]
