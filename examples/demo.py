"""What Headwater can do so far, in a few seconds: results that stay current, in documents that survive anything;
workflows that do not act twice; and programs that share a space through a server.

Run it with `./hw demo`. Every part is a function of its own, to be read on its own.
"""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import headwater as hw
from headwater.core import Seq, doc_key, open_space, read, verify
from headwater.errors import ConflictError

PYTHON = [sys.executable, "-u", "-m", "headwater.testing.powercut"]
"""Starts programs that are killed here: what they have not synced is lost with them."""

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
        share(folder / "shared")
    print("\nNext: docs/start/first-program.md, then in examples/ counter.py, todo.py,")
    print("order.py, cards.py, weather.py, inbox.py and seats.py.")


def functions_follow_cells(path: Path) -> None:
    title("A cell, a computed function, a sink: dependencies are recorded, not declared")
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
    title("Started again: current results are restored, not computed again")
    with counter.open(str(path)) as space:
        print(f"    runs of doubled(): {space.runs(doubled)}")
    say("while it is closed, another program writes counter.count")
    with hw.App("another_program").open(str(path)) as space:
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
    title("Exactly what changed runs, only while it is observed; and it says why")
    with prices.open("memory:") as space:
        say("ten writes to tea; no function reads gross('tea')")
        for number in range(10):
            net.key("tea").value = 3 + number
        print(f"    runs of gross(): {space.runs(gross)}")
        say("gross('tea') is asked for, and from now on a sink reads gross('milk')")
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
            print(f"    Bob gets: {error}")
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
            [*PYTHON, __file__, "write-until-killed", str(path)],
            stdout=subprocess.PIPE,
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
    title("A workflow acts outside: killed in the middle of that, it does not act twice")
    (folder / "inbox").mkdir(parents=True)
    for name, text in {"ann": "call Ann", "milk": "buy milk", "tea": "is there tea?"}.items():
        (folder / "inbox" / f"{name}.txt").write_text(text, encoding="utf-8")
    say("examples/inbox.py finds three notes, plans rows for a ledger, and asks first")
    with hosting(folder, "demo.py", "hold-in-the-middle") as (host, said):
        run, _, sentence = next(said).partition(" ")
        show(sentence)
        say(f"headwater approve {run}")
        headwater(folder, "approve", run)
        assert next(said) == "the rows are written"
        host.kill()
    assert host.returncode == -signal.SIGKILL
    rows = read_ledger(folder)
    show(f"ledger.csv has {len(rows)} rows; kill -9, before inbox.py could note that")
    say(f"headwater runs show {run}, in short")
    assert tell_chain(folder, run) == ["crashed"]
    say("inbox.py is started again: its reconcile() looks for the key in ledger.csv")
    with hosting(folder, "inbox.py") as (host, said):
        show(f"its next() prints: {next(said)}")
        host.terminate()
    assert host.returncode == 0
    say(f"headwater runs show {run}, in short")
    assert tell_chain(folder, run) == ["crashed", "committed"]
    say("ledger.csv has each note once, under the key of the one call")
    for row in read_ledger(folder):
        show(f"{row[0]}  {row[1]:8}  {row[2]}")
    assert read_ledger(folder) == rows
    assert sorted(row[1] for row in rows) == ["ann.txt", "milk.txt", "tea.txt"]


