"""Members of a collection: which documents they are, and how a collection is declared."""

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest

import headwater as hw
from headwater.errors import DeclarationError, NotFoundError, QueryError, SchemaError, UsageError
from tests.declare.collections.shop import Customer, Order, Shop, numbers


def test_class_makes_members_and_delete_ends_it() -> None:
    made = Shop()
    with made.open():
        order = Order(number=1)
        assert order in made.orders
        assert hw.id_of(order) in made.orders
        assert made.orders.count() == 1
        hw.delete(order)
        assert order not in made.orders
        assert made.orders.count() == 0


def test_document_of_app_doc_is_no_member() -> None:
    made = Shop()
    board = made.app.doc("board", Order)
    with made.open():
        board.number = 1
        assert board not in made.orders
        assert made.orders.count() == 0


def test_get_is_none_for_other_ids_and_brackets_raise() -> None:
    made = Shop()
    with made.open():
        order, ann = Order(number=1), Customer(name="Ann")
        assert made.orders.get(hw.id_of(order)) == order
        assert made.orders[hw.id_of(order)].number == 1
        for unknown in ("order:unknown", hw.id_of(ann), "", "order", "order:", "a/b", "order:a:b"):
            assert made.orders.get(unknown) is None
            assert unknown not in made.orders
            with pytest.raises(NotFoundError, match=r"there is no document .* of Order") as caught:
                made.orders[unknown]
            assert caught.value.code == "HW106"
        assert ann not in made.orders
        assert 3 not in made.orders
        with pytest.raises(UsageError, match="as text, and got 3"):
            made.orders.get(3)  # type: ignore[arg-type]


def test_id_of_another_kind_is_refused_by_space_doc() -> None:
    made = Shop()
    with made.open() as space:
        ann = Customer(name="Ann")
        with pytest.raises(SchemaError, match="is a document of class Customer, not of Order") as caught:
            space.doc(hw.id_of(ann), Order)
    assert caught.value.code == "HW108"


def test_subclass_is_a_collection_of_its_own() -> None:
    class Gift(Order):
        wish: str = ""

    made = Shop()
    gifts = made.app.collection(Gift, indexes=[Gift.number, Order.state])
    with made.open():
        Order(number=1)
        gift = Gift(number=2, wish="socks")
        assert numbers(made.orders) == [1]
        assert numbers(gifts.where(Gift.number == 2)) == [2]
        assert gift not in made.orders


def test_name_is_the_first_word_of_the_ids() -> None:
    class Ticket(hw.Doc):
        number: int

    app = hw.App("named")
    tickets = app.collection(Ticket, name="entry", indexes=[Ticket.number])
    with app.open("memory:") as space:
        ticket = Ticket(number=1)
        assert hw.id_of(ticket).startswith("entry:")
        assert ticket in tickets
        assert tickets.where(Ticket.number == 1).one() == ticket
        assert space.doc(hw.id_of(ticket), Ticket) == ticket


def test_two_classes_of_one_kind_are_refused() -> None:
    app = hw.App("twice")

    def one() -> type[hw.Doc]:
        class Thing(hw.Doc):
            number: int

        return Thing

    app.collection(one())
    with pytest.raises(DeclarationError, match="has 'collection:thing' already, a collection") as caught:
        app.collection(one())
    assert caught.value.code == "HW110"
    app.collection(one(), name="other")


