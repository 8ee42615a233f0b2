"""Two files: a function of one app reads another one, and is woken by it. Started again, nothing runs."""

import headwater as hw

prices, basket = hw.App("prices"), hw.App("basket")
tea = prices.cell("tea", 4)
count = basket.cell("count", 3)


@prices.computed
def with_tax() -> float:
    return tea.value * 1.2


@basket.computed
def total() -> float:
    # Depends on the other file, through with_tax.
    return count.value * with_tax()


@basket.sink
def show() -> None:
    print(round(total(), 2))


if __name__ == "__main__":
    with hw.together(prices.opening("prices.db"), basket.opening("basket.db")):
        # with_tax, then total, then show; nothing else.
        tea.value = 5
    with hw.together(prices.opening("prices.db"), basket.opening("basket.db")) as (p, b):
        # Both logs show that nothing has changed.
        print("runs:", b.runs(total), p.runs(with_tax))
