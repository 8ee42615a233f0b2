"""Unique values, checked where a document is made, as far as they are visible there.

The store decides: this check only gives the error to the code that makes the duplicate. In a transaction it is a read
of the one key, so a handler that loses a race runs again, and finds the duplicate itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import cast

from headwater.cells.context import CONTEXT, without_transactions
from headwater.cells.space_port import SpacePort
from headwater.cells.span_records import Span
from headwater.cells.spans import keys
from headwater.cells.transaction import Transaction
from headwater.errors import DuplicateError
from headwater.store.collection_record import NamedIndex, doc_of, id_of, kind_of, scope_prefix
from headwater.store.unique_keys import described, unique_part
from headwater.values.address import address_text
from headwater.values.ids import DocKey
from headwater.values.sortkey import AFTER
from headwater.values.tree import ABSENT, Maybe


def unique_parts(space: SpacePort, doc: DocKey, tree: Maybe) -> Iterator[tuple[NamedIndex, bytes, bytes]]:
    """For each unique index: the key of a document, and the part of it that no other document may have."""
    members = space.replica.members
    record = None if members is None else members.records.get(kind_of(doc))
    if record is None:
        return
    prefix = scope_prefix(record, doc)
    for named in record.named if prefix is not None else ():
        if named.index.unique:
            key = named.key(prefix or b"", tree, id_of(doc))
            part = unique_part(record, key)
            if part is not None:
                yield named, key, part


def check_unique(space: SpacePort, doc: DocKey, tree: Maybe) -> None:
    """Raise DuplicateError if a document with equal values is visible."""
    for named, key, part in unique_parts(space, doc, tree):
        check_part(space, doc, named, key, part)


class UniqueRows:
    """The check for a bulk insert: among its rows, and against what was visible before it.

    It is no read of the transaction, whose every row would otherwise be compared with all of its writes.
    """

    def __init__(self, space: SpacePort, tx: Transaction | None) -> None:
        # The transaction that the insert is part of, if it is not one of its own.
        self._tx = tx
        self.space = space
        self._taken: dict[tuple[str, bytes], DocKey] = {}

    def are_new(self, rows: Sequence[tuple[DocKey, Maybe]]) -> bool:
        """Whether one read of each index shows that no row has the values of another document.

        If it does not, `check` reads them one by one, and finds the first that has.
        """
        parts: dict[str, tuple[NamedIndex, dict[bytes, DocKey]]] = {}
        for doc, tree in rows:
            for named, _, part in unique_parts(self.space, doc, tree):
                mine = parts.setdefault(named.name, (named, {}))[1]
                if (named.name, part) in self._taken or mine.setdefault(part, doc) != doc:
                    return False
        if not all(self._is_free(named, mine, most=2 * len(rows)) for named, mine in parts.values()):
            return False
        for named, mine in parts.values():
            self._taken.update(((named.name, part), doc) for part, doc in mine.items())
        return True

    def _is_free(self, named: NamedIndex, parts: Mapping[bytes, DocKey], most: int) -> bool:
        """Whether no key between the first and the last of the parts begins with one of them."""
        around = Span(named.name, min(parts), max(parts) + AFTER)
        if not self.space.replica.knows_keys(named.name, around.lo, around.hi):
            # At a server, which decides.
            return True
        token = CONTEXT.set(without_transactions(CONTEXT.get()))
        try:
            found = list(islice(keys(self.space, around, limit=most), most))
        finally:
            CONTEXT.reset(token)
        if len(found) == most:
            return False
        record = self.space.replica.collections[kind_of(next(iter(parts.values())))]
        return not any(unique_part(record, key) in parts for key in found)

    def check(self, doc: DocKey, tree: Maybe) -> None:
        """Raise DuplicateError if another row, or a visible document, has equal values."""
        for named, key, part in unique_parts(self.space, doc, tree):
            other = self._taken.setdefault((named.name, part), doc)
            if other != doc:
                raise duplicate(named, key, other)
            token = CONTEXT.set(without_transactions(CONTEXT.get()))
            try:
                check_part(self.space, doc, named, key, part)
            except DuplicateError as error:
                if not self._is_freed(cast("DocKey", error.facts["key"]), named, part):
                    raise
            finally:
                CONTEXT.reset(token)

    def _is_freed(self, other: DocKey, named: NamedIndex, part: bytes) -> bool:
        """Whether the transaction has deleted that document, or given it other values."""
        if self._tx is None:
            return False
        tree = self._tx.document(other)
        return tree is ABSENT or all(
            (index.name, now) != (named.name, part) for index, _, now in unique_parts(self.space, other, tree)
        )


def check_part(space: SpacePort, doc: DocKey, named: NamedIndex, key: bytes, part: bytes) -> None:
    """As `check_unique`, for one index. What is not known here is left to the store."""
    if not space.replica.knows_keys(named.name, part, part + AFTER):
        return
    found = next(keys(space, Span(named.name, part, part + AFTER), limit=1), None)
    if found is not None:
        other = doc_of(space.replica.collections[kind_of(doc)], found)
        if other != doc:
            raise duplicate(named, key, other)


def duplicate(named: NamedIndex, key: bytes, doc: DocKey) -> DuplicateError:
    """The error for a document with the values of another one."""
    other = address_text(doc)
    message = f"{other} has {described(named, key)} already, and {named.index.fields[0].name!r} is unique"
    fields = tuple(each.name for each in named.index.fields)
    if len(fields) > 1:
        message = f"{other} has {described(named, key)} already, and these are unique together"
    return DuplicateError(message, doc=other, key=doc, fields=fields)
