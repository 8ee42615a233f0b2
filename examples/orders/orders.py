"""A shop with 100,000 orders: documents, functions that stay current, and handlers. `orders_web.py` serves it.

`python orders.py` makes the file and prints the totals. An insertion that was killed is continued at the next start.
"""

import os
import random
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from itertools import product
from typing import TypeAlias

import headwater as hw

FILE = os.environ.get("ORDERS_FILE", "orders.db")
COUNT = int(os.environ.get("ORDERS_COUNT", "100000"))
STATES = ("open", "paid", "shipped")
PAGE = 12

FIRST = "Ann Bob Carla Dan Eva Finn Greta Hugo Ida Jan Kim Lea Max Nora Otto Pia Quinn Rosa Sam Tina"
LAST = "Abbott Berg Costa Dietz Engel Falk Gomez Haas Ito Jansen Klein Lang Meyer Novak Olsen Peters"
START = datetime(2026, 1, 1, tzinfo=UTC)


class Customer(hw.Doc):
    name: str


class Order(hw.Doc):
    number: int
    customer: hw.Link[Customer]
    created: datetime
    cents: int
    state: str = "open"


Row: TypeAlias = dict[str, str | int]
"""Of an order or a customer, for a page."""

app = hw.App("orders")
customers = app.collection(Customer, unique=[Customer.name])
orders = app.collection(
    Order,
    indexes=[(Order.state, Order.created), (Order.state, Order.cents), (Order.customer, Order.created)],
    unique=[Order.number],
)


def row(order: Order) -> Row:
    return {
        "number": order.number,
        "customer": order.customer.name,
        "created": order.created.isoformat(timespec="seconds"),
        "cents": order.cents,
        "state": order.state,
    }


# --- what stays current --------------------------------------------------------------------------------------


@app.computed
def totals() -> dict[str, dict[str, int]]:  # a change of one order is one step, however many orders there are
    count, cents = orders.group_by(Order.state).count(), orders.group_by(Order.state).sum(Order.cents)
    return {state: {"count": count.get(state, 0), "cents": cents.get(state, 0)} for state in STATES}


# --- questions of a visitor ----------------------------------------------------------------------------------


def page(state: str, after: str | None, customer: str | None = None) -> tuple[list[Row], str | None]:
    found = orders.where(Order.state == state)
    if customer is not None:
        found = orders.where(Order.customer == customers[customer])
    got = found.order_by(Order.created, descending=True).page(PAGE, after=after)
    return [row(order) for order in got.items], got.next


@app.computed
def newest(state: str) -> tuple[list[Row], str | None]:  # reads a dozen keys, and the fields of these orders
    return page(state, None)


def search(begins: str) -> list[Row]:
    found = customers.where(hw.col(Customer.name).starts_with(begins)).order_by(Customer.name).limit(8)
    return [
        {"id": hw.id_of(each), "name": each.name, "orders": orders.where(Order.customer == each).count()}
        for each in found
    ]


# --- changes -------------------------------------------------------------------------------------------------


def move(number: int, before: str, after: str) -> Row:
    order = orders.where(Order.number == number).first()
    if order is None:
        raise hw.Reject(f"there is no order {number}")
    if order.state != before:
        raise hw.Reject(f"order {number} is {order.state}")
    order.state = after
    return row(order)


@app.handler
def pay(number: int) -> Row:  # of two at one time, one is handled after the other, and finds the order paid
    return move(number, "open", "paid")


@app.handler
def ship(number: int) -> Row:
    return move(number, "paid", "shipped")


@app.handler
def place(name: str, cents: int) -> Row:
    if not name.strip() or cents < 1:
        raise hw.Reject("an order has a customer and a price")
    customer = customers.where(Customer.name == name).first() or Customer(name=name)
    number = (orders.max(Order.number) or 0) + 1  # two orders at one time get two numbers
    return row(Order(number=number, customer=customer, created=datetime.now(UTC), cents=cents))


# --- the first start -----------------------------------------------------------------------------------------


def made(first: int) -> Iterator[Order]:
    """Orders, with a progress bar in a terminal."""
    buyers, rng, is_shown = list(customers), random.Random(first), sys.stderr.isatty()
    for number in range(first, COUNT + 1):
        yield Order(
            number=number,
            customer=rng.choice(buyers),
            created=START + timedelta(minutes=number),
            cents=rng.randrange(100, 50_000),
            state=rng.choices(STATES, (3, 2, 5))[0],
        )
        if is_shown and (number % 500 == 0 or number == COUNT):
            done = 40 * number // COUNT
            end = "\n" if number == COUNT else ""
            print(f"\r[{'#' * done}{'.' * (40 - done)}] {number:,} orders", end=end, file=sys.stderr, flush=True)


def fill() -> int:
    """Insert what is missing, a thousand orders in a transaction."""
    if not customers.exists():
        customers.insert_many(
            {"name": f"{first} {last}"} for first, last in product(FIRST.split(), LAST.split())
        )  # one transaction
    last = orders.max(Order.number) or 0
    return orders.insert_many(made(last + 1)) if last < COUNT else 0


if __name__ == "__main__":
    with app.open(FILE):
        print(fill(), "orders inserted")
        print(totals())
