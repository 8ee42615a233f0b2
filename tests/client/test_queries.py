"""Queries at a server: the answers of a file, tracked and checked as there. The numbers are those of the rules."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.access.rights import Right
from headwater.client import span_replica
from headwater.client.server_link import ServerLink
from headwater.errors import ConflictError, DuplicateError, NotFoundError, QueryError, RuleError
from headwater.runtime.collection_records import deployed
from headwater.store.collection_record import record_of
from headwater.store.commit import SetDoc
from headwater.sync.frames import WatchSpan
from tests.client.query_shop import Draft, Order, Recipe, Shop, filled, heard, numbers, opened
from tests.client.world import Behind, behind, storage_of
from tests.server.running import settle_in, until


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The questions that code here has waited for."""
    found: list[object] = []
    ask = ServerLink.ask_many

    def counted(self: ServerLink, questions: Any, timeout: float | None = None) -> Any:
        found.extend(questions)
        return ask(self, questions, timeout)

    monkeypatch.setattr(ServerLink, "ask_many", counted)
    return found


# --- the same answers -----------------------------------------------------------------------------------------


def test_every_question_has_the_answer_of_a_file(at: Behind, tmp_path: Path) -> None:
    def answers(shop: Shop) -> list[object]:
        orders, opened = shop.orders, shop.waiting
        page = opened.page(3)
        more = opened.page(3, after=page.next)
        return [
            numbers(page.items),
            numbers(more.items),
            numbers(opened.limit(2)),
            numbers(orders.where(Order.state == "open").order_by(Order.number, descending=True).limit(4)),
            opened.count(),
            opened.exists(),
            orders.where(Order.state == "paid").sum(Order.cents),
            orders.where(Order.state == "paid").max(Order.cents),
            orders.where(Order.state == "gone").min(Order.cents),
            orders.group_by(Order.state).count(),
            orders.group_by(Order.state).sum(Order.cents),
            orders.distinct(Order.state),
            sorted(orders.where(Order.note == "x").scan().values(Order.number, Order.note)),
            orders.where(hw.col(Order.number).between(3, 5)).ids() != [],
            numbers(orders.where(Order.number == 7)),
            orders.where(hw.col(Order.state).one_of("paid", "gone")).count(),
            numbers(opened.scan().filter(lambda order: order.number % 5 == 0)),
            opened.explain(),
        ]

    def fill() -> None:
        for number in range(1, 13):
            state = "paid" if number % 3 == 0 else "open"
            Order(number=number, state=state, cents=number, note="x" if number % 4 == 0 else None)

    there, here = Shop(), Shop()
    with here.app.open(str(tmp_path / "shop.db")):
        fill()
        wanted = answers(here)
    with opened(at, Shop()) as space, space.transaction():
        fill()
    with opened(at, there):
        assert answers(there) == wanted


def test_get_and_one_find_their_document(at: Behind) -> None:
    filled(at)
    shop = Shop()
    with opened(at, shop):
        order = shop.orders.where(Order.number == 7).one()
        assert order.cents == 700
        found = shop.orders.get(hw.id_of(order))
        assert found is not None
        assert found.number == 7
        with pytest.raises(NotFoundError):
            shop.orders.where(Order.number == 70).one()


def test_a_page_of_many_documents_is_one_question_and_few_bytes(at: Behind, asked: list[object]) -> None:
    filled(at, 1_000)
    shop = Shop()
    with opened(at, shop) as space:
        link = storage_of(space).link
        asked.clear()
        before = link.heard_bytes
        page = shop.waiting.page(50)
        assert numbers(page.items) == list(range(1, 51))
        assert [order.cents for order in page.items] == [100 * number for number in range(1, 51)]
        assert [type(each) for each in asked] == [WatchSpan]
        assert link.heard_bytes - before <= 32 * 1024
        # The keys of the page, of the one behind it, and a few to spare; no other document has come.
        known = storage_of(space)._replica.spans.by_number  # type: ignore[union-attr]
        assert [len(span.keys or ()) for span in known.values()] == [67]
        held = [doc for doc in storage_of(space)._replica._documents if doc.startswith("space/order:")]  # type: ignore[union-attr]
        assert len(held) == 51
        asked.clear()
        assert numbers(shop.waiting.page(50).items) == list(range(1, 51))
        assert asked == []
        # So is the next one, although some of its keys have come already.
        page = shop.waiting.page(50, after=page.next)
        assert numbers(page.items) == list(range(51, 101))
        assert [type(each) for each in asked] == [WatchSpan]


# --- 17 to 20: what is tracked --------------------------------------------------------------------------------


