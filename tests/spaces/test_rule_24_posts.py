"""Rule 24: a post is one write to a cell of another space, checked when it is posted and when it is applied."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import DeliveryError, SchemaError, WriteError


class Board:
    """An app with cells of several types, and one that posts to them."""

    def __init__(self, folder: Path) -> None:
        self.near, self.far = hw.App("near"), hw.App("far")
        self.here = self.near.cell("here", 0)
        self.text = self.far.cell("text", "")
        self.count = self.far.cell("count", 10)
        self.items = self.far.cell("items", type=list[str], default=["a"])
        self.table = self.far.cell("table", {"a": 1, "b": 2})
        self.urls = str(folder / "near.db"), str(folder / "far.db")
        self.errors: list[hw.UserCodeError] = []

    def open_near(self) -> hw.Space:
        return self.near.open(self.urls[0], on_error=self.errors.append)

    def open_far(self) -> hw.Space:
        return self.far.open(self.urls[1], on_error=self.errors.append)


@pytest.fixture
def board(tmp_path: Path) -> Board:
    return Board(tmp_path)


def post_all(board: Board) -> None:
    board.text.post.set("tea")
    board.count.post.increment()
    board.count.post.increment(-3)
    board.items.post.append("b")
    board.items.post.add_unique("a")
    board.items.post.add_unique("c")
    board.items.post.remove("a")
    board.table.post.remove("a")
    board.table.key("b").post.increment(5)
    board.table.key("c").post.set(9)


AFTER = ("tea", 8, ["b", "c"], {"b": 7, "c": 9})


def values(board: Board) -> tuple[object, ...]:
    return board.text.value, board.count.value, board.items.value, board.table.value


def test_each_verb_is_applied_in_the_order_of_the_posts(board: Board) -> None:
    with board.open_far(), board.open_near() as near:
        with near.transaction():
            post_all(board)
            assert board.count.peek() == 10
        near.delivered()
        assert (values(board), near.stats.undelivered, board.errors) == (AFTER, 0, [])


def test_a_post_of_plain_code_is_an_event_of_its_own(board: Board) -> None:
    with board.open_far():
        post_all(board)
        assert values(board) == AFTER


def test_a_handler_may_post_to_its_own_space(board: Board) -> None:
    @board.far.handler
    def bump() -> None:
        board.count.post.increment(2)

    with board.open_far():
        bump.send().result()
        assert board.count.value == 12


def test_posts_merge_with_what_is_written_meanwhile(board: Board) -> None:
    with board.open_far(), board.open_near() as near:
        with near.transaction():
            board.count.post.increment(5)
        board.count.increment(1)
        near.delivered()
        assert board.count.value == 16


def test_a_post_is_checked_by_the_type_of_the_cell_when_it_is_posted(board: Board) -> None:
    with board.open_far(), board.open_near() as near, near.transaction():
        with pytest.raises(SchemaError):
            board.count.post.set("tea")  # type: ignore[arg-type]
        with pytest.raises(SchemaError):
            board.text.post.increment()
        with pytest.raises(SchemaError):
            board.items.post.append(3)
        with pytest.raises(SchemaError):
            board.text.post.append("x")
        with pytest.raises(SchemaError):
            board.count.post.remove(1)
    assert board.errors == []


def test_a_computed_function_may_not_post(board: Board) -> None:
    @board.near.computed
    def sly() -> int:
        board.count.post.increment()
        return board.here.value

    with board.open_far(), board.open_near():
        with pytest.raises(WriteError, match=r"sly\(\) only reads, and may not post to far\.count"):
            sly()
        assert board.count.value == 10


def test_a_post_that_does_not_fit_the_type_at_the_other_space_fails_and_is_kept_here(board: Board) -> None:
    newer = hw.App("far")
    newer.cell("count", "")
    with board.open_near() as near:
        with near.transaction(), board.open_far():
            board.count.post.set(3)
            board.text.post.set("later")
        with newer.open(board.urls[1]) as far:
            near.delivered()
            assert (far.cell("far.text").value, near.stats.undelivered) == ("later", 0)
        (error,) = board.errors
        assert isinstance(error.__cause__, DeliveryError)
        assert "SchemaError" in str(error.__cause__.facts["reason"])


def test_without_its_app_a_post_is_checked_by_the_stored_types_and_builds_on_the_default(board: Board) -> None:
    other = hw.App("other")
    with board.open_far() as far:
        far.sync()
    with board.open_near() as near:
        with near.transaction(), board.open_far():
            board.count.post.increment(5)
            board.items.post.append("b")
        with other.open(board.urls[1]):
            near.delivered()
    with board.open_far():
        assert (board.count.value, board.items.value, board.errors) == (15, ["a", "b"], [])


def test_posts_of_an_event_loop_are_delivered(board: Board) -> None:
    async def main() -> None:
        async with board.far.aopen(board.urls[1]), board.near.aopen(board.urls[0]) as near:
            with near.transaction():
                post_all(board)
            await near.delivered(timeout="1m")
            assert (values(board), near.stats.undelivered) == (AFTER, 0)

    asyncio.run(main())
