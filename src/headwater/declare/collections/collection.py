"""Collections: all documents of one class in one scope, as queries, by id, and for inserts of many."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice
from typing import Final, TypeVar, cast

from headwater.cells.binding import writing_to
from headwater.cells.cross_space import WRITTEN
from headwater.cells.document_class import Doc
from headwater.cells.document_operations import exists
from headwater.cells.gathered_documents import GATHERED, Gathered
from headwater.cells.query import Query
from headwater.cells.query_rows import Asked
from headwater.cells.query_source import DeclaredCollection, QuerySource
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.cells.unique_values import UniqueRows
from headwater.errors import DuplicateError, HeadwaterError, NameRefusedError, NotFoundError, UsageError
from headwater.store.collection_record import CollectionRecord, kind_of
from headwater.values.author_text import add_note, safe_repr
from headwater.values.ids import DocKey
from headwater.values.text import count_text
from headwater.values.tree import Value

D = TypeVar("D", bound=Doc)

BATCH: Final = 1000
"""Documents in one transaction of `insert_many`: enough to share the cost of a commit, and far below its limits."""


class Collection(Query[D]):
    """All documents of one class in one scope. Made by `app.collection`; it is also the query of all of them.

    A document is a member because of its class: `Order(...)` makes one, `hw.delete` removes it.

    Example:
        ```python
        import headwater as hw


        class Order(hw.Doc):
            number: int
            state: str = "open"


        app = hw.App("shop")
        orders = app.collection(Order, unique=[Order.number], indexes=[Order.state])

        with app.open("memory:"):
            order = Order(number=7)
            print(order in orders, orders.where(Order.number == 7).one() == order)  # True True
            print(orders.count(), orders.get("order:unknown"))  # 1 None
        ```
    """

    __slots__ = ("declared_name",)

    def __init__(self, source: QuerySource[D], name: str) -> None:
        super().__init__(Asked(source))
        self.declared_name: str = name

    @property
    def _source(self) -> QuerySource[D]:
        return self._asked.source

    def record(self) -> CollectionRecord:
        """The record that is stored in the space. Raises DeclarationError for a field without an order."""
        return self._source.record()

    def declaration(self) -> DeclaredCollection:
        """The record, and what documents from before its changes may have."""
        return self._source.declaration()

    @property
    def document_class(self) -> type[D]:
        """The class of its documents."""
        return self._source.cls

    # -- by id ---------------------------------------------------------------------------------------------

    def get(self, id: str) -> D | None:  # noqa: A002  # as in `hw.id_of`
        """The document with an id.

        Args:
            id: The id, as `hw.id_of` returns it.

        Returns:
            The document; None if it does not exist, or belongs to another collection.
        """
        source = self._source
        space, _ = source.context()
        given: object = id
        if not isinstance(given, str):
            raise UsageError(f"get(...) takes the id of a document, as text, and got {safe_repr(given)}")
        try:
            key = space.key(given, source.scope)
        except NameRefusedError:
            return None
        if kind_of(key) != source.kind:
            return None
        found = source.document(space, key)
        return found if exists(found) else None

    def __getitem__(self, id: str) -> D:  # noqa: A002  # as in `get`
        found = self.get(id)
        if found is None:
            cls = self._source.cls.__qualname__
            message = f"there is no document {safe_repr(id)} of {cls}; use get(...) where there may be none"
            raise NotFoundError(message, doc=id)
        return found

    def __contains__(self, doc: object) -> bool:
        if isinstance(doc, str):
            return self.get(doc) is not None
        if not isinstance(doc, Doc):
            return False
        name, scope = doc._hw_scope  # noqa: SLF001  # what authors hold has no public names
        key = doc._hw_key or DocKey(f"{scope}/{name}")  # noqa: SLF001
        is_here = scope.partition(":")[0] == self._source.scope and kind_of(key) == self._source.kind
        return is_here and isinstance(doc, self._source.cls) and exists(doc)

    # -- many ----------------------------------------------------------------------------------------------

    def insert_many(self, rows: Iterable[D] | Iterable[Mapping[str, object]], *, batch: int = BATCH) -> int:
        """Insert many documents, from a generator that makes them, or from mappings of field names to values.

        While the generator runs, `Order(...)` only checks the fields; the documents get ids and are stored here. In a
        transaction, all of them are part of it. Outside of one they are stored in batches, each in a transaction of its
        own: after an error, the batches before it are there, and a note of the error says how many documents that is.
        Another note says which row has raised it.

        Args:
            rows: A generator of new documents, or mappings.
            batch: Documents in one transaction.

        Returns:
            The number of documents.

        Raises:
            UsageError: HW100. The documents exist already, or were made and not passed on.
            SchemaError: HW108. A value does not fit its field.
            DuplicateError: HW215. Another document has the value of a unique field.

        Example:
            ```python
            import headwater as hw


            class Order(hw.Doc):
                number: int


            app = hw.App("shop")
            orders = app.collection(Order, unique=[Order.number])
            with app.open("memory:"):
                print(orders.insert_many(Order(number=number) for number in range(2500)))  # 2500
            ```
        """
        size: object = batch
        if isinstance(size, bool) or not isinstance(size, int) or size < 1:
            raise UsageError(f"insert_many(...): batch is a number of documents from 1 on, not {safe_repr(batch)}")
        given: object = rows
        if not isinstance(given, Iterable):
            raise UsageError(f"insert_many(...) takes a generator, or a list of mappings, and got {safe_repr(given)}")
        source = self._source
        space, tx = source.context(WRITTEN)
        gathered = Gathered(source.cls, space)
        iterator, unique, done = iter(cast("Iterable[object]", rows)), UniqueRows(space, tx), 0
        try:
            if tx is not None:
                done = self._insert(tx, self._trees(iterator, gathered, 0), unique, 0)
            else:
                while True:
                    with space.transaction() as own:
                        rows_now = islice(self._trees(iterator, gathered, done), batch)
                        count = self._insert(own, rows_now, unique, done)
                    done += count
                    if count < batch:
                        break
            if gathered:
                message = f"{count_text(len(gathered), 'document')} of {source.cls.__qualname__} made by the generator"
                raise UsageError(f"insert_many(...): {message} and not passed on; yield each of them")
        except BaseException as error:
            if tx is None:
                verb = "is" if done == 1 else "are"
                add_note(error, f"insert_many: {count_text(done, 'document')} before that {verb} stored")
            raise
        return done

    def _insert(self, tx: Transaction, trees: Iterator[Value], unique: UniqueRows, before: int) -> int:
        source, space, count = self._source, unique.space, 0
        while found := list(islice(trees, BATCH)):
            ids = space.mint_many(source.kind, tx, len(found))
            rows = [(space.key(each, source.scope), tree) for each, tree in zip(ids, found, strict=True)]
            are_new = unique.are_new(rows)
            for doc, tree in rows:
                count += 1
                if not are_new:
                    try:
                        unique.check(doc, tree)
                    except DuplicateError as error:
                        message = f"insert_many(...): row {before + count}: {error.message}"
                        raise DuplicateError(message, **error.facts, row=before + count) from None
                tx.make(doc, tree)
        return count

    def _trees(self, rows: Iterator[object], gathered: Gathered, before: int) -> Iterator[Value]:
        """The values of the next rows. Only the generator runs in the context of gathering."""
        number = before
        while True:
            token = GATHERED.set(gathered)
            try:
                row = next(rows)
            except StopIteration:
                return
            except BaseException as error:
                add_note(error, f"insert_many: row {number + 1:,}")
                raise
            finally:
                GATHERED.reset(token)
            number += 1
            tree = gathered.take(row)
            if tree is None:
                tree = self._tree(row, gathered.space, number)
            yield tree

    def _tree(self, row: object, space: SpacePort, number: int) -> Value:
        cls = self._source.cls
        if isinstance(row, Mapping):
            with writing_to(space):
                try:
                    return cls._hw_value(dict(row))  # what authors hold has no public names
                except HeadwaterError as error:
                    add_note(error, f"insert_many: row {number:,}")
                    raise
        where = f"insert_many(...): row {number}"
        if isinstance(row, cls):
            raise UsageError(f"{where} is a document that is made already; give a generator: {_as_generator(cls)}")
        message = f"{where} is {safe_repr(row)}; a new document of {cls.__qualname__}, or a mapping, is expected"
        raise UsageError(message, row=number)

    def __repr__(self) -> str:
        return f"<Collection of {self._source.cls.__qualname__}: {self._source.kind}>"


def _as_generator(cls: type[Doc]) -> str:
    return f"insert_many({cls.__qualname__}(...) for row in rows)"
