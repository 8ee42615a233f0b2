"""Events see consistent state: a click is handled once, after everything that it depends on is fresh."""

import headwater as hw

app = hw.App("order")
qty = app.cell("qty", 1)
price = app.cell("price", 250)
orders = app.cell("orders", list[int]())


@app.computed
def total() -> int:
    return qty.value * price.value


@app.handler
def submit(note: str) -> int:  # at most once per event, after `total` is fresh
    orders.value = [*orders.value, total()]
    return total()


if __name__ == "__main__":
    with app.open("order.db"):
        qty.value = 4  # typed just before the click ...
        ticket = submit.send("gift")  # ... the click sees 1000, never 250
        print(ticket.result(), orders.value)
