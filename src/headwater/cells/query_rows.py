"""One evaluation of a query: the space it is asked in, its plan, and its documents in their order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from heapq import merge
from typing import Any, Final, Generic, TypeVar

from headwater.cells.binding import writing_to
from headwater.cells.conditions import Condition, Operator
from headwater.cells.document_class import Doc
from headwater.cells.document_field import DocField
from headwater.cells.elements import DocEntry, ElementEntry, LinkList
from headwater.cells.indexed_fields import Interval, OrderedField
from headwater.cells.page_cursor import read_cursor
from headwater.cells.query_plan import FieldCondition, QueryPlan, Wanted, by_field, common, planned
from headwater.cells.query_source import QuerySource
from headwater.cells.span_records import Span
from headwater.cells.spans import all_keys, rows
from headwater.errors import QueryError, UsageError
from headwater.store.collection_record import doc_of
from headwater.store.entries import ALL
from headwater.values.address import address_text
from headwater.values.codec import encode
from headwater.values.ids import DocId, DocKey
from headwater.values.sortkey import encode_field, encode_id
from headwater.values.tree import ABSENT, Maybe, array_of, child

D = TypeVar("D", bound=Doc)

Row = tuple[bytes, DocKey]
"""A document, and its place in the order of the query."""

_DIGEST_BYTES: Final = 8


@dataclass(frozen=True, slots=True, eq=False)
class Asked(Generic[D]):
    """What a query asks for."""

    source: QuerySource[D]
    conditions: tuple[tuple[DocField, Condition], ...] = ()
    order: tuple[DocField, ...] = ()
    descending: bool = False
    limit: int | None = None
    is_scan: bool = False
    filters: tuple[Callable[[D], object], ...] = ()

    @property
    def compared(self) -> frozenset[str] | None:
        """The fields that are compared for equality; None if there are other conditions."""
        names = [field.name for field, condition in self.conditions if condition.operator is Operator.EQUAL]
        return frozenset(names) if len(names) == len(self.conditions) else None

    def __str__(self) -> str:
        text = f"the query of {self.source.cls.__qualname__}"
        if self.conditions:
            text += f" where {' and '.join(str(condition) for _, condition in self.conditions)}"
        if self.order:
            text += f", ordered by {', '.join(f'{self.source.cls.__qualname__}.{each.name}' for each in self.order)}"
        return text


class Evaluation(Generic[D]):
    """A query that is asked here and now."""

    __slots__ = ("_passing", "asked", "former", "plan", "space", "tests", "tx")

    def __init__(
        self,
        asked: Asked[D],
        *,
        order: tuple[OrderedField, ...] | None = None,
        within: tuple[OrderedField, Interval] | None = None,
        has_field: str = "",
    ) -> None:
        """`order` in place of its own; `within`: a span of one more field; `has_field`: of an index with this field."""
        self.asked = asked
        # Of a pass in plain code over many documents: those of the current slice.
        self._passing: dict[DocKey, Maybe] = {}
        source = asked.source
        self.space, self.tx = source.context()
        self.tests: dict[str, FieldCondition] = self._tests()
        if within is not None:
            field, interval = within
            test = self.tests.get(field.name, FieldCondition(field, (ALL,), is_exact=False))
            self.tests[field.name] = FieldCondition(field, common(test.intervals, (interval,)), test.is_exact)
        fields = tuple([source.ordered(each) for each in asked.order]) if order is None else order
        wanted = Wanted(self.tests, fields, source.prefix(self.space), asked.is_scan)
        indexes = source.named()
        if has_field:
            indexes = tuple(each for each in indexes if has_field in [field.name for field in each.index.fields])
        # Fields that some documents have in a former type: no index has these in the order of today.
        self.former: frozenset[str] = frozenset()
        if source.changes.by_field:
            source.check_indexed(self.space, asked)
            self.former = source.former_fields(self.space)
            if asked.is_scan:
                indexes = tuple(
                    each for each in indexes if not self.former.intersection(field.name for field in each.index.fields)
                )
        self.plan: QueryPlan = planned(wanted, indexes, asked, source.cls.__qualname__)
        source.check_indexed(self.space, asked)
        self.check_current([field.name for field in self.plan.named.index.fields])
        if self.tx is None and self.space.inbox:
            self.space.runtime.catch_up()

    def check_current(self, fields: Iterable[str]) -> None:
        """Raise QueryError if documents have one of the fields in a former type: no index is in the order of today."""
        name = next((each for each in fields if each in self.former), None)
        if name is not None:
            field = f"{self.asked.source.cls.__qualname__}.{name}"
            message = (
                f"{self.asked}: some documents have {field} in its former type; run `headwater collections migrate "
                "MODULE:APP`, or add .scan() to read the documents"
            )
            raise QueryError(message, field=name)

    def _tests(self) -> dict[str, FieldCondition]:
        asked, source = self.asked, self.asked.source
        if not asked.is_scan:
            for _, condition in asked.conditions:
                if condition.operator is Operator.NOT_EQUAL:
                    message = f"{asked}: no index serves {condition}. Add .scan() to check each document"
                    raise QueryError(message)
        # The links of operands are those that a write to this space would store.
        with writing_to(self.space):
            return by_field([(source.ordered(field), condition) for field, condition in asked.conditions])

    @property
    def is_served(self) -> bool:
        """Whether the spans have exactly the documents of the query."""
        asked = self.asked
        return asked.limit is None and not asked.filters and not self.plan.rest

    @property
    def exact(self) -> frozenset[str] | None:
        """The fields that are compared for equality, each with one value; None if there are other conditions."""
        tests = self.tests.values()
        return frozenset(self.tests) if all(each.is_exact and len(each.intervals) == 1 for each in tests) else None

    def has(self, name: str) -> bool:
        """Whether the keys of its index have a field."""
        return any(each.name == name for each in self.plan.named.index.fields)

    # -- rows ----------------------------------------------------------------------------------------------

    def tree(self, key: DocKey) -> Maybe:
        """A document as this code sees it, in the form of today. Not recorded: the span is."""
        if self.tx is not None:
            tree = self.tx.document(key)
        elif (tree := self._passing.get(key, ABSENT)) is ABSENT:
            tree = self.space.untracked.document(key)
        changes = self.asked.source.changes
        return changes.current(tree, address_text(key), self.space) if changes.by_field else tree

    def rows(
        self,
        fields: Sequence[str] = (),
        *,
        after: bytes | None = None,
        count: int | None = None,
        loaded: bool = False,
        passing: bool = False,
    ) -> Iterator[Row]:
        """The documents in order, behind a place. `fields` are read of each of them; at most `count` are needed.

        `loaded`: the documents will be read; `passing`: as soon as they are there, and not again.
        """
        plan = self.plan
        if plan.sort:
            yield from self._sorted(fields, after)
            return
        fields = self.asked.source.stored_names(fields)
        read = tuple(sorted({*plan.fields, *fields}))
        is_loaded, limit = loaded or bool(read), None if plan.rest else count
        for place, _, doc in self._merged(read, after, limit, loaded=is_loaded, passing=passing):
            if plan.rest and not self._holds(self.tree(doc)):
                continue
            yield place, doc

    def _holds(self, tree: Maybe) -> bool:
        return tree is not ABSENT and all(test.holds(tree) for test in self.plan.rest)

    def _merged(
        self, fields: tuple[str, ...], after: bytes | None, count: int | None, *, loaded: bool, passing: bool = False
    ) -> Iterator[tuple[bytes, bytes, DocKey]]:
        """The places and keys of all spans, with their documents."""
        is_back = self.asked.descending
        streams: list[Iterator[tuple[bytes, bytes, DocKey]]] = []
        for lo, hi, offset in self.plan.spans:
            low, high = lo, hi
            if after is not None:
                known = lo[:offset] + after
                low, high = (lo, min(hi, known)) if is_back else (max(lo, known + b"\0"), hi)
            if low < high:
                found = rows(
                    self.space,
                    Span(self.plan.named.name, low, high),
                    reverse=is_back,
                    limit=count,
                    fields=fields,
                    loaded=loaded,
                    passing=self._passing if passing else None,
                )
                streams.append(_placed(found, offset))
        if len(streams) == 1:
            return streams[0]
        return merge(*streams, reverse=is_back)

    def _sorted(self, fields: Sequence[str], after: bytes | None) -> Iterator[Row]:
        """All documents, sorted here: the index has another order."""
        plan, found = self.plan, list[Row]()
        fields = self.asked.source.stored_names(fields)
        for _, _, doc in self._merged(tuple(sorted({*plan.fields, *fields})), None, None, loaded=True):
            tree = self.tree(doc)
            if self._holds(tree):
                values = [encode_field(each.stored.ordered(child(tree, each.name))) for each in plan.sort]
                found.append((b"".join(values) + encode_id(DocId(doc.partition("/")[2])), doc))
        is_back = self.asked.descending
        found.sort(reverse=is_back)
        for place, doc in found:
            if after is None or (place < after if is_back else place > after):
                yield place, doc

    def documents(self, *, after: bytes | None = None, count: int | None = None) -> Iterator[tuple[bytes, D]]:
        """The handles of the documents in order, as far as the filters take them: at most the limit, or `count`."""
        asked = self.asked
        most = _least(asked.limit, count)
        if most == 0:
            return
        done = 0
        for place, key in self.rows(after=after, count=None if asked.filters else most, loaded=True):
            document = asked.source.document(self.space, key)
            if asked.filters and not all(fn(document) for fn in asked.filters):
                continue
            yield place, document
            done += 1
            if done == most:
                return

    def taken(self, fields: Sequence[str], most: int | None = None, *, passing: bool = False) -> Iterator[DocKey]:
        """The documents that the limit, or `most`, leaves, with these fields read of each; with `passing`, at once."""
        asked, most = self.asked, _least(self.asked.limit, most)
        if asked.filters:
            for _, document in self.documents(count=most):
                assert document._hw_key is not None
                yield document._hw_key
            return
        if most == 0:
            return
        for done, (_, key) in enumerate(self.rows(fields, count=most, passing=passing), 1):
            yield key
            if done == most:
                return

    # -- cursors -------------------------------------------------------------------------------------------

    def digest(self) -> bytes:
        """Identifies the query: two that differ have different digests."""
        asked = self.asked
        tests = [[name, *(bound for each in test.intervals for bound in each)] for name, test in self.tests.items()]
        parts: list[Any] = [
            asked.source.kind,
            [each.name for each in asked.order],
            asked.descending,
            asked.is_scan,
            len(asked.filters),
            sorted(tests),
            self.asked.source.prefix(self.space),
        ]
        body = encode(array_of([array_of([*map(_frozen, parts)])]))
        return blake2b(body, digest_size=_DIGEST_BYTES).digest()

    def place_of(self, cursor: str) -> bytes:
        """The place of a cursor of this query. Raises UsageError for any other."""
        place = read_cursor(cursor, self.digest(), self.plan.named.name)
        if not self.plan.sort:
            spans = self.plan.spans
            if spans and not any(lo <= lo[:offset] + place < hi for lo, hi, offset in spans):
                raise UsageError("the cursor is of another query; begin with after=None")
        return place


class QueryLinks(LinkList):
    """The documents of a query of one span, by their keys: two lists are compared without a look at each of them."""

    __slots__ = ("_evaluation", "_keys", "_query")

    def __init__(self, query: object, evaluation: Evaluation[Any], keys: list[bytes]) -> None:
        self._query = query
        self._evaluation = evaluation
        self._keys = keys

    @property
    def is_plain(self) -> bool:
        """Nothing but its keys decides which documents it has."""
        return True

    @property
    def source(self) -> object:
        """The query."""
        return self._query

    def __len__(self) -> int:
        return len(self._keys)

    def common_ends(self, before: LinkList) -> tuple[int, int]:
        """How many keys at the beginning, and how many at the end, are those of the list before."""
        assert isinstance(before, QueryLinks)
        old, new = before._keys, self._keys
        most = min(len(old), len(new))
        start = _largest(most, lambda count: old[:count] == new[:count])
        return start, _largest(most - start, lambda count: old[len(old) - count :] == new[len(new) - count :])

    def entries(self, start: int, end: int) -> list[ElementEntry]:
        """The entries of some of them."""
        source, space = self._evaluation.asked.source, self._evaluation.space
        record = source.record()
        return [DocEntry(source.document(space, doc_of(record, key))) for key in self._keys[start:end]]


def found_links(query: object, asked: Asked[Any]) -> QueryLinks | None:
    """The documents of a query by their keys; None if one span does not say which they are."""
    if asked.filters or asked.limit == 0:
        return None
    evaluation = Evaluation(asked)
    plan = evaluation.plan
    if plan.rest or plan.sort or len(plan.spans) != 1:
        return None
    (lo, hi, _), index = plan.spans[0], plan.named.name
    found = all_keys(evaluation.space, Span(index, lo, hi), reverse=asked.descending, limit=asked.limit)
    return QueryLinks(query, evaluation, found)


def _placed(found: Iterable[tuple[bytes, DocKey]], offset: int) -> Iterator[tuple[bytes, bytes, DocKey]]:
    """The rows of a span, with their places in the order of the query."""
    return ((key[offset:], key, doc) for key, doc in found)


def _largest(most: int, holds: Callable[[int], bool]) -> int:
    """The largest number for which it holds, if it holds for all that are less."""
    return bisect_left(range(1, most + 1), True, key=lambda count: not holds(count))


def _least(one: int | None, other: int | None) -> int | None:
    return other if one is None else one if other is None else min(one, other)


def _frozen(part: Any) -> Any:  # noqa: ANN401  # a tree of lists
    return array_of([_frozen(each) for each in part]) if isinstance(part, list) else part
