"""Search as you type: what is found waits until typing stops, and what is shown waits for its turn."""

import headwater as hw

FRUIT = ["apple", "apricot", "banana", "blackcurrant", "cherry", "grape", "grapefruit", "pineapple"]

app = hw.App("search")
query = app.cell("query", "")


@app.computed(debounce="250ms")  # waits until typing stops
def hits() -> list[str]:
    return [name for name in FRUIT if name.startswith(query.value)]


@app.sink(throttle="1s")  # draws at most once a second
def show() -> None:
    print(f"{len(hits())} found: {', '.join(hits())}")


def type_in(text: str) -> None:
    """Each letter is a write of its own."""
    for end in range(1, len(text) + 1):
        query.value = text[:end]


if __name__ == "__main__":
    with app.open("search.db") as space:
        type_in("grape")
        print("typed, and nothing has run yet")
        space.wait("1.2s")  # a plain program has to let time pass
        type_in("apple")
        space.wait("1.2s")
        print("runs:", space.stats.runs)
