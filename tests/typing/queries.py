"""Collections and queries as authors type them. Checkers read this file, and it runs."""

import csv
import tempfile
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import assert_type

import headwater as hw


class Customer(hw.Doc):
    name: str
    email: str


class Order(hw.Doc):
    number: int
    customer: hw.Link[Customer]
    created: datetime
    cents: int = 0
    state: str = "open"
    due: datetime | None = None


class Login(hw.Doc):
    token: str
    until: datetime
    tries: int | None = None


app = hw.App("shop")
customers = app.collection(Customer, unique=[Customer.email], indexes=[Customer.name])
orders = app.collection(
    Order,
    indexes=[(Order.state, Order.created), (Order.customer, Order.created), Order.due, Order.state],
    unique=[Order.number],
    totals=[hw.total(Order.cents, by=Order.state)],
)
logins = app.collection(
    Login, unique=[Login.token], totals=[hw.total(Login.tries), hw.total(Login.tries, by=Login.token)]
)


@app.computed
def open_cents() -> int:
    return orders.where(Order.state == "open").sum(Order.cents)


@app.computed
def by_state() -> dict[str, int]:
    return orders.group_by(Order.state).count()


@app.computed
def newest() -> list[str]:
    found = orders.where(Order.state == "open").order_by(Order.created, descending=True).limit(20)
    return [f"{order.number}: {order.customer.name}" for order in found]


@app.handler
def pay(number: int) -> bool:
    order = orders.where(Order.number == number).one()
    if order.state != "open":
        return False
    order.state = "paid"
    return True


def card(order: Order) -> str:
    return f"{order.number} {order.cents}"


cards = hw.each(orders.where(Order.state == "open").order_by(Order.created).limit(50), card)
dear = hw.select(orders.where(Order.state == "open"), lambda order: order.cents > 200, name="dear")


def page(after: str | None) -> tuple[list[dict[str, object]], str | None]:
    found = orders.where(Order.state == "paid").order_by(Order.created).page(50, after=after)
    return [{"id": hw.id_of(each), "cents": each.cents} for each in found.items], found.next


def load(path: str, person: Customer) -> int:
    now = datetime.now(UTC)
    with open(path, newline="") as file:  # noqa: PTH123
        return orders.insert_many(
            Order(number=int(row["n"]), customer=person, created=now, cents=int(row["c"]))
            for row in csv.DictReader(file)
        )


def ask(person: Customer, now: datetime) -> None:
    late: Sequence[Order] = orders.where(hw.col(Order.due) < now - timedelta(days=1))()
    hers: int = orders.where(Order.customer == person, Order.created >= now).count()
    pairs: list[tuple[int, str]] = orders.where(Order.state == "open").values(Order.cents, Order.state)
    anns = customers.where(hw.col(Customer.name).starts_with("An")).first()
    some = orders.where(hw.col(Order.state).one_of("open", "paid")).exists()
    big = orders.where(Order.cents > 100_000).scan().filter(lambda order: order.number % 2 == 0)
    largest: int | None = orders.where(Order.state == "open").scan().max(Order.cents)
    dearest: dict[str, int] = orders.scan().group_by(Order.state).max(Order.cents)
    one: Order | None = orders.get("order:abc")
    print(late, hers, pairs, anns, some, list(big), largest, dearest, one)


def types(now: datetime) -> None:
    assert_type(orders, hw.Collection[Order])
    assert_type(orders.where(Order.state == "open"), hw.Query[Order])
    assert_type(orders.where(Order.state == "open").page(5), hw.Page[Order])
    assert_type(orders.distinct(Order.state), list[str])
    assert_type(orders.values(Order.number), list[int])
    assert_type(orders.where(hw.col(Order.due).is_none()).ids(), list[str])
    assert_type(orders.where(hw.col(Order.created).between(now, now)).scan().first(), Order | None)
    assert_type(logins.sum(Login.tries), int)
    assert_type(logins.group_by(Login.token).sum(Login.tries), dict[str, int])
    assert_type(cards(), list[str])
    assert_type(dear(), list[Order])
    print([order.number for order in orders.order_by(Order.number)], orders.where(Order.state == "open").delete())
    print(logins.insert_many([{"token": "abc", "until": now}]))


class Parcel(hw.Doc):
    cents: int = 0
    number: int


former = hw.App("former")
parcels = former.collection(
    Parcel,
    indexes=[Parcel.cents],
    changes=[
        hw.renamed(Parcel.cents, was="amount"),
        hw.retyped(Parcel.number, was=str, how=int),
        hw.dropped("color"),
    ],
)
assert_type(parcels, hw.Collection[Parcel])


with tempfile.TemporaryDirectory() as folder, app.open("memory:"):
    rows = Path(folder) / "rows.csv"
    rows.write_text("n,c\n1,250\n2,100\n", encoding="utf-8")
    ann = Customer(name="Ann", email="ann@example.org")
    print(load(str(rows), ann), pay.send(1).result(), page(None), open_cents(), by_state(), newest(), cards())
    ask(ann, datetime.now(UTC))
    types(datetime.now(UTC))
