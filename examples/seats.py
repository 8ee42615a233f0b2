"""Two processes, one space: the first one has the seat, and both see the same.

In one terminal:   headwater serve --store seats/
In two others:     python seats.py ann        python seats.py bob
"""

import sys

import headwater as hw

app = hw.App("seats")
seat = app.cell("seat-12A", "")


@app.sink
def show() -> None:
    print(f"seat={seat.value!r} {hw.status(seat)}")


@app.handler
def book(who: str) -> bool:
    if seat.value:
        return False
    seat.value = who
    return True


if __name__ == "__main__":
    me = sys.argv[1]
    url = sys.argv[2] if len(sys.argv) > 2 else "ws://127.0.0.1:8400/seats"
    with app.open(url, actor=me):
        got = book.send(me).result(timeout="5s")  # local at once, the server decides
        print(me, "got it" if got else f"lost it to {seat.value}")
