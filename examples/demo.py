"""What Headwater can do so far, in a few seconds: results that stay current, in documents that survive anything.

Run it with `./hw demo`. Every part is a function of its own, to be read on its own.
"""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import tempfile
import threading
from contextlib import chdir, suppress
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import headwater as hw
from headwater.core import Seq, doc_key, open_space, read, verify
from headwater.errors import ConflictError

# --- declarations: no IO, wherever this is imported ------------------------------------------------------------


class Person(hw.Doc):
    name: str


class Item(hw.Doc):
    title: str
    owner: hw.Link[Person]
    done: bool = False


class Board(hw.Doc):
    name: str = "home"
    items: hw.List[Item] = hw.List()


counter = hw.App("counter")
count = counter.cell("count", 0)


@counter.computed
def doubled() -> int:
    return count.value * 2


@counter.sink
def show_count() -> None:
    print(f"    the sink shows: {count.value} doubled is {doubled()}")


todo = hw.App("todo")
board = todo.doc("board", Board)


@todo.sink
def show_board() -> None:
    rows = [f"[{'x' if item.done else ' '}] {item.title} ({item.owner.name})" for item in board.items]
    print(f"    the sink shows: {board.name}: {', '.join(rows) or 'nothing to do'}")


seats = hw.App("seats")
seat = seats.cell("12A", "")
booked = seats.cell("booked", 0)

ledger = hw.App("ledger")
total = ledger.cell("total", 0)
entries = ledger.cell("entries", type=list[int], default=[])


prices = hw.App("prices")
net = prices.cell("net", {"tea": 3, "milk": 1})
shown = prices.cell("shown", "")


@prices.computed
def gross(name: str) -> float:
    return net.key(name).value * 1.2


@prices.sink
def show_price() -> None:
    if shown.value:
        print(f"    the sink shows: {shown.value} costs {gross(shown.value)}")


bank = hw.App("bank")
amount = bank.cell("amount", 1)
price = bank.cell("price", 250)
account = bank.cell("account", 0)


@bank.computed
def to_pay() -> int:
    return amount.value * price.value


@bank.handler
def order(note: str) -> str:
    return f"{note}, {to_pay()}"


@bank.handler
def paid(cents: int) -> int:
    account.value += cents
    if account.value < 0:
        raise ValueError(f"{-account.value} is missing")
    return account.value


# --- the parts ------------------------------------------------------------------------------------------------


def main() -> None:
    with tempfile.TemporaryDirectory(prefix="headwater-demo-") as name:
        folder = Path(name)
        functions_follow_cells(folder / "counter.db")
        started_again(folder / "counter.db")
        documents_and_links(folder / "todo.db")
        all_or_nothing(folder / "todo.db")
        only_while_someone_looks()
        two_at_once(folder / "seats.db")
        every_event_once(folder / "bank.db")
        the_past_and_a_branch(folder / "counter.db")
        kill_it(folder / "ledger.db")
        act_once(folder / "office")
    print("\nNext: docs/guide/first-program.md, then examples/counter.py, todo.py, order.py and inbox.py.")


def functions_follow_cells(path: Path) -> None:
    title("A cell, a computed function, a sink: nobody says who depends on whom")
    with counter.open(str(path)) as space:
        say("count.value += 1")
        count.value += 1
        say("count.value = 1        (it is 1 already: nothing runs)")
        count.value = 1
        say("two writes in one transaction: the sink sees both or neither")
        with space.transaction():
            count.value = 20
            count.value += 1
        print(f"    runs so far: {space.stats.runs}")
    say("closed, and opened again: it goes on where it stopped")
    with counter.open(str(path)):
        count.value *= 2


def started_again(path: Path) -> None:
    title("Started again: what is still right is taken over, and not computed again")
    with counter.open(str(path)) as space:
        print(f"    runs of doubled(): {space.runs(doubled)}")
    say("while it is closed, somebody else writes counter.count")
    with hw.App("somebody_else").open(str(path)) as space:
        space.cell("counter.count", int).value = 5
    with counter.open(str(path)) as space:
        told = space.explain_resume().missed[0]
        print(f"    runs of doubled(): {space.runs(doubled)}, because {told.reason}")


def documents_and_links(path: Path) -> None:
    title("Documents: fields, links between them, a list of them")
    with todo.open(str(path)) as space:
        ann = Person(name="Ann")
        say("two items are appended in one transaction")
        with space.transaction():
            board.items.append(Item(title="milk", owner=ann))
            board.items.append(Item(title="tea", owner=ann))
        say("board.items[0].done = True")
        board.items[0].done = True
        say('ann.name = "Anna"      (the sink read it through a link)')
        ann.name = "Anna"


