"""The shop of the tutorial: products, a view of them, and two handlers. `web.py` serves it."""

import headwater as hw


class Product(hw.Doc):
    name: str
    cents: int
    stock: int = 0


class Shop(hw.Doc):
    products: hw.List[Product] = hw.List()
    earned: int = 0


app = hw.App("shop")
shop = app.doc("shop", Shop)


@app.computed
def view() -> dict[str, int]:
    return {product.name: product.stock for product in shop.products} | {"earned": shop.earned}


@app.handler
def deliver(name: str, cents: int, count: int) -> None:
    for product in shop.products:
        if product.name == name:
            product.stock += count
            return
    shop.products.append(Product(name=name, cents=cents, stock=count))


@app.handler
def buy(name: str, count: int = 1) -> int:
    for product in shop.products:
        if product.name == name and product.stock >= count:
            product.stock -= count
            shop.earned += count * product.cents
            return product.stock
    raise hw.Reject(f"not enough {name}")


def fill() -> None:
    deliver.once("first tea").send("tea", 400, 3)
    deliver.once("first cake").send("cake", 250, 1)


if __name__ == "__main__":
    with app.open("shop.db"):
        fill()
        for buyer in ("Ann", "Bob"):
            order = buy.send("cake")
            try:
                print(buyer, "has a cake,", order.result(), "left")
            except hw.EventRejectedError as error:
                print(buyer, "has none:", error.facts["reason"])
        print(view())
