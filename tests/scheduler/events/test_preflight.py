"""Before a handler is called, everything above what it reads has run; and nothing else has, on its account."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core import Depth, Link, Transaction, doc_key, freeze
from headwater.values.ids import DocId
from headwater.values.patch import Increment
from tests.scheduler.events.office import Clerk, Office, look, put


@pytest.fixture
def shop(ann: Clerk) -> Clerk:
    """Prices, a chain of three that is made of them, and as much beside it. Nobody looks at any of it."""
    ann.put(price=1, weight=10)
    ann.sum("net", "price")
    ann.sum("gross", "net")
    ann.sum("total", "gross", "net")
    ann.sum("heavy", "weight")
    ann.sum("heavier", "heavy")
    return ann


def reader(clerk: Clerk, *names: str, stream: str = "ask", **spec: Any) -> None:
    """A handler that returns what it reads."""
    clerk.handler(stream, lambda tx, _: [look(tx, name) for name in names], **spec)


def link(name: str) -> object:
    """As it stands in a document."""
    return Link(doc=DocId(name), scope="space").to_value()


# --- what runs first ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("known", [True, False])
def test_computations_that_never_ran_run_before_a_handler_reads_them(shop: Clerk, known: bool) -> None:
    reader(shop, "total", reads=(doc_key("total"),) if known else ())
    event = shop.send("ask")
    ran = shop.run()
    assert sorted(set(ran)) == ["ask", "gross", "net", "total"]
    assert ran.count("ask") == 1
    assert event.result == [2]


@pytest.mark.parametrize("known", [True, False])
def test_only_what_is_above_what_is_read_is_run_and_each_once(shop: Clerk, known: bool) -> None:
    reader(shop, "total", reads=(doc_key("total"),) if known else ())
    shop.send("ask")
    shop.run()
    shop.put(price=3, weight=30)
    event = shop.send("ask")
    assert shop.run() == ["net", "gross", "total", "ask"]
    assert event.result == [6]
    assert shop.send("ask").result is None
    assert shop.run() == ["ask"], "all of it is current"


def test_what_comes_after_what_is_read_is_not_run(shop: Clerk) -> None:
    reader(shop, "gross", reads=(doc_key("gross"),))
    shop.send("ask")
    assert "total" not in shop.run()
    shop.put(price=3)
    shop.send("ask")
    assert shop.run() == ["net", "gross", "ask"]


def test_a_chain_is_run_no_further_than_its_values_change(shop: Clerk) -> None:
    shop.computation("sign", lambda tx: look(tx, "price") > 0)
    shop.computation("word", lambda tx: "plus" if look(tx, "sign") else "minus")
    reader(shop, "word", reads=(doc_key("word"),))
    shop.send("ask")
    shop.run()
    shop.put(price=5)
    event = shop.send("ask")
    assert shop.run() == ["sign", "ask"]
    assert event.result == ["plus"]


def test_a_computation_that_declares_what_it_reads_runs_after_that(ann: Clerk) -> None:
    ann.put(price=1)
    ann.sum("net", "price")
    ann.sum("total", "net", declared_reads=(doc_key("net"),))
    reader(ann, "total", reads=(doc_key("total"),))
    event = ann.send("ask")
    assert ann.run() == ["net", "total", "ask"]
    assert event.result == [1]


def test_what_a_handler_turns_out_to_read_is_run_in_the_middle_of_it(shop: Clerk) -> None:
    def ask(tx: Transaction, name: str) -> int:
        shop.log.append("begins")
        return int(look(tx, name))

    shop.handler("ask", ask)
    shop.send("ask", "heavier")
    shop.run()
    shop.put(price=3, weight=30)
    event = shop.send("ask", "gross")
    ran = shop.run()
    # It was asked for another the last time.
    assert ran[:4] == ["heavy", "heavier", "ask gross", "begins"]
    assert "net" in ran[4:] and event.result == 3


def test_what_a_handler_read_last_is_made_current_before_it_is_called(shop: Clerk) -> None:
    reader(shop, "net")
    shop.send("ask")
    assert shop.run() == ["ask", "net"], "nothing was known of it"
    shop.put(price=3)
    shop.send("ask")
    assert shop.run() == ["net", "ask"]


def test_documents_that_the_payload_names_are_made_current_before_it_is_called(shop: Clerk) -> None:
    shop.handler("ask", lambda *_: None)
    shop.send("ask", {"deep": [link("net")]})
    assert shop.run()[0] == "net"


def test_documents_that_these_lead_to_are_made_current_as_well(shop: Clerk) -> None:
    shop.put(desk={"basket": [link("box")]}, box={"of": link("heavy")})
    shop.handler("ask", lambda *_: None, reads=(doc_key("desk"),))
    shop.send("ask")
    assert shop.run() == ["heavy", "ask"]


# --- whoever writes there -------------------------------------------------------------------------------------


def test_a_document_that_a_computation_writes_besides_its_result_is_made_current(ann: Clerk) -> None:
    def split(tx: Transaction) -> int:
        put(tx, "cents", look(tx, "price") * 100)
        return int(look(tx, "price"))

    ann.put(price=1)
    ann.computation("euros", split, "cents")
    reader(ann, "cents")
    ann.send("ask")
    ann.run()
    ann.put(price=2)
    event = ann.send("ask")
    assert ann.run() == ["euros", "ask"]
    assert event.result == [200]


def test_a_document_in_which_a_materializer_may_write_is_made_current(ann: Clerk) -> None:
    def place(tx: Transaction) -> None:
        for name, price in look(tx, "prices", {}).items():
            tx.set(doc_key("board"), ("rows", name), freeze(price))

    ann.put(prices={"tea": 3}, board={"rows": {}, "title": "today"})
    ann.computation("placer", place, side_write_envelope=((doc_key("board"), ("rows",)),))
    ann.handler("ask", lambda tx, _: dict(look(tx, "board")["rows"]))
    first = ann.send("ask")
    ann.run()
    ann.put(prices={"tea": 4, "milk": 1})
    second = ann.send("ask")
    assert ann.run() == ["placer", "ask"]
    assert (first.result, second.result) == ({"tea": 3}, {"tea": 4, "milk": 1})


def test_what_is_made_of_what_a_materializer_writes_is_made_current(ann: Clerk) -> None:
    def place(tx: Transaction) -> None:
        tx.set(doc_key("board"), ("rows", "tea"), freeze(look(tx, "price")))

    ann.put(price=3, board={"rows": {"tea": 0}})
    ann.computation("placer", place, side_write_envelope=((doc_key("board"), ("rows",)),))
    ann.computation("shown", lambda tx: tx.read(doc_key("board"), ("rows", "tea"), Depth.DEEP))
    reader(ann, "shown")
    ann.send("ask")
    ann.run()
    ann.put(price=4)
    event = ann.send("ask")
    ran = ann.run()
    assert ran == ["placer", "shown", "ask"]
    assert event.result == [4]


def test_a_document_that_the_handler_writes_first_is_made_current_before_that(ann: Clerk) -> None:
    """Else it would go on with what it has written upon, and read what is not so any more."""

    def place(tx: Transaction) -> None:
        tx.set(doc_key("board"), ("sum",), freeze(look(tx, "price")))

    def note(tx: Transaction, _: object) -> object:
        tx.patch(doc_key("board"), Increment(("visits",), 1))
        return tx.read(doc_key("board"), ("sum",))

    ann.put(price=3, board={"visits": 0, "sum": 0})
    ann.computation("placer", place, side_write_envelope=((doc_key("board"), ("sum",)),))
    ann.handler("note", note)
    ann.run()
    ann.put(price=4)
    event = ann.send("note")
    ann.run()
    assert event.result == 4
    assert ann.see("board") == {"visits": 1, "sum": 4}


def test_a_document_that_nobody_computes_is_read_as_it_is(shop: Clerk) -> None:
    reader(shop, "price", "weight")
    shop.send("ask")
    assert shop.run() == ["ask"]


# --- what waits meanwhile -------------------------------------------------------------------------------------


def test_live_work_that_an_event_does_not_need_is_not_run_before_it(shop: Clerk) -> None:
    shop.effect("show", lambda tx: look(tx, "heavier"))
    shop.run()
    reader(shop, "net")
    shop.send("ask")
    shop.run()
    shop.put(price=3, weight=30)
    shop.send("ask")
    assert shop.run() == ["net", "ask", "heavy", "heavier", "show"]


def test_what_follows_from_an_event_runs_before_the_next_is_handled(ann: Clerk) -> None:
    shown: list[int] = []
    ann.adder()
    ann.sum("double", "count", "count")
    ann.effect("show", lambda tx: shown.append(look(tx, "double")))
    ann.run()
    for _ in range(3):
        ann.send("add", 1)
    assert ann.run() == ["add 1", "double", "show"] * 3
    assert shown[-3:] == [2, 4, 6]


def test_an_event_sees_what_follows_from_the_one_before(ann: Clerk) -> None:
    ann.adder()
    ann.sum("double", "count", "count")
    reader(ann, "double")
    answers = []
    for _ in range(3):
        ann.send("add", 1)
        answers.append(ann.send("ask"))
    ann.run()
    assert [event.result for event in answers] == [[2], [4], [6]]


def test_a_computation_that_fails_holds_up_nobody(ann: Clerk) -> None:
    def divide(tx: Transaction) -> float:
        return 12 / float(look(tx, "by"))

    ann.put(by=3)
    ann.computation("share", divide)
    reader(ann, "share")
    first = ann.send("ask")
    ann.run()
    ann.put(by=0)
    second = ann.send("ask")
    assert ann.run() == ["share", "ask"]
    assert (first.result, second.result) == ([4.0], [4.0]), "its last value stands"
    ann.errors.clear()


def test_what_was_looked_at_ahead_stands_in_nobodys_way(office: Office, shop: Clerk) -> None:
    """Looking ahead reads documents, and commits nothing: so it can neither conflict nor be told of."""
    bob = office.clerk("bob")
    shop.put(desk={"basket": link("net")})
    shop.handler("ask", lambda *_: None, reads=(doc_key("desk"),))
    shop.run()
    office.decide()
    event = shop.send("ask")
    shop.run()
    bob.overtake(desk=None)
    assert event.state.value == "confirmed"