def test_rule_17_a_page_runs_again_for_its_keys_alone(at: Behind) -> None:
    filled(at)
    shop, other = Shop(), Shop()
    runs = shop.watch(lambda shop: numbers(shop.waiting.limit(3)))
    with opened(at, shop) as space, opened(at, other, "bob") as there:
        assert runs == ["run"]
        # Behind the page; and another field of a member, which the function does not read.
        other.orders.where(Order.number == 9).one().state = "paid"
        other.orders.where(Order.number == 2).one().note = "x"
        heard(there, space)
        assert runs == ["run"]
        other.orders.where(Order.number == 2).one().state = "paid"
        heard(there, space)
        assert shop.seen[-1] == ["1", "3", "4"]
        other.orders.where(Order.number == 2).one().state = "open"
        heard(there, space)
        assert shop.seen[-1] == ["1", "2", "3"]
        assert len(runs) == 3


def test_rule_18_and_19_keys_ignore_other_fields_and_values_do_not(at: Behind) -> None:
    filled(at)
    shop, other = Shop(), Shop()
    keys = shop.watch(lambda shop: shop.waiting.ids())
    with opened(at, shop) as space, opened(at, other, "bob") as there:
        other.orders.where(Order.number == 2).one().note = "x"
        heard(there, space)
        assert keys == ["run"]
    values = Shop()
    runs = values.watch(lambda shop: shop.waiting.values(Order.note))
    with opened(at, values) as space, opened(at, other, "bob") as there:
        before = len(runs)
        other.orders.where(Order.number == 2).one().note = "y"
        heard(there, space)
        assert len(runs) == before + 1
        assert values.seen[-1][1] == "y"
        Order(number=0, note="new")
        heard(there, space)
        assert values.seen[-1][0] == "new"


def test_rule_20_an_answer_runs_its_readers_only_if_it_differs(at: Behind) -> None:
    filled(at)
    shop, other = Shop(), Shop()
    runs = shop.watch(lambda shop: [shop.orders.where(Order.state == "open").sum(Order.cents)])
    with opened(at, shop) as space, opened(at, other, "bob") as there:
        assert shop.seen[-1] == ["21000"]
        with there.transaction():
            other.orders.where(Order.number == 1).one().cents += 50
            other.orders.where(Order.number == 2).one().cents -= 50
        heard(there, space)
        assert runs == ["run"]
        other.orders.where(Order.number == 1).one().state = "paid"
        heard(there, space)
        assert shop.seen[-1] == ["20850"]
        assert len(runs) == 2


def test_an_answer_follows_changes_without_asking_again(at: Behind, asked: list[object]) -> None:
    filled(at)
    shop, other = Shop(), Shop()
    shop.watch(lambda shop: [shop.orders.where(Order.state == "open").count()])
    with opened(at, shop) as space, opened(at, other, "bob") as there:
        new = [Order(number=100 + number) for number in range(5)]
        asked.clear()
        for order in new:
            order.state = "paid"
        heard(there, space)
        assert shop.seen[-1] == ["20"]
        assert [each for each in asked if isinstance(each, WatchSpan)] == []


def test_rule_31_elements_of_a_query_run_one_by_one(at: Behind) -> None:
    filled(at, 5)
    shop, other, made = Shop(), Shop(), list[int]()

    def card(order: Order) -> str:
        made.append(order.number)
        return f"{order.number}: {order.state}"

    cards = shop.app.each(shop.waiting.limit(3), card)

    @shop.app.sink
    def show() -> None:
        shop.seen.append(list(cards))

    with opened(at, shop) as space, opened(at, other, "bob") as there:
        assert shop.seen[-1] == ["1: open", "2: open", "3: open"]
        made.clear()
        other.orders.where(Order.number == 2).one().state = "paid"
        heard(there, space)
        assert shop.seen[-1] == ["1: open", "3: open", "4: open"]
        assert made == [4]


# --- 22 to 24: transactions -----------------------------------------------------------------------------------


def test_rule_22_a_phantom_is_a_conflict_at_the_server(at: Behind) -> None:
    filled(at, 3)
    shop, other = Shop(), Shop()
    with opened(at, shop) as space, other.app.open(at.straight, actor="bob") as there:
        assert shop.waiting.count() == 3
        heard(space)
        # Nothing reaches ann's program, which commits on what it has read before.
        at.proxy.freeze(True)
        Order(number=50)
        there.sync()
        with space.transaction() as tx:
            count = shop.waiting.count()
            Order(number=60, state="paid", cents=count)
        at.proxy.freeze(False)
        with pytest.raises(ConflictError):
            space.sync()
        assert tx.is_rejected
        assert shop.orders.where(Order.state == "paid").count() == 0
        assert shop.waiting.count() == 4


