"""Answers of queries that are no documents: numbers, sums, extremes, groups, and values of fields.

The spans answer where they have all that is asked: such an answer is kept current, and compared. Conditions that no
index serves, filters and limits need a pass over the documents.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from math import fsum
from typing import Any, Generic, Literal, TypeAlias, TypeVar, cast

from headwater.cells.document_class import Doc
from headwater.cells.document_field import DocField
from headwater.cells.indexed_fields import NONE, OrderedField
from headwater.cells.query_rows import Asked, Evaluation
from headwater.cells.span_records import Span, SpanQuestion
from headwater.cells.spans import answer
from headwater.errors import QueryError, UsageError
from headwater.values.ids import DocKey
from headwater.values.intake import RefusedError
from headwater.values.schema import LinkFound, Schema
from headwater.values.sortkey import Ordered, encode_field
from headwater.values.text import count_text
from headwater.values.tree import ABSENT, Maybe, child

D = TypeVar("D", bound=Doc)

GroupKind: TypeAlias = Literal["count", "sum", "min", "max"]


class Answers(Generic[D]):
    """A query that is asked for something else than its documents."""

    __slots__ = ("_asked",)

    def __init__(self, asked: Asked[D]) -> None:
        self._asked = asked

    @property
    def _cls(self) -> str:
        return self._asked.source.cls.__qualname__

    def _of_spans(self, evaluation: Evaluation[D], question: SpanQuestion) -> list[Any]:
        """The answers of all spans."""
        name = evaluation.plan.named.name
        return [answer(evaluation.space, Span(name, lo, hi), question) for lo, hi, _ in evaluation.plan.spans]

    def _is_served(self, evaluation: Evaluation[D], *fields: OrderedField | None) -> bool:
        """Whether the spans answer a question about fields. Raises QueryError for one in a former type."""
        names = [each.name for each in fields if each is not None]
        if not evaluation.former.intersection(names):
            return evaluation.is_served
        if not self._asked.is_scan:
            evaluation.check_current(names)
        return False

    # -- numbers -------------------------------------------------------------------------------------------

    def count(self) -> int:
        """The number of documents."""
        if self._asked.limit == 0:
            return 0
        evaluation = Evaluation(self._asked)
        if evaluation.is_served:
            return sum(cast("list[int]", self._of_spans(evaluation, SpanQuestion("count"))))
        return sum(1 for _ in evaluation.taken(()))

    def is_found(self) -> bool:
        """Whether there is one."""
        if self._asked.limit == 0:
            return False
        evaluation = Evaluation(self._asked)
        if evaluation.is_served:
            name = evaluation.plan.named.name
            spans = [Span(name, lo, hi) for lo, hi, _ in evaluation.plan.spans]
            return any(answer(evaluation.space, span, SpanQuestion("exists")) for span in spans)
        return any(True for _ in evaluation.taken((), most=1))

    def sum(self, field: DocField) -> int | float:
        """The exact sum of a field."""
        ordered = self._numeric(field)
        evaluation = self._over(ordered, "sum")
        if self._is_served(evaluation, ordered) and (ordered.stored.form != "float" or len(evaluation.plan.spans) == 1):
            found = cast("list[int | float]", self._of_spans(evaluation, SpanQuestion("sum", ordered.stored)))
            return _as(ordered, sum(found))
        return _sum_of(self._values(evaluation, ordered), ordered)

    def _numeric(self, field: DocField) -> OrderedField:
        ordered = self._asked.source.ordered(field)
        if not ordered.is_number:
            message = f"sum({self._cls}.{field.name}): the field is {ordered.schema.expected}"
            raise UsageError(f"{message}, and a sum is of int or float")
        return ordered

    def _values(self, evaluation: Evaluation[D], field: OrderedField) -> Iterator[Ordered]:
        for key in evaluation.taken((field.name,), passing=True):
            yield field.stored.ordered(child(evaluation.tree(key), field.name))

    def _over(self, field: OrderedField, verb: str) -> Evaluation[D]:
        """The evaluation for an answer that needs a field of each document: of an index, of a total, or by a scan."""
        asked = self._asked
        if asked.is_scan or asked.source.has_total(field.field, asked.compared):
            return Evaluation(asked)
        try:
            return Evaluation(asked, has_field=field.name)
        except QueryError:
            # Of the conditions, if there is no index for these; or of a former type.
            plain = Evaluation(asked)
            plain.check_current([field.name])
            if asked.source.has_total(field.field, plain.exact):
                return plain
            name, by = f"{self._cls}.{field.name}", sorted(plain.exact or ())
            told = ", ".join(f"{self._cls}.{each}" for each in by)
            whole = f", by={told}" if len(by) == 1 else f", by=({told})" if by else ""
            message = f"{asked}: no index has {name}, which {verb}(...) needs of each document"
            advice = f"totals=[hw.total({name}{whole})]" if verb == "sum" else f"an index that has {name}"
            raise QueryError(f"{message}. Declare {advice}, or add .scan() to read the documents") from None

    # -- extremes ------------------------------------------------------------------------------------------

    def extreme(self, field: DocField, *, is_last: bool) -> object:
        """The least or the greatest value of a field; None without documents."""
        asked, ordered = self._asked, self._asked.source.ordered(field)
        if asked.limit is None and not asked.filters:
            towards = Asked(asked.source, asked.conditions, (), is_last, 1, asked.is_scan)
            evaluation = Evaluation(towards, order=(ordered,), within=(ordered, ordered.values))
            if not evaluation.plan.sort:
                # The first key has it, and every change of it moves a key.
                key = next(evaluation.taken((ordered.name,) if evaluation.plan.rest else ()), None)
                return None if key is None else self._loaded(evaluation, ordered.field, key)
        return self._extreme_of(Evaluation(asked), ordered, is_last=is_last)

    def _extreme_of(self, evaluation: Evaluation[D], field: OrderedField, *, is_last: bool) -> object:
        kind: GroupKind = "max" if is_last else "min"
        if self._is_served(evaluation, field) and field.is_exact:
            found = self._of_spans(evaluation, SpanQuestion(kind, field.stored))
            best = _extreme(found, is_last=is_last)
            if best is None:
                return None
            # A value of another type: the greatest one of all. Read the documents for the greatest one of this type.
            with suppress(RefusedError):
                return field.loaded(best)
        places: dict[bytes, DocKey] = {}
        for key in evaluation.taken((field.name,)):
            places.setdefault(encode_field(field.stored.ordered(child(evaluation.tree(key), field.name))), key)
        lo, hi = field.values
        known = [place for place in places if lo <= place < hi]
        if not known:
            return None
        return self._loaded(evaluation, field.field, places[max(known) if is_last else min(known)])

    # -- groups --------------------------------------------------------------------------------------------

    def distinct(self, field: DocField) -> list[object]:
        """The values of a field, each once, in their order."""
        ordered = self._asked.source.ordered(field)
        evaluation = self._by(ordered, None)
        if self._is_served(evaluation, ordered) and ordered.is_exact:
            codes: dict[bytes, Ordered] = {}
            for values in self._of_spans(evaluation, SpanQuestion("distinct", ordered.stored)):
                codes.update((encode_field(value), value) for value in values)
            return list(_loadable(ordered, (codes[code] for code in sorted(codes))))
        return [group for group, _ in self._grouped(evaluation, ordered, None)]

    def groups(self, field: DocField, kind: GroupKind, of: DocField | None) -> dict[object, object]:
        """An answer for each value of a field."""
        source = self._asked.source
        by = source.ordered(field)
        ordered = None if of is None else self._numeric(of) if kind == "sum" else source.ordered(of)
        evaluation = self._by(by, ordered)
        is_exact = by.is_exact and (ordered is None or ordered.is_exact)
        if self._is_served(evaluation, by, ordered) and is_exact and len(evaluation.plan.spans) == 1:
            question = SpanQuestion(kind, None if ordered is None else ordered.stored, by.stored)
            found: list[tuple[Ordered, Any]] = list(self._of_spans(evaluation, question)[0])
        else:
            return self._answered(self._grouped(evaluation, by, ordered), kind, ordered)
        answered: dict[object, object] = {}
        for group, value in found:
            for key in _loadable(by, (group,)):
                if ordered is None or kind == "sum":
                    answered[key] = value if ordered is None else _as(ordered, value)
                elif value is not None:
                    try:
                        answered[key] = ordered.loaded(value)
                    except RefusedError:
                        # As for one value.
                        return self._answered(self._grouped(evaluation, by, ordered), kind, ordered)
        return answered

    def _by(self, by: OrderedField, of: OrderedField | None) -> Evaluation[D]:
        """The evaluation for groups: of an index that continues with the field, or by a scan."""
        asked, source = self._asked, self._asked.source
        if asked.is_scan or asked.filters or asked.limit is not None:
            return Evaluation(asked)
        evaluation = Evaluation(asked, order=(by,))
        if of is None or evaluation.has(of.name):
            return evaluation
        exact = evaluation.exact
        if exact is not None and source.has_total(of.field, exact | {by.name}):
            return evaluation
        try:
            return Evaluation(asked, order=(by,), has_field=of.name)
        except QueryError:
            group, name = f"{self._cls}.{by.name}", f"{self._cls}.{of.name}"
            message = (
                f"{asked}, grouped by {group}: no index has {name}. Declare totals=[hw.total({name}, by={group})] for "
                f"sums, an index of both, or add .scan()"
            )
            raise QueryError(message) from None

    def _grouped(
        self, evaluation: Evaluation[D], by: OrderedField, of: OrderedField | None
    ) -> list[tuple[object, list[DocKey]]]:
        """The documents of each value, in the order of the values."""
        members: dict[bytes, list[DocKey]] = {}
        names = (by.name,) if of is None else (by.name, of.name)
        for key in evaluation.taken(names):
            code = encode_field(by.stored.ordered(child(evaluation.tree(key), by.name)))
            members.setdefault(code, []).append(key)
        return [
            (value, members[code])
            for code in sorted(members)
            for value in self._fitting(evaluation, by, members[code][0])
        ]

    def _answered(
        self, groups: list[tuple[object, list[DocKey]]], kind: GroupKind, of: OrderedField | None
    ) -> dict[object, object]:
        if of is None:
            return {group: len(keys) for group, keys in groups}
        evaluation, found = Evaluation(self._asked), dict[object, object]()
        for group, keys in groups:
            values = {key: of.stored.ordered(child(evaluation.tree(key), of.name)) for key in keys}
            if kind == "sum":
                found[group] = _sum_of(values.values(), of)
                continue
            codes = {encode_field(value): key for key, value in values.items()}
            lo, hi = of.values
            known = [code for code in codes if lo <= code < hi]
            if known:
                key = codes[max(known) if kind == "max" else min(known)]
                found[group] = self._loaded(evaluation, of.field, key)
        return found

    # -- values of fields ----------------------------------------------------------------------------------

    def values(self, fields: tuple[DocField, ...]) -> list[Any]:
        """The values of some fields: alone, or as tuples."""
        if self._asked.limit == 0:
            return []
        evaluation = Evaluation(self._asked)
        names = tuple(dict.fromkeys(each.name for each in fields))
        load = _loader(evaluation, fields)
        keys = evaluation.taken(names, passing=True)
        return [load(key)[0] for key in keys] if len(fields) == 1 else [tuple(load(key)) for key in keys]

    def _loaded(self, evaluation: Evaluation[D], field: DocField, key: DocKey) -> Any:  # noqa: ANN401  # any value
        return _loader(evaluation, (field,))(key)[0]

    def _fitting(self, evaluation: Evaluation[D], field: OrderedField, key: DocKey) -> Iterator[object]:
        """The value of a field; none if it does not fit the type."""
        stored = child(evaluation.tree(key), field.name)
        value = field.stored.default if stored is ABSENT else stored
        if value is not ABSENT:
            try:
                yield field.schema.load(value, evaluation.space)
            except (RefusedError, LinkFound):
                return

    # -- in words ------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """How it is answered."""
        asked = self._asked
        evaluation = Evaluation(asked)
        plan = evaluation.plan
        lines = [f"{asked}:", f"  index {plan.named.name}, {count_text(len(plan.spans), 'span')}"]
        checked = [each.field.name for each in plan.rest]
        served = [name for name in evaluation.tests if name not in checked]
        if served:
            lines.append(f"  the index serves the conditions on {', '.join(served)}")
        if checked:
            lines.append(f"  checked in each document: {', '.join(checked)}")
        if asked.filters:
            lines.append(f"  {count_text(len(asked.filters), 'filter')} called for each document")
        if plan.sort:
            lines.append(f"  sorted in memory by {', '.join(each.name for each in plan.sort)}")
        if asked.descending:
            lines.append("  from the greatest to the least")
        if asked.limit is not None:
            lines.append(f"  at most {count_text(asked.limit, 'document')}")
        return "\n".join(lines)


def _loader(evaluation: Evaluation[Any], fields: tuple[DocField, ...]) -> Callable[[DocKey], list[Any]]:
    """What reads these fields of a document: its tree where that is enough, else the document itself."""
    source = evaluation.asked.source
    parts: list[tuple[str, Schema, Maybe, DocField]] = [(each.name, *each.resolve(), each) for each in fields]
    space = evaluation.space

    def load(key: DocKey) -> list[Any]:
        tree, found = evaluation.tree(key), list[Any]()
        for name, schema, default, field in parts:
            stored = child(tree, name)
            value: Maybe = default if stored is ABSENT else stored
            if type(value) in schema.plain:
                found.append(value)
                continue
            if value is not ABSENT and schema.is_leaf:
                try:
                    found.append(schema.load(value, space))
                    continue
                except (RefusedError, LinkFound):
                    pass
            # A list, a map or a link elsewhere, or a value that does not fit: as reading the field has it.
            found.append(field.__get__(source.document(space, key), source.cls))
        return found

    return load


def _loadable(field: OrderedField, values: Iterable[Ordered]) -> Iterator[object]:
    """The values that fit the type of a field."""
    for value in values:
        try:
            yield field.loaded(value)
        except RefusedError:
            continue


def _sum_of(values: Iterable[Ordered], field: OrderedField) -> int | float:
    numbers = [value for value in values if type(value) is int or type(value) is float]
    return fsum(numbers) if field.stored.form == "float" else _as(field, sum(numbers))


def _as(field: OrderedField, number: float) -> int | float:
    """A sum in the type of the field: of nothing it is 0."""
    return float(number) if field.stored.form == "float" else number


def _extreme(values: Iterable[Ordered], *, is_last: bool) -> Ordered:
    """The extreme of the values besides None; None without one."""
    codes = {encode_field(value): value for value in values}
    known = [code for code in codes if code > NONE]
    return codes[max(known) if is_last else min(known)] if known else None
