"""Rule 25: what one space sends to another arrives in the order of the commits; what fails holds up nothing."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import DeliveryError
from headwater.runtime import delivery
from headwater.runtime.options import Options
from headwater.scheduler.events import failed_events, outgoing
from tests.support.apart import overtake


class Post:
    """`near` sends numbers; `far` writes them down, and refuses some."""

    def __init__(self, folder: Path) -> None:
        self.near, self.far = hw.App("near"), hw.App("far")
        self.sent = self.near.cell("sent", 0)
        self.got = self.far.cell("got", list[int]())
        self.put = self.far.handler(name="put")(self._put)
        self.urls = str(folder / "near.db"), str(folder / "far.db")
        self.errors: list[hw.UserCodeError] = []

    def _put(self, number: int) -> int:
        if number < 0:
            raise ValueError(f"{number} is negative")
        if number > 1000:
            raise hw.Reject("too large", limit=1000)
        # Reads: every handling conflicts with what others write.
        self.got.value = [*self.got.value, number]
        return number

    def open_near(self) -> hw.Space:
        return self.near.open(self.urls[0], on_error=self.errors.append)

    def open_far(self) -> hw.Space:
        return self.far.open(self.urls[1], on_error=self.errors.append)

    def send(self, near: hw.Space, *numbers: int) -> None:
        for number in numbers:
            with near.transaction():
                self.sent.value += 1
                self.put.send(number)


@pytest.fixture
def post(tmp_path: Path) -> Post:
    return Post(tmp_path)


def test_entries_are_handled_in_the_order_of_their_commits_also_after_a_restart(post: Post) -> None:
    with post.open_near() as near:
        with near.transaction(), post.open_far():
            for number in range(5):
                post.put.send(number)
        with near.transaction(), post.open_far():
            post.put.send(5)
    with post.open_near() as near, post.open_far() as far, near.transaction():
        post.put.send(6)
        far.close()
    with post.open_far(), post.open_near() as near:
        near.delivered()
        assert post.got.value == list(range(7))


def test_of_two_open_transactions_the_one_that_commits_first_is_first_also_after_a_crash(post: Post) -> None:
    async def one(near: hw.AsyncSpace, number: int, turn: asyncio.Event, other: asyncio.Event) -> None:
        with near.transaction():
            post.put.send(number)
            other.set()
            await turn.wait()

    async def main() -> None:
        async with post.near.aopen(post.urls[0]) as near:
            first, second, sent = asyncio.Event(), asyncio.Event(), asyncio.Event()
            async with post.far.aopen(post.urls[1]):
                slow = asyncio.ensure_future(one(near, 1, first, sent))
                await sent.wait()
                sent.clear()
                quick = asyncio.ensure_future(one(near, 2, second, sent))
                await sent.wait()
            second.set()
            await quick
            first.set()
            await slow
            await near.synced()
            assert near.stats.undelivered == 2

    asyncio.run(main())
    with post.open_far(), post.open_near() as near:
        near.delivered()
        assert post.got.value == [2, 1]


def test_a_batch_is_bounded_and_the_next_one_follows(post: Post, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery, "BATCH_MAX", 4)
    with post.open_near() as near:
        with near.transaction(), post.open_far():
            for number in range(10):
                post.put.send(number)
        with post.open_far():
            near.delivered()
            assert post.got.value == list(range(10))


def test_one_that_fails_is_listed_here_with_the_reason_of_the_other_space_and_holds_up_nothing(post: Post) -> None:
    with post.open_far() as far, post.open_near() as near:
        post.send(near, 1, -2, 3)
        near.delivered()
        assert (post.got.value, near.stats.undelivered) == ([1, 3], 0)
        (record,) = failed_events.stored(near._opening.replica)
        assert (record["stream"], record["payload"], record["to"]) == ("far.put", {"number": -2}, far.id)
        assert record["reason"] == "ValueError: -2 is negative"
        assert "_put" in str(record["traceback"])
        assert failed_events.stored(far._opening.replica) == []
    (error,) = post.errors
    assert isinstance(error.__cause__, DeliveryError)
    assert error.facts["event"] == record["event"]


def test_the_ticket_of_one_that_fails_raises_a_delivery_error(post: Post) -> None:
    with post.open_far(), post.open_near() as near:
        with near.transaction():
            ticket = post.put.send(-1)
        with pytest.raises(DeliveryError, match="-1 is negative") as failed:
            ticket.result()
        assert isinstance(failed.value.__cause__, ValueError)


def test_one_that_is_rejected_is_delivered_and_listed_here_as_rejected(post: Post) -> None:
    with post.open_far(), post.open_near() as near:
        with near.transaction():
            ticket = post.put.send(2000)
        near.delivered()
        with pytest.raises(hw.EventRejectedError, match="too large"):
            ticket.result()
        listed = near._opening.replica.read(outgoing.REJECTED)
        assert isinstance(listed, dict)
        assert len(listed) == 1
        assert (near.stats.undelivered, failed_events.stored(near._opening.replica), post.errors) == (0, [], [])


def test_an_app_without_the_handler_is_a_failure_and_an_app_that_is_not_open_is_none(post: Post) -> None:
    older, other = hw.App("far"), hw.App("other")
    with post.open_near() as near:
        with near.transaction(), post.open_far():
            post.put.send(1)
        with other.open(post.urls[1]):
            near.settle()
            assert near.stats.undelivered == 1
        assert post.errors == []
        with older.open(post.urls[1]):
            near.delivered()
        (error,) = post.errors
        assert "app 'far' has no handler for stream far.put" in str(error)


def test_an_event_is_not_handled_before_one_that_was_rolled_back(post: Post) -> None:
    """The next event is handled before the verdict: the cursor makes it conflict with the first one."""
    calls: list[int] = []
    with post.open_near() as near, post.far.open(post.urls[1], on_error="log") as other, post.open_far() as far:
        theirs = other.cell("far.got", list[int], default=[])
        handle = post.put.__wrapped__

        def overtaken(number: int) -> object:
            calls.append(number)
            result = handle(number)
            if len(calls) == 1:
                overtake(other, theirs, [100])
            return result

        post.put.__wrapped__ = overtaken
        far._opening.events.drop(post.put)
        post.put.register(far._opening)
        with near.transaction():
            post.put.send(1)
            post.put.send(2)
        near.delivered()
        assert post.got.value == [100, 1, 2]
        assert calls.count(1) == 2


def test_of_two_programs_that_deliver_from_one_space_the_later_one_changes_nothing(post: Post) -> None:
    with post.open_far() as far, post.open_near() as near:
        with near.transaction():
            post.put.send(1)
        (entry,) = outgoing.entries(near._opening.replica)
        near.delivered()
        late = far._opening.events.accept(
            entry.stream,
            entry.payload,
            near._opening.delivery.name_of(entry),
            near._opening.delivery._sender(entry),
            lambda _: None,
        )
        far._opening.catch_up()
        far.sync()
        assert (late.state.value, late.reason, post.got.value) == ("refused", "it was handled before", [1])


def test_what_was_being_handled_when_the_other_space_was_closed_is_handled_first_by_its_next_opening() -> None:
    shop, bank = hw.App("shop"), hw.App("bank")
    rate, taken = bank.cell("rate", 1), bank.cell("taken", type=list[int], default=[])
    now = [0.0]

    @bank.computed(debounce="1m")
    def slow() -> int:
        return rate.value * 10

    @bank.handler
    def take(number: int) -> None:
        taken.value = [*taken.value, number + slow()]

    bank.sink(name="show")(slow)
    options = Options(now=lambda: now[0])
    with shop.open_with("shop.db", options) as here:
        with bank.open_with("bank.db", options):
            rate.value = 2
            for number in (1, 2, 3):
                with here.transaction():
                    take.send(number)
                here.sync()
                here.settle()
            assert (taken.value, here.stats.undelivered) == ([], 3)
        with bank.open_with("bank.db", options) as there:
            now[0] += 120_000
            there.settle()
            here.delivered("60s")
            assert taken.value == [21, 22, 23]
