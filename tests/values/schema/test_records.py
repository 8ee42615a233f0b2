"""Records: maps with the fields' names, made through their constructors."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import InitVar, dataclass, field
from datetime import date
from typing import Any

import pytest

from headwater.errors import DeclarationError, FrozenError
from headwater.values.frozen import FrozenDict, FrozenList
from headwater.values.hints import schema_of
from headwater.values.intake import RefusedError
from headwater.values.link import LinkRecord
from headwater.values.schema import LinkFound
from headwater.values.tree import ABSENT, freeze, same
from tests.values.schema.shapes import (
    Box,
    Busy,
    Careful,
    Checking,
    Empty,
    Fixed,
    Frozen,
    Grown,
    Inherited,
    Movie,
    Mutable,
    Node,
    Note,
    OtherSelfish,
    Partial,
    Point,
    Renamed,
    Selfish,
    Slotted,
    Tagged,
    Untyped,
)

LINK = LinkRecord(path=("a",)).to_value()

FITTING: list[tuple[Any, Any, dict[str, Any]]] = [
    (Note, Note("a"), {"title": "a", "done": False, "tags": []}),
    (Fixed, Fixed("a", date(2024, 1, 2)), {"title": "a", "due": "2024-01-02", "tags": []}),
    (
        Slotted,
        Slotted(1, [Note("a")], note="n"),
        {"rank": 1, "notes": [{"title": "a", "done": False, "tags": []}], "note": "n"},
    ),
    (
        Node,
        Node("a", [Node("b")]),
        {
            "name": "a",
            "children": [{"name": "b", "children": [], "best": None, "by_name": {}}],
            "best": None,
            "by_name": {},
        },
    ),
    (Careful, Careful(3), {"amount": 3, "total": 6, "visits": 0}),
    (Box[date], Box(date(2024, 1, 2)), {"item": "2024-01-02", "items": []}),
    (Box, Box(5, ["x"]), {"item": 5, "items": ["x"]}),
    (Point, Point(1), {"x": 1, "y": 0, "path": []}),
    (Untyped, Untyped(1, [2]), {"a": 1, "b": [2]}),
    (Movie, {"title": "a", "year": 5}, {"title": "a", "year": 5}),
    (Movie, {"title": "a"}, {"title": "a"}),
    (Partial, {"title": "a", "when": date(2024, 1, 2)}, {"title": "a", "when": "2024-01-02"}),
    (Mutable, Mutable("a", ["b"]), {"title": "a", "tags": ["b"], "by_name": {}}),
    (Frozen, Frozen("a"), {"title": "a", "tags": []}),
    (Renamed, Renamed("a", "b"), {"firstName": "a", "lastName": "b"}),
    (Tagged, Tagged(1), {"kind": "tagged", "value": 1}),
    (Empty, Empty(), {}),
    (Grown, Grown("a", extra=1), {"title": "a", "tags": [], "by_name": {}, "extra": 1}),
    (Inherited, Inherited("a"), {"title": "a", "tags": [], "by_name": {}}),
]


@pytest.mark.parametrize(("hint", "value", "stored"), FITTING)
def test_record_is_stored_as_a_map_and_loads_as_its_class(hint: Any, value: Any, stored: dict[str, Any]) -> None:
    schema = schema_of(hint)
    tree = schema.store(value)
    assert same(tree, freeze(stored))
    back = schema.load(tree, None)
    assert back == value
    assert value == back
    assert isinstance(back, type(value))
    assert repr(back) == repr(value)
    assert same(schema.store(back), tree)


REFUSED: list[tuple[Any, Any, str, list[str | int]]] = [
    (Note, {"title": "a"}, "expected Note, got dict of 1 item", []),
    (Note, Fixed("a"), "expected Note, got Fixed(title='a', due=None, tags=[])", []),
    (Note, Note(5), "expected str, got int 5", ["title"]),
    (Node, Node("a", [Node("b", [Node(1)])]), "expected str, got int 1", ["children", 0, "children", 0, "name"]),
    (Movie, {"year": 5}, "field 'title' is missing", []),
    (Movie, {"title": "a", "yaer": 5}, "Movie has no field str 'yaer'", []),
    (Movie, {"title": 5}, "expected str, got int 5", ["title"]),
    (Movie, [], "expected Movie, got list of 0 items", []),
    (Point, (1, 2, []), "expected Point, got tuple of 3 items", []),
    (Box[int], Box("a"), "expected int, got str 'a'", ["item"]),
    (Renamed, Renamed("a", 5), "expected str, got int 5", ["lastName"]),
]


@pytest.mark.parametrize(("hint", "value", "reason", "path"), REFUSED)
def test_misfit_is_refused_with_its_place(hint: Any, value: Any, reason: str, path: list[str | int]) -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(hint).store(value)
    assert caught.value.reason == reason
    assert caught.value.steps[::-1] == path


@pytest.mark.parametrize(
    ("hint", "tree", "reason", "path"),
    [
        (Note, [], "expected Note, got FrozenList of 0 items", []),
        (Note, {"done": True}, "field 'title' is missing", []),
        (Note, {"title": 1}, "expected str, got int 1", ["title"]),
        (Note, {"title": "a", "tags": ["b", 3]}, "expected str, got int 3", ["tags", 1]),
        (Careful, {"amount": -1}, "Careful refuses it: amount must not be negative", []),
        (Checking, {"amount": -1}, "Checking refuses it: amount must not be negative", []),
        (Tagged, {"kind": "other", "value": 1}, "expected kind 'tagged', got str 'other'", []),
        (Movie, {"title": 5}, "expected str, got int 5", ["title"]),
        (Movie, {}, "field 'title' is missing", []),
    ],
)
def test_stored_misfit_is_found_with_its_place(hint: Any, tree: Any, reason: str, path: list[str | int]) -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(hint).load(freeze(tree), None)
    assert caught.value.reason == reason
    assert caught.value.steps[::-1] == path


@pytest.mark.parametrize("hint", [Note, Point, Movie, Mutable])
def test_link_is_met_instead_of_a_record_and_within_one(hint: Any) -> None:
    schema = schema_of(hint)
    with pytest.raises(LinkFound):
        schema.load(LINK, None)
    with pytest.raises(LinkFound) as caught:
        schema.load(freeze({"title": LINK, "x": LINK}), None)
    assert len(caught.value.steps) == 1


def test_unknown_keys_are_passed_over() -> None:
    assert schema_of(Note).load(freeze({"title": "a", "later": 1}), None) == Note("a")
    assert schema_of(Movie).load(freeze({"title": "a", "later": 1}), None) == {"title": "a"}
    assert schema_of(Note).load(freeze({"title": "a"} | {f"x{n}": n for n in range(600)}), None) == Note("a")
    assert schema_of(Movie).load(freeze({"title": "a"} | {f"x{n}": n for n in range(600)}), None) == {"title": "a"}


def test_missing_fields_have_their_defaults_which_are_frozen() -> None:
    for hint, tree in (
        (Note, {"title": "a"}),
        (Fixed, {"title": "a"}),
        (Mutable, {"title": "a"}),
        (Frozen, {"title": "a"}),
    ):
        loaded: Any = schema_of(hint).load(freeze(tree), None)
        assert loaded == hint("a")
        with pytest.raises(FrozenError):
            loaded.tags.append("x")
    point: Any = schema_of(Point).load(freeze({"x": 1}), None)
    assert point == Point(1)
    with pytest.raises(FrozenError):
        point.path.append(1)
    assert Point(1).path == []


def test_default_of_a_field_is_known_as_a_tree() -> None:
    schema = schema_of(Note)
    assert schema.field_default("done") is False
    assert same(schema.field_default("tags"), FrozenList())
    assert schema.field_default("title") is ABSENT
    assert schema.field_default("other") is ABSENT
    assert schema.field_default(0) is ABSENT
    assert same(schema_of(Mutable).field_default("by_name"), FrozenDict())
    assert same(schema_of(Mutable).field_default("tags"), FrozenList())
    assert schema_of(Movie).field_default("year") is ABSENT
    assert schema_of(Point).field_default("y") == 0
    assert schema_of(Careful).field_default("total") is ABSENT


def test_parts_of_a_record_are_found_by_the_name_they_are_stored_under() -> None:
    assert schema_of(Note).child("title") is schema_of(str)
    assert schema_of(Note).child("other") is None
    assert schema_of(Note).child(0) is None
    assert schema_of(Renamed).child("firstName") is schema_of(str)
    assert schema_of(Renamed).child("first_name") is None
    tag = schema_of(Tagged).child("kind")
    assert tag is not None
    assert tag.expected == "'tagged'"
    node = schema_of(Node)
    children = node.child("children")
    assert children is not None
    assert children.child(0) is node


def test_fields_that_the_constructor_does_not_take_are_kept() -> None:
    careful = Careful(3, 5)
    careful.visits = 7
    schema = schema_of(Careful)
    tree = schema.store(careful)
    assert tree == {"amount": 3, "total": 15, "visits": 7}
    back: Any = schema.load(tree, None)
    assert (back.amount, back.total, back.visits) == (3, 15, 7)
    assert schema.load(freeze({"amount": 2}), None) == Careful(2)


def test_attribute_that_was_deleted_is_missing() -> None:
    note = Note("a")
    del note.title
    with pytest.raises(RefusedError) as caught:
        schema_of(Note).store(note)
    assert caught.value.reason == "field 'title' is missing"


def test_what_the_constructor_makes_of_its_arguments_is_frozen_too() -> None:
    schema = schema_of(Busy)
    loaded: Any = schema.load(schema.store(Busy(["a"], by_name={"x": [1]}, anything=[1])), None)
    assert loaded.tags == ["a", "added"]
    for read in (loaded.tags, loaded.more, loaded.by_name["x"], loaded.anything):
        with pytest.raises(FrozenError):
            read.append(1)
    with pytest.raises(FrozenError):
        loaded.by_name["y"] = []
    again: Any = schema.load(freeze({"tags": ["b"], "missing": [1]}), None)
    assert again.tags == ["b", "added"]
    assert again.missing == [1]


@dataclass
class Spoiling:
    tags: list[str]

    def __post_init__(self) -> None:
        self.tags = set(self.tags)  # type: ignore[assignment]


def test_constructor_that_makes_something_else_of_a_field_is_found() -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(Spoiling).load(freeze({"tags": ["a"]}), None)
    assert caught.value.reason == "expected list[str], got set {'a'}"
    assert caught.value.steps == ["tags"]


class Quiet(Exception):  # noqa: N818
    pass


@dataclass
class Refusing:
    a: int

    def __post_init__(self) -> None:
        raise Quiet


def test_constructor_that_raises_without_a_word_is_named_by_its_exception() -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(Refusing).load(freeze({"a": 1}), None)
    assert caught.value.reason == "Refusing refuses it: Quiet"


@dataclass
class Longer(Note):
    extra: int = 0


def test_subclass_whose_own_fields_would_be_lost_is_refused() -> None:
    with pytest.raises(RefusedError) as caught:
        schema_of(Note).store(Longer("a", extra=5))
    assert "got Longer, whose extra would be lost" in caught.value.reason


def test_subclass_without_fields_of_its_own_is_stored() -> None:
    @dataclass
    class Renamed(Note):
        pass

    assert same(schema_of(Note).store(Renamed("a")), schema_of(Note).store(Note("a")))


def test_typed_dict_that_needs_no_change_loads_as_itself() -> None:
    tree = freeze({"title": "a", "year": 5})
    assert schema_of(Movie).load(tree, None) is tree
    loaded: Any = schema_of(Partial).load(freeze({"title": "a", "when": "2024-01-02"}), None)
    assert loaded == {"title": "a", "when": date(2024, 1, 2)}
    with pytest.raises(FrozenError):
        loaded["title"] = "b"


def test_class_that_names_itself_as_self_means_itself() -> None:
    schema = schema_of(Selfish)
    back: Any = schema.load(schema.store(Selfish([Selfish()])), None)
    assert isinstance(back.others[0], Selfish)
    assert isinstance(schema_of(OtherSelfish).load(freeze({"others": [{}]}), None), OtherSelfish)


@pytest.fixture
def normal_stack() -> Iterator[None]:
    """As deep as Python has it from the start: other tests' tools make it deeper."""
    before = sys.getrecursionlimit()
    sys.setrecursionlimit(1000)
    yield
    sys.setrecursionlimit(before)