def all_or_nothing(path: Path) -> None:
    title("A transaction that fails leaves nothing behind")
    with todo.open(str(path)) as space:
        try:
            with space.transaction():
                board.name = "away"
                board.items.clear()
                print(f"    inside the block: {board.name}, {len(board.items)} items")
                raise ValueError("changed my mind")
        except ValueError as error:
            print(f"    {error}: {board.name}, {len(board.items)} items; the sink had nothing to show")


def only_while_someone_looks() -> None:
    title("Exactly what changed runs, only while someone looks; and it says why")
    with prices.open("memory:") as space:
        say("ten writes to tea; nobody looks at gross('tea')")
        for number in range(10):
            net.key("tea").value = 3 + number
        print(f"    runs of gross(): {space.runs(gross)}")
        say("gross('tea') is asked for, and from now on a sink looks at gross('milk')")
        gross("tea")
        shown.value = "milk"
        net.key("milk").value = 4
        print(f"    runs of gross(): {space.runs(gross)}")
        net.key("tea").value = 1
        print("    " + hw.why(gross, "tea").replace("\n", "\n    "))
        say("space.graph()")
        print("    " + space.graph().replace("\n", "\n    "))


def two_at_once(path: Path) -> None:
    title("Two at the same time: what merges is merged, what cannot is rejected as a whole")
    with seats.open(str(path)) as ann, seats.open(str(path)) as bob:
        with bob.transaction():
            print(f"    Bob looks: the seat is {seat.value!r}")
            with ann.transaction():
                print(f"    Ann looks: the seat is {seat.value!r}, and takes it")
                seat.value = "Ann"
                booked.increment()
            ann.sync()
            print("    Ann's is on disk; Bob does not know yet, and takes it, too")
            seat.value = "Bob"
            booked.increment()
        try:
            bob.sync()
        except ConflictError as error:
            print(f"    Bob is told: {error}")
        say("all of Bob's transaction is gone, the count included; two single increments both land")
        for space in (ann, bob):
            space.cell("seats.booked", int).increment()
        ann.sync()
        bob.sync()
        with bob.transaction():
            print(f"    Bob sees: the seat is {seat.value!r}, booked {booked.value}: 1 with the seat, and 2")


def every_event_once(path: Path) -> None:
    title("Events: each is handled once, and sees what is so now")
    with bank.open(str(path), on_error=lambda _: None) as space:
        say("amount.value = 4, and right after it a click")
        amount.value = 4
        print(f"    the order is: {order.send('a gift').result()}; not 250")
        say("a payment is delivered, and delivered again, as by a webhook that heard no answer")
        deliver_payment()
        deliver_payment()
        say("one raises: nothing of it is written, it is kept, the next one is handled")
        failed = paid.send(-1500)
        print(f"    {failed.state}: {failed.reason}; the account holds {account.value}, then {paid.send(600).result()}")
        say("now there is enough, and it is delivered again")
        space.scheduler.redeliver(failed.id)
        space.settle()
        print(f"    the account holds {account.value}")
    say("closed, opened again, and the payment is delivered a third time")
    with bank.open(str(path)):
        deliver_payment()


def deliver_payment() -> None:
    ticket = paid.once("payment 77", by="the bank").send(1000)
    result = ticket.result()
    how = f"{ticket.state}, {ticket.reason}" if ticket.reason else ticket.state
    print(f"    {how}: the answer is {result}, the account holds {account.value}")


def the_past_and_a_branch(path: Path) -> None:
    title("Beneath it is a log: the past can be read, and a branch costs one row")
    place = doc_key("counter.count")
    with open_space(str(path)) as space:
        before = None
        for seq in range(1, space.attach().seq + 1):
            found = space.call(partial(read, doc=place, at=Seq(seq)))
            if found.value != before and found.seq == seq:
                print(f"    as of commit {seq}: counter.count was {found.value!r}")
                before = found.value
        space.fork("what-if")
    with counter.open(str(path), branch="what-if"):
        say("on branch what-if: count.value = 1000")
        count.value = 1000
    say("on main it is as before, until the branch is merged")
    with counter.open(str(path)):
        pass
    with open_space(str(path)) as space:
        space.merge("what-if")
        report = space.call(verify)
    with counter.open(str(path)):
        pass
    print(f"    verify: {report.commits} commits, {report.documents} documents, findings: {len(report.findings)}")


