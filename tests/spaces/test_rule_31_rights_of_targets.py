"""Rule 31: a link carries no right of its target: that is asked for where the target is read."""

from __future__ import annotations

import pytest

import headwater as hw
from headwater.errors import AccessError, RejectedError, SpaceNotOpenError
from headwater.server.server import Server
from tests.server.running import token_for


class Person(hw.Doc):
    name: str


class Task(hw.Doc):
    title: str
    owner: hw.Link[Person]


people, tasks = hw.App("people"), hw.App("tasks")


@pytest.fixture
def linked(server: Server) -> tuple[str, str]:
    """A task at a server, whose owner is in another space of it; the id of the task and the address of its owner."""
    with people.open(f"{server.url}/people") as who:
        ann = Person(name="Ann")
        who.sync()
        with tasks.open(f"{server.url}/tasks") as todo:
            task = Task(title="tea", owner=ann)
            todo.sync()
            return hw.id_of(task), f"hw://{who.id}/{hw.id_of(ann)}"


def test_who_may_read_the_link_only_sees_where_it_leads(server: Server, linked: tuple[str, str]) -> None:
    task_id, address = linked
    url, token = f"{server.url}/tasks", token_for(server, "tasks", "write", actor="bob")
    with pytest.raises(AccessError, match="HW403"):
        people.open(f"{server.url}/people", token=token, actor="bob")
    with tasks.open(url, token=token, actor="bob") as todo:
        task = todo.doc(task_id, Task)
        assert (task.title, hw.address_of(task.owner)) == ("tea", address)
        assert not hw.exists(task.owner)
        with pytest.raises(SpaceNotOpenError, match="HW113"):
            _ = task.owner.name


def test_with_the_right_to_the_target_the_same_link_is_followed(server: Server, linked: tuple[str, str]) -> None:
    task_id, _ = linked
    todo_token = token_for(server, "tasks", "write", actor="bob")
    with tasks.open(f"{server.url}/tasks", token=todo_token, actor="bob") as todo:
        task = todo.doc(task_id, Task)
        token = token_for(server, "people", "read", actor="bob")
        with people.open(f"{server.url}/people", token=token, actor="bob") as who:
            assert task.owner.name == "Ann"
            who.doc(hw.id_of(task.owner), Person).name = "Anna"
            with pytest.raises(RejectedError, match=r"HW403: .* the right to write it is missing"):
                who.sync()
            assert task.owner.name == "Ann"
        with pytest.raises(SpaceNotOpenError, match="HW113"):
            _ = task.owner.name