@pytest.mark.usefixtures("normal_stack")
def test_tree_that_is_nested_too_deep_for_the_stack_is_refused_as_a_limit() -> None:
    tree: Any = {"name": "leaf"}
    for _ in range(500):
        tree = {"name": "n", "best": tree}
    node = Node("n")
    node.best = node
    with pytest.raises(RefusedError) as caught:
        schema_of(Node).store(node)
    assert caught.value.limit
    with pytest.raises(RefusedError) as caught:
        schema_of(Node).load(freeze(tree), None)
    assert caught.value.limit


# --- what cannot be declared ------------------------------------------------------------------------------------


@dataclass
class NeedsMore:
    a: int
    scale: InitVar[int]


@dataclass(init=False)
class OwnConstructor:
    a: int

    def __init__(self, raw: str = "") -> None:
        self.a = len(raw)


@dataclass(init=False)
class OpenConstructor:
    a: int

    def __init__(self, *_: int, **fields: int) -> None:
        self.a = fields["a"]


@dataclass
class FailureError(Exception):
    a: int


@dataclass
class WrongDefault:
    a: int = None  # type: ignore[assignment]


@dataclass
class Unknown:
    a: Nowhere  # type: ignore[name-defined]  # noqa: F821


@dataclass
class Unreadable:
    a: 5 + None  # type: ignore[valid-type]