def kill_it(path: Path) -> None:
    title("kill -9 while it writes, un-synced bytes lost as in a power cut; then it goes on")
    confirmed = 0
    for turn in range(1, 4):
        child = subprocess.Popen(
            [sys.executable, __file__, "write-until-killed", str(path)],
            stdout=subprocess.PIPE,
            env={**os.environ, "HEADWATER_VFS": "powerloss"},
        )
        assert child.stdout is not None
        for _ in range(100):
            confirmed = int(child.stdout.readline())
        child.send_signal(signal.SIGKILL)
        for line in child.stdout.readlines():
            if line.endswith(b"\n"):
                confirmed = int(line)
        child.wait()
        with ledger.open(str(path)):
            found, ok = len(entries.value), total.value == sum(entries.value)
        with open_space(str(path)) as space:
            sound = space.call(verify).ok
        assert found >= confirmed
        assert ok
        assert sound
        print(
            f"    kill {turn}: {confirmed} entries confirmed before the cut, {found} found after it; "
            "the total is their sum, verify: ok"
        )


def write_until_killed(path: str) -> None:
    with ledger.open(path) as space:
        while True:
            with space.transaction():  # the entry and the total: both or neither
                entries.append(len(entries.value))
                total.value = sum(entries.value)
            space.sync()
            print(len(entries.value), flush=True)


def act_once(folder: Path) -> None:
    title("A workflow never acts twice: killed after the effect, before it was written down, it finds out")
    (folder / "inbox").mkdir(parents=True)
    with chdir(folder):
        Path("inbox/milk.txt").write_text("buy milk", encoding="utf-8")
        Path("inbox/ann.txt").write_text("call Ann", encoding="utf-8")
        app = import_module("inbox").app
        say("two notes come in; examples/inbox.py plans to append them to a ledger, and asks first")
        with app.open("inbox.db") as space:
            space.workflows.drain()
        command("workflow", "ls")
        command("approve", "3")
        say("a host takes it up, appends the rows, and is killed with -9 before it could note that it has")
        append_and_die()
        show_ledger()
        command("runs", "show", "3")
        say("another host is started: it asks reconcile(), which looks for the key of the call in the ledger")
        with app.open("inbox.db", on_console=lambda line: f"    next() says: {line.text}") as space:
            space.workflows.drain()
        command("runs", "show", "4")
        command("inputs", "ls")
        say("each note was appended once")
        show_ledger()
        rows = Path("ledger.csv").read_text(encoding="utf-8")
        assert rows.count("milk.txt") == rows.count("ann.txt") == 1


def append_and_die() -> None:
    child = subprocess.Popen(
        [sys.executable, __file__, "append-and-hang"],
        stdout=subprocess.PIPE,
        env={**os.environ, "HEADWATER_VFS": "powerloss"},
    )
    assert child.stdout is not None
    assert child.stdout.readline() == b"appended\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()


def append_and_hang() -> None:
    """The host that is killed: its call has its effect, and never comes back."""
    inbox = import_module("inbox")
    mutate = inbox.Summarise.mutate

    def hang(*args: Any) -> None:
        mutate(*args)
        print("appended", flush=True)
        threading.Event().wait()

    inbox.Summarise.mutate = hang
    inbox.app.run("inbox.db")


def show_ledger() -> None:
    for line in Path("ledger.csv").read_text(encoding="utf-8").splitlines():
        print(f"    ledger.csv: {line}")


# --- printing -------------------------------------------------------------------------------------------------


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def say(text: str) -> None:
    print(f"  {text}")


def command(*words: str) -> None:
    """Run a command of `headwater` as on a terminal, and show what it prints there."""
    print(f"    $ headwater {' '.join(words)}")
    ours, theirs = pty.openpty()
    env = {**os.environ, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100"}
    child = subprocess.Popen([sys.executable, "-m", "headwater", *words], stdout=theirs, stderr=theirs, env=env)
    os.close(theirs)
    with open(ours, encoding="utf-8", errors="replace") as shown, suppress(OSError):  # noqa: PTH123  # it is no path
        # Ends with an error, when nobody is there any more who could print.
        for line in shown:
            print(f"      {line.rstrip()}".rstrip())
    assert child.wait() == 0


if __name__ == "__main__":
    if sys.argv[1:2] == ["write-until-killed"]:
        write_until_killed(sys.argv[2])
    elif sys.argv[1:2] == ["append-and-hang"]:
        append_and_hang()
    else:
        main()