def test_one_class_is_declared_alike_by_all_apps() -> None:
    class Draft(hw.Doc):
        text: str

    hw.App("one").collection(Draft, scope="user")
    hw.App("two").collection(Draft, scope="user")
    with pytest.raises(DeclarationError, match="another app declares its collection as 'draft' in scope 'user'"):
        hw.App("three").collection(Draft)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"indexes": [Customer.name]}, r"is no field of Order; its fields are Order\.number"),
        ({"indexes": [Order.__init__]}, "is no field of Order"),
        ({"indexes": ["state"]}, "is no field of Order"),
        ({"indexes": "state"}, "a list of fields"),
        ({"indexes": [()]}, "an index has one to 4 fields, and 0 were given"),
        ({"indexes": [(Order.number, Order.state, Order.cents, Order.ratio, Order.due)]}, "and 5 were given"),
        ({"indexes": [(Order.number, Order.number)]}, "a field is twice in one index"),
        ({"indexes": [Order.tags]}, "which has no order"),
        ({"unique": [Order.tags]}, "which has no order"),
        ({"totals": [Order.cents]}, r"a list of hw\.total"),
        ({"totals": [hw.total(Customer.name)]}, "is no field of Order"),  # type: ignore[arg-type]
        ({"totals": [hw.total(Order.cents, by="state")]}, "is no field of Order"),
        ({"scope": "session"}, "'session' is no scope of a collection"),
        ({"name": "a:b"}, "is no name for ids"),
        ({"name": ""}, "is no name for ids"),
        ({"name": "schema"}, "belong to Headwater"),
    ],
)
def test_wrong_declaration_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(DeclarationError, match=message) as caught:
        hw.App("wrong").collection(Order, **options)
    assert caught.value.code == "HW110"


@pytest.mark.parametrize("kind", [int, "Order", hw.Doc, hw.AnyDoc, None])
def test_only_classes_of_documents_have_collections(kind: Any) -> None:
    with pytest.raises(DeclarationError, match=r"a subclass of hw\.Doc with fields of its own is expected"):
        hw.App("wrong").collection(kind)


def test_type_that_is_declared_later_is_checked_at_the_opening() -> None:
    app = hw.App("later")

    class Node(hw.Doc):
        price: "Price"  # type: ignore[name-defined]  # noqa: F821  # declared later, or never
        number: int = 0

    Node._hw_locals = {}
    nodes = app.collection(Node, indexes=[Node.price])
    Node._hw_locals = {"Price": Decimal}
    with pytest.raises(DeclarationError, match=r"Node\.price is Decimal, which has no order"), app.open("memory:"):
        pass
    assert nodes is not None


def test_pattern_declares_no_collection() -> None:
    app = hw.App("pieces")

    @hw.pattern
    def part(_p: hw.Builder) -> None:
        app.collection(Order)

    with app.open("memory:") as space, pytest.raises(DeclarationError, match="a pattern declares no collections"):
        space.start(part, "one")


def test_query_of_another_app_that_is_not_open_is_refused() -> None:
    made = Shop()
    with pytest.raises(hw.HeadwaterError) as caught:
        list(made.orders)
    assert caught.value.code == "HW001"


def test_collection_that_is_declared_while_the_app_is_open_can_be_queried() -> None:
    app = hw.App("notebook")

    class Note(hw.Doc):
        text: str

    with app.open("memory:"):
        Note(text="before")
        notes = app.collection(Note, indexes=[Note.text])
        assert [note.text for note in notes.where(Note.text == "before")] == ["before"]


# --- scope="user" -----------------------------------------------------------------------------------------------


class Draft(hw.Doc):
    text: str
    at: datetime | None = None


mail = hw.App("mail")
drafts = mail.collection(Draft, scope="user", indexes=[Draft.text])


def test_documents_of_a_user_are_seen_by_that_user_only(tmp_path: Any) -> None:
    url = tmp_path / "mail.db"
    with mail.open(url, actor="ann"):
        Draft(text="of Ann")
        assert drafts.insert_many({"text": text} for text in ("b", "c")) == 2
        assert sorted(draft.text for draft in drafts) == ["b", "c", "of Ann"]
    with mail.open(url, actor="bob"):
        draft = Draft(text="of Bob")
        assert [each.text for each in drafts] == ["of Bob"]
        assert drafts.where(Draft.text == "of Ann").first() is None
        assert drafts.get(hw.id_of(draft)) == draft
        assert draft in drafts
        page = drafts.order_by(Draft.text).page(1)
        assert (page.next, drafts.count(), drafts.max(Draft.text)) == (None, 1, "of Bob")
    with mail.open(url, actor="ann"):
        cursor = drafts.order_by(Draft.text).page(1).next
        assert drafts.delete() == 3
    with mail.open(url, actor="bob"):
        assert drafts.count() == 1
        with pytest.raises(UsageError, match="the cursor is of another query"):
            drafts.order_by(Draft.text).page(1, after=cursor)


