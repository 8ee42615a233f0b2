"""Any sequence of operations on lists, maps and cells, in transactions or not, does what it does to a list or dict."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import headwater as hw


class Box(hw.Doc):
    words: hw.List[str] = hw.List()
    ready: hw.List[int] = hw.List([1, 2, 3])
    votes: hw.Map[str, int] = hw.Map()
    rooms: hw.Map[int, str] = hw.Map({1: "a"})


app = hw.App("model")
box = app.doc("box", Box)
numbers = app.cell("numbers", [1, 2])
table: hw.Cell[dict[str, Any]] = app.cell("table", {"a": 1, "deep": {"list": [1]}})
count = app.cell("count", 10)

START: dict[str, Any] = {
    "words": [],
    "ready": [1, 2, 3],
    "votes": {},
    "rooms": {1: "a"},
    "numbers": [1, 2],
    "table": {"a": 1, "deep": {"list": [1]}},
    "count": 10,
}


class StopError(Exception):
    """Raised to leave a transaction."""


def seen() -> dict[str, Any]:
    return {
        "words": list(box.words),
        "ready": list(box.ready),
        "votes": dict(box.votes),
        "rooms": dict(box.rooms),
        "numbers": numbers.value,
        "table": table.value,
        "count": count.value,
    }


# --- operations: what is done to the document, and the same to the model ----------------------------------------

Pair = tuple[Callable[[], Any], Callable[[dict[str, Any]], Any]]

words = st.sampled_from(["a", "b", "c", ""])
small = st.integers(-3, 3)
indexes = st.integers(-5, 5)
keys = st.sampled_from(["a", "b", "", "x/y"])
slices = st.builds(slice, st.none() | indexes, st.none() | indexes)


def both(name: str, real: Callable[[], Any], do: Callable[[Any], Any]) -> Pair:
    """The same call on the document's list or map and on the model's."""
    return lambda: do(real()), lambda model: do(model[name])


def on_list(name: str, real: Callable[[], Any], items: st.SearchStrategy[Any]) -> st.SearchStrategy[Pair]:
    def make(do: Callable[..., Any], *args: Any) -> Pair:
        return both(name, real, lambda target: do(target, *args))

    return st.one_of(
        st.builds(lambda item: make(lambda t: t.append(item)), items),
        st.builds(lambda some: make(lambda t: t.extend(some)), st.lists(items, max_size=3)),
        st.builds(lambda index, item: make(lambda t: t.insert(index, item)), indexes, items),
        st.builds(lambda index, item: make(lambda t: t.__setitem__(index, item)), indexes, items),
        st.builds(lambda part, some: make(lambda t: t.__setitem__(part, some)), slices, st.lists(items, max_size=3)),
        st.builds(lambda index: make(lambda t: t.__delitem__(index)), indexes),
        st.builds(lambda part: make(lambda t: t.__delitem__(part)), slices),
        st.builds(lambda index: make(lambda t: t.pop(index)), indexes),
        st.builds(lambda item: make(lambda t: t.remove(item)), items),
        st.builds(lambda item: make(lambda t: t.index(item)), items),
        st.builds(lambda index: make(lambda t: t[index]), indexes),
        st.builds(lambda part: make(lambda t: list(t[part])), slices),
        st.builds(lambda item: make(lambda t: item in t), items),
        st.builds(lambda: make(len)),
        st.builds(lambda: make(lambda t: t.reverse())),
        st.builds(lambda: make(lambda t: t.clear())),
        st.builds(lambda: make(lambda t: list(reversed(t)))),
        st.builds(
            lambda some: (lambda: setattr(box, name, some), lambda model: model.__setitem__(name, list(some))),
            st.lists(items, max_size=3),
        ),
    )


def on_map(
    name: str, real: Callable[[], Any], key: st.SearchStrategy[Any], items: st.SearchStrategy[Any]
) -> st.SearchStrategy[Pair]:
    def make(do: Callable[[Any], Any]) -> Pair:
        return both(name, real, do)

    return st.one_of(
        st.builds(lambda k, item: make(lambda t: t.__setitem__(k, item)), key, items),
        st.builds(lambda k: make(lambda t: t.__delitem__(k)), key),
        st.builds(lambda k: make(lambda t: t[k]), key),
        st.builds(lambda k: make(lambda t: t.get(k)), key),
        st.builds(lambda k: make(lambda t: k in t), key),
        st.builds(lambda k: make(lambda t: t.pop(k)), key),
        st.builds(lambda k, item: make(lambda t: t.pop(k, item)), key, items),
        st.builds(lambda k, item: make(lambda t: t.setdefault(k, item)), key, items),
        st.builds(lambda some: make(lambda t: t.update(some)), st.dictionaries(key, items, max_size=3)),
        st.builds(lambda: make(lambda t: t.clear())),
        st.builds(lambda: make(len)),
        st.builds(lambda: make(lambda t: sorted(t.items()))),
    )


def removed(target: list[Any], item: Any) -> None:
    target[:] = [other for other in target if other != item]


def put(model: dict[str, Any], path: tuple[Any, ...], value: Any) -> None:
    *above, last = path
    target: Any = model
    for step in above:
        target = target[step]
    target[last] = value


on_cells: st.SearchStrategy[Pair] = st.one_of(
    st.builds(lambda n: (lambda: numbers.append(n), lambda m: m["numbers"].append(n)), small),
    st.builds(lambda n: (lambda: numbers.extend([n, n]), lambda m: m["numbers"].extend([n, n])), small),
    st.builds(lambda i, n: (lambda: numbers.insert(i, n), lambda m: m["numbers"].insert(i, n)), indexes, small),
    st.builds(lambda n: (lambda: numbers.remove(n), lambda m: removed(m["numbers"], n)), small),
    st.builds(
        lambda n: (
            lambda: numbers.add_unique(n),
            lambda m: m["numbers"].append(n) if n not in m["numbers"] else None,
        ),
        small,
    ),
    st.builds(
        lambda some: (lambda: setattr(numbers, "value", some), lambda m: put(m, ("numbers",), list(some))),
        st.lists(small),
    ),
    st.builds(lambda: (numbers.clear, lambda m: put(m, ("numbers",), [1, 2]))),
    st.builds(lambda n: (lambda: count.increment(n), lambda m: put(m, ("count",), m["count"] + n)), small),
    st.builds(
        lambda n: (lambda: count.update(lambda old: old * n), lambda m: m.update(count=m["count"] * n)), small
    ).map(lambda pair: (lambda: (pair[0](), None)[1], pair[1])),
    st.builds(lambda: (count.clear, lambda m: put(m, ("count",), 10))),
    st.builds(lambda k, n: (lambda: setattr(table.key(k), "value", n), lambda m: put(m, ("table", k), n)), keys, small),
    st.builds(lambda k: (lambda: table.remove(k), lambda m: (m["table"].pop(k, None), None)[1]), keys),
    st.builds(
        lambda n: (
            lambda: table.at("deep", "list", type=list).append(n),
            lambda m: m["table"].setdefault("deep", {}).setdefault("list", []).append(n),
        ),
        small,
    ),
    st.builds(
        lambda: (
            lambda: setattr(table, "value", {"deep": {}}),
            lambda m: put(m, ("table",), {"deep": {}}),
        )
    ),
    st.builds(lambda: (table.clear, lambda m: put(m, ("table",), deepcopy(START["table"])))),
)

operations = st.one_of(
    on_list("words", lambda: box.words, words),
    on_list("ready", lambda: box.ready, small),
    on_map("votes", lambda: box.votes, keys, small),
    on_map("rooms", lambda: box.rooms, st.integers(0, 3), words),
    on_cells,
)
# A block of a transaction, which may fail, with parts of its own; outside of them, operations by themselves.
blocks = st.recursive(
    st.lists(operations, max_size=4),
    lambda inner: st.tuples(st.lists(operations | inner, max_size=4), st.booleans()),
    max_leaves=6,
)
programs = st.lists(operations | st.tuples(blocks, st.booleans()), max_size=12)


def outcome(do: Callable[[], Any]) -> tuple[Any, type | None]:
    try:
        return do(), None
    except (IndexError, KeyError, ValueError, TypeError) as error:
        return None, type(error)


def run(space: hw.Space, model: dict[str, Any], steps: Any) -> None:
    for step in steps:
        if isinstance(step, tuple) and callable(step[0]):
            real, plain = step
            expected = outcome(lambda plain=plain: plain(model))  # type: ignore[misc]
            assert outcome(real) == expected
            assert seen() == model
        elif isinstance(step, list):
            run(space, model, step)
        else:
            inner, fails = step
            before = deepcopy(model)
            try:
                with space.transaction():
                    run(space, model, inner if isinstance(inner, list) else [inner])
                    if fails:
                        raise StopError
            except StopError:
                model.clear()
                model.update(before)
            assert seen() == model


@given(programs)
def test_operations_do_what_they_do_to_lists_and_dicts(program: Any) -> None:
    with app.open("memory:") as space:
        model = deepcopy(START)
        run(space, model, program)
        space.sync()
        assert seen() == model
        assert space.stats.rejected == 0


@given(programs)
def test_what_was_stored_is_what_was_seen(program: Any) -> None:
    """A second opening of the same store, which has seen none of it, reads the same."""
    from headwater.host.composition import host_parts
    from headwater.host.plain_opening import PlainOpening
    from headwater.host.plain_runtime import PlainRuntime
    from headwater.host.space_files import open_space
    from headwater.inspect.opening_inspection import OpeningInspection
    from headwater.runtime.lease import Lease
    from headwater.runtime.options import Options

    storage = open_space("memory:")

    def opened(release: Callable[[], None] | None = None) -> hw.Space:
        lease, options, parts = Lease(storage, None, release), Options(), host_parts(OpeningInspection)
        return hw.Space(PlainOpening(lease, PlainRuntime(lease, options, parts), app, options, parts))

    one = opened()
    app.register_in(one._opening)
    one._opening.enter()
    try:
        run(one, deepcopy(START), program)
        one.sync()
        expected = seen()
        two = opened(lambda: None)
        two._opening.enter()
        try:
            assert seen() == expected
        finally:
            two._opening.leave()
            two.close()
    finally:
        one._opening.leave()
        one.close()
