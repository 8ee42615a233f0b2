"""Which index serves a query, and which spans of it: one fixed rule, and an error with the index to declare.

An index serves a query if its first fields are those that are compared for equality, the next is the one with a range,
and the fields of the order follow. Of several indexes, the one with the fewest fields is taken, then the first by name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Final, NamedTuple

from headwater.cells.conditions import CHOICES_MAX, Condition, Operator
from headwater.cells.indexed_fields import NONE, Interval, OrderedField, point, type_span
from headwater.errors import QueryError, UsageError
from headwater.store.collection_record import NamedIndex
from headwater.values.sortkey import AFTER, CUT_BYTES, encode_field, prefix_span
from headwater.values.tree import Maybe, child

FIELDS_MAX: Final = 4
"""Fields of an index: more would be several questions in one."""


@dataclass(frozen=True, slots=True, eq=False)
class FieldCondition:
    """All conditions on one field: the encoded values that meet them, as disjoint intervals in their order."""

    field: OrderedField
    intervals: tuple[Interval, ...]
    is_exact: bool
    """Each interval is one value."""

    def holds(self, document: Maybe) -> bool:
        """Whether a document meets it."""
        found = encode_field(self.field.stored.ordered(child(document, self.field.name)))
        return any(lo <= found < hi for lo, hi in self.intervals)


class SpanPart(NamedTuple):
    """One span of an index. Its keys are merged with those of the others from `offset` on."""

    lo: bytes
    hi: bytes
    offset: int


@dataclass(frozen=True, slots=True, eq=False)
class QueryPlan:
    """How a query is answered."""

    named: NamedIndex
    spans: tuple[SpanPart, ...]
    # Conditions that the index does not serve, checked document by document.
    rest: tuple[FieldCondition, ...]
    # Fields by which the results are sorted, because the index does not have them in that order.
    sort: tuple[OrderedField, ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that are read of every document in the spans."""
        fields = [*[each.field for each in self.rest], *self.sort]
        return tuple(sorted({name for each in fields for name in each.stored.names}))


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """What a query asks of an index."""

    tests: Mapping[str, FieldCondition]
    order: tuple[OrderedField, ...]
    # All keys of one user begin with it, if the collection is each user's own.
    prefix: bytes
    is_scan: bool

    @property
    def exact(self) -> frozenset[str]:
        """The fields that are compared for equality."""
        return frozenset(name for name, test in self.tests.items() if test.is_exact)

    @property
    def ranged(self) -> list[str]:
        """The fields with a range."""
        return [name for name, test in self.tests.items() if not test.is_exact]

    @property
    def ordered(self) -> list[str]:
        """The fields of the order, without those that have one value only."""
        return [
            each.name for each in self.order if each.name not in self.tests or not _is_single(self.tests[each.name])
        ]


def _is_single(test: FieldCondition) -> bool:
    return test.is_exact and len(test.intervals) <= 1


# --- conditions ---------------------------------------------------------------------------------------------------


def by_field(conditions: Sequence[tuple[OrderedField, Condition]]) -> dict[str, FieldCondition]:
    """The conditions of each field, in the order in which the fields are named first."""
    found: dict[str, FieldCondition] = {}
    for field, condition in conditions:
        test = _test(field, condition)
        before = found.get(field.name)
        if before is not None:
            test = FieldCondition(field, common(before.intervals, test.intervals), before.is_exact or test.is_exact)
        found[field.name] = test
    return found


def _test(field: OrderedField, condition: Condition) -> FieldCondition:
    operator, operands = condition.operator, condition.operands
    if operator is Operator.IS_NONE:
        return FieldCondition(field, (point(NONE),), is_exact=True)
    if operator is Operator.ONE_OF:
        points = {NONE if each is None else field.encoded(each) for each in operands}
        return FieldCondition(field, tuple(point(each) for each in sorted(points)), is_exact=True)
    if operator is Operator.STARTS_WITH:
        return FieldCondition(field, (_beginning(field, condition),), is_exact=False)
    if operator is Operator.NOT_EQUAL:
        lo, hi = point(NONE if operands[0] is None else field.encoded(operands[0]))
        return FieldCondition(field, ((b"", lo), (hi, AFTER)), is_exact=False)
    encoded = field.encoded(operands[0])
    low, high = type_span(encoded)
    if operator is Operator.EQUAL:
        return FieldCondition(field, (point(encoded),), is_exact=True)
    if operator is Operator.BETWEEN:
        last = field.encoded(operands[1])
        # Of two types only if one is a time with an offset and the other is not: then nothing is between them.
        low, high = encoded, last + AFTER if type_span(last) == (low, high) else encoded
    elif operator is Operator.LESS:
        high = encoded
    elif operator is Operator.AT_MOST:
        high = encoded + AFTER
    elif operator is Operator.MORE:
        low = encoded + AFTER
    else:
        low = encoded
    return FieldCondition(field, ((low, high),) if low < high else (), is_exact=False)


def _beginning(field: OrderedField, condition: Condition) -> Interval:
    prefix = condition.operands[0]
    assert isinstance(prefix, str)
    if not field.is_text:
        raise UsageError(f"{condition}: a prefix is of text, and the field is {field.schema.expected}")
    if len(prefix.encode()) > CUT_BYTES:
        raise UsageError(
            f"{field.name}: a prefix has at most {CUT_BYTES} bytes, and this one has {len(prefix)} letters"
        )
    return prefix_span(prefix)


