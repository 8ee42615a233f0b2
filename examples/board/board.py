"""The board of the tutorial: tasks, a line of text for each, and three handlers. `person.py` uses it."""

import headwater as hw


class Task(hw.Doc):
    title: str
    owner: str = ""
    done: bool = False


class Board(hw.Doc):
    tasks: hw.Map[str, Task] = hw.Map()


app = hw.App("board")
board = app.doc("board", Board)


@app.computed
def label(task: Task) -> str:
    owner = f" [{task.owner}]" if task.owner else ""
    return task.title + owner + (" done" if task.done else "")


@app.sink
def show() -> None:
    waiting = {"pending": " (not confirmed)"}
    print("board:", ", ".join(label(task) + waiting.get(hw.status(task), "") for task in board.tasks.values()))


def find(title: str) -> Task:
    if title not in board.tasks:
        raise hw.Reject(f"there is no task {title}")
    return board.tasks[title]


@app.handler
def add(title: str) -> None:
    if title in board.tasks:
        raise hw.Reject(f"{title} is on the board")
    board.tasks[title] = Task(title=title)


@app.handler
def take(title: str, who: str) -> None:
    task = find(title)
    if task.owner:
        raise hw.Reject(f"{task.owner} has it")
    task.owner = who


@app.handler
def finish(title: str) -> None:
    find(title).done = True
