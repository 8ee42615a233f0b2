"""Rule 4: an address in another space begins with `hw://` and the id of that space; without that, it is of this one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from headwater.errors import AddressError, NameRefusedError
from headwater.values.address import address_text, doc_key, far_key, parse_address, parse_far_address, split_far
from headwater.values.ids import SpaceId

ID = SpaceId("7k3q9d4m2x8v1n6p0c5r")
STEPS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]), min_size=1, max_size=12)


@given(doc=st.sampled_from(["shop.tea", "person:5f0c", "user:ann!todo.theme"]), path=st.lists(STEPS, max_size=4))
def test_what_is_written_is_read_again(doc: str, path: list[str]) -> None:
    near = address_text(parse_address(doc)[0], tuple(path))
    assert parse_address(near) == (parse_address(doc)[0], tuple(path))
    assert parse_far_address(f"hw://{ID}/{near}") == (ID, *parse_address(near))


@given(key=st.sampled_from(["shop.tea", "a:b", "x"]))
def test_a_far_key_has_the_id_and_the_key_there(key: str) -> None:
    assert split_far(far_key(ID, doc_key(key))) == (ID, doc_key(key))


@pytest.mark.parametrize("text", ["hw://", f"hw://{ID}", "hw://short/shop.tea", f"hw://{ID.upper()}!/shop.tea"])
def test_what_only_begins_like_one_is_refused(text: str) -> None:
    with pytest.raises(AddressError):
        parse_far_address(text)


def test_no_address_of_this_space_begins_so() -> None:
    with pytest.raises(NameRefusedError):
        parse_address(f"hw://{ID}/shop.tea")


def test_the_address_of_a_handle_names_the_space_that_its_document_is_in() -> None:
    class Person(hw.Doc):
        name: str

    class Task(hw.Doc):
        owner: hw.Link[Person]
        helper: hw.Link[Person]

    people, tasks = hw.App("people"), hw.App("tasks")
    with people.open("people.db") as who:
        ann = Person(name="Ann")
        who.sync()
        with tasks.open("tasks.db") as todo:
            bob = Person(name="Bob")
            task = Task(owner=ann, helper=bob)
            assert hw.address_of(task.owner) == f"hw://{who.id}/{hw.id_of(ann)}"
            assert hw.address_of(task.helper) == f"hw://{todo.id}/{hw.id_of(bob)}"
            assert parse_far_address(hw.address_of(task.owner))[0] == who.id
