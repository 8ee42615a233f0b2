"""Two files: a task links to a person in another file. The link is followed when that file is open, or found."""

import headwater as hw

people, tasks = hw.App("people"), hw.App("tasks")


class Person(hw.Doc):
    name: str


class Task(hw.Doc):
    title: str
    owner: hw.Link[Person]  # may be in another space


board = tasks.cell("board", type=list[Task], default=[])

if __name__ == "__main__":
    with people.open("data/", space="people") as who:
        ann = Person(name="Ann")
        # First durable there, then linked: a link never leads to what may yet be rolled back.
        who.sync()
        with tasks.open("tasks.db"):
            board.append(Task(title="tea", owner=ann))
            print(hw.address_of(board.value[-1].owner) == f"hw://{who.id}/{hw.id_of(ann)}")
    with tasks.open("tasks.db"):
        # The other file is not open.
        print([(task.title, hw.exists(task.owner)) for task in board.value])
    with tasks.open("tasks.db", resolve="data/"):
        # It is found by its id, and read.
        print([(task.title, task.owner.name) for task in board.value])
