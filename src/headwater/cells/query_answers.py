"""Answers of queries that are no documents: numbers, sums, extremes, groups, and values of fields."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from math import fsum
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from headwater.cells.document_class import Doc
from headwater.cells.document_field import DocField
from headwater.cells.indexed_fields import NONE, OrderedField, values_of
from headwater.cells.query_rows import Asked, Evaluation
from headwater.errors import QueryError, UsageError
from headwater.values.ids import DocKey
from headwater.values.intake import RefusedError
from headwater.values.schema import LinkFound, Schema
from headwater.values.sortkey import encode_field
from headwater.values.text import count_text
from headwater.values.tree import ABSENT, Maybe, Value, child

D = TypeVar("D", bound=Doc)

GroupKind: TypeAlias = Literal["count", "sum", "min", "max"]

_NUMBERS: Final = frozenset({int, float})


class Answers(Generic[D]):
    """A query that is asked for something else than its documents."""

    __slots__ = ("_asked",)

    def __init__(self, asked: Asked[D]) -> None:
        self._asked = asked

    @property
    def _source_name(self) -> str:
        return self._asked.source.cls.__qualname__

    # -- numbers -------------------------------------------------------------------------------------------

    def count(self) -> int:
        """The number of documents."""
        return sum(1 for _ in Evaluation(self._asked).taken(()))

    def exists(self) -> bool:
        """Whether there is one."""
        if self._asked.limit == 0:
            return False
        return any(True for _ in Evaluation(self._asked).documents(count=1))

    def sum(self, field: DocField) -> int | float:
        """The exact sum of a field."""
        ordered = self._numeric(field, "sum")
        evaluation = self._over(field, "sum")
        return _sum_of(self._numbers(evaluation, ordered), ordered)

    def _numeric(self, field: DocField, verb: str) -> OrderedField:
        ordered = self._asked.source.ordered(field)
        if not _NUMBERS.intersection(ordered.takes):
            message = f"{verb}({self._source_name}.{field.name}): the field is {ordered.schema.expected}"
            raise UsageError(f"{message}, and a sum is of int or float")
        return ordered

    def _numbers(self, evaluation: Evaluation[D], field: OrderedField) -> Iterator[int | float]:
        for key in evaluation.taken((field.name,)):
            found = field.stored.ordered(child(evaluation.tree(key), field.name))
            if type(found) is int or type(found) is float:
                yield found

    def _over(self, field: DocField, verb: str) -> Evaluation[D]:
        """The evaluation for an answer that needs a field of each document: of an index, of a total, or by a scan."""
        asked = self._asked
        if asked.is_scan:
            return Evaluation(asked)
        plain = Evaluation(asked)
        if field.name in {each.name for each in plain.plan.named.index.fields}:
            return plain
        exact = frozenset(name for name, test in plain.tests.items() if test.is_exact)
        if exact == plain.tests.keys() and asked.source.has_total(field, exact):
            return plain
        try:
            return Evaluation(asked, has_field=field.name)
        except QueryError:
            name, by = f"{self._source_name}.{field.name}", sorted(exact)
            told = ", ".join(f"{self._source_name}.{each}" for each in by)
            whole = f", by={told}" if len(by) == 1 else f", by=({told})" if by else ""
            message = f"{asked}: no index has {name}, which {verb}(...) needs of each document"
            advice = f"totals=[hw.total({name}{whole})]" if verb == "sum" else f"an index that ends with {name}"
            raise QueryError(f"{message}. Declare {advice}, or add .scan() to read the documents") from None

    # -- extremes ------------------------------------------------------------------------------------------

    def extreme(self, field: DocField, *, is_last: bool) -> object:
        """The least or the greatest value of a field; None without documents."""
        asked, ordered = self._asked, self._asked.source.ordered(field)
        if asked.filters or asked.limit is not None or asked.is_scan:
            evaluation = self._over(field, "max" if is_last else "min")
            if asked.filters or asked.limit is not None or evaluation.plan.rest:
                return self._extreme_of(evaluation, ordered, is_last=is_last)
        towards = Asked(asked.source, asked.conditions, (), is_last, 1, asked.is_scan, asked.filters)
        evaluation = Evaluation(towards, order=(ordered,), within=(ordered, values_of(ordered)))
        if evaluation.plan.sort:
            return self._extreme_of(Evaluation(asked), ordered, is_last=is_last)
        key = next(evaluation.taken((ordered.name,)), None)
        return None if key is None else self._loaded(evaluation, ordered.field, key)

    def _extreme_of(self, evaluation: Evaluation[D], field: OrderedField, *, is_last: bool) -> object:
        best: tuple[bytes, DocKey] | None = None
        for key in evaluation.taken((field.name,)):
            place = encode_field(field.stored.ordered(child(evaluation.tree(key), field.name)))
            if place > NONE and (best is None or (place > best[0] if is_last else place < best[0])):
                best = (place, key)
        return None if best is None else self._loaded(evaluation, field.field, best[1])

    # -- groups --------------------------------------------------------------------------------------------

    def distinct(self, field: DocField) -> list[object]:
        """The values of a field, each once, in their order."""
        return list(self._grouped(field, None, lambda _keys: None))

    def groups(self, field: DocField, kind: GroupKind, of: DocField | None) -> dict[object, object]:
        """An answer for each value of a field."""
        if kind == "count" or of is None:
            return self._grouped(field, None, lambda values: len(values))
        ordered = self._numeric(of, "sum") if kind == "sum" else self._asked.source.ordered(of)
        if kind == "sum":
            return self._grouped(field, of, lambda values: _sum_of(_numbers_of(values, ordered), ordered))
        found = self._grouped(field, of, lambda values: _extreme(values, ordered, is_last=kind == "max"))
        return {group: value for group, value in found.items() if value is not None}

    def _grouped(
        self, field: DocField, of: DocField | None, answer: Callable[[list[Maybe]], object]
    ) -> dict[object, object]:
        """The answer for the values of a second field, by the values of the first one, in their order."""
        asked, ordered = self._asked, self._asked.source.ordered(field)
        if asked.limit is not None or asked.filters or asked.is_scan:
            evaluation = Evaluation(asked)
        else:
            evaluation = self._group_evaluation(ordered, of)
        members: dict[bytes, tuple[DocKey, list[Maybe]]] = {}
        names = (field.name,) if of is None else (field.name, of.name)
        for key in evaluation.taken(names):
            tree = evaluation.tree(key)
            place = encode_field(ordered.stored.ordered(child(tree, field.name)))
            group = members.get(place)
            if group is None:
                group = members[place] = (key, [])
            group[1].append(ABSENT if of is None else child(tree, of.name))
        return {
            self._loaded(evaluation, field, key): answer(values) for _, (key, values) in sorted(members.items())
        }

    def _group_evaluation(self, ordered: OrderedField, of: DocField | None) -> Evaluation[D]:
        asked, source = self._asked, self._asked.source
        evaluation = Evaluation(asked, order=(ordered,))
        if of is None or of.name in {each.name for each in evaluation.plan.named.index.fields}:
            return evaluation
        exact = frozenset(name for name, test in evaluation.tests.items() if test.is_exact)
        if exact == evaluation.tests.keys() and source.has_total(of, exact | {ordered.name}):
            return evaluation
        try:
            return Evaluation(asked, order=(ordered,), has_field=of.name)
        except QueryError:
            cls = self._source_name
            message = (
                f"{asked}, grouped by {cls}.{ordered.name}: no index has {cls}.{of.name}. Declare "
                f"totals=[hw.total({cls}.{of.name}, by={cls}.{ordered.name})] for sums, an index of both, or add .scan()"
            )
            raise QueryError(message) from None

    # -- values of fields ----------------------------------------------------------------------------------

    def values(self, fields: tuple[DocField, ...]) -> list[Any]:
        """The values of some fields: alone, or as tuples."""
        evaluation = Evaluation(self._asked)
        names = tuple(dict.fromkeys(each.name for each in fields))
        load = evaluation_loader(evaluation, self._asked, fields)
        if len(fields) == 1:
            return [load(key)[0] for key in evaluation.taken(names)]
        return [tuple(load(key)) for key in evaluation.taken(names)]

    def _loaded(self, evaluation: Evaluation[D], field: DocField, key: DocKey) -> Any:  # noqa: ANN401  # any value
        return evaluation_loader(evaluation, self._asked, (field,))(key)[0]

    # -- in words ------------------------------------------------------------------------------------------

    def explain(self) -> str:
        """How it is answered."""
        asked = self._asked
        evaluation = Evaluation(asked)
        plan = evaluation.plan
        lines = [f"{asked}:", f"  index {plan.named.name}, {count_text(len(plan.spans), 'span')}"]
        served = [name for name in evaluation.tests if name not in {each.field.name for each in plan.rest}]
        if served:
            lines.append(f"  the spans have exactly the documents with these conditions: {', '.join(served)}")
        if plan.rest:
            lines.append(f"  checked in each document: {', '.join(each.field.name for each in plan.rest)}")
        if asked.filters:
            lines.append(f"  {count_text(len(asked.filters), 'filter')} called for each document")
        if plan.sort:
            lines.append(f"  sorted in memory by {', '.join(each.name for each in plan.sort)}")
        if asked.descending:
            lines.append("  from the greatest to the least")
        if asked.limit is not None:
            lines.append(f"  at most {asked.limit}")
        return "\n".join(lines)


def evaluation_loader(
    evaluation: Evaluation[Any], asked: Asked[Any], fields: tuple[DocField, ...]
) -> Callable[[DocKey], list[Any]]:
    """What reads these fields of a document: its tree where that is enough, else the document itself."""
    parts: list[tuple[str, Schema, Maybe, DocField]] = [(each.name, *each.resolve(), each) for each in fields]
    space = evaluation.space

    def load(key: DocKey) -> list[Any]:
        tree, found = evaluation.tree(key), list[Any]()
        for name, schema, default, field in parts:
            stored = child(tree, name)
            value: Maybe = default if stored is ABSENT else stored
            if value is not ABSENT and schema.is_leaf:
                try:
                    found.append(schema.load(value, space))
                    continue
                except (RefusedError, LinkFound):
                    pass
            # A list, a map or a link elsewhere, or a value that does not fit: as reading the field has it.
            found.append(field.__get__(asked.source.document(space, key), asked.source.cls))
        return found

    return load


def _numbers_of(values: Iterable[Maybe], field: OrderedField) -> Iterator[int | float]:
    for value in values:
        found = field.stored.ordered(value)
        if type(found) is int or type(found) is float:
            yield found


def _sum_of(numbers: Iterable[int | float], field: OrderedField) -> int | float:
    return fsum(numbers) if field.stored.form == "float" else sum(numbers)


def _extreme(values: Iterable[Maybe], field: OrderedField, *, is_last: bool) -> object:
    best: tuple[bytes, Value] | None = None
    for value in values:
        stored = field.stored.default if value is ABSENT else value
        place = encode_field(field.stored.ordered(stored))
        if stored is ABSENT or place <= NONE:
            continue
        if best is None or (place > best[0] if is_last else place < best[0]):
            best = (place, stored)
    return None if best is None else field.load(best[1], None)