def test_rule_22_a_change_outside_of_what_was_read_is_no_conflict(at: Behind) -> None:
    filled(at, 3)
    shop, other = Shop(), Shop()
    with opened(at, shop) as space, other.app.open(at.straight, actor="bob") as there:
        assert numbers(shop.waiting.limit(2)) == [1, 2]
        heard(space)
        at.proxy.freeze(True)
        Order(number=50)
        there.sync()
        with space.transaction():
            first = next(iter(shop.waiting.limit(1)))
            first.state = "paid"
        at.proxy.freeze(False)
        space.sync()
        assert shop.orders.where(Order.state == "paid").count() == 1


def test_rule_23_inserts_do_not_conflict(at: Behind) -> None:
    shop, other = Shop(), Shop()
    with opened(at, shop) as space, other.app.open(at.straight, actor="bob") as there:
        assert shop.waiting.count() == other.waiting.count() == 0
        at.proxy.freeze(True)
        with there.transaction():
            other.orders.insert_many({"number": number} for number in range(5))
        there.sync()
        with space.transaction():
            shop.orders.insert_many({"number": number} for number in range(5, 10))
        at.proxy.freeze(False)
        heard(space, there)
        assert shop.waiting.count() == other.waiting.count() == 10


def test_rule_24_a_duplicate_is_refused_by_the_server_and_not_asked_for(at: Behind, asked: list[object]) -> None:
    filled(at, 3)
    shop = Shop()
    with opened(at, shop) as space:
        asked.clear()
        Order(number=2)
        assert [each for each in asked if isinstance(each, WatchSpan)] == []
        with pytest.raises(DuplicateError, match="number"):
            space.sync()
        # Where the key is known, the constructor sees it.
        assert shop.orders.where(Order.number == 3).one().cents == 300
        with pytest.raises(DuplicateError):
            Order(number=3)


def test_rule_24_a_handler_that_has_lost_is_run_again_on_what_won(at: Behind) -> None:
    filled(at, 1)
    shop, other = Shop(), Shop()
    tries: list[int] = []

    @shop.app.handler
    def pay(number: int) -> bool:
        order = shop.orders.where(Order.number == number).one()
        tries.append(order.number)
        if order.state != "open":
            return False
        order.state = "paid"
        return True

    with opened(at, shop) as space, other.app.open(at.straight, actor="bob") as there:
        assert shop.orders.where(Order.number == 1).one().state == "open"
        heard(space)
        at.proxy.freeze(True)
        other.orders.where(Order.number == 1).one().state = "paid"
        there.sync()
        ticket = pay.send(1)
        space.settle()
        at.proxy.freeze(False)
        assert ticket.result(timeout="120s") is False
        assert len(tries) == 2


def test_own_writes_are_in_the_answers_before_they_are_decided(at: Behind) -> None:
    filled(at, 3)
    shop = Shop()
    runs = shop.watch(lambda shop: numbers(shop.waiting))
    with opened(at, shop) as space:
        at.proxy.freeze(True)
        Order(number=0)
        shop.waiting.limit(3)()[2].state = "paid"
        assert shop.seen[-1] == ["0", "1", "3"]
        assert shop.waiting.count() == 3
        at.proxy.freeze(False)
        heard(space)
        assert shop.seen[-1] == ["0", "1", "3"]
        assert len(runs) == 3


def test_what_is_rolled_back_is_not_in_the_answers_any_more(at: Behind) -> None:
    filled(at, 3)
    shop, other = Shop(), Shop()
    shop.watch(lambda shop: numbers(shop.waiting))
    with opened(at, shop) as space, other.app.open(at.straight, actor="bob") as there:
        first = shop.waiting.first()
        assert first is not None
        at.proxy.freeze(True)
        other.orders.where(Order.number == 1).one().state = "sent"
        there.sync()
        with space.transaction():
            first.state = "paid" if first.state == "open" else "odd"
            Order(number=9)
        assert shop.seen[-1] == ["2", "3", "9"]
        at.proxy.freeze(False)
        with pytest.raises(ConflictError):
            space.sync()
        heard(space)
        assert shop.seen[-1] == ["2", "3"]
        assert shop.orders.where(Order.state == "paid").count() == 0


# --- what is watched ------------------------------------------------------------------------------------------