@dataclass
class Holder:
    tags: set[str] = field(default_factory=set)


@pytest.mark.parametrize(
    ("hint", "message"),
    [
        (NeedsMore, "making a NeedsMore takes 'scale', which is no field"),
        (OwnConstructor, "the constructor of OwnConstructor does not take its field 'a'"),
        (FailureError, "FailureError cannot be read back"),
        (WrongDefault, "the default of field 'a' of WrongDefault: expected int, got None"),
        (
            Unknown,
            r"the annotations of Unknown name 'Nowhere', which module tests\.values\.schema\.test_records does not",
        ),
        (Unreadable, "the annotations of Unreadable cannot be read: unsupported operand"),
        (list[Holder], "cell 'x': field 'tags' of Holder: set.* cannot be stored; use list"),
    ],
)
def test_class_that_could_not_be_read_back_cannot_be_declared(hint: Any, message: str) -> None:
    with pytest.raises(DeclarationError, match=message):
        schema_of(hint, where="cell 'x'")


def test_constructor_that_takes_anything_is_fine() -> None:
    loaded: Any = schema_of(OpenConstructor).load(freeze({"a": 5}), None)
    assert loaded.a == 5


def test_class_inside_of_a_function_may_name_itself() -> None:
    @dataclass
    class Local:
        parts: list[Local] = field(default_factory=list)

    schema = schema_of(Local)
    assert schema.load(freeze({"parts": [{}]}), None) == Local([Local()])