def test_collection_of_users_needs_an_actor() -> None:
    with mail.open("memory:"), pytest.raises(hw.HeadwaterError, match="actor="):
        drafts.count()


# --- what is stored of a declaration ------------------------------------------------------------------------------


def shaped(**fields: Any) -> type[hw.Doc]:
    """A class `Thing` with these fields."""
    return type("Thing", (hw.Doc,), {"__annotations__": fields, "__module__": __name__})


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"a": int}, {"a": int, "b": str}),
        ({"a": int}, {"a": int | None}),
        ({"a": int}, {"a": float}),
        ({"a": int, "b": str}, {"a": int}),
        ({"a": list[int]}, {"a": list[int]}),
    ],
)
def test_opening_adds_fields_and_wider_types(tmp_path: Any, before: dict[str, Any], after: dict[str, Any]) -> None:
    for number, fields in enumerate((before, after)):
        app = hw.App(f"app{number}")
        app.collection(shaped(**fields))
        with app.open(tmp_path / "x.db"):
            pass


@pytest.mark.parametrize(
    ("before", "after", "here", "there"),
    [
        ({"a": int}, {"a": str}, "str", "int"),
        ({"a": int | None}, {"a": int}, "int", "int or None"),
        ({"a": str}, {"a": bytes}, "bytes", "str"),
    ],
)
def test_field_with_another_type_is_refused_with_both(
    tmp_path: Any, before: dict[str, Any], after: dict[str, Any], here: str, there: str
) -> None:
    one, two = hw.App("one"), hw.App("two")
    one.collection(shaped(**before))
    two.collection(shaped(**after))
    with one.open(tmp_path / "x.db"):
        pass
    message = rf"the field 'a' of the collection 'thing' is declared as {here}, and this space has it as {there}"
    with pytest.raises(DeclarationError, match=message) as caught, two.open(tmp_path / "x.db"):
        pass
    assert caught.value.code == "HW110"
    with one.open(tmp_path / "x.db"):
        pass


def test_scope_is_the_stored_one(tmp_path: Any) -> None:
    one, two = hw.App("one"), hw.App("two")
    one.collection(shaped(a=int), name="sheet")
    two.collection(shaped(a=int), name="sheet", scope="user")
    with one.open(tmp_path / "x.db"):
        pass
    with pytest.raises(DeclarationError, match="scope='space'; use that"), two.open(tmp_path / "x.db", actor="ann"):
        pass


def test_second_opening_writes_nothing(tmp_path: Any) -> None:
    made = Shop(Order.number)
    seqs = []
    for _ in range(2):
        with made.open(url=tmp_path / "x.db") as space:
            space.sync()
            seqs.append(space.stats.seq)
    assert seqs[0] == seqs[1]


def test_index_that_another_program_declares_stays(tmp_path: Any) -> None:
    one, two = Shop(Order.number), Shop(Order.state)
    with one.open({"number": 1}, url=tmp_path / "x.db"):
        pass
    with two.open({"number": 2}, url=tmp_path / "x.db"):
        assert two.orders.where(Order.state == "open").count() == 2
        with pytest.raises(QueryError):
            two.orders.where(Order.number == 1).count()
    with one.open(url=tmp_path / "x.db"):
        assert numbers(one.orders.where(Order.number == 2)) == [2]


def test_class_without_a_collection_costs_nothing_and_works() -> None:
    app = hw.App("plain")
    with app.open("memory:") as space:
        order = Order(number=1)
        assert order.number == 1
        assert space._opening.replica.members is None
