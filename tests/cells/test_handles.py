"""Cells, documents and lists inside other types: handed out as they are, and never looked into."""

from __future__ import annotations

import copy
import pickle
import threading
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NotRequired, TypedDict

import pytest

import headwater as hw
from headwater.errors import AddressError, SchemaError, UnconfirmedLinkError, UsageError
from tests.cells.kit import Sent, checks, depends, inside, link, put, stored


class Person(hw.Doc):
    name: str


@dataclass
class Card:
    title: str
    count: hw.Cell[int]
    owner: Person | None = None
    tags: hw.List[str] = field(default_factory=hw.List)


class Row(TypedDict):
    text: hw.Cell[str]
    who: NotRequired[Person]


app = hw.App("h")
card: hw.Cell[Card] = app.cell("card", type=Card)
preset: hw.Cell[Card] = app.cell("preset", Card("preset", 5, None, hw.List(["a"])), type=Card)  # type: ignore[arg-type]
row: hw.Cell[Row] = app.cell("row", type=Row)
cells: hw.Cell[list[hw.Cell[int]]] = app.cell("cells", type=list[hw.Cell[int]])
people: hw.Cell[dict[str, Person]] = app.cell("people", type=dict[str, Person])
pair: hw.Cell[tuple[Person, hw.Cell[int]]] = app.cell("pair", type=tuple[Person, hw.Cell[int]])  # type: ignore[arg-type]
number = app.cell("number", 7)
maybe: hw.Cell[Any] = app.cell("maybe", type=hw.Cell[int] | int)  # type: ignore[arg-type]


@pytest.fixture
def space() -> Iterator[hw.Space]:
    with app.open("memory:") as space:
        yield space


def inline(title: str = "a", count: int = 3) -> Card:
    """A card whose cell is given as the value it starts with."""
    return Card(title, count)  # type: ignore[arg-type]


# --- handed out, not descended into -----------------------------------------------------------------------------


def test_a_cell_given_as_a_value_is_the_place_it_stands_at(space: hw.Space) -> None:
    card.value = inline()
    found = card.value
    assert isinstance(found.count, hw.Cell)
    assert found.count.value == 3
    assert found.count.address == "h.card/count"
    found.count.value = 4
    found.count.increment()
    assert stored(space, "h.card")["count"] == 5
    assert found.count.value == 5


def test_a_cell_given_as_a_cell_is_a_link_to_it(space: hw.Space) -> None:
    number.value = 7
    card.value = Card("a", number)
    assert stored(space, "h.card")["count"] == link("h.number", scope="space")
    assert card.value.count.value == 7
    card.value.count.value = 8
    assert number.value == 8
    assert stored(space, "h.card")["count"] == link("h.number", scope="space")


def test_what_a_handle_holds_is_not_in_the_journal(space: hw.Space) -> None:
    ann = Person(name="Ann")
    put(space, "elsewhere", 5)
    card.value = replace(inline(), owner=ann, count=space.cell("elsewhere", int))
    row.value = {"text": "x", "who": ann}  # type: ignore[typeddict-item]
    cells.value = [1, number]  # type: ignore[list-item]
    people.value = {"a": ann}
    pair.value = (ann, 5)  # type: ignore[assignment]
    with space.transaction() as tx:
        found = card.value
        assert found.owner == ann
        assert row.value["who"] == ann
        assert len(cells.value) == 2
        assert people.value == {"a": ann}
        assert pair.value[0] == ann
        assert {doc for doc, _, _ in depends(tx)} == {"h.card", "h.row", "h.cells", "h.people", "h.pair"}
        # Cells that stand in the value itself: neither what they hold, nor the list.
        touched = {(doc, path) for doc, path, depth in depends(tx) | checks(tx)}
        assert touched.isdisjoint({("h.row", ("text",)), ("h.cells", (0,)), ("h.card", ("tags",)), ("h.pair", (1,))})
        assert found.count.value == 5
        assert "elsewhere" in {doc for doc, _, _ in depends(tx)}