@contextmanager
def hosting(folder: Path, *program: str) -> Generator[tuple[subprocess.Popen[str], Iterator[str]], None, None]:
    """One of examples/ at work in a folder, until it is killed or told to end; and the lines it prints."""
    command = [*PYTHON, str(Path(__file__).with_name(program[0])), *program[1:]]
    with subprocess.Popen(command, cwd=folder, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        try:
            yield child, (line.rstrip("\n") for line in child.stdout)
        except BaseException:
            child.kill()  # else it would be waited for without end
            raise


def hold_in_the_middle() -> None:
    """inbox.py as it is; but its mutate() stops after the effect, before the result is recorded."""
    inbox = import_module("inbox")
    app: hw.App = inbox.app
    mutate, status = inbox.Summarise.mutate, inbox.flow.status

    def act_and_stop(*args: object) -> None:
        mutate(*args)
        print("the rows are written")
        threading.Event().wait()

    @app.sink
    def ask() -> None:  # the status of a workflow is a document: it can be read like any other
        if status.state == "Needs attention":
            print(status.run, status.sentence)

    inbox.Summarise.mutate = act_and_stop
    app.run("inbox.db")


def headwater(folder: Path, *words: str) -> dict[str, Any]:
    """What the command line answers."""
    command = [sys.executable, "-m", "headwater", *words, "--url", "inbox.db", "--json"]
    answer: dict[str, Any] = json.loads(subprocess.run(command, cwd=folder, stdout=subprocess.PIPE, check=True).stdout)
    return answer


def tell_chain(folder: Path, run: str) -> list[str]:
    """What is known of a run, of those that took it up, and of its call to the outside; the outcome of each run."""
    told = headwater(folder, "runs", "show", run)
    for each in told["chain"]:
        show(f"run {each['id']}, {each['status']}: Because {each['because']}, it {each['reached']}. {each['sentence']}")
    for call in told["calls"]:
        show(f"the call of run {call['run']}, key {call['key']}: {call['sentence']}")
    return [each["status"] for each in told["chain"]]


def read_ledger(folder: Path) -> list[list[str]]:
    with (folder / "ledger.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.reader(file))


def share(folder: Path) -> None:
    title("Two programs, one space: a server decides, and may be away for a while")
    folder.mkdir(mode=0o700)
    # Where the server leaves a token for programs of this user: here, and gone with the rest.
    os.environ["XDG_RUNTIME_DIR"] = str(folder)
    say("headwater serve --store data/")
    with serving(folder, 0) as (server, url):
        ann, bob = (seats.open(f"{url}/seats", actor=who) for who in ("ann", "bob"))
        with ann, bob:
            with bob.transaction():
                print(f"    Bob looks: the seat is {seat.value!r}")
                with ann.transaction():
                    seat.value = "Ann"
                    print(f"    Ann takes it: {seat.value!r}, {hw.status(seat)}")
                ann.sync()
                seat.value = "Bob"
                print(f"    Bob takes it, too: {seat.value!r}, {hw.status(seat)}")
            try:
                bob.sync()
            except ConflictError as error:
                show(f"Bob gets: {error}")
            with bob.transaction():
                print(f"    Bob sees: {seat.value!r}, {hw.status(seat)}")
            say("kill -9 for the server; Ann writes on, 3 times")
            server.kill()
            wait_until(lambda: not ann.connection)
            mine = ann.cell("seats.booked", int, default=0)
            for _ in range(3):
                mine.increment()
            print(
                f"    Ann sees: {mine.value}, {hw.status(mine)}; {ann.connection.state}, {ann.connection.pending} wait"
            )
            say("it is started again, and they come back by themselves")
            with serving(folder, int(url.rpartition(":")[2])) as (again, _):
                ann.sync()
                print(f"    Ann sees: {mine.value}, {hw.status(mine)}; {ann.connection.state}")
                theirs = bob.cell("seats.booked", int, default=0)
                wait_until(lambda: bob.connection and theirs.value == mine.value)
                print(f"    Bob sees: {theirs.value}, {hw.status(theirs)}; {bob.connection.state}")
                ann.close()
                bob.close()
                again.terminate()
                again.communicate()  # to its last line: closing the pipe first would leave it nothing to write to
            assert again.returncode == 0


@contextmanager
def serving(folder: Path, port: int) -> Generator[tuple[subprocess.Popen[str], str], None, None]:
    """A server at work in a folder, until it is killed or told to end; and its URL."""
    command = [*PYTHON, "-m", "headwater", "serve", "--store", "data", "--listen", f"127.0.0.1:{port}"]
    with subprocess.Popen([*command, "--log", "off"], cwd=folder, stderr=subprocess.PIPE, text=True) as child:
        assert child.stderr is not None
        try:
            said = child.stderr.readline()
            url = said.split(" at ")[1].partition(";")[0]
            wait_until(lambda: is_ready(url.rpartition(":")[2]))
            yield child, url
        except BaseException:
            child.kill()  # else it would be waited for without end
            raise


def is_ready(port: str) -> bool:
    try:
        with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


def wait_until(is_so: Callable[[], object], seconds: float = 120) -> None:
    """For what other processes do."""
    end = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.01)


# --- printing -------------------------------------------------------------------------------------------------


def title(text: str) -> None:
    print(f"\n{text}\n{'-' * len(text)}")


def say(text: str) -> None:
    print(f"  {text}")


def show(text: str) -> None:
    """Broken where a terminal would break it."""
    print(textwrap.fill(text, 80, initial_indent="    ", subsequent_indent="      "))


if __name__ == "__main__":
    if sys.argv[1:2] == ["write-until-killed"]:
        write_until_killed(sys.argv[2])
    elif sys.argv[1:2] == ["hold-in-the-middle"]:
        hold_in_the_middle()
    else:
        main()
