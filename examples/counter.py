"""The first program: a cell, something computed from it, and something that shows both."""

import headwater as hw

app = hw.App("counter")  # declarations only: importing does no IO
count = app.cell("count", 0)  # Cell[int]


@app.computed
def doubled() -> int:  # still a function: call it to read it
    return count.value * 2


@app.sink
def show() -> None:  # observed, so `doubled` is allowed to run
    print(f"{count.value} doubled is {doubled()}")


if __name__ == "__main__":
    with app.open("counter.db"):  # settles here: prints "0 doubled is 0"
        count.value += 1  # a write is a transaction; prints "1 doubled is 2"