def test_who_reads_a_card_is_not_run_for_what_its_cell_holds() -> None:
    live = hw.App("live")
    mine: hw.Cell[Card] = live.cell("card", type=Card)
    titles: list[str] = []
    live.sink(name="show")(lambda: titles.append(mine.value.title) if mine.exists else None)
    with live.open("memory:"):
        mine.value = inline()
        runs = len(titles)
        mine.value.count.value = 9
        mine.value.tags.append("x")
        assert len(titles) == runs
        mine.at("title").value = "b"
        assert titles[-1] == "b"


def test_cells_may_hold_what_takes_none(space: hw.Space) -> None:
    @dataclass
    class Box:
        content: hw.Cell[int | None]

    box: hw.Cell[Box] = space.cell("box", Box)
    box.value = Box(None)  # type: ignore[arg-type]
    assert box.value.content.value is None
    box.value.content.value = 3
    assert box.value.content.value == 3


def test_lists_and_maps_inside_a_type_are_handed_out_too(space: hw.Space) -> None:
    card.value = replace(inline(), tags=["a"])  # type: ignore[arg-type]
    found = card.value
    sent = Sent(space)
    found.tags.append("b")
    assert [type(op).__name__ for op in sent.patches] == ["Append"]
    assert list(card.value.tags) == ["a", "b"]


@pytest.mark.usefixtures("space")
def test_a_list_of_cells_keeps_each_in_its_place() -> None:
    cells.value = [1, 2]  # type: ignore[list-item]
    first, second = cells.value
    second.value = 20
    assert [cell.value for cell in cells.value] == [1, 20]
    cells.append(number)
    number.value = 70
    assert [cell.value for cell in cells.value] == [1, 20, 70]
    assert first.value == 1


def test_a_cell_or_a_number(space: hw.Space) -> None:
    number.value = 7
    maybe.value = 5
    assert maybe.value == 5
    maybe.value = number
    assert isinstance(maybe.value, hw.Cell)
    assert maybe.value.value == 7
    put(space, "outer", {"x": link("h.maybe")})
    assert space.cell("outer/x", hw.Cell[int]).value.value == 7


def test_handles_are_found_behind_links(space: hw.Space) -> None:
    ann = Person(name="Ann")
    target = hw.id_of(ann)
    put(space, "doc", {"owner": link(target), "count": 3})
    put(space, "moved", link("doc"))
    put(space, "alias", {"owner": link("doc", "owner")})
    assert space.cell("moved/owner", Person).value == ann
    assert space.cell("alias/owner", Person).value == ann
    assert space.cell("moved/owner", Person).value.name == "Ann"
    assert space.cell("moved/count", hw.Cell[int]).value.address == "doc/count"
    either: hw.Cell[Any] = space.cell("moved/owner", Person | None)  # type: ignore[call-overload]
    assert either.value == ann


# --- written back -----------------------------------------------------------------------------------------------


def test_a_value_that_was_read_can_be_written_back_with_a_change(space: hw.Space) -> None:
    card.value = inline("a", 3)
    card.value = replace(card.value, title="b")
    assert card.value.title == "b"
    assert card.value.count.value == 3
    assert stored(space, "h.card") == {"title": "b", "count": 3, "owner": None, "tags": []}
    with space.transaction():
        card.value = replace(card.value, title="c")
        assert card.value.count.value == 3
    card.value = card.value
    assert card.value.count.value == 3


def test_cells_of_a_list_that_is_written_in_another_order_take_their_values_along(space: hw.Space) -> None:
    number.value = 7
    cells.value = [1, 2, 3]  # type: ignore[list-item]
    cells.value = cells.value[::-1]
    assert [cell.value for cell in cells.value] == [3, 2, 1]
    cells.value = [number, *cells.value]
    assert [cell.value for cell in cells.value] == [7, 3, 2, 1]
    cells.value = cells.value[1:]
    assert [cell.value for cell in cells.value] == [3, 2, 1]
    assert stored(space, "h.cells") == [3, 2, 1]