def common(one: Iterable[Interval], other: Iterable[Interval]) -> tuple[Interval, ...]:
    """What both have, in order."""
    found = [(max(lo, low), min(hi, high)) for lo, hi in one for low, high in other]
    return tuple(sorted(each for each in found if each[0] < each[1]))


# --- choosing an index --------------------------------------------------------------------------------------------


class _Service(NamedTuple):
    """What an index does for a query: its first fields are compared, and the order begins at one of them."""

    named: NamedIndex
    compared: int
    order_at: int | None


def planned(wanted: Wanted, indexes: Sequence[NamedIndex], what: object, kind: str) -> QueryPlan:
    """The plan of a query. Raises QueryError if no index serves it. `what` is the query, for its text in messages."""
    if wanted.is_scan:
        return _scan(wanted, indexes, what)
    found = [each for each in (_service(wanted, named) for named in indexes) if each is not None]
    if not found:
        raise _unserved(wanted, what, kind)
    best = min(found, key=lambda each: (len(each.named.index.fields), each.named.name))
    return QueryPlan(best.named, _spans(wanted, best, what), (), ())


def _names(named: NamedIndex) -> list[str]:
    return [each.name for each in named.index.fields]


def _service(wanted: Wanted, named: NamedIndex) -> _Service | None:
    """How an index serves the whole query; None if it does not."""
    names, exact, ranged = _names(named), wanted.exact, wanted.ranged
    count = len(exact)
    if set(names[:count]) != exact or len(ranged) > 1 or names[count : count + len(ranged)] != ranged:
        return None
    start = _order_start(wanted, names, count)
    return None if start is None else _Service(named, count + len(ranged), start)


def _order_start(wanted: Wanted, names: list[str], count: int) -> int | None:
    """The field of an index at which its order is the wanted one, behind at most `count` fields of known values."""
    ordered = wanted.ordered
    if not ordered:
        return 0
    return next((at for at in range(count, -1, -1) if names[at : at + len(ordered)] == ordered), None)


def _scan(wanted: Wanted, indexes: Sequence[NamedIndex], what: object) -> QueryPlan:
    """The index that serves most conditions; all others are checked."""
    exact, ranged = wanted.exact, wanted.ranged
    found: list[_Service] = []
    for named in indexes:
        names = _names(named)
        count = next((at for at, name in enumerate(names) if name not in exact), len(names))
        compared = count + (names[count : count + 1] in [[name] for name in ranged])
        found.append(_Service(named, compared, _order_start(wanted, names, count)))
    best = min(
        found,
        key=lambda each: (-each.compared, each.order_at is None, len(each.named.index.fields), each.named.name),
    )
    served = set(_names(best.named)[: best.compared])
    rest = tuple(test for name, test in wanted.tests.items() if name not in served)
    return QueryPlan(best.named, _spans(wanted, best, what), rest, wanted.order if best.order_at is None else ())


def _spans(wanted: Wanted, service: _Service, what: object) -> tuple[SpanPart, ...]:
    names = _names(service.named)[: service.compared]
    parts = [wanted.tests[name].intervals for name in names]
    count = 1
    for part in parts:
        count *= len(part)
    if count > CHOICES_MAX:
        message = f"{what}: the conditions make {count} spans of index {service.named.name}, and {CHOICES_MAX} are"
        raise UsageError(f"{message} merged at most; ask for fewer values at once", spans=count)
    found: list[SpanPart] = []
    for chosen in product(*parts):
        # Exact values are whole fields of the key: all but the last are.
        head = wanted.prefix + b"".join(lo for lo, _ in chosen[:-1])
        lo, hi = chosen[-1] if chosen else (b"", AFTER)
        offset = len(wanted.prefix) + sum(len(lo) for lo, _ in chosen[: service.order_at or 0])
        found.append(SpanPart(head + lo, head + hi, offset))
    return tuple(sorted(found))


# --- refusing -----------------------------------------------------------------------------------------------------


def _unserved(wanted: Wanted, what: object, kind: str) -> QueryError:
    ordered, ranged = wanted.ordered, wanted.ranged
    names = [*(name for name in wanted.tests if wanted.tests[name].is_exact)]
    if len(ranged) > 1 or (ranged and ordered and ordered[0] != ranged[0]):
        both = " and ".join(f"{kind}.{name}" for name in ranged[:2]) if len(ranged) > 1 else f"{kind}.{ranged[0]}"
        reason = (
            f"an index serves one range, and there are ranges of {both}"
            if len(ranged) > 1
            else f"a range of {both} and an order by {kind}.{ordered[0]} are not served by one index"
        )
        return QueryError(
            f"{what}: {reason}. Add .scan() to read all that an index finds, and to check or sort the rest"
        )
    names += [name for name in (*ranged, *ordered) if name not in names]
    names = list(dict.fromkeys(names))
    if len(names) > FIELDS_MAX:
        message = f"{what} compares {len(names)} fields, and an index has at most {FIELDS_MAX}"
        return QueryError(f"{message}. Add .scan() to read all that an index finds, and to check the rest")
    told = ", ".join(f"{kind}.{name}" for name in names)
    line = f"indexes=[({told})]" if len(names) > 1 else f"indexes=[{told}]"
    message = f"{what}: no index serves it. Declare one, {line}, or add .scan() to read and check all documents"
    return QueryError(message, index=tuple(names))
