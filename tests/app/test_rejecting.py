"""A handler that raises hw.Reject answers its sender: nothing is written, nothing logged, no failed event kept."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import EventRejectedError, EventReusedError
from headwater.scheduler.events import failed_events, outbox, receipts
from headwater.store.commit import SetDoc
from headwater.values.address import doc_key
from headwater.values.tree import ABSENT, freeze
from tests.app.shop import run
from tests.support.apart import overtake


class Shop:
    """A stock that must not go below zero; each taking writes, sends, and has something called after it."""

    def __init__(self) -> None:
        self.app = hw.App("shop")
        self.stock = self.app.cell("stock", 5)
        self.log = self.app.cell("log", [""])
        self.calls: list[int] = []
        self.after: list[int] = []
        self.errors: list[hw.UserCodeError] = []
        self.sent: list[hw.Ticket[None]] = []
        self.overtaker: hw.Space | None = None
        self.note = self.app.handler(name="note")(self._note)
        self.take = self.app.handler(name="take")(self._take)

    def _note(self, text: str) -> None:
        self.log.append(text)

    def _take(self, count: int) -> int:
        self.calls.append(self.stock.value)
        self.stock.value -= count
        self.log.append(f"taken {count}")
        self.sent.append(self.note.send(f"sent {count}"))
        hw.after_commit(lambda: self.after.append(count))
        if self.overtaker is not None:
            other, self.overtaker = self.overtaker, None
            overtake(other, other.cell("shop.stock", int), 100)
        if self.stock.value < 0:
            raise hw.Reject("not enough in stock", left=self.stock.value + count, asked=count)
        return self.stock.value

    def open(self, url: str | Path = "memory:") -> hw.Space:
        return self.app.open(url, on_error=self.errors.append)


@pytest.fixture
def shop() -> Shop:
    return Shop()


def test_the_sender_is_told_and_nothing_else_happened(shop: Shop, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO), shop.open() as space:
        ticket = shop.take.send(7)
        with pytest.raises(EventRejectedError) as told:
            ticket.result()
        assert (ticket.state, ticket.reason, ticket.is_done) == ("rejected", "not enough in stock", True)
        assert str(told.value) == (
            f"HW164: take() rejected {ticket.id}: not enough in stock. Nothing of it was written"
        )
        assert told.value.facts == {"left": 5, "asked": 7, "event": ticket.id, "reason": "not enough in stock"}
        assert (shop.stock.value, shop.log.value, shop.after, shop.errors) == (5, [""], [], [])
        assert shop.sent[0].state == "refused"
        assert failed_events.stored(space._opening.replica) == []
        assert space.stats.events["rejected"] == 1
        assert space.stats.events["failed"] == 0
        assert space.scheduler.lanes.waiting == 0
        assert outbox.waiting(space._opening.replica) == []
    assert caplog.records == []


def test_what_comes_after_a_rejected_event_goes_on(shop: Shop) -> None:
    with shop.open() as space:
        tickets = [shop.take.send(count) for count in (2, 9, 3, 1)]
        space.sync()
        assert [ticket.state for ticket in tickets] == ["confirmed", "rejected", "confirmed", "rejected"]
        assert (shop.stock.value, shop.log.value) == (0, ["", "taken 2", "sent 2", "taken 3", "sent 3"])


def test_one_commit_has_the_receipt_and_the_removal_from_the_outbox(shop: Shop) -> None:
    with shop.open() as space:
        with space.transaction():
            shop.log.append("asked")
            ticket = shop.take.send(7)
        space.sync()
        assert ticket.state == "rejected"
        assert outbox.waiting(space._opening.replica) == []
        commits = space.stats.commits
        shop.take.send(8)
        assert space.stats.commits == commits + 1


def test_a_rejection_on_old_data_conflicts_and_the_event_is_handled_again(shop: Shop, tmp_path: Path) -> None:
    url = tmp_path / "shop.db"
    with shop.open(url) as other, shop.open(url) as space:
        shop.stock.value = 5
        space.sync()
        other.settle()
        shop.overtaker = other
        ticket = shop.take.send(7)
        assert ticket.result() == 93
        assert (ticket.state, shop.calls, shop.stock.value) == ("confirmed", [5, 100], 93)
        space.settle()
        assert shop.after == [7]


def test_it_is_the_same_after_a_restart_and_not_handled_again(shop: Shop, tmp_path: Path) -> None:
    url = tmp_path / "shop.db"
    with shop.open(url) as space:
        ticket = shop.take.once("order 1").send(7)
        space.sync()
        assert ticket.state == "rejected"
        shop.stock.value = 50
    again = Shop()
    with again.open(url) as space:
        ticket = again.take.once("order 1").send(7)
        with pytest.raises(EventRejectedError, match="not enough in stock") as told:
            ticket.result()
        assert (told.value.facts["left"], ticket.state, again.calls) == (5, "rejected", [])
        assert again.stock.value == 50
        assert space.stats.events["rejected"] == 1


def test_one_that_waited_in_the_outbox_is_rejected_at_the_next_opening(shop: Shop, tmp_path: Path) -> None:
    """As a process leaves it that is killed between the commit that sends it and its handling."""
    url = tmp_path / "shop.db"
    with hw.App("other").open(url) as space:
        entry = {"stream": "shop.take", "payload": {"count": 7}, "order": [1, 1]}
        space._opening.replica.commit((SetDoc(outbox.OUTBOX, freeze({"abc": entry})),))
    with shop.open(url) as space:
        space.sync()
        assert (shop.calls, outbox.waiting(space._opening.replica), failed_events.stored(space._opening.replica)) == (
            [5],
            [],
            [],
        )
        kept = receipts.rejection_in(space._opening.replica.read(doc_key("receipt:abc")))
        assert kept is not None
        assert kept.reason == "not enough in stock"


def test_a_failed_event_that_is_delivered_again_and_rejected_is_kept_no_more() -> None:
    app, mood = hw.App("app"), ["fail", "reject"]

    @app.handler
    def take() -> None:
        if mood.pop(0) == "fail":
            raise ValueError("broken")
        raise hw.Reject("no")

    with app.open("memory:", on_error=lambda _: None) as space:
        ticket = take.send()
        assert ticket.state == "failed"
        event = space._opening.events.redeliver(ticket.id.removeprefix("event:"))
        space.sync()
        assert event.state.value == "rejected"
        assert failed_events.stored(space._opening.replica) == []


def test_async_handlers_reject_too() -> None:
    app = hw.App("app")
    count = app.cell("count", 0)

    @app.handler
    async def take(by: int) -> int:
        count.value += by
        await asyncio.sleep(0)
        if by > 1:
            raise hw.Reject("too many", most=1)
        return count.value

    errors: list[object] = []

    async def main() -> None:
        async with app.aopen("memory:", on_error=errors.append):
            ticket = take.send(3)
            with pytest.raises(EventRejectedError, match="too many") as told:
                await ticket
            assert (ticket.state, told.value.facts["most"], count.value) == ("rejected", 1, 0)
            assert await take.send(1) == 1

    run(main())
    assert errors == []


def test_on_commit_hears_of_it(shop: Shop) -> None:
    heard: list[tuple[str, str]] = []
    with shop.open() as space:
        shop.take.send(9).on_commit(lambda ticket: heard.append((ticket.state, ticket.reason)))
        space.sync()
    assert heard == [("rejected", "not enough in stock")]


def test_a_fact_that_cannot_be_stored_is_a_failure_that_says_so() -> None:
    app = hw.App("app")

    @app.handler
    def take() -> None:
        raise hw.Reject("no", why=object())

    errors: list[hw.UserCodeError] = []
    with app.open("memory:", on_error=errors.append):
        ticket = take.send()
        assert ticket.state == "failed"
        assert "the facts of hw.Reject" in ticket.reason
    assert len(errors) == 1


@pytest.mark.parametrize("reason", ["", "  ", None, 3])
def test_a_rejection_has_a_reason(reason: str) -> None:
    with pytest.raises(TypeError, match=r"hw\.Reject takes a reason"):
        hw.Reject(reason)


def test_in_a_computed_and_a_sink_it_is_an_error_like_any_other() -> None:
    app = hw.App("app")

    @app.computed
    def total() -> int:
        raise hw.Reject("no")

    @app.sink
    def show() -> None:
        total()

    errors: list[hw.UserCodeError] = []
    with app.open("memory:", on_error=errors.append), pytest.raises(hw.Reject, match="no"):
        total()
    assert [(error.facts["node"], type(error.__cause__)) for error in errors] == [("show", hw.Reject)]


def test_in_a_block_it_takes_the_block_back() -> None:
    app = hw.App("app")
    n = app.cell("n", 0)
    with app.open("memory:") as space:
        with pytest.raises(hw.Reject), space.transaction():
            n.value = 1
            raise hw.Reject("no")
        assert n.value == 0


# --- one id, one event ----------------------------------------------------------------------------------------


def test_an_id_that_is_used_for_another_payload_is_refused_whatever_became_of_the_first(
    shop: Shop, tmp_path: Path
) -> None:
    url = tmp_path / "shop.db"
    with shop.open(url) as space:
        shop.take.once("a").send(2)
        shop.take.once("b").send(70)
        for name in ("a", "b"):
            with pytest.raises(EventReusedError, match="another payload; use another id"):
                shop.take.once(name).send(1)
        space.sync()
        for name in ("a", "b"):
            with pytest.raises(EventReusedError, match="was handled before with another payload"):
                shop.take.once(name).send(1)
    again = Shop()
    with again.open(url) as space:
        with pytest.raises(EventReusedError):
            again.take.once("a").send(1)
        # The same payload is the same event; another sender's name, and another handler, are other events.
        assert again.take.once("a").send(2).result() == 3
        assert again.take.once("a", by="Bob").send(1).result() == 2
        assert again.note.once("a").send("x").state != "refused"
        assert again.stock.value == 2
        assert space.stats.events["failed"] == 0


def test_a_receipt_of_before_this_version_has_no_digest_and_refuses_nothing() -> None:
    old = receipts.made("shop.take", 3, ABSENT)
    assert receipts.is_receipt(old)
    assert not receipts.is_of_another(old, 1)
    assert receipts.is_of_another(receipts.made("shop.take", 3, 2), 1)


def test_receipts_are_told_from_documents_that_are_called_so() -> None:
    ours = [{"stream": "s", "result": 1}, {"stream": "s", "rejected": {}}, {"stream": "s", "result": 1, "payload": ""}]
    theirs = [{"stream": "s"}, {"stream": "s", "result": 1, "rejected": {}}, {"total": 3}, 3]
    assert [receipts.is_receipt(freeze(value)) for value in ours] == [True] * 3
    assert [receipts.is_receipt(freeze(value)) for value in theirs] == [False] * 4


def test_an_event_that_is_sent_again_is_the_same_after_a_default_was_added_or_changed(tmp_path: Path) -> None:
    def sent(handler: Callable[..., int], *args: int) -> int:
        app = hw.App("a")
        ticket = app.handler(handler)
        with app.open(tmp_path / "a.db"):
            return ticket.once("evt", by="a shop").send(*args).result()

    def first(n: int, retries: int = 3) -> int:
        return n + retries

    def changed(n: int, retries: int = 4, note: str = "") -> int:
        return n + retries + len(note)

    first.__name__ = changed.__name__ = "take"
    assert sent(first, 1) == 4
    assert sent(changed, 1) == 4
    with pytest.raises(hw.EventReusedError):
        sent(changed, 1, 3)
