"""Two apps on one file: one transaction over both, and functions that read each other's results."""

import headwater as hw

stock, shop = hw.App("stock"), hw.App("shop")
tea = stock.cell("tea", 10)
sold = shop.cell("sold", 0)


@stock.computed
def value() -> int:
    return tea.value * 4


@shop.sink
def show() -> None:
    print(value(), sold.value)  # shop reads a computed of stock: live, ordered and woken like its own


@shop.handler
def sell(n: int) -> None:
    tea.value -= n  # both in one commit, or neither
    sold.value += n


if __name__ == "__main__":
    with hw.together(stock.opening("shop.db"), shop.opening("shop.db")) as (s, p):  # prints 40 0
        sell.send(2).result()  # prints 32 2
        assert s.id == p.id
