"""Maps in documents: like `dict`, with keys that are kept as text and stand in its order."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from enum import Enum
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import headwater as hw
from headwater.errors import AddressError, ConflictError, SchemaError
from headwater.values.patch import Add, Remove, Replace
from tests.cells.kit import ABSENT, DEEP, SHALLOW, Sent, depends, inside, stored, twice


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Person(hw.Doc):
    name: str


class Poll(hw.Doc):
    votes: hw.Map[str, int] = hw.Map()
    ready: hw.Map[str, int] = hw.Map({"a": 1, "b": 2})
    rooms: hw.Map[int, str] = hw.Map()
    ids: hw.Map[UUID, list[int]] = hw.Map()
    colours: hw.Map[Colour, int] = hw.Map()
    people: hw.Map[str, Person] = hw.Map()
    friends: hw.Map[str, hw.Link[Person | None]] = hw.Map()


app = hw.App("maps")
poll = app.doc("poll", Poll)
other = app.doc("other", Poll)

OPERATIONS: dict[str, Callable[[Any], object]] = {
    "get": lambda votes: votes["a"],
    "get-missing": lambda votes: votes["z"],
    "get-odd": lambda votes: votes[5],
    "get-method": lambda votes: (votes.get("a"), votes.get("z"), votes.get("z", 9), votes.get(5)),
    "contains": lambda votes: ("a" in votes, "z" in votes, 5 in votes, None in votes),
    "keys": lambda votes: list(votes.keys()),
    "values": lambda votes: list(votes.values()),
    "items": lambda votes: list(votes.items()),
    "set": lambda votes: votes.__setitem__("a", 7),
    "set-new": lambda votes: votes.__setitem__("z", 7),
    "set-empty-key": lambda votes: votes.__setitem__("", 7),
    "set-odd-key": lambda votes: votes.__setitem__("a/b~\0", 7),
    "delete": lambda votes: votes.__delitem__("a"),
    "delete-missing": lambda votes: votes.__delitem__("z"),
    "delete-odd": lambda votes: votes.__delitem__(5),
    "pop": lambda votes: votes.pop("a"),
    "pop-missing": lambda votes: votes.pop("z"),
    "pop-default": lambda votes: votes.pop("z", 9),
    "setdefault": lambda votes: votes.setdefault("a", 9),
    "setdefault-new": lambda votes: votes.setdefault("z", 9),
    "update": lambda votes: votes.update({"a": 9, "z": 8}),
    "update-pairs": lambda votes: votes.update([("a", 9)], y=7),
    "update-nothing": lambda votes: votes.update(),
    "clear": lambda votes: votes.clear(),
    "ior": lambda votes: votes.update({"a": 3}),
}


def _outcome(do: Callable[[Any], object], votes: Any) -> tuple[object, type | None]:
    try:
        return do(votes), None
    except (KeyError, TypeError) as error:
        return None, type(error)


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("start", [{"a": 1, "b": 2}, {}, None])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_map_does_what_a_dict_does(operation: str, start: dict[str, int] | None, in_transaction: bool) -> None:
    do, model = OPERATIONS[operation], dict(start or {})
    expected, raised = _outcome(do, model)
    with app.open("memory:") as space:
        if start is not None:
            poll.votes = start
        with space.transaction() if in_transaction else nullcontext():
            found, error = _outcome(do, poll.votes)
            assert dict(poll.votes) == model
        assert dict(poll.votes) == model
        assert list(poll.votes) == sorted(model)
        assert len(poll.votes) == len(model)
        assert error is raised
        assert found == expected


def test_a_map_that_was_never_written_is_its_default() -> None:
    with app.open("memory:") as space:
        assert dict(poll.votes) == {}
        assert dict(poll.ready) == {"a": 1, "b": 2}
        assert poll.ready["a"] == 1
        assert "b" in poll.ready
        assert "z" not in poll.ready
        assert len(poll.ready) == 2
        assert stored(space, "maps.poll") is ABSENT


def test_a_default_that_is_edited_is_written_down_first() -> None:
    with app.open("memory:") as space:
        poll.ready["c"] = 3
        assert dict(poll.ready) == {"a": 1, "b": 2, "c": 3}
        del other.ready["a"]
        assert stored(space, "maps.other") == {"ready": {"b": 2}}
        assert "a" not in other.ready


def test_keys_of_other_types_are_kept_as_text() -> None:
    one, two = UUID(int=1), UUID(int=2)
    with app.open("memory:") as space:
        poll.rooms[10] = "ten"
        poll.rooms[9] = "nine"
        poll.rooms[-1] = "cellar"
        assert poll.rooms[9] == "nine"
        assert set(poll.rooms) == {10, 9, -1}
        assert 10 in poll.rooms
        assert "10" not in poll.rooms  # type: ignore[comparison-overlap]
        assert poll.rooms.pop(-1) == "cellar"
        assert dict(poll.rooms) == {9: "nine", 10: "ten"}
        poll.ids[one] = [1]
        poll.ids.update({two: [2]})
        assert dict(poll.ids) == {one: [1], two: [2]}
        del poll.ids[one]
        assert list(poll.ids.items()) == [(two, [2])]
        poll.colours = {Colour.RED: 1}
        assert poll.colours[Colour.RED] == 1
        assert Colour.BLUE not in poll.colours
        assert stored(space, "maps.poll")["rooms"] == {"9": "nine", "10": "ten"}


def test_a_key_of_another_type_is_refused() -> None:
    with app.open("memory:") as space:
        sent = Sent(space)
        with pytest.raises((SchemaError, AddressError), match=r"a key of maps\.poll/rooms: expected int.* got str 'x'"):
            poll.rooms["x"] = "y"  # type: ignore[index]
        with pytest.raises((SchemaError, AddressError), match=r"a key of maps\.poll/votes: expected str.* got int 5"):
            poll.votes[5] = 1  # type: ignore[index]
        with pytest.raises((SchemaError, AddressError), match=r"lone surrogate"):
            poll.votes["\ud800"] = 1
        with pytest.raises(SchemaError, match=r"cannot store maps\.poll/votes/a: expected int, got str 'x'"):
            poll.votes["a"] = "x"  # type: ignore[assignment]
        with pytest.raises(SchemaError, match=r"expected int, got str 'x'"):
            poll.votes = {"a": "x"}  # type: ignore[dict-item]
        with pytest.raises(SchemaError, match=r"expected dict\[str, int\], got list of 1 item"):
            poll.votes = [1]  # type: ignore[assignment]
        assert sent.commits == []


def test_maps_are_equal_to_dicts_of_equal_entries() -> None:
    with app.open("memory:"):
        poll.votes = other.votes = {"a": 1}
        assert poll.votes == {"a": 1}
        assert {"a": 1} == poll.votes  # noqa: SIM300
        assert poll.votes == other.votes
        assert poll.votes == poll.votes
        other.votes["b"] = 2
        assert poll.votes != other.votes
        assert poll.votes != [("a", 1)]
        with pytest.raises(TypeError, match="unhashable"):
            hash(poll.votes)


def test_a_map_can_be_assigned_from_another() -> None:
    with app.open("memory:"):
        poll.votes = {"a": 1}
        other.votes = poll.votes
        poll.votes["b"] = 2
        assert dict(other.votes) == {"a": 1}


# --- patches and precision --------------------------------------------------------------------------------------


def test_one_key_is_written_by_one_patch() -> None:
    with app.open("memory:") as space:
        poll.votes = {str(n): n for n in range(1000)}
        sent = Sent(space)
        poll.votes["5"] = 50
        poll.votes["new"] = 1
        del poll.votes["7"]
        assert sent.patches == [
            Replace(("votes", "5"), 50),
            Add(("votes", "new"), 1),
            Remove(("votes", "7")),
        ]


@pytest.mark.parametrize(
    "do",
    [
        lambda: poll.votes.update({"a": 9, "z": 8}),
        lambda: poll.votes.pop("a"),
        lambda: poll.votes.popitem(),  # noqa: PLW0108  # there is no space yet to look in
        lambda: poll.votes.setdefault("z", 1),
    ],
)
def test_what_takes_several_steps_is_one_commit(do: Callable[[], object]) -> None:
    with app.open("memory:") as space:
        poll.votes = {"a": 1, "b": 2}
        sent = Sent(space)
        do()
        assert len(sent.commits) == 1


def test_an_update_that_is_refused_half_way_leaves_nothing() -> None:
    with app.open("memory:"):
        poll.votes = {"a": 1}
        with pytest.raises(SchemaError):
            poll.votes.update({"a": 2, "b": "x"})  # type: ignore[dict-item]
        assert dict(poll.votes) == {"a": 1}


def test_one_key_depends_on_that_key() -> None:
    with app.open("memory:") as space:
        poll.votes = {"a": 1, "b": 2}
        with space.transaction() as tx:
            assert poll.votes["a"] == 1
            assert {path for _, path, _ in depends(tx)} == {("votes", "a")}
        with space.transaction() as tx:
            assert "a" in poll.votes
            assert {path for _, path, _ in depends(tx)} == {("votes", "a")}


def test_a_key_that_is_not_there_depends_on_its_coming() -> None:
    with app.open("memory:") as space:
        poll.votes = {"a": 1}
        looks: list[Callable[[], object]] = [lambda: poll.votes.get("z"), lambda: "z" in poll.votes]
        for look in looks:
            with space.transaction() as tx:
                assert not look()
                assert ("votes", "z") in {path for _, path, _ in depends(tx)}
                assert ("maps.poll", ("votes",), DEEP) not in depends(tx)


def test_the_keys_depend_on_no_values() -> None:
    with app.open("memory:") as space:
        poll.votes = {"a": 1, "b": 2}
        with space.transaction() as tx:
            assert list(poll.votes) == ["a", "b"]
            assert len(poll.votes) == 2
            assert depends(tx) == {("maps.poll", ("votes",), SHALLOW)}


def test_writes_depend_on_nothing() -> None:
    with app.open("memory:") as space:
        poll.votes = {"a": 1, "b": 2}
        with space.transaction() as tx:
            poll.votes["a"] = 2
            poll.votes["z"] = 2
            del poll.votes["b"]
            poll.votes.clear()
            assert depends(tx) == set()


def test_two_keys_written_at_the_same_time_both_land(tmp_path: Path) -> None:
    with twice(app, tmp_path) as (one, two):
        with two.transaction():
            poll.votes["two"] = 2
            with inside(one):
                poll.votes["one"] = 1
                one.sync()
        two.sync()
        assert dict(poll.votes) == {"one": 1, "two": 2}


def test_two_who_take_the_same_key_at_the_same_time_do_not_both_get_it(tmp_path: Path) -> None:
    with twice(app, tmp_path) as (one, two):
        poll.votes = {"a": 1}
        two.sync()
        one.settle()
        with two.transaction():
            assert poll.votes.pop("a") == 1
            with inside(one):
                assert poll.votes.pop("a") == 1
                one.sync()
        with pytest.raises(ConflictError):
            two.sync()


# --- maps of documents ------------------------------------------------------------------------------------------


def test_a_map_of_documents_holds_links_and_hands_out_documents() -> None:
    with app.open("memory:") as space:
        ann = Person(name="Ann")
        poll.people["a"] = ann
        assert poll.people["a"] is ann
        assert list(poll.people.values()) == [ann]
        with space.transaction() as tx:
            assert dict(poll.people) == {"a": ann}
            assert {doc for doc, _, _ in depends(tx)} == {"maps.poll"}


def test_a_map_keeps_the_keys_of_documents_that_were_deleted() -> None:
    with app.open("memory:"):
        ann = Person(name="Ann")
        poll.people["a"] = ann
        poll.friends["a"] = ann  # type: ignore[assignment]  # such a link is typed for fields
        hw.delete(ann)
        assert "a" in poll.people
        assert dict(poll.people) == {"a": ann}
        assert poll.people.get("a") == ann
        assert "a" in poll.friends
        assert dict(poll.friends) == {"a": None}
        del poll.people["a"]
        assert dict(poll.people) == {}
