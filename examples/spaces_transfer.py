"""Acting in another space: a sale of the shop is credited in the bank once, whatever happens in between."""

import headwater as hw

shop, bank = hw.App("shop"), hw.App("bank")
stock = shop.cell("stock", 100)
balance = bank.cell("balance", 0)
seen = bank.cell("seen", 0)


@bank.handler
def credit(amount: int) -> int:
    """Credit an amount."""
    balance.value += amount
    return balance.value


@shop.handler
def sell(count: int) -> None:
    """Sell some, and have the price credited."""
    stock.value -= count
    credit.send(count * 4)  # part of this commit; handled in the bank once
    seen.post.increment(count)  # the same for a plain write
    # balance.value += 1 would be CrossSpaceError HW112: no commit covers two spaces


if __name__ == "__main__":
    # The bank may be at wss://bank.example/main as well.
    with hw.together(bank.opening("bank.db"), shop.opening("shop.db")) as (b, s):
        sell.send(3)
        s.delivered(timeout="10s")
        print(stock.value, balance.value, seen.value)