def test_a_card_that_is_written_elsewhere_shares_its_cell(space: hw.Space) -> None:
    card.value = inline("a", 3)
    other = space.cell("other", Card)
    other.value = card.value
    other.value.count.value = 4
    assert card.value.count.value == 4
    assert list(other.value.tags) == []


def test_a_field_that_is_a_cell_can_be_assigned_to_itself(space: hw.Space) -> None:
    number.value = 7

    class Counter(hw.Doc):
        count: hw.Cell[int]

    counter = Counter(count=3)  # type: ignore[arg-type]
    counter.count = counter.count
    assert counter.count.value == 3
    counter.count.increment()
    assert stored(space, hw.id_of(counter)) == {"count": 4}
    counter.count = number
    assert counter.count.value == 7


# --- in defaults ------------------------------------------------------------------------------------------------


def test_a_default_hands_out_cells_that_read_it_and_are_written_on_top_of_it(space: hw.Space) -> None:
    found = preset.value
    assert (found.title, found.count.value, list(found.tags), found.owner) == ("preset", 5, ["a"], None)
    assert not preset.exists
    found.count.value = 6
    assert preset.value.title == "preset"
    assert preset.value.count.value == 6
    assert stored(space, "h.preset") == {"title": "preset", "count": 6, "owner": None, "tags": ["a"]}


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (lambda found: found.count.increment(), {"count": 6, "tags": ["a"]}),
        (lambda found: found.tags.append("b"), {"count": 5, "tags": ["a", "b"]}),
        (lambda found: found.tags.insert(0, "b"), {"count": 5, "tags": ["b", "a"]}),
        (lambda found: found.tags.pop(), {"count": 5, "tags": []}),
    ],
)
def test_edits_of_parts_of_a_default_write_all_of_it_down(space: hw.Space, edit: Any, expected: Any) -> None:
    edit(preset.value)
    assert stored(space, "h.preset") == {"title": "preset", "owner": None, **expected}


@dataclass
class Deck:
    top: Card
    rest: list[Card]


def test_cells_deep_in_a_default_read_it_and_are_written_on_top_of_it(space: hw.Space) -> None:
    given = Deck(inline("top", 1), [inline("first", 2), inline("second", 3)])
    deck = space.cell("deck", Deck, default=given)
    assert [card.count.value for card in deck.value.rest] == [2, 3]
    deck.value.rest[1].count.increment()
    assert deck.value.top.count.value == 1
    assert [card.count.value for card in deck.value.rest] == [2, 4]
    assert stored(space, "deck")["rest"][1]["count"] == 4


def test_parts_of_what_a_handle_stands_for_are_reached_through_it(space: hw.Space) -> None:
    card.value = replace(inline(), tags=["a", "b"])  # type: ignore[arg-type]
    assert card.at("tags", 1).value == "b"
    card.at("tags", 1).value = "c"
    assert list(card.value.tags) == ["a", "c"]
    put(space, "far", {"deep": [1, 2]})
    linked: hw.Cell[Any] = space.cell("linked", hw.Cell[dict[str, list[int]]])
    linked.value = space.cell("far", dict[str, list[int]])
    assert linked.at("deep", 1).value == 2
    linked.at("deep", 1).value = 3
    assert stored(space, "far") == {"deep": [1, 3]}


def test_a_handle_that_leads_nowhere_reads_as_absent(space: hw.Space) -> None:
    put(space, "h.cells", [link("h.cells", 0)])
    with pytest.raises(SchemaError, match=r"cannot read h\.cells/0: expected Cell\[int\], got None"):
        _ = cells.value
    put(space, "a", {"x": link("b", "y")})
    put(space, "b", {"y": link("a", "x")})
    either: hw.Cell[Any] = space.cell("a/x", Person | None)  # type: ignore[call-overload]
    assert either.value is None


