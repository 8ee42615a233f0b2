"""The app of a shared world: cells and documents of all shapes, and functions over them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import msgspec

import headwater as hw
from headwater.cells.context import innermost
from headwater.cells.transaction import Transaction
from headwater.values.ids import DocKey
from sim.shared.workload import PAID_MAX, READS, Step

REGISTERS: Final = 3
RECORDS: Final = 2
COUNTERS: Final = 2
LISTS: Final = 1
LOOSE: Final = 4
"""Documents that belong to no app, and are fetched when they are read."""

ENSURED: Final = "#ensured"
"""The first step of a path: not a read, but what a transaction has written."""

KEYS_OF: Final = "#keys"
LENGTH_OF: Final = "#length"
"""The last step of a path, for the keys of a map or the length of a list alone."""

DERIVED: Final = ("total", "risky", "careful", "lengths", "one:")
"""Documents that are results of functions."""

Reading = tuple[str, tuple[Any, ...], Any]
"""What a transaction read: document, path, value. None: there was none."""


class Item(hw.Doc):
    """An element of the board."""

    n: int = 0
    tag: str = ""


class Board(hw.Doc):
    """Links to items."""

    title: int = 0
    items: hw.List[Item] = hw.List()
    votes: hw.Map[str, int] = hw.Map()


class StepError(Exception):
    """The workload asked for a failure."""


class SharedApp:
    """An app of one process. `seen` has what its sink has seen, newest last."""

    def __init__(self) -> None:
        app = self.app = hw.App("shared")
        self.seen: list[tuple[object, ...]] = []
        # The open space, for cells outside of the app.
        self.space: Any = None
        self.registers = [app.cell(f"reg{i}", type=list[int], default=[]) for i in range(REGISTERS)]
        self.records = [app.cell(f"rec{i}", type=dict[str, int], default={}) for i in range(RECORDS)]
        self.counters = [app.cell(f"cnt{i}", 0) for i in range(COUNTERS)]
        self.lists = [app.cell(f"lst{i}", type=list[int], default=[]) for i in range(LISTS)]
        self.tree = app.cell("tree", type=dict[str, Any], default={})
        # Written together, so equal in all that is ever seen; and the length of the list beside it.
        self.pair = [app.cell(f"pair{i}", 0) for i in range(2)]
        self.chain = app.cell("chain", type=list[int], default=[])
        self.chain_size = app.cell("chain_size", 0)
        self.shown: dict[tuple[str, str], int | None] = {}
        self.repeated: list[tuple[int, Transaction]] = []
        self.inconsistent: Callable[[str], None] = lambda _text: None
        # A commit that was never sent is shown on top of documents that are fetched at a reconnect, although another
        # commit has overtaken it, until its verdict arrives. Known, and not checked here.
        self.has_reconnected: Callable[[], bool] = lambda: False
        self.ledger = app.cell("ledger", type=list[int], default=[])
        self.paid = app.cell("paid", type=list[int], default=[])
        self.draft = app.cell("draft", 0, scope="user")
        self.board = app.doc("board", Board)
        self._declare(app)

    def _declare(self, app: hw.App) -> None:  # noqa: C901  # a declaration each
        counters, ledger, paid, seen, registers = self.counters, self.ledger, self.paid, self.seen, self.registers
        records = self.records

        @app.computed
        def total() -> int:
            return sum(each.value for each in counters)

        @app.computed
        def risky() -> int:
            if counters[0].value % 3 == 2:
                raise ValueError("two of three")
            return counters[0].value * 10

        @app.computed
        def careful() -> int:
            try:
                return risky()
            except ValueError:
                return -1

        @app.computed
        def lengths() -> int:
            return sum(len(each.value) for each in registers) if total() % 2 else len(records[0].value)

        @app.computed
        def one(key: str) -> int:
            return records[0].value.get(key, 0) % 7

        @app.sink
        def view() -> None:
            # Which instances of a function are used changes, so some are let go.
            key = "abc"[counters[1].value % 3]
            seen.append((total(), careful(), lengths(), one(key)))

        @app.sink
        def consistent() -> None:
            self.check_consistent()

        self.total = total

        # Payloads are text: an event that is kept would be taken for what it was to write.
        @app.handler
        def note(number: str) -> None:
            ledger.append(int(number))

        @app.handler
        def act(script: str) -> str:
            first, steps = msgspec.json.decode(script)
            readings = self.run([tuple(step) for step in steps], first)
            return msgspec.json.encode(readings).decode()

        @app.handler
        def pay(number: str) -> str:
            paid.append(int(number))
            note.send(str(int(number) - PAID_MAX))
            return number

        self.note, self.act, self.pay = note, act, pay

    def check_consistent(self) -> None:
        """What a function or transaction sees is the result of whole transactions, each once (I1, INV-6)."""
        left, right = (each.value for each in self.pair)
        if left != right:
            self.inconsistent(f"two cells that are written together are seen as {left} and {right}")
        chain, size = self.chain.value, self.chain_size.value
        if len(chain) != size and not self.has_reconnected():
            self.inconsistent(f"a list of {len(chain)} numbers is seen with its length as {size}: {list(chain)}")
        for each in (*self.registers, self.chain):
            seen = each.value
            if len(set(seen)) != len(seen):
                self.inconsistent(f"{each.address} is seen with a number twice: {list(seen)}")

    def look(self, steps: tuple[Step, ...]) -> None:
        """Before a transaction: note what it is to write again, without a read of its own."""
        self.shown.clear()
        for step in steps:
            if step[0] == "same":
                _, i, key = step
                self.shown[i, key] = self.records[int(i)].value.get(key)

    def let_go(self, docs: tuple[str, ...]) -> None:
        """Release documents, as the runtime does when nothing needs them any more."""
        replica = self.space._opening.replica
        items = [doc for doc in replica._documents if doc.startswith("space/item")] if "#items" in docs else []
        for doc in (*(DocKey(f"space/{name}") for name in docs), *sorted(items)):
            replica.release(doc)

    # -- steps ---------------------------------------------------------------------------------------------

    def run(self, steps: list[Step], first: int) -> list[Reading]:
        """Perform the steps in the transaction of this context. `first` is the number that step 0 would write."""
        readings: list[Reading] = []
        for index, step in enumerate(steps):
            if step[0] in READS:
                self.read(step, readings)
            else:
                self.write(step, first + index, readings)
        return readings

    def read(self, step: Step, readings: list[Reading]) -> None:  # noqa: C901, PLR0912  # a verb each
        """Perform a reading step."""
        match step:
            case ("reg", i):
                readings.append((f"shared.reg{i}", (), list(self.registers[int(i)].value)))
            case ("rec", i):
                readings.append((f"shared.rec{i}", (), dict(self.records[int(i)].value)))
            case ("key", i, key):
                part = self.records[int(i)].key(key)
                readings.append((f"shared.rec{i}", (key,), part.value if part.exists else None))
            case ("keys",):
                readings.append(("shared.board", ("votes", KEYS_OF), sorted(self.board.votes)))
            case ("len",):
                readings.append(("shared.board", ("items", LENGTH_OF), len(self.board.items)))
            case ("cnt", i):
                readings.append((f"shared.cnt{i}", (), self.counters[int(i)].value))
            case ("loose", j):
                loose = self.space.cell(f"loose{j}", int)
                readings.append((f"loose{j}", (), loose.value if loose.exists else None))
            case ("tree", *path):
                branch = self.tree.at(*path, type=object)
                readings.append(("shared.tree", tuple(path), _plain(branch.value) if branch.exists else None))
            case ("board",):
                readings.append(("shared.board", ("title",), self.board.title))
                for index, item in enumerate(self.board.items):
                    if index < 3 and hw.exists(item):
                        readings.append((hw.id_of(item), ("n",), item.n))
            case ("of", j):
                items = self.board.items
                if len(items) > int(j) and hw.exists(items[int(j)]):
                    readings.append((hw.id_of(items[int(j)]), ("n",), items[int(j)].n))
            case ("sum",):
                self.total()
            case _:
                raise AssertionError(step)

    def write(self, step: Step, number: int, readings: list[Reading]) -> None:  # noqa: C901, PLR0912, PLR0915  # likewise
        """Perform a writing step."""
        match step:
            case ("append", i):
                self.registers[int(i)].append(number)
            case ("put", i, key):
                self.records[int(i)].key(key).value = number
            case ("set", i, key):
                self.records[int(i)].value = {key: number}
            case ("drop", i, key):
                self.records[int(i)].remove(key)
            case ("same", i, key):
                # What is visible, perhaps only because of a pending commit.
                value = self.shown.get((i, key))
                if value is not None:
                    self.records[int(i)].key(key).value = value
                    readings.append((f"shared.rec{i}", (ENSURED, key), value))
                    self._repeats(value)
            case ("incr", i):
                self.counters[int(i)].increment()
            case ("tally", i):
                counter = self.counters[int(i)]
                counter.increment()
                readings.append((f"shared.cnt{i}", (), counter.value - 1))
            case ("grow", i):
                register = self.registers[int(i)]
                register.append(number)
                readings.append((f"shared.reg{i}", (), list(register.value)[:-1]))
            case ("pair",):
                for each in self.pair:
                    each.increment()
            case ("chain",):
                chain = list(self.chain.value)
                readings.append(("shared.chain", (), chain))
                self.chain.append(number)
                self.chain_size.value = len(chain) + 1
            case ("lput", j):
                self.space.cell(f"loose{j}", int).value = number
            case ("tset", *path):
                self.tree.at(*path, type=object).value = number
            case ("tmap", *path):
                self.tree.at(*path, type=object).value = {"p": number, "q": [1, 2]}
            case ("tdel", key):
                self.tree.remove(key)
            case ("insert", i):
                self.lists[int(i)].insert(0, number)
            case ("first", i):
                self.lists[int(i)].at(0).value = number
            case ("clear", i):
                self.lists[int(i)].value = [number]
            case ("item",):
                self.board.items.append(Item(n=number))
            case ("edit", j):
                items = self.board.items
                if len(items) > int(j):
                    items[int(j)].n = number
            case ("title",):
                self.board.title = number
            case ("vote", key):
                self.board.votes[key] = number
            case ("delete",):
                items = self.board.items
                if len(items) > 2:
                    hw.delete(items[0])
                    del items[0]
            case ("draft",):
                self.draft.value = number
            case ("send",):
                self.note.send(str(number))
            case ("fail",):
                raise StepError("asked for")
            case ("reject",):
                raise hw.Reject("asked for")
            case _:
                raise AssertionError(step)

    def _repeats(self, number: int) -> None:
        """Note the transaction of this context: the oracle must not take it for the one that the number belongs to."""
        inside = innermost("a step")
        if inside is not None and inside[1] is not None:
            self.repeated.append((number, inside[1]))


def _plain(value: object) -> object:
    if isinstance(value, dict):
        return {key: _plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(each) for each in value]
    return value
