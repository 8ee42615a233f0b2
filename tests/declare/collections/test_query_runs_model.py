"""Functions with random queries, and random writes: each has the answer of plain Python, and runs only for a reason.

What a function depends on, by the kind of its query: the keys of its part of the index, with the fields that it reads
of these documents, or the answer alone. It runs exactly if that is another one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.values.ids import DocId
from headwater.values.sortkey import encode_id


class Item(hw.Doc):
    number: int
    a: int = 0
    b: int = 0
    c: int = 0


class Row(NamedTuple):
    """A document, as the model has it."""

    number: int
    a: int
    b: int
    c: int
    place: bytes = b""


class Case(NamedTuple):
    """A query in a function, and the same in plain Python: its answer, and what it depends on."""

    name: str
    ask: Callable[[Any], object]
    answer: Callable[[list[Row]], object]
    depends: Callable[[list[Row]], object]


def _keys(rows: Iterable[Row]) -> list[tuple[int, int]]:
    return [(row.b, row.number) for row in rows]


def _with_c(rows: Iterable[Row]) -> list[tuple[int, int, int]]:
    return [(row.b, row.number, row.c) for row in rows]


KINDS: dict[str, tuple[Callable[[Any], object], Callable[[list[Row]], object], Callable[[list[Row]], object]]] = {
    "ids": (lambda q: len(q.ids()), len, _keys),
    "loop": (lambda q: [item.number for item in q], lambda rows: [row.number for row in rows], _keys),
    "loop with a field": (lambda q: [item.c for item in q], lambda rows: [row.c for row in rows], _with_c),
    "values": (lambda q: q.values(Item.c), lambda rows: [row.c for row in rows], _with_c),
}
ANSWERS: dict[str, tuple[Callable[[Any], object], Callable[[list[Row]], object]]] = {
    "count": (lambda q: q.count(), len),
    "exists": (lambda q: q.exists(), bool),
    "sum": (lambda q: q.sum(Item.b), lambda rows: sum(row.b for row in rows)),
    "scanned sum": (lambda q: q.scan().sum(Item.c), lambda rows: sum(row.c for row in rows)),
    "scanned max": (lambda q: q.scan().max(Item.c), lambda rows: max((row.c for row in rows), default=None)),
    "distinct": (lambda q: q.distinct(Item.b), lambda rows: sorted({row.b for row in rows})),
    "groups": (
        lambda q: [[*each] for each in q.group_by(Item.b).count().items()],
        lambda rows: [[*each] for each in sorted(Counter(row.b for row in rows).items())],
    ),
}
ENDS: dict[str, tuple[Callable[[Any], object], Callable[[list[Row]], object], slice]] = {
    "min": (lambda q: q.min(Item.b), lambda rows: min((row.b for row in rows), default=None), slice(0, 1)),
    "max": (lambda q: q.max(Item.b), lambda rows: max((row.b for row in rows), default=None), slice(-1, None)),
}

small = st.integers(0, 3)


@st.composite
def cases(draw: st.DrawFn, items: hw.Collection[Item]) -> Case:
    a, least = draw(st.integers(0, 1)), draw(st.none() | small)
    conditions = [Item.a == a, *([] if least is None else [Item.b >= least])]
    query: Any = items.where(*conditions)

    def rows_of(rows: list[Row]) -> list[Row]:
        found = [row for row in rows if row.a == a and (least is None or row.b >= least)]
        return sorted(found, key=lambda row: (row.b, row.place))

    name = draw(st.sampled_from([*KINDS, *ANSWERS, *ENDS]))
    if name in ANSWERS:
        ask, answer = ANSWERS[name]
        return Case(name, lambda _: ask(query), lambda rows: answer(rows_of(rows)), lambda rows: answer(rows_of(rows)))
    if name in ENDS:
        ask, answer, part = ENDS[name]
        return Case(
            name, lambda _: ask(query), lambda rows: answer(rows_of(rows)), lambda rows: _keys(rows_of(rows)[part])
        )
    ask, answer, depends = KINDS[name]
    is_back, limit = draw(st.booleans()), draw(st.none() | st.integers(1, 3))
    ordered = query.order_by(Item.b, descending=is_back)
    ordered = ordered if limit is None else ordered.limit(limit)

    def part_of(rows: list[Row]) -> list[Row]:
        found = rows_of(rows)
        return (found[::-1] if is_back else found)[:limit]

    return Case(
        f"{name} {limit}",
        lambda _: ask(ordered),
        lambda rows: answer(part_of(rows)),
        lambda rows: depends(part_of(rows)),
    )


class Write(NamedTuple):
    """A write of one document: a new one, a field of one, or its end."""

    kind: str
    which: int
    value: int


writes = st.builds(Write, st.sampled_from(["add", "add", "a", "b", "c", "c", "delete"]), st.integers(0, 20), small)
steps = st.lists(st.lists(writes, min_size=1, max_size=3), min_size=1, max_size=12)


class Model:
    """The documents, here and in the model."""

    def __init__(self) -> None:
        self.rows: list[Row] = []
        self.items: dict[int, Item] = {}
        self._next = 0

    def write(self, write: Write) -> None:
        if write.kind == "add":
            self._next += 1
            a, c = write.which % 2, write.which % 4
            item = self.items[self._next] = Item(number=self._next, a=a, b=write.value, c=c)
            place = encode_id(DocId(hw.id_of(item)))
            self.rows.append(Row(self._next, a, write.value, c, place))
        elif self.rows:
            index = write.which % len(self.rows)
            row = self.rows[index]
            if write.kind == "delete":
                hw.delete(self.items.pop(row.number))
                del self.rows[index]
            else:
                value = write.value % 2 if write.kind == "a" else write.value
                setattr(self.items[row.number], write.kind, value)
                self.rows[index] = row._replace(**{write.kind: value})


@given(data=st.data(), steps=steps)
def test_functions_have_the_answers_and_run_only_when_they_may_have_changed(
    data: st.DataObject, steps: list[list[Write]]
) -> None:
    app = hw.App("model")
    items = app.collection(Item, indexes=[(Item.a, Item.b)])
    chosen = data.draw(st.lists(cases(items), min_size=1, max_size=5))
    functions = [app.computed(name=f"f{index}")(_function(case)) for index, case in enumerate(chosen)]

    @app.sink
    def show() -> None:
        for each in functions:
            each()

    model = Model()
    with app.open("memory:") as space:
        for step in steps:
            before = [
                (space.runs(each), case.depends(model.rows)) for each, case in zip(functions, chosen, strict=True)
            ]
            with space.transaction():
                for write in step:
                    model.write(write)
            for function, case, (runs, depended) in zip(functions, chosen, before, strict=True):
                assert function() == case.answer(model.rows), case.name
                ran = space.runs(function) - runs
                assert ran == (depended != case.depends(model.rows)), (case.name, step)


def _function(case: Case) -> Callable[[], Any]:
    def function() -> Any:
        return case.ask(None)

    return function
