"""Documents with fields, links between them, and a list of them."""

import headwater as hw


class Person(hw.Doc):
    name: str


class Item(hw.Doc):
    title: str
    owner: hw.Link[Person]  # reading it follows it and tracks the hop
    done: bool = False


class Board(hw.Doc):
    name: str = "home"
    items: hw.List[Item] = hw.List()


app = hw.App("todo")
board = app.doc("board", Board)


@app.computed
def row(item: Item) -> str:  # one node for each item, told by its id
    return f"[{'x' if item.done else ' '}] {item.title} ({item.owner.name})"


@app.sink
def show() -> None:
    print(board.name, [row(i) for i in board.items if not i.done])


if __name__ == "__main__":
    with app.open("todo.db") as space:
        ann = Person(name="Ann")
        with space.transaction():  # both items or neither
            board.items.append(Item(title="milk", owner=ann))
            board.items.append(Item(title="tea", owner=ann))
        board.items[0].done = True  # runs row(milk) and show again, not row(tea)
        ann.name = "Anna"  # runs row(tea), then show; row(milk) is not read any more