# --- of another space -------------------------------------------------------------------------------------------


def test_documents_and_cells_that_another_space_does_not_have_are_refused() -> None:
    elsewhere = hw.App("elsewhere")
    theirs = elsewhere.cell("theirs", 1)
    with app.open("memory:") as mine:
        ann = Person(name="Ann")
        with elsewhere.open("memory:") as other:
            bob = Person(name="Bob")
            hw.delete(bob)
            other.sync()
            sent = Sent(mine)
            writes: list[Callable[[], object]] = [
                lambda: setattr(people, "value", {"a": bob}),
                lambda: setattr(people.key("a"), "value", bob),
                lambda: setattr(card, "value", replace(inline(), owner=bob)),
                lambda: setattr(card, "value", Card("a", theirs)),
                lambda: setattr(card, "value", Card("a", other.cell("x", int))),
                lambda: cells.append(theirs),
            ]
            for write in writes:
                with pytest.raises(UnconfirmedLinkError, match="does not exist there"):
                    write()
            assert sent.commits == []
            # Whichever was opened last: it is the space that is written to that counts.
            people.value = {"a": ann}
            card.value = Card("a", number, ann)
            assert card.value.owner == ann
        with pytest.raises(SchemaError, match=r"belongs to another space"):
            people.value = {"a": bob}


def test_a_document_made_where_nothing_is_around_the_code_is_asked_whose_it_is_too() -> None:
    with app.open("memory:"):
        ann = Person(name="Ann")
    errors: list[str] = []

    class Pointer(hw.Doc):
        to: hw.Link[Person]

    def make() -> None:
        try:
            Pointer(to=ann)
        except SchemaError as error:
            errors.append(str(error))

    with app.open("memory:") as space:
        thread = threading.Thread(target=make)
        thread.start()
        thread.join()
        assert "belongs to another space" in errors[0]
        assert space.stats.commits == 0


def test_a_document_of_the_same_app_in_another_opening_of_another_place_is_linked_when_it_is_confirmed() -> None:
    with app.open("memory:") as one:
        gone = Person(name="Gone")
        hw.delete(gone)
        ann = Person(name="Ann")
        one.sync()
        with app.open("memory:"):
            with pytest.raises(UnconfirmedLinkError, match="does not exist there"):
                people.value = {"a": gone}
            people.value = {"a": ann}
            assert people.value == {"a": ann}
            assert hw.address_of(people.value["a"]) == f"hw://{one.id}/{hw.id_of(ann)}"
            with inside(one):
                people.value = {"a": ann}
                assert people.value == {"a": ann}


# --- as objects -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("space")
def test_a_handle_is_copied_as_itself() -> None:
    card.value = replace(inline(), owner=Person(name="Ann"))
    found = card.value
    assert copy.deepcopy(found.count) is found.count
    assert copy.copy(found.owner) is found.owner
    assert copy.deepcopy(found.owner) is found.owner
    assert copy.deepcopy(found.tags) is found.tags
    assert asdict(found)["owner"] == found.owner
    for handle in (found.count, found.owner, found.tags):
        with pytest.raises(UsageError, match=r"is a handle into an open space and cannot be pickled; pass its address"):
            pickle.dumps(handle)


def test_a_handle_says_what_it_was_made_for_when_what_stands_there_is_something_else(space: hw.Space) -> None:
    put(space, "h.card", {"title": "a", "count": 1, "owner": 5})
    with pytest.raises(SchemaError, match=r"cannot read h\.card/owner: expected a link to Person, got 5"):
        _ = card.value
    put(space, "h.people", {"a": link("x", "y")})
    with pytest.raises(SchemaError, match=r"expected a link to Person"):
        _ = people.value
    with pytest.raises(AddressError):
        space.cell("h.people/a/b").at(-1)
