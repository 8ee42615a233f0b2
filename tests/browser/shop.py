"""A small shop with everything that the Studio shows: documents, functions, events that failed, workflows that wait.

`python shop.py FILE` opens the file, fills it, prints `ready`, and keeps it open until its input ends.
"""

import sys
from collections.abc import Sequence

import headwater as hw

app = hw.App("shop")


class Product(hw.Doc):
    name: str
    cents: int
    stock: int = 10


class Order(hw.Doc):
    customer: str
    product: hw.Link[Product]
    amount: int = 1
    paid: bool = False


class Store(hw.Doc):
    products: hw.List[Product] = hw.List()
    orders: hw.List[Order] = hw.List()


store = app.doc("store", Store)
vat = app.cell("vat", 19)
query = app.cell("query", "")
goal = app.cell("goal", 150_000)
visitors = app.cell("visitors", 0)


@app.computed
def line(order: Order) -> int:
    return order.amount * order.product.cents


@app.computed
def stock_left(product: Product) -> int:
    sold = sum(order.amount for order in store.orders if order.product == product)
    return product.stock - sold


@app.computed
def revenue() -> int:
    return sum(line(order) for order in store.orders)


@app.computed
def tax() -> int:
    return revenue() * vat.value // 100


@app.computed
def open_invoices() -> int:
    return sum(1 for order in store.orders if not order.paid)


@app.computed
def low_stock() -> list[str]:
    return [product.name for product in store.products if stock_left(product) < 3]


@app.computed
def goal_reached() -> int:
    return revenue() * 100 // goal.value


@app.computed(debounce="5m")
def hits() -> list[str]:
    return [product.name for product in store.products if query.value in product.name.lower()]


@app.computed
def conversion() -> float:
    return len(store.orders) / visitors.value  # fails while there are no visitors


@app.computed
def year_report() -> str:  # without a reader: it stays dormant
    return f"{revenue()} cents, of which {tax()} tax"


@app.sink
def dashboard() -> None:
    revenue(), tax(), open_invoices(), goal_reached()


@app.sink
def stock_alert() -> None:
    low_stock()


@app.sink
def funnel() -> None:
    conversion()


@app.sink
def results() -> None:
    hits()


@app.handler
def place(customer: str, product: int, amount: int) -> int:
    chosen = store.products[product]
    if stock_left(chosen) < amount:
        raise ValueError(f"only {stock_left(chosen)} of {chosen.name} left, {amount} ordered")
    store.orders.append(Order(customer=customer, product=chosen, amount=amount))
    return len(store.orders)


@app.handler
def pay(number: int) -> bool:
    order = store.orders[number]
    if order.paid:
        raise ValueError(f"order {number} of {order.customer} is paid already")
    order.paid = True
    return True


@app.resource(fresh_for="1h")
async def rate(currency: str) -> float:
    if currency == "XXX":
        raise ConnectionError("the bank does not answer")
    return 1.25


@app.sink
def prices() -> None:
    rate("USD")
    rate("XXX")


@hw.pattern
def reminder(p: hw.Builder, text: str) -> None:
    left = p.cell("left", 3)

    @p.computed
    def label() -> str:
        return f"{text}: {left.value}"

    @p.sink
    def show() -> None:
        label()


# --- workflows ------------------------------------------------------------------------------------------------

refunds = app.workflow("refunds")
claims = refunds.topic("claims", str)
ledger = app.workflow("ledger")
entries = ledger.topic("entries", int)
letters = app.workflow("letters")
mails = letters.topic("mails", str)


@refunds.consumer(claims)
class Refund(hw.Consumer[str, list[str], str]):
    def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[list[str]]:
        if not pending:
            return hw.Plan.idle()
        taken = pending[:1]
        return hw.Plan([each.data for each in taken], take=taken, title=f"Refund {taken[0].data}", ask=True)

    def mutate(self, _run: hw.Run, data: list[str]) -> str:
        return f"refunded {data[0]}"


@ledger.consumer(entries)
class Book(hw.Consumer[int, list[int], str]):
    def prepare(self, pending: Sequence[hw.Event[int]]) -> hw.Plan[list[int]]:
        if not pending:
            return hw.Plan.idle()
        return hw.Plan([each.data for each in pending], take=pending, title=f"Book {len(pending)} entries")

    def mutate(self, _run: hw.Run, data: list[int]) -> str | hw.Unknown:
        if 13 in data:
            return hw.Unknown("the bank's answer was cut off")
        return f"{len(data)} entries booked"


@letters.consumer(mails)
class Send(hw.Consumer[str, str, str]):
    def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[str]:
        if not pending:
            return hw.Plan.idle()
        return hw.Plan(pending[0].data, take=pending[:1], title=f"Write to {pending[0].data}")

    def mutate(self, _run: hw.Run, data: str) -> str:
        return f"sent to {data}"


NAMES = ("Ann", "Bob", "Eve", "Ida", "Jim", "Kim", "Lea", "Max")
GOODS = {"Tea": 450, "Mug": 1290, "Kettle": 5990, "Sugar": 220, "Honey": 890, "Tray": 2490, "Spoon": 310, "Filter": 560}


def fill(space: hw.Space) -> None:
    with space.transaction():
        for name, cents in GOODS.items():
            store.products.append(Product(name=name, cents=cents, stock=8))
    for number, name in enumerate(NAMES * 2):
        place.send(name, number % len(GOODS), 1 + number % 3)
    for number in (0, 1, 2, 5):
        pay.send(number)
    pay.send(1)
    place.send("Ann", 2, 40)
    pay.send(5)
    goal.value = 200_000
    store.products[0].cents = 480
    store.products[2].cents = 6190
    vat.value = 20
    vat.value = 19
    query.value = "te"
    for key in ("kitchen", "garden"):
        space.start(reminder, key, text=f"water the {key}")
    claims.publish("order 4 of Eve, 12.90", id="c-4", title="Claim of Eve")
    claims.publish("order 7 of Max, 5.60", id="c-7", title="Claim of Max")
    for name in NAMES:
        mails.publish(f"{name.lower()}@example.org", id=f"mail-{name}", title=f"Letter to {name}")
    entries.publish(7, id="e-7", title="Invoice 7")
    space.workflows.drain()
    entries.publish(13, id="e-13", title="Invoice 13")
    space.workflows.drain()


if __name__ == "__main__":
    with app.open(sys.argv[1], actor="ann") as opened:
        fill(opened)
        print("ready", flush=True)
        opened.wait("1h")  # until it is killed
