"""Functions that are called when a transaction is on disk: once, in order, and never for what did not come to be."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headwater as hw
from headwater.core import RetryImmediately
from headwater.errors import ConflictError, UsageError, UserCodeError
from tests.app.holding import disk_held, in_thread
from tests.app.shop import run
from tests.app.workbench import Bench
from tests.support.apart import overtake


class Post(Bench):
    """A cell, a handler that writes it, and letters that go out when that is on disk."""

    def __init__(self) -> None:
        super().__init__()
        self.x = self.app.cell("x", 0)
        self.write = self.app.handler(name="write")(self._write)

    def mail(self, what: object) -> None:
        hw.after_commit(lambda: self.log.append(what))

    def _write(self, number: int, *, then_fail: bool = False) -> int:
        self.mail(f"before {number}")
        self.x.value += number
        self.mail(f"after {number}")
        if then_fail:
            raise ValueError
        return self.x.value


@pytest.fixture
def post() -> Post:
    return Post()


# --- when -------------------------------------------------------------------------------------------------


def test_it_is_called_when_the_transaction_is_on_disk_and_not_before(post: Post) -> None:
    with post.open() as space:
        assert post.x.value == 0
        with disk_held(space._opening):
            with space.transaction():
                post.mail("a")
                post.x.value = 1
            assert post.log == []
        space.sync()
        assert post.log == ["a"]
        space.sync()
        space.settle()
    assert post.log == ["a"]


def test_those_of_handlers_are_called_when_they_are_confirmed_and_in_order(post: Post) -> None:
    with post.open() as space:
        with space.transaction():
            post.mail("sent")
            tickets = [post.write.send(number) for number in (1, 2)]
        assert [ticket.result() for ticket in tickets] == [1, 3]
        space.settle()
        assert post.log == ["sent", "before 1", "after 1", "before 2", "after 2"]


def test_it_is_called_at_the_latest_when_the_space_is_closed(post: Post, tmp_path: Path) -> None:
    with post.app.open(tmp_path / "post.db"):
        post.write.send(1)
    assert post.log == ["before 1", "after 1"]


def test_it_is_called_for_a_transaction_that_wrote_nothing(post: Post) -> None:
    with post.open() as space:
        with space.transaction():
            post.mail("a")
        space.sync()
        assert post.log == ["a"]


# --- when not ---------------------------------------------------------------------------------------------


def test_it_is_not_called_for_what_failed(post: Post) -> None:
    with post.open() as space:
        assert post.write.send(1, then_fail=True).state == "failed"
        with pytest.raises(KeyError), space.transaction():
            post.mail("a")
            post.x.value = 1
            raise KeyError
        space.sync()
    assert post.log == []


def test_it_is_not_called_for_a_part_that_failed_alone(post: Post) -> None:
    with post.open() as space:
        with space.transaction():
            post.mail("first")
            with pytest.raises(KeyError), space.transaction():
                post.mail("second")
                raise KeyError
            with space.transaction():
                post.mail("third")
            post.x.value = 1
        space.sync()
    assert post.log == ["first", "third"]


def test_it_is_not_called_for_what_the_store_does_not_accept(post: Post, tmp_path: Path) -> None:
    with post.app.open(tmp_path / "post.db") as space, post.app.open(tmp_path / "post.db") as other:
        mine, theirs = space.cell("bench.x", int, default=0), other.cell("bench.x", int, default=0)
        with space.transaction():
            mine.value += 1
            post.mail("a")
            overtake(other, theirs, 7)
        with pytest.raises(ConflictError):
            space.sync()
        space.settle()
    assert post.log == []


def test_it_is_called_once_for_a_handler_that_somebody_overtook(post: Post, tmp_path: Path) -> None:
    calls: list[int] = []

    @post.app.handler
    def step() -> int:
        calls.append(post.x.value)
        post.x.value += 1
        post.mail(f"as {post.x.value}")
        if len(calls) == 1:
            overtake(other, theirs, 7)
        return post.x.value

    with post.app.open(tmp_path / "post.db") as other:
        theirs = other.cell("bench.x", int, default=0)
        with post.app.open(tmp_path / "post.db") as space:
            assert step.send().result() == 8
            space.settle()
    assert (calls, post.log) == ([0, 7], ["as 8"])


def test_it_is_called_once_for_a_handler_that_asks_to_be_called_again(post: Post) -> None:
    calls: list[str] = []

    @post.app.handler
    def step() -> None:
        calls.append("called")
        post.mail(len(calls))
        if len(calls) < 3:
            raise RetryImmediately

    with post.open() as space:
        step.send().result()
        space.settle()
    assert (len(calls), post.log) == (3, [3])


def test_it_is_not_called_for_an_event_that_was_handled_before(post: Post) -> None:
    with post.open() as space:
        for _ in range(3):
            assert post.write.once("1").send(4).result() == 4
        space.settle()
    assert post.log == ["before 4", "after 4"]


# --- where ------------------------------------------------------------------------------------------------


def test_it_may_be_asked_for_in_a_sink(post: Post) -> None:
    @post.app.sink
    def show() -> None:
        post.mail(post.x.value)

    with post.open() as space:
        post.x.value = 1
        space.sync()
        space.settle()
    assert post.log == [0, 1]


def test_computed_may_not_ask_for_it(post: Post) -> None:
    @post.app.computed
    def doubled() -> int:
        post.mail("never")
        return post.x.value * 2

    with post.open() as space:
        with pytest.raises(UsageError, match=r"doubled\(\) only reads, and is run as often as needed"):
            doubled()
        with pytest.raises(UsageError, match="is run as often as needed"), space.transaction():
            post.x.value = 1
            doubled()
        space.sync()
    assert post.log == []


def test_it_cannot_be_asked_for_outside_of_a_transaction(post: Post) -> None:
    told = "is for code in a handler or a transaction, and there is none around this"
    with pytest.raises(UsageError, match=told):
        post.mail("a")
    with post.open(), pytest.raises(UsageError, match=told):
        post.mail("a")
    with post.open() as space, space.transaction():
        with pytest.raises(UsageError, match=r"takes a function without parameters, not 3"):
            hw.after_commit(3)
        with pytest.raises(UsageError, match=told):
            in_thread(lambda: post.mail("a"))


# --- what it may do ---------------------------------------------------------------------------------------


def test_it_may_read_write_send_and_wait(post: Post) -> None:
    def letter() -> None:
        post.log.append(post.x.value)
        post.x.value = 10
        post.log.append(post.write.send(5).result())
        with space.transaction():
            post.x.value += 1
            hw.after_commit(lambda: post.log.append(("second", post.x.value)))

    with post.open() as space:
        with space.transaction():
            post.x.value = 1
            hw.after_commit(letter)
        space.sync()
        space.sync()
        assert post.log == [1, "before 5", "after 5", 15, ("second", 16)]


def test_what_it_raises_is_reported_and_the_next_is_called(post: Post) -> None:
    def broken() -> None:
        raise LookupError("lost")

    with post.open() as space:
        with space.transaction():
            hw.after_commit(broken)
            post.mail("a")
            post.x.value = 1
        space.sync()
        assert post.x.value == 1
    assert post.log == ["a"]
    (told,) = post.errors
    assert "broken, called by hw.after_commit, in space 'main' raised LookupError: lost" in told.message
    assert (told.facts["space"], type(told.__cause__)) == ("main", LookupError)


def test_async_function_is_refused_where_there_is_no_event_loop(post: Post) -> None:
    async def letter() -> None:
        post.log.append("never")

    with post.open() as space:
        with space.transaction():
            hw.after_commit(letter)
        space.sync()
    (told,) = post.errors
    assert "an async function needs an event loop" in told.message


def test_in_an_event_loop_it_may_be_async_and_closing_waits_for_it(post: Post) -> None:
    going = asyncio.Event()

    async def letter() -> None:
        post.log.append("begun")
        await going.wait()
        post.log.append(await post.write.send(5))

    async def broken() -> None:
        await asyncio.sleep(0)
        raise LookupError("lost")

    @post.app.handler
    async def order() -> None:
        post.x.value = 1
        hw.after_commit(letter)
        hw.after_commit(broken)
        await asyncio.sleep(0)
        assert post.log == []

    async def main() -> None:
        async with post.app.aopen("memory:", on_error=post.errors.append) as space:
            await order.send()
            await asyncio.sleep(0)
            assert post.log == ["begun"]
            going.set()
        assert (post.log[0], set(post.log[1:])) == ("begun", {"before 5", "after 5", 6})
        assert space.closed

    run(main())
    assert [type(error.__cause__) for error in post.errors] == [LookupError]


def test_in_an_event_loop_it_is_called_without_anybody_asking(post: Post) -> None:
    async def main() -> None:
        done = asyncio.Event()
        async with post.app.aopen("memory:") as space:
            with space.transaction():
                post.x.value = 1
                hw.after_commit(done.set)
            await asyncio.wait_for(done.wait(), 20)

    run(main())


def test_error_handler_that_raises_for_it_stops_nobody(post: Post, caplog: pytest.LogCaptureFixture) -> None:
    def hear(error: UserCodeError) -> None:
        raise RuntimeError("deaf") from error

    with post.app.open("memory:", on_error=hear) as space:
        with space.transaction():
            hw.after_commit(lambda: 1 // 0)
            post.mail("a")
        space.sync()
    assert post.log == ["a"]
    assert "on_error raised RuntimeError: deaf" in caplog.text
