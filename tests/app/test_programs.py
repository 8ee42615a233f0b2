"""The first two programs of the guide, as written: what they print, what they keep, and what importing them does."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.core import doc_key, open_space

COUNTER = """\
import headwater as hw

app = hw.App("counter")              # declarations only: importing does no IO
count = app.cell("count", 0)         # Cell[int]

@app.computed
def doubled() -> int:                # still a function: call it to read it
    return count.value * 2

@app.sink
def show() -> None:                  # observed, so `doubled` is allowed to run
    print(f"{count.value} doubled is {doubled()}")

with app.open("counter.db"):         # settles here: prints "0 doubled is 0"
    count.value += 1                 # one transaction; prints "1 doubled is 2"
"""

BOARD = """\
import headwater as hw

class Person(hw.Doc):
    name: str

class Item(hw.Doc):
    title: str
    owner: hw.Link[Person]           # reading it follows it and tracks the hop
    done: bool = False

class Board(hw.Doc):
    name: str = "home"
    items: hw.List[Item] = hw.List()

app = hw.App("todo")
board = app.doc("board", Board)

@app.computed
def row(item: Item) -> str:          # one durable node per item, keyed by its id
    return f"[{'x' if item.done else ' '}] {item.title} ({item.owner.name})"

@app.sink
def show() -> None:
    print(board.name, [row(i) for i in board.items if not i.done])

with app.open("todo.db") as space:
    ann = Person(name="Ann")
    with space.transaction():        # both items or neither
        board.items.append(Item(title="milk", owner=ann))
        board.items.append(Item(title="tea", owner=ann))
    board.items[0].done = True       # re-runs `show`, not row(tea)
    ann.name = "Anna"                # re-runs row(tea), then show
"""

BOARD_PRINTS = [
    "home []",
    "home ['[ ] milk (Ann)', '[ ] tea (Ann)']",
    "home ['[ ] tea (Ann)']",
    "home ['[ ] tea (Anna)']",
]

DECLARING = """
import os, sys, threading
written = []
sys.addaudithook(lambda event, args: written.append(args) if event == "open" and args[2] & (os.O_WRONLY | os.O_RDWR)
                 else None)
sys.dont_write_bytecode = True
text = open(sys.argv[1]).read()
exec(compile(text[:text.index("with app.open")], "program", "exec"))
print(os.listdir("."), threading.active_count(), written)
"""


def run(text: str, folder: Path) -> list[str]:
    """In a process of its own, whose working folder it is."""
    file = folder / "program.py"
    file.write_text(text, encoding="utf-8")
    done = subprocess.run([sys.executable, file.name], cwd=folder, check=True, capture_output=True, text=True)
    assert not done.stderr
    return done.stdout.splitlines()


def test_counter_prints_what_its_comments_say_and_goes_on_from_there_in_the_next_process(tmp_path: Path) -> None:
    assert run(COUNTER, tmp_path) == ["0 doubled is 0", "1 doubled is 2"]
    assert run(COUNTER, tmp_path) == ["1 doubled is 2", "2 doubled is 4"]
    with open_space(str(tmp_path / "counter.db"), create=False) as space:
        replica = space.attach()
        assert replica.read(doc_key("counter.count")) == 2
        assert replica.read(doc_key("counter.doubled")) == 4


def test_todo_prints_what_its_comments_say(tmp_path: Path) -> None:
    assert run(BOARD, tmp_path) == BOARD_PRINTS


def test_todo_shows_what_is_still_to_do_in_the_next_process(tmp_path: Path) -> None:
    run(BOARD, tmp_path)
    opened = BOARD.replace("    ann = ", "    if board.items: raise SystemExit\n    ann = ")
    assert run(opened, tmp_path) == BOARD_PRINTS[-1:]


@pytest.mark.parametrize(("text", "prints"), [(COUNTER, ["0 doubled is 0", "1 doubled is 2"]), (BOARD, BOARD_PRINTS)])
def test_programs_run_in_any_process(
    text: str,
    prints: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """As part of a larger one, twice."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "program.py").write_text(text.replace('.open("', '.open("memory:") if 1 else ("'), encoding="utf-8")
    for _ in range(2):
        runpy.run_path("program.py")
        assert capsys.readouterr().out.splitlines() == prints


@pytest.mark.parametrize("text", [COUNTER, BOARD])
def test_declaring_makes_no_file_opens_none_for_writing_and_starts_no_thread(tmp_path: Path, text: str) -> None:
    program = tmp_path / "program.txt"
    program.write_text(text, encoding="utf-8")
    work = tmp_path / "work"
    work.mkdir()
    command = [sys.executable, "-c", DECLARING, str(program)]
    done = subprocess.run(command, cwd=work, check=True, capture_output=True, text=True)
    assert done.stdout == "[] 1 []\n"