def test_spans_that_nothing_reads_are_released_after_a_while(at: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(at, 20)
    shop = Shop()
    runs = shop.watch(lambda shop: numbers(shop.waiting.limit(3)))
    with opened(at, shop) as space:
        replica = storage_of(space)._replica
        assert replica is not None
        shop.waiting.count()
        shop.orders.where(Order.number == 3).one()
        assert len(replica.spans) == 3
        with space.transaction():
            assert shop.orders.where(Order.number == 4).one().cents == 400
            monkeypatch.setattr(span_replica, "UNREAD_SPAN_S", -1.0)
            monkeypatch.setattr(span_replica, "SWEEP_S", -1.0)
            shop.orders.where(Order.number == 5).exists()
            # What the function reads, what the transaction reads, and the new one.
            assert len(replica.spans) == 3
        heard(space)
        session = storage_of(space).link.session
        assert sorted(session.spans.known) == sorted(replica.spans.by_number)
        other = Shop()
        with opened(at, other, "bob") as there:
            other.orders.where(Order.number == 2).one().state = "paid"
            heard(there, space)
        assert len(runs) == 2
        assert shop.waiting.count() == 19


# --- scopes and rights ----------------------------------------------------------------------------------------


def test_drafts_of_a_user_are_that_users(at: Behind) -> None:
    ann, bob = Shop(), Shop()
    with opened(at, ann, "ann") as space, opened(at, bob, "bob") as there:
        with space.transaction():
            Draft(text="hers")
        with there.transaction():
            assert bob.drafts.count() == 0
            Draft(text="his")
        heard(space, there)
        assert [each.text for each in ann.drafts.order_by(Draft.text)] == ["hers"]
        assert [each.text for each in bob.drafts.order_by(Draft.text)] == ["his"]


def test_a_collection_that_a_role_may_not_read_has_no_documents_for_it(at: Behind) -> None:
    shop = Shop()
    with opened(at, shop, "ann") as space:
        Recipe(text="salt")
        space.sync()
    cook, guest = Shop(), Shop()

    def token(*roles: str) -> str:
        return at.server.access.create(space="shop", can=Right.READ, actor="eve", roles=roles)[0]

    with guest.app.open(at.straight, token=token(), actor="eve") as space:
        assert guest.recipes.count() == 0
        assert guest.recipes.order_by(Recipe.text).page(5).items == []
        assert guest.orders.count() == 0
        assert storage_of(space)._replica.spans.by_number  # type: ignore[union-attr]
    with cook.app.open(at.straight, token=token("cook"), actor="eve") as space:
        assert cook.recipes.count() == 1
        Recipe(text="pepper")
        heard(space)
        assert [each.text for each in cook.recipes.order_by(Recipe.text)] == ["pepper", "salt"]
        with space.transaction():
            cook.recipes.where(Recipe.text == "salt").one().text = "sugar"
            assert cook.recipes.where(Recipe.text == "sugar").exists()
        with pytest.raises(RuleError) as refused:
            space.sync()
        assert refused.value.code == "HW216"
        assert not cook.recipes.where(Recipe.text == "sugar").exists()


def test_an_older_server_says_that_it_answers_no_queries(at: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
    filled(at, 3)
    monkeypatch.setattr("headwater.sync.server_session.frames.EXTENSIONS", ("far", "rules"))
    shop = Shop()
    with opened(at, shop):
        Order(number=50)
        with pytest.raises(QueryError, match="does not answer queries: its version is older") as caught:
            shop.waiting.count()
        assert caught.value.code == "HW120"


def test_documents_that_a_role_may_read_from_now_on_are_in_the_answers(at: Behind) -> None:
    shop = Shop()
    with opened(at, shop, "ann") as space:
        Recipe(text="salt")
        space.sync()
        guest, token = Shop(), at.server.access.create(space="shop", can=Right.READ, actor="eve", roles=("guest",))[0]
        with guest.app.open(at.straight, token=token, actor="eve") as there:
            assert guest.recipes.order_by(Recipe.text)() == []
            app = hw.App("shop")
            declared = app.collection(Recipe, indexes=[Recipe.text], rules=[hw.allow("guest", read=True)]).declaration()
            replica = storage_of(space)._replica
            assert replica is not None
            doc = declared.record.doc
            record = deployed(record_of(doc, replica.read(doc)), declared)
            replica.commit((SetDoc(doc, record.to_value()),))
            space.sync()
            until(lambda: [each.text for each in guest.recipes.order_by(Recipe.text)] == ["salt"], "it may read")
            with space.transaction():
                Recipe(text="pepper")
            space.sync()
            heard(there)
            assert [each.text for each in guest.recipes.order_by(Recipe.text)] == ["pepper", "salt"]
