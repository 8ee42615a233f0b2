"""Queries: documents of a collection by conditions, in an order, up to a limit; asked again at each use.

A query is a description. It reads nothing until it is used, and can be made at module level. Inside a run every answer
is tracked: as the keys that were seen, or as the answer itself.

Length: everything that authors ask of a query is one class.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Any, Final, Generic, Never, NoReturn, TypeVar, cast, overload

from headwater.cells.conditions import Condition, QueryColumn, no_condition
from headwater.cells.document_class import Doc
from headwater.cells.document_field import DocField
from headwater.cells.document_operations import delete as delete_document
from headwater.cells.elements import LinkList
from headwater.cells.indexed_fields import field_of
from headwater.cells.page_cursor import write_cursor
from headwater.cells.query_answers import Answers
from headwater.cells.query_rows import Asked, Evaluation, found_links
from headwater.errors import NotFoundError, QueryError, UsageError
from headwater.values.author_text import safe_repr

D = TypeVar("D", bound=Doc)
D_co = TypeVar("D_co", bound=Doc, covariant=True)
T = TypeVar("T")
K = TypeVar("K")
N = TypeVar("N", int, float)
A = TypeVar("A")
B = TypeVar("B")
C = TypeVar("C")
E = TypeVar("E")

DELETE_BATCH: Final = 1000
"""Documents that `delete` removes in one transaction, outside of one: a commit of some 100 KB."""


class Page(Generic[D_co]):
    """Some documents of a query, and where the next ones begin. Made by `query.page`.

    Example:
        ```python
        import headwater as hw


        class Order(hw.Doc):
            number: int


        app = hw.App("shop")
        orders = app.collection(Order, indexes=[Order.number])
        with app.open("memory:"):
            orders.insert_many({"number": number} for number in range(5))
            page = orders.order_by(Order.number).page(3)
            print([order.number for order in page.items])  # [0, 1, 2]
            page = orders.order_by(Order.number).page(3, after=page.next)
            print([order.number for order in page.items], page.next)  # [3, 4] None
        ```
    """

    __slots__ = ("items", "next")

    items: Sequence[D_co]
    """The documents."""
    next: str | None
    """The cursor for the next page, as text for a URL; None if there are no more documents."""

    def __init__(self, items: Sequence[D_co], following: str | None) -> None:
        self.items = items
        self.next = following

    def __repr__(self) -> str:
        return f"<Page of {len(self.items)} documents{'' if self.next is None else ', and more'}>"


class Grouped(Generic[K]):
    """One answer for each value of a field. Made by `query.group_by`."""

    __slots__ = ("_asked", "_field")

    def __init__(self, asked: Asked[Any], field: DocField) -> None:
        self._asked = asked
        self._field = field

    def count(self) -> dict[K, int]:
        """The number of documents with each value.

        Returns:
            The numbers, by value, in the order of the values.

        Raises:
            QueryError: HW120. No index serves it.
        """
        return cast("dict[K, int]", Answers(self._asked).groups(self._field, "count", None))

    def sum(self, field: N | None) -> dict[K, N]:
        """The sum of another field for each value.

        Args:
            field: A field with numbers.

        Returns:
            The sums, by value, in the order of the values.

        Raises:
            QueryError: HW120. No index and no declared total serves it.
        """
        given = _field(self._asked, field, "sum")
        return cast("dict[K, N]", Answers(self._asked).groups(self._field, "sum", given))

    def min(self, field: T) -> dict[K, T]:
        """The least value of another field for each value.

        Args:
            field: A field with an order.

        Returns:
            The least values, by value, in the order of the values.

        Raises:
            QueryError: HW120. No index serves it.
        """
        given = _field(self._asked, field, "min")
        return cast("dict[K, T]", Answers(self._asked).groups(self._field, "min", given))

    def max(self, field: T) -> dict[K, T]:
        """The greatest value of another field for each value.

        Args:
            field: A field with an order.

        Returns:
            The greatest values, by value, in the order of the values.

        Raises:
            QueryError: HW120. No index serves it.
        """
        given = _field(self._asked, field, "max")
        return cast("dict[K, T]", Answers(self._asked).groups(self._field, "max", given))


class Query(Generic[D]):
    """Documents of a collection, described by conditions, an order and a limit. Made by the methods of a collection.

    A query reads nothing until it is iterated, called, or asked for an answer. It can be made at module level and used
    in every open space. Inside a computed function or a sink, every answer is tracked: the function runs again when a
    commit changes that answer.

    Example:
        ```python
        import headwater as hw


        class Order(hw.Doc):
            number: int
            state: str = "open"


        app = hw.App("shop")
        orders = app.collection(Order, indexes=[(Order.state, Order.number)])
        waiting = orders.where(Order.state == "open").order_by(Order.number)

        with app.open("memory:"):
            Order(number=2)
            Order(number=1)
            print([order.number for order in waiting])  # [1, 2]
        ```
    """

    __slots__ = ("_asked",)

    def __init__(self, asked: Asked[D]) -> None:
        self._asked = asked

    @property
    def _owner(self) -> object:
        return self._asked.source.owner

    def _with(self, **changes: Any) -> Query[D]:  # noqa: ANN401  # fields of the record
        asked = self._asked
        names = ("source", "conditions", "order", "descending", "limit", "is_scan", "filters")
        return Query(Asked(**{name: changes.get(name, getattr(asked, name)) for name in names}))

    # -- describing ----------------------------------------------------------------------------------------

    def where(self, *conditions: bool | Condition) -> Query[D]:
        """Only documents that meet all conditions.

        Args:
            conditions: Comparisons of fields on the class: `Order.state == "open"`. `hw.col` has others.

        Returns:
            The narrower query.

        Raises:
            UsageError: HW100. One of them is no condition.
            DeclarationError: HW110. A condition is on a field of another class.
        """
        made = list(self._asked.conditions)
        for each in conditions:
            given: object = each
            if not isinstance(given, Condition):
                raise no_condition(given)
            made.append((field_of(self._asked.source.cls, given.field, "where(...)"), given))
        return self._with(conditions=tuple(made))

    def order_by(self, *fields: object, descending: bool = False) -> Query[D]:
        """In the order of one or several fields. It replaces an earlier order.

        Args:
            fields: Fields of the class: `Order.created`.
            descending: Whether the greatest values come first, in all of the fields.

        Returns:
            The ordered query.

        Raises:
            UsageError: HW100. No field is given.
            DeclarationError: HW110. One of them is no field of the class.
        """
        if not fields:
            raise UsageError("order_by(...) needs a field, such as Order.created")
        found = tuple([_field(self._asked, each, "order_by") for each in fields])
        return self._with(order=found, descending=bool(descending))

    def limit(self, count: int) -> Query[D]:
        """At most so many documents. With 0, nothing is read.

        Args:
            count: The number of documents.

        Returns:
            The limited query.

        Raises:
            UsageError: HW100. The number is negative, or no whole number.
        """
        _check_count("limit", count, 0)
        now = self._asked.limit
        return self._with(limit=count if now is None else min(now, count))

    def scan(self) -> Query[D]:
        """Allow to read documents that do not meet all conditions, or are in another order, and to check and sort them.

        The index that serves most of the conditions is used. The cost depends on what that one finds.

        Returns:
            The query. It may have conditions with `!=`, and filters.
        """
        return self._with(is_scan=True)

    def filter(self, fn: Callable[[D], object]) -> Query[D]:
        """Only documents for which a function is true. It needs `scan()` before it.

        Args:
            fn: The function. It takes a document.

        Returns:
            The narrower query.

        Raises:
            QueryError: HW120. There is no `scan()` before it.
            UsageError: HW100. It is no function.
        """
        given: object = fn
        if not callable(given):
            message = f"filter(...) takes a function of a document, and got {safe_repr(given)}"
            raise UsageError(f"{message}; a condition is given to where(...)")
        if not self._asked.is_scan:
            raise QueryError(f"{self._asked}: filter(...) reads every document that is found. Add .scan() before it")
        return self._with(filters=(*self._asked.filters, fn))

    # -- documents -----------------------------------------------------------------------------------------

    def __iter__(self) -> Iterator[D]:
        if self._asked.limit == 0:
            return
        for _, document in Evaluation(self._asked).documents():
            yield document

    def __call__(self) -> Sequence[D]:
        """The documents, as a list."""
        return list(self)

    def first(self) -> D | None:
        """The first document in the order.

        Returns:
            The document; None if there is none.

        Raises:
            QueryError: HW120. No index serves the query.
        """
        return next(iter(self._some(1)), None)

    def one(self) -> D:
        """The only document.

        Returns:
            The document.

        Raises:
            NotFoundError: HW106. There is none.
            QueryError: HW120. There are several, or no index serves the query.
        """
        found = self._some(2)
        if not found:
            raise NotFoundError(f"{self._asked} has no result; use first() where there may be none")
        if len(found) > 1:
            raise QueryError(f"{self._asked} has several results, and one() expects one; use first() or a loop")
        return found[0]

    def _some(self, count: int) -> list[D]:
        if self._asked.limit == 0:
            return []
        return [document for _, document in Evaluation(self._asked).documents(count=count)]

    def page(self, size: int, after: str | None = None) -> Page[D]:
        """Some documents, and a cursor for the next ones.

        The cost does not depend on how many pages are before it. A document whose place in the order changes meanwhile
        may be seen twice, or not at all.

        Args:
            size: The number of documents.
            after: The cursor of the page before: `page.next`. None for the first page.

        Returns:
            The page.

        Raises:
            UsageError: HW100. The cursor is damaged, or of another query; or the query has a limit.
            QueryError: HW120. No index serves the query.
        """
        _check_count("page", size, 1)
        if self._asked.limit is not None:
            raise UsageError(f"{self._asked}: page(...) takes the number of documents itself; leave out limit(...)")
        asked = Evaluation(self._asked)
        place = None if after is None else asked.place_of(after)
        # One more shows whether there is a next page.
        rows = list(asked.documents(after=place, count=size + 1))
        items = [document for _, document in rows[:size]]
        if len(rows) == len(items):
            return Page(items, None)
        return Page(items, write_cursor(asked.digest(), asked.plan.named.name, rows[size - 1][0]))

    def ids(self) -> list[str]:
        """The ids of the documents, in the order.

        Returns:
            The ids, as `hw.id_of` returns them.

        Raises:
            QueryError: HW120. No index serves the query.
        """
        if self._asked.limit == 0:
            return []
        return [key.partition("/")[2] for key in Evaluation(self._asked).taken(())]

    # -- answers -------------------------------------------------------------------------------------------

    def count(self) -> int:
        """The number of documents.

        Returns:
            The number, at most the limit.

        Raises:
            QueryError: HW120. No index serves the query.
        """
        return Answers(self._asked).count()

    def exists(self) -> bool:
        """Whether there is a document.

        Returns:
            True if there is one.

        Raises:
            QueryError: HW120. No index serves the query.
        """
        return Answers(self._asked).is_found()

    def sum(self, field: N | None) -> N:
        """The sum of a field. Sums of floats are exact, and rounded once.

        Args:
            field: A field with numbers: `Order.cents`. None does not count.

        Returns:
            The sum; 0 without documents.

        Raises:
            UsageError: HW100. The field has no numbers.
            QueryError: HW120. No index has the field, no total is declared, and there is no `scan()`.
        """
        return cast("N", Answers(self._asked).sum(_field(self._asked, field, "sum")))

    def min(self, field: T) -> T | None:
        """The least value of a field. None does not count.

        Args:
            field: A field with an order.

        Returns:
            The value; None without documents.

        Raises:
            QueryError: HW120. No index continues with the field, and there is no `scan()`.
        """
        return cast("T | None", Answers(self._asked).extreme(_field(self._asked, field, "min"), is_last=False))

    def max(self, field: T) -> T | None:
        """The greatest value of a field. None does not count.

        Args:
            field: A field with an order.

        Returns:
            The value; None without documents.

        Raises:
            QueryError: HW120. No index continues with the field, and there is no `scan()`.
        """
        return cast("T | None", Answers(self._asked).extreme(_field(self._asked, field, "max"), is_last=True))

    def distinct(self, field: T) -> list[T]:
        """The different values of a field, in their order.

        Args:
            field: A field with an order.

        Returns:
            The values, each once.

        Raises:
            QueryError: HW120. No index continues with the field, and there is no `scan()`.
        """
        return cast("list[T]", Answers(self._asked).distinct(_field(self._asked, field, "distinct")))

    def group_by(self, field: K) -> Grouped[K]:
        """One answer for each value of a field: `orders.group_by(Order.state).count()`.

        Args:
            field: A field with an order.

        Returns:
            The groups, with the methods `count`, `sum`, `min` and `max`.

        Raises:
            DeclarationError: HW110. It is no field of the class.
        """
        return Grouped(self._asked, _field(self._asked, field, "group_by"))

    @overload
    def values(self, field: A, /) -> list[A]: ...
    @overload
    def values(self, first: A, second: B, /) -> list[tuple[A, B]]: ...
    @overload
    def values(self, first: A, second: B, third: C, /) -> list[tuple[A, B, C]]: ...
    @overload
    def values(self, first: A, second: B, third: C, fourth: E, /) -> list[tuple[A, B, C, E]]: ...
    def values(self, *fields: Any) -> list[Any]:
        """The values of some fields of all documents, without making the documents.

        Inside a run this is one dependency, whatever the number of documents.

        Args:
            fields: One to four fields. With one, a list of its values; with several, a list of tuples.

        Returns:
            The values, in the order of the query.

        Raises:
            UsageError: HW100. No field is given.
            QueryError: HW120. No index serves the query.
        """
        if not fields:
            raise UsageError("values(...) needs a field, such as Order.cents")
        return Answers(self._asked).values(tuple([_field(self._asked, each, "values") for each in fields]))

    # -- more ----------------------------------------------------------------------------------------------

    def delete(self) -> int:
        """Delete the documents.

        In a transaction, all of them are deleted with it. Outside of one they are deleted in batches of 1,000, each in
        a transaction of its own.

        Returns:
            The number of deleted documents.

        Raises:
            WriteError: HW104. Only reading is allowed here, as in a computed function.
            QueryError: HW120. No index serves the query.
        """
        space, tx = self._asked.source.context("deleted")
        if tx is not None:
            found = list(self)
            for document in found:
                delete_document(document)
            return len(found)
        deleted = 0
        while True:
            rest = DELETE_BATCH if self._asked.limit is None else min(DELETE_BATCH, self._asked.limit - deleted)
            if rest <= 0:
                return deleted
            with space.transaction():
                found = list(islice(self._with(limit=None), rest))
                for document in found:
                    delete_document(document)
            deleted += len(found)
            if len(found) < rest:
                return deleted

    def explain(self) -> str:
        """How the query is answered: the index, its spans, and what is checked or sorted besides.

        Returns:
            One line for each part.

        Raises:
            QueryError: HW120. No index serves the query.
        """
        return Answers(self._asked).explain()

    def __getitem__(self, index: Never) -> D:  # a collection has documents by id
        advice = ".first(), .limit(n), .page(n) for parts, or query() for a list"
        raise UsageError(f"{self._asked} has no elements by number, as in [{_index(index)}]; use {advice}")

    def __bool__(self) -> NoReturn:
        raise UsageError(f"{self._asked} is neither true nor false; ask it: .exists() or .count()")

    def __repr__(self) -> str:
        return f"<Query: {self._asked}>"

    def __headwater_print__(self) -> Iterator[object]:
        """The parts of the fingerprint of a function that uses it."""
        asked = self._asked
        yield ("query", asked.source.cls, asked.source.kind, asked.source.scope)
        for field, condition in asked.conditions:
            yield (field.name, condition.operator.value, condition.operands)
        yield ([each.name for each in asked.order], asked.descending, asked.limit, asked.is_scan, asked.filters)


def _index(given: object) -> str:
    if isinstance(given, slice):
        parts = ["" if part is None else safe_repr(part) for part in (given.start, given.stop, given.step)]
        return ":".join(parts if given.step is not None else parts[:2])
    return safe_repr(given)


def _field(asked: Asked[Any], given: object, verb: str) -> DocField:
    return field_of(asked.source.cls, given.field if isinstance(given, QueryColumn) else given, f"{verb}(...)")


def _check_count(verb: str, count: object, least: int) -> None:
    if isinstance(count, bool) or not isinstance(count, int) or count < least:
        raise UsageError(f"{verb}(...) takes a number of documents from {least} on, and got {safe_repr(count)}")


def links_of_query(query: Query[Any]) -> LinkList | None:
    """Its documents by their keys, as one list is compared with the next; None if more than one span decides."""
    return found_links(query, query._asked)
