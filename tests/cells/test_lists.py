"""Lists in documents: like `list`, except that every change is a patch and every look is noted on its own."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import ConflictError, DeclarationError, HeadwaterError, SchemaError, UsageError
from headwater.store.commit import encode_operations
from headwater.values.patch import AddUnique, Append, RemoveByValue, Replace, Splice
from tests.cells.kit import ABSENT, SHALLOW, Sent, checks, depends, inside, stored, twice


class Person(hw.Doc):
    name: str


class Bag(hw.Doc):
    words: hw.List[str] = hw.List()
    ready: hw.List[int] = hw.List([1, 2, 3])
    people: hw.List[Person] = hw.List()
    free: hw.List[Any] = hw.List()


app = hw.App("lists")
bag = app.doc("bag", Bag)
other = app.doc("other", Bag)


def letters(count: int = 4) -> list[str]:
    return list("abcdefghij"[:count])


# --- like a list ------------------------------------------------------------------------------------------------


def test_a_list_that_was_never_written_is_its_default() -> None:
    with app.open("memory:") as space:
        assert list(bag.words) == []
        assert len(bag.words) == 0
        assert not bag.words
        assert list(bag.ready) == [1, 2, 3]
        assert bag.ready[1] == 2
        assert bag.ready[-1] == 3
        assert len(bag.ready) == 3
        assert 2 in bag.ready
        assert stored(space, "lists.bag") is ABSENT


OPERATIONS: dict[str, Callable[[Any], object]] = {
    "append": lambda items: items.append("x"),
    "extend": lambda items: items.extend(["x", "y"]),
    "extend-generator": lambda items: items.extend(c for c in "xy"),
    "insert-front": lambda items: items.insert(0, "x"),
    "insert-middle": lambda items: items.insert(2, "x"),
    "insert-far": lambda items: items.insert(99, "x"),
    "insert-negative": lambda items: items.insert(-1, "x"),
    "insert-far-negative": lambda items: items.insert(-99, "x"),
    "set": lambda items: items.__setitem__(1, "x"),
    "set-negative": lambda items: items.__setitem__(-1, "x"),
    "set-slice": lambda items: items.__setitem__(slice(1, 3), ["x", "y", "z"]),
    "set-empty-slice": lambda items: items.__setitem__(slice(2, 2), ["x"]),
    "set-backward-slice": lambda items: items.__setitem__(slice(3, 1), ["x"]),
    "set-slice-end": lambda items: items.__setitem__(slice(99, None), ["x"]),
    "set-all": lambda items: items.__setitem__(slice(None), ["x"]),
    "delete": lambda items: items.__delitem__(1),
    "delete-negative": lambda items: items.__delitem__(-2),
    "delete-slice": lambda items: items.__delitem__(slice(1, 3)),
    "delete-all": lambda items: items.__delitem__(slice(None)),
    "pop": lambda items: items.pop(),
    "pop-first": lambda items: items.pop(0),
    "pop-negative": lambda items: items.pop(-2),
    "remove": lambda items: items.remove("b"),
    "clear": lambda items: items.clear(),
    "reverse": lambda items: items.reverse(),
    "iadd": lambda items: items.__iadd__(["x"]) and None,
    "index": lambda items: items.index("c"),
    "count": lambda items: items.count("c"),
    "reversed": lambda items: list(reversed(items)),
    "slice": lambda items: list(items[1:3]),
    "slice-step": lambda items: list(items[::-2]),
    "contains": lambda items: ("c" in items, "z" in items, 3 in items),
    "bad-index": lambda items: items[99],
    "bad-negative": lambda items: items[-99],
    "bad-set": lambda items: items.__setitem__(99, "x"),
    "bad-set-negative": lambda items: items.__setitem__(-99, "x"),
    "bad-delete": lambda items: items.__delitem__(99),
    "bad-pop": lambda items: items.pop(99),
    "bad-remove": lambda items: items.remove("z"),
    "bad-index-of": lambda items: items.index("z"),
    "bad-type": lambda items: items["a"],
    "bad-float": lambda items: items[1.0],
}


@pytest.mark.parametrize("count", [4, 1, 0])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_list_does_what_a_list_does(operation: str, count: int) -> None:
    do = OPERATIONS[operation]
    model = letters(count)
    expected, raised = _outcome(do, model)
    for in_transaction in (False, True):
        with app.open("memory:") as space:
            bag.words = letters(count)
            if in_transaction:
                with space.transaction():
                    found, error = _outcome(do, bag.words)
                    assert list(bag.words) == model
            else:
                found, error = _outcome(do, bag.words)
            assert list(bag.words) == model
            assert len(bag.words) == len(model)
            assert error is raised
            assert found == expected


@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_list_that_was_never_written_does_what_an_empty_list_does(operation: str) -> None:
    do = OPERATIONS[operation]
    model = letters(0)
    expected, raised = _outcome(do, model)
    with app.open("memory:"):
        found, error = _outcome(do, bag.words)
        assert list(bag.words) == model
        assert error is raised
        assert found == expected


def _outcome(do: Callable[[Any], object], items: Any) -> tuple[object, type | None]:
    try:
        return do(items), None
    except (IndexError, ValueError, TypeError) as error:
        return None, type(error)


def test_a_default_that_is_edited_is_written_down_first() -> None:
    with app.open("memory:") as space:
        bag.ready.append(4)
        assert list(bag.ready) == [1, 2, 3, 4]
        del other.ready[0]
        assert list(other.ready) == [2, 3]
        other.ready[0] = 7
        assert stored(space, "lists.other") == {"ready": [7, 3]}


def test_slices_are_lists_that_cannot_be_changed_into_the_document() -> None:
    with app.open("memory:"):
        bag.words = letters()
        part = bag.words[1:]
        part.append("x")
        assert list(bag.words) == letters()


def test_a_slice_with_a_step_is_not_written() -> None:
    with app.open("memory:"):
        bag.words = letters()
        with pytest.raises(ValueError, match="takes no step"):
            bag.words[::2] = ["x", "y"]
        with pytest.raises(ValueError, match="takes no step"):
            del bag.words[::2]
        assert list(bag.words) == letters()


def test_adding_in_place_is_one_append() -> None:
    with app.open("memory:") as space:
        bag.words = ["a"]
        sent = Sent(space)
        bag.words += ["b", "c"]
        assert sent.patches == [Append(("words",), ["b", "c"])]
        with space.transaction():
            bag.words += ["d"]
        assert list(bag.words) == letters()


def test_lists_are_equal_to_lists_of_equal_elements() -> None:
    with app.open("memory:"):
        bag.words = other.words = letters()
        assert bag.words == letters()
        assert letters() == bag.words
        assert bag.words == other.words
        assert bag.words == bag.words
        other.words.append("x")
        assert bag.words != other.words
        assert bag.words != "abcd"
        assert bag.words != {"a": 1}
        with pytest.raises(TypeError, match="unhashable"):
            hash(bag.words)


def test_a_list_can_be_assigned_as_a_whole_also_from_another() -> None:
    with app.open("memory:"):
        bag.words = letters()
        other.words = bag.words
        bag.words.append("x")
        assert list(other.words) == letters()
        bag.words = bag.words
        assert list(bag.words) == [*letters(), "x"]
        del bag.words  # type: ignore[misc]
        assert list(bag.words) == []


def test_a_list_in_a_class_body_says_where_it_is_to_be_used() -> None:
    declared: hw.List[int] = hw.List([1])
    with pytest.raises(UsageError, match=r"declare a field; use them through a document of that class"):
        len(declared)
    with pytest.raises(UsageError, match=r"such as board\.items"):
        declared.append(1)
    assert repr(declared) == "hw.List()"


# --- patches ----------------------------------------------------------------------------------------------------

EDITS: dict[str, tuple[Callable[[], object], type]] = {
    "append": (lambda: bag.words.append("x"), Append),
    "extend": (lambda: bag.words.extend(["x", "y"]), Append),
    "add_unique": (lambda: bag.words.add_unique("x"), AddUnique),
    "insert": (lambda: bag.words.insert(1, "x"), Splice),
    "insert-at-end": (lambda: bag.words.insert(99_999, "x"), Append),
    "set": (lambda: bag.words.__setitem__(1, "x"), Replace),
    "set-slice": (lambda: bag.words.__setitem__(slice(1, 2), ["x"]), Splice),
    "delete": (lambda: bag.words.__delitem__(1), Splice),
    "pop": (lambda: bag.words.pop(1), Splice),
    "remove": (lambda: bag.words.remove("b"), RemoveByValue),
}


@pytest.mark.parametrize("in_transaction", [False, True])
@pytest.mark.parametrize("edit", EDITS)
def test_an_edit_is_one_patch_whose_size_does_not_grow_with_the_list(edit: str, in_transaction: bool) -> None:
    do, kind = EDITS[edit]
    sizes = []
    for length in (10, 10_000):
        with app.open("memory:") as space:
            bag.words = ["a", "b", *map(str, range(length))]
            sent = Sent(space)
            if in_transaction:
                with space.transaction():
                    do()
            else:
                do()
            assert [type(op) for op in sent.patches] == [kind]
            sizes.append(len(encode_operations(tuple(sent.operations))))
    assert sizes[1] <= sizes[0] + 4


def test_reversing_is_one_commit() -> None:
    with app.open("memory:") as space:
        bag.words = letters()
        sent = Sent(space)
        bag.words.reverse()
        assert len(sent.commits) == 1
        assert list(bag.words) == letters()[::-1]


def test_taking_out_is_seen_by_others_as_one_step() -> None:
    app2 = hw.App("steps")
    doc = app2.doc("bag", Bag)
    seen: list[list[str]] = []
    app2.sink(name="show")(lambda: seen.append(list(doc.words)))
    with app2.open("memory:"):
        doc.words = letters()
        doc.words.reverse()
        assert doc.words.pop() == "a"
        assert seen == [[], ["a", "b", "c", "d"], ["d", "c", "b", "a"], ["d", "c", "b"]]


# --- at the same time -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("edit", "left"),
    [
        ("append", "abcdx"),
        ("extend", "abcdxy"),
        ("add_unique", "abcdx"),
        ("insert", "abcdx"),
        ("insert-at-end", "abcdx"),
        ("set", "axcd"),
        ("remove", "acd"),
    ],
)
def test_edits_that_name_no_neighbours_land_beside_an_append(tmp_path: Path, edit: str, left: str) -> None:
    with twice(app, tmp_path) as (one, two):
        bag.words = letters()
        two.sync()
        one.settle()
        with two.transaction():
            EDITS[edit][0]()
            with inside(one):
                bag.words.append("other")
                one.sync()
        two.sync()
        assert set(bag.words) == {*left, "other"}


@pytest.mark.parametrize("edit", ["delete", "pop", "set-slice"])
def test_an_element_that_moved_is_not_taken_out_in_place_of_another(tmp_path: Path, edit: str) -> None:
    with twice(app, tmp_path) as (one, two):
        bag.words = letters()
        two.sync()
        one.settle()
        with two.transaction():
            EDITS[edit][0]()
            with inside(one):
                bag.words.insert(0, "other")
                one.sync()
        with pytest.raises(ConflictError):
            two.sync()
        assert list(bag.words) == ["other", *letters()]


def test_two_who_take_the_first_at_the_same_time_do_not_both_get_it(tmp_path: Path) -> None:
    with twice(app, tmp_path) as (one, two):
        bag.words = letters()
        two.sync()
        one.settle()
        with two.transaction():
            assert bag.words.pop(0) == "a"
            with inside(one):
                assert bag.words.pop(0) == "a"
                one.sync()
        with pytest.raises(ConflictError):
            two.sync()
        assert list(bag.words) == ["b", "c", "d"]


def test_one_of_several_equal_elements_is_taken_out_only_where_it_was_seen(tmp_path: Path) -> None:
    with twice(app, tmp_path) as (one, two):
        bag.words = ["a", "b", "a"]
        two.sync()
        one.settle()
        with two.transaction():
            bag.words.remove("a")
            with inside(one):
                bag.words.insert(0, "other")
                one.sync()
        with pytest.raises(ConflictError):
            two.sync()
        assert list(bag.words) == ["other", "a", "b", "a"]


# --- what a look depends on -------------------------------------------------------------------------------------


def test_the_length_depends_on_the_length() -> None:
    with app.open("memory:") as space:
        bag.words = letters()
        with space.transaction() as tx:
            assert len(bag.words) == 4
            assert depends(tx) == {("lists.bag", ("words",), SHALLOW)}


def test_one_element_depends_on_that_element() -> None:
    with app.open("memory:") as space:
        bag.words = letters()
        with space.transaction() as tx:
            assert bag.words[2] == "c"
            assert {path for _, path, _ in depends(tx)} == {("words", 2)}


def test_an_element_counted_from_the_end_depends_on_the_length_too() -> None:
    with app.open("memory:") as space:
        bag.words = letters()
        with space.transaction() as tx:
            assert bag.words[-1] == "d"
            assert {path for _, path, _ in depends(tx)} == {("words", 3), ("words",)}


def test_an_element_that_is_not_there_depends_on_the_length() -> None:
    with app.open("memory:") as space:
        bag.words = letters()
        with space.transaction() as tx:
            with pytest.raises(IndexError, match=r"lists\.bag/words has no element 9: its length is 4"):
                _ = bag.words[9]
            assert ("lists.bag", ("words",), SHALLOW) in depends(tx)


def test_writes_depend_on_nothing() -> None:
    with app.open("memory:") as space:
        for edit, (do, _) in EDITS.items():
            bag.words = letters()
            with space.transaction() as tx:
                do()
                if edit != "pop":  # which reads
                    assert depends(tx) == set(), edit


def test_an_element_that_is_replaced_leaves_the_readers_of_others_alone(tmp_path: Path) -> None:
    with twice(app, tmp_path) as (one, two):
        bag.words = letters()
        two.sync()
        one.settle()
        with two.transaction():
            other.words.append(bag.words[1])
            with inside(one):
                bag.words[0] = "x"
                one.sync()
        two.sync()
        assert list(other.words) == ["b"]


# --- lists of documents -----------------------------------------------------------------------------------------


def test_a_list_of_documents_holds_links_and_hands_out_documents() -> None:
    with app.open("memory:") as space:
        ann, bob = Person(name="Ann"), Person(name="Bob")
        bag.people.append(ann)
        bag.people += [bob, ann]
        assert list(bag.people) == [ann, bob, ann]
        assert bag.people[0] is ann
        assert bag.people[1:] == [bob, ann]
        assert ann in bag.people
        assert bag.people.index(bob) == 1
        assert bag.people.count(ann) == 2
        bag.people.remove(ann)
        assert list(bag.people) == [bob, ann]
        assert [set(item) for item in stored(space, "lists.bag")["people"]] == [{"/"}, {"/"}]
        assert bag.people.pop() == ann
        bag.people.add_unique(bob)
        assert bag.people == [bob]


def test_going_through_a_list_of_documents_does_not_depend_on_their_fields() -> None:
    with app.open("memory:") as space:
        people = [Person(name=name) for name in letters()]
        bag.people = people
        with space.transaction() as tx:
            assert list(bag.people) == people
            assert bag.people[1:3] == people[1:3]
            assert people[0] in bag.people
            assert bag.people[2] == people[2]
            assert {doc for doc, _, _ in depends(tx)} == {"lists.bag"}
            assert {doc for doc, _, _ in checks(tx)} == {"lists.bag"}


def test_a_list_keeps_the_documents_that_were_deleted() -> None:
    with app.open("memory:"):
        ann, bob = Person(name="Ann"), Person(name="Bob")
        bag.people = [ann, bob]
        hw.delete(ann)
        assert len(bag.people) == 2
        assert [hw.exists(person) for person in bag.people] == [False, True]
        assert bag.people[0] == ann
        assert bag.people[-1] == bob
        bag.people.remove(ann)
        assert list(bag.people) == [bob]


def test_lists_may_hold_anything_if_they_say_so() -> None:
    with app.open("memory:"):
        bag.free = [1, "a", None, {"b": [2]}]
        assert bag.free[3] == {"b": [2]}
        bag.free[3] = 5
        bag.free.remove(None)
        assert list(bag.free) == [1, "a", 5]


# --- refused ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edit",
    [
        lambda: bag.words.append(5),  # type: ignore[arg-type]
        lambda: bag.words.extend(["a", 5]),  # type: ignore[list-item]
        lambda: bag.words.insert(0, 5),  # type: ignore[arg-type]
        lambda: bag.words.add_unique(5),  # type: ignore[arg-type]
        lambda: bag.words.__setitem__(0, 5),  # type: ignore[call-overload]
        lambda: bag.words.__setitem__(slice(0, 1), ["a", 5]),  # type: ignore[list-item]
        lambda: setattr(bag, "words", ["a", 5]),
        lambda: setattr(bag, "words", 5),
        lambda: setattr(bag, "words", "text"),
        lambda: setattr(bag, "words", {"a": 1}),
    ],
)
def test_what_does_not_fit_is_refused_and_nothing_is_written(edit: Callable[[], object]) -> None:
    with app.open("memory:") as space:
        bag.words = ["a"]
        sent = Sent(space)
        with pytest.raises(SchemaError, match=r"cannot store .*lists\.bag/words.*: expected (str|list\[str\]), got "):
            edit()
        assert sent.commits == []
        assert list(bag.words) == ["a"]


def test_text_is_not_taken_for_a_list_of_letters() -> None:
    with app.open("memory:"):
        with pytest.raises(SchemaError, match=r"cannot add to lists\.bag/words: .* str 'xyz' was given"):
            bag.words += "xyz"
        assert list(bag.words) == []


def test_removing_what_could_not_be_there_is_a_value_error() -> None:
    with app.open("memory:"):
        bag.words = ["a"]
        with pytest.raises(ValueError, match=r"5 is not in lists\.bag/words"):
            bag.words.remove(5)  # type: ignore[arg-type]


def test_a_stored_element_of_another_type_is_told_of() -> None:
    with app.open("memory:") as space:
        space.cell("lists.bag").value = {"words": ["a", 5]}
        assert bag.words[0] == "a"
        with pytest.raises(SchemaError, match=r"cannot read lists\.bag/words/1: expected str, got int 5"):
            _ = bag.words[1]


def test_a_list_or_map_that_is_only_annotated_starts_empty() -> None:
    class Bare(hw.Doc):
        words: hw.List[str]
        votes: hw.Map[str, int]

    with app.open("memory:") as space:
        made = Bare()  # type: ignore[call-arg]
        assert (list(made.words), dict(made.votes)) == ([], {})
        old = space.doc("old", Bare)
        old.words.append("x")
        assert list(old.words) == ["x"]


def test_a_stored_value_that_is_no_list_is_told_of() -> None:
    with app.open("memory:") as space:
        space.cell("lists.bag").value = {"words": 5}
        with pytest.raises(HeadwaterError, match=r"lists\.bag/words"):
            list(bag.words)
        with pytest.raises(HeadwaterError, match=r"words"):
            bag.words.append("x")


def test_a_default_that_does_not_fit_is_refused_when_the_class_is_used() -> None:
    class Wrong(hw.Doc):
        words: hw.List[str] = hw.List([5])  # type: ignore[list-item]

    with app.open("memory:"), pytest.raises(DeclarationError, match=r"the default of .*Wrong\.words does not fit"):
        Wrong()
