"""Orders of a shop: documents found by their fields, sorted, in pages, counted and summed.

`open_cents`, `by_state` and `newest` are kept current: a change of one order costs one step, however many there are.
"""

import csv
import sys
import tempfile
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

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


app = hw.App("shop")
customers = app.collection(Customer, unique=[Customer.email], indexes=[Customer.name])
orders = app.collection(
    Order,
    indexes=[(Order.state, Order.created), (Order.customer, Order.created), Order.due],
    unique=[Order.number],
    totals=[hw.total(Order.cents, by=Order.state)],
)


@app.computed
def open_cents() -> int:  # runs only if the sum differs
    return orders.where(Order.state == "open").sum(Order.cents)


@app.computed
def by_state() -> dict[str, int]:
    return orders.group_by(Order.state).count()


@app.computed
def newest() -> list[str]:  # depends on the newest orders, and on the fields read of these
    found = orders.where(Order.state == "open").order_by(Order.created, descending=True).limit(2)
    return [f"{order.number}: {order.customer.name}" for order in found]


@app.handler
def pay(number: int) -> bool:  # serializable: of two `pay(7)` at one time, one runs again and finds the order paid
    order = orders.where(Order.number == number).one()
    if order.state != "open":
        return False
    order.state = "paid"
    return True


def card(order: Order) -> str:
    return f"{order.number} {order.cents}"


cards = hw.each(orders.where(Order.state == "open").order_by(Order.created).limit(50), card)


def page(after: str | None) -> tuple[list[dict[str, object]], str | None]:  # as an endpoint returns it
    found = orders.where(Order.state == "paid").order_by(Order.created).page(2, after=after)
    return [{"number": each.number, "cents": each.cents} for each in found.items], found.next


def pages() -> Iterator[list[object]]:
    after = None
    while True:
        found, after = page(after)
        yield [each["number"] for each in found]
        if after is None:
            return


def load(path: Path, person: Customer) -> int:  # the generator runs inside insert_many
    now = datetime.now(UTC)
    with path.open(newline="", encoding="utf-8") as file:
        return orders.insert_many(
            Order(
                number=int(row["n"]),
                customer=person,
                created=now + timedelta(seconds=int(row["n"])),
                cents=int(row["c"]),
            )
            for row in csv.DictReader(file)
        )


def ask(person: Customer, now: datetime) -> None:
    late = orders.where(hw.col(Order.due) < now)()  # `col`: for fields that may be None, prefixes, one_of
    hers = orders.where(Order.customer == person, Order.created >= now).count()
    anns = customers.where(hw.col(Customer.name).starts_with("An")).first()
    pairs = orders.where(Order.state == "paid").order_by(Order.created).values(Order.cents, Order.number)
    largest = orders.where(Order.state == "open").scan().max(Order.cents)  # no index ends with cents
    print(len(late), hers, anns.name if anns else None, pairs[0], largest, orders.get("order:abc"))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder, app.open(sys.argv[1] if sys.argv[1:] else "shop_orders.db"):
        now = datetime.now(UTC)
        ann = customers.where(Customer.email == "ann@example.org").first()
        if ann is None:
            ann = Customer(name="Ann", email="ann@example.org")
            rows = Path(folder) / "rows.csv"
            rows.write_text("n,c\n" + "".join(f"{number},{number * 100}\n" for number in range(1, 9)), encoding="utf-8")
            print("loaded", load(rows, ann))
        print(open_cents(), by_state(), newest())
        first = orders.where(Order.state == "open").order_by(Order.created).limit(3).values(Order.number)
        print([pay.send(number).result() for number in first], pay.send(1).result())
        print(open_cents(), by_state(), cards())
        print(list(pages()))
        ask(ann, now - timedelta(days=1))
