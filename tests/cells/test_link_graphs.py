"""Random small graphs of links, read and written, beside a resolver that is written from the rules and nothing else."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

from hypothesis import example, given
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import AddressError
from headwater.scheduler.graph.node import NodeKind, NodeSpec
from tests.cells.kit import ABSENT, link, put, stored

DOCS = ("a", "b", "c", "d")
STEPS: tuple[str | int, ...] = ("x", "y", 0, 1)
NOTHING = object()

paths = st.lists(st.sampled_from(STEPS), max_size=3).map(tuple)


class Hop:
    """A link, for the model: where it leads."""

    def __init__(self, doc: str, path: tuple[str | int, ...], redirect: bool) -> None:
        self.doc, self.path, self.redirect = doc, path, redirect

    def __repr__(self) -> str:
        return f"{'=>' if self.redirect else '->'}{self.doc}{list(self.path)}"

    def __deepcopy__(self, _memo: object) -> Hop:
        return self


hops = st.builds(
    Hop, st.sampled_from((*DOCS, "nowhere")), st.lists(st.sampled_from(STEPS), max_size=2).map(tuple), st.booleans()
)
values = st.recursive(
    st.integers(0, 9) | hops,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from(("x", "y")), inner, max_size=2),
    max_leaves=5,
)
worlds = st.fixed_dictionaries(dict.fromkeys(DOCS, values))


def real(value: Any) -> Any:
    """A value of the model as it is stored."""
    match value:
        case Hop():
            return link(value.doc, *value.path, redirect=value.redirect)
        case dict():
            return {key: real(item) for key, item in value.items()}
        case list():
            return [real(item) for item in value]
        case _:
            return value


# --- the model --------------------------------------------------------------------------------------------------


def step_down(value: Any, step: str | int) -> Any:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step, NOTHING)
    if isinstance(value, list) and isinstance(step, int):
        return value[step] if step < len(value) else NOTHING
    return NOTHING


def find(
    world: dict[str, Any], doc: str, path: tuple[str | int, ...], *, write: bool = False
) -> tuple[str, tuple[str | int, ...]] | None:
    """Where a path leads: one link after the other, and nowhere if that goes on and on. With so few links as there are
    here, two hundred hops go on for ever."""
    for _ in range(200):
        value = world.get(doc, NOTHING)
        for length, step in enumerate(path):
            if isinstance(value, Hop):
                doc, path = value.doc, value.path + path[length:]
                break
            value = step_down(value, step)
        else:
            if not isinstance(value, Hop) or (write and not value.redirect):
                return doc, path
            doc, path = value.doc, value.path
    return None


def look(world: dict[str, Any], doc: str, path: tuple[str | int, ...]) -> Any:
    value = world.get(doc, NOTHING)
    for step in path:
        value = step_down(value, step)
    return value


def read(world: dict[str, Any], doc: str, path: tuple[str | int, ...], above: frozenset[Any] = frozenset()) -> Any:
    """What is read there. `above` are the containers that the reading is inside of."""
    place = find(world, doc, path)
    if place is None or (place != (doc, path) and place in above):
        # A link that leads back is cut; what merely stands there once more is not.
        return NOTHING
    value = look(world, *place)
    inside = above | {place}
    if isinstance(value, dict):
        found = {key: read(world, place[0], (*place[1], key), inside) for key in value}
        return {key: item for key, item in found.items() if item is not NOTHING}
    if isinstance(value, list):
        items = [read(world, place[0], (*place[1], index), inside) for index in range(len(value))]
        return [None if item is NOTHING else item for item in items]
    return value


# --- the properties ---------------------------------------------------------------------------------------------

app = hw.App("graph")


@given(worlds, st.sampled_from(DOCS), paths)
@example(
    {"a": {"x": Hop("b", (), False)}, "b": {"x": Hop("a", ("x",), False), "y": 1}, "c": 0, "d": 0}, "a", ("x", "x", "y")
)
@example({"a": {"x": Hop("a", ("x", "y"), False)}, "b": 0, "c": 0, "d": 0}, "a", ("x",))
def test_reading_through_links_is_what_the_rules_say(
    world: dict[str, Any], doc: str, path: tuple[str | int, ...]
) -> None:
    expected = read(world, doc, path)
    with app.open("memory:") as space:
        with space.transaction():
            for name, value in world.items():
                put(space, name, real(value))
        cell = space.cell(doc).at(*path)
        assert cell.value == (None if expected is NOTHING else expected)
        assert cell.exists == (expected is not NOTHING)
        with space.transaction():
            assert cell.value == (None if expected is NOTHING else expected)


@given(worlds, st.sampled_from(DOCS), paths, st.sampled_from(("set", "clear")))
def test_writing_through_links_lands_where_the_rules_say(
    world: dict[str, Any], doc: str, path: tuple[str | int, ...], verb: str
) -> None:
    place = find(world, doc, path, write=True)
    after = deepcopy(world)
    with app.open("memory:") as space:
        with space.transaction():
            for name, value in world.items():
                put(space, name, real(value))
        cell = space.cell(doc).at(*path)
        try:
            if verb == "set":
                cell.value = "new"
            else:
                cell.clear()
        except AddressError:
            # In a circle; or what stands above it is no container, or a list that is too short.
            assert place is None or look(world, *place) is NOTHING
        else:
            assert place is not None
            change(after, *place, "new" if verb == "set" else NOTHING)
        for name in (*DOCS, "nowhere"):
            found = stored(space, name)
            expected = real(after.get(name, NOTHING))
            assert (NOTHING if found is ABSENT else found) == expected


def change(world: dict[str, Any], doc: str, path: tuple[str | int, ...], value: Any) -> None:
    if not path:
        world[doc] = value
        return
    holder = look(world, doc, path[:-1])
    last: Any = path[-1]
    if value is NOTHING:
        if look(world, doc, path) is not NOTHING:
            del holder[last]
    elif holder is NOTHING:
        # Made on the way: a map for a key, a list for the element 0.
        change(world, doc, path[:-1], {last: value} if isinstance(last, str) else [value])
    elif isinstance(holder, list) and last == len(holder):
        holder.append(value)
    else:
        holder[last] = value


@given(worlds, st.sampled_from(DOCS), paths, st.sampled_from(DOCS), paths)
def test_whoever_reads_something_else_now_has_what_changed_in_its_journal(
    world: dict[str, Any], doc: str, path: tuple[str | int, ...], changed: str, place: tuple[str | int, ...]
) -> None:
    shown: list[Any] = []
    watch = hw.App("watch")
    with watch.open("memory:") as space:
        with space.transaction():
            for name, value in world.items():
                put(space, name, real(value))
        cell = space.cell(doc).at(*path)
        node = space.scheduler.register(
            NodeSpec(name="show", fn=lambda: shown.append(cell.value), kind=NodeKind.EFFECT)
        )
        space.settle()
        try:
            space.cell(changed).at(*place).value = "new"
        except AddressError:
            return
        assert node.runs <= 2
        now = cell.value
        assert shown[-1] == now
