"""Everything an author types, with the type it has. Checkers read this file, and it runs: what is typed here, works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Literal, assert_type

import headwater as hw


@dataclass(frozen=True)
class Note:
    text: str
    stars: int = 0


class Person(hw.Doc):
    name: str
    age: int | None = None


class Item(hw.Doc):
    title: str
    owner: hw.Link[Person]
    helper: hw.Link[Person | None] = hw.Link()
    done: bool = False


class Board(hw.Doc):
    name: str = "home"
    items: hw.List[Item] = hw.List()
    tags: hw.List[str] = hw.List(["new"])
    votes: hw.Map[str, int] = hw.Map()
    notes: list[Note] = []  # noqa: RUF012  # what stands in a class body is never the data itself


class Pinned(Board):
    pin: int


app = hw.App("typing")

# --- cells --------------------------------------------------------------------------------------------------

number = app.cell("number", 0)
ratio = app.cell("ratio", 0.5)
text = app.cell("text", "a", scope="space")
numbers = app.cell("numbers", list[int]())
table = app.cell("table", dict[str, int]())
note = app.cell("note", Note("a"))
bare = app.cell("bare", type=int)
bare_numbers = app.cell("bare numbers", type=list[int])
typed_numbers = app.cell("typed numbers", [], type=list[int])
maybe: hw.Cell[int | None] = app.cell("maybe", None)
typed_maybe: hw.Cell[int | None] = app.cell("typed maybe", None, type=int | None)
either: hw.Cell[int | str] = app.cell("either", 0, type=int | str)
level: hw.Cell[Literal["low", "high"]] = app.cell("level", "low", type=Literal["low", "high"])
numbers_in_row = app.cell("numbers in row", (1, 2), type=tuple[int, ...])
people = app.cell("people", list[Person](), type=list[Person])

assert_type(number, hw.Cell[int])
assert_type(ratio, hw.Cell[float])
assert_type(text, hw.Cell[str])
assert_type(numbers, hw.Cell[list[int]])
assert_type(table, hw.Cell[dict[str, int]])
assert_type(note, hw.Cell[Note])
assert_type(bare, hw.Cell[int])
assert_type(bare_numbers, hw.Cell[list[int]])
assert_type(typed_numbers, hw.Cell[list[int]])
assert_type(numbers_in_row, hw.Cell[tuple[int, ...]])
assert_type(people, hw.Cell[list[Person]])


def use_cells() -> None:
    number.value = 3
    number.value += 1
    assert_type(number.value, int)
    assert_type(number.peek(), int)
    assert_type(number.exists, bool)
    assert_type(number.address, str)
    assert_type(number.update(lambda n: n + 1), int)
    number.increment()
    number.increment(2)
    number.clear()

    ratio.value = 1
    ratio.increment()
    ratio.increment(0.5)

    text.value += "b"
    note.value = Note("b", stars=1)
    assert_type(note.value.stars, int)
    assert_type(note.at("text"), hw.Cell[object])
    assert_type(note.at("text", type=str), hw.Cell[str])

    maybe.value = 3
    maybe.value = None
    assert_type(maybe.peek(), int | None)
    typed_maybe.value = 3
    either.value = "b"
    level.value = "high"


def use_lists_in_cells() -> None:
    numbers.value = [*numbers.value, 1]
    numbers.append(2)
    numbers.extend([3, 4])
    numbers.insert(0, 0)
    numbers.add_unique(4)
    numbers.remove(4)
    assert_type(numbers.value, list[int])
    assert_type(numbers.at(0), hw.Cell[int])
    assert_type(numbers.at(0).value, int)
    assert_type(numbers.update(lambda found: [*found, 5]), list[int])
    numbers.at(0).increment()

    numbers_in_row.append(3)
    numbers_in_row.extend((4, 5))
    numbers_in_row.insert(0, 0)
    numbers_in_row.add_unique(5)
    numbers_in_row.remove(5)
    assert_type(numbers_in_row.value, tuple[int, ...])
    assert_type(numbers_in_row.at(0), hw.Cell[int])


def use_dicts_in_cells() -> None:
    table.value = {**table.value, "a": 1}
    assert_type(table.value, dict[str, int])
    assert_type(table.at("a"), hw.Cell[int])
    assert_type(table.key("a"), hw.Cell[int])
    assert_type(table.key("a").value, int)
    table.key("b").value = 2
    table.key("b").increment()
    table.remove("b")


# --- documents ----------------------------------------------------------------------------------------------

board = app.doc("board", Board)
assert_type(board, Board)


def use_documents() -> None:
    ann = Person(name="Ann")
    bob = Person(name="Bob", age=40)
    assert_type(ann.name, str)
    assert_type(ann.age, int | None)
    ann.age = 39
    ann.age = None

    tea = Item(title="tea", owner=ann)
    milk = Item(title="milk", owner=ann, helper=bob, done=True)
    assert_type(tea.owner, Person)
    assert_type(tea.owner.name, str)
    assert_type(tea.helper, Person | None)
    if milk.helper is not None:
        assert_type(milk.helper.name, str)
    tea.owner = bob
    tea.helper = bob
    tea.helper = None

    chosen: dict[Item, Person] = {tea: ann, milk: bob}
    assert_type(chosen[tea], Person)
    assert {ann, bob, ann} == {ann, bob}
    assert tea != milk

    pinned = Pinned(pin=1, items=[tea], votes={"a": 1})
    assert_type(pinned.pin, int)
    assert_type(pinned.items[0], Item)
    people.append(ann)
    assert_type(people.value[0], Person)

    assert_type(hw.id_of(ann), str)
    assert_type(hw.exists(ann), bool)
    hw.delete(bob)
    hw.delete(number)
    assert_type(hw.exists(number), bool)


def use_lists_and_maps() -> None:
    ann = Person(name="Ann")
    tea, milk = Item(title="tea", owner=ann), Item(title="milk", owner=ann)
    assert_type(board.items, hw.List[Item])
    board.items.append(tea)
    board.items.extend([milk])
    board.items.insert(0, milk)
    board.items.add_unique(tea)
    board.items.remove(tea)
    board.items += [tea]
    board.items[0] = tea
    board.items = [tea, milk]
    assert_type(board.items, hw.List[Item])
    assert_type(board.items[0], Item)
    assert_type(board.items[:1], list[Item])
    assert_type(len(board.items), int)
    assert_type([item.title for item in board.items], list[str])
    assert_type(board.tags, hw.List[str])
    del board.items[0]

    assert_type(board.votes, hw.Map[str, int])
    board.votes["ann"] = 1
    board.votes["ann"] += 1
    board.votes = {"ann": 1}
    assert_type(board.votes["ann"], int)
    assert_type(board.votes.get("bob"), int | None)
    assert_type(list(board.votes), list[str])
    assert_type(dict(board.votes.items()), dict[str, int])
    board.notes = [*board.notes, Note("c")]
    assert_type(board.notes, list[Note])


# --- functions ----------------------------------------------------------------------------------------------


@app.computed
def doubled() -> int:
    return number.value * 2


@app.computed
def row(item: Item, mark: str = "x") -> str:
    return f"[{mark if item.done else ' '}] {item.title} ({item.owner.name})"


@app.computed(name="three times")
def tripled() -> int:
    return number.value * 3


@app.sink
def show() -> None:
    assert_type(doubled(), int)
    assert_type([row(item) for item in board.items if not item.done], list[str])


@app.sink(name="show again")
def show_again() -> None:
    assert_type(tripled(), int)


assert_type(doubled, hw.Computed[[], int])
assert_type(tripled, hw.Computed[[], int])
assert_type(show, hw.Sink)
assert_type(show_again, hw.Sink)
reader: Callable[[], int] = doubled
drawer: Callable[[], None] = show


def use_functions() -> None:
    item = Item(title="tea", owner=Person(name="Ann"))
    assert_type(doubled(), int)
    assert_type(tripled(), int)
    assert_type(row(item), str)
    assert_type(row(item, mark="o"), str)
    show()


# --- events -------------------------------------------------------------------------------------------------


@app.handler
def submit(note: str, stars: int = 0) -> int:
    number.value += stars
    return len(note)


@app.handler(name="rename", backlog=10, reads=[number, board, doubled], change_group="names")
def rename_to(who: Person, name: str) -> Person:
    who.name = name
    return who


# What is async needs an event loop: it is opened there, and only there.
pages = hw.App("pages")


@pages.handler
async def fetch(note: str) -> list[str]:
    await asyncio.sleep(0)
    return [note, *await fetch_twice(note)]


@pages.handler(timeout="5s")
async def fetch_twice(note: str) -> list[str]:
    await asyncio.sleep(0)
    return [note, note]


@app.handler
def submit_both(first: str, second: str) -> int:
    return submit(first) + submit(second, stars=1)


notes = app.stream("notes", Note)
counts = app.stream("counts", int)


@app.handler(on=notes)
def take(note: Note) -> str:
    return note.text


@app.handler(on=counts)
def count(number: int) -> None:
    submit.send("counted", stars=number)


assert_type(notes, hw.Stream[Note])
assert_type(counts, hw.Stream[int])


def use_events() -> None:
    ticket = submit.send("gift")
    assert_type(ticket, hw.Ticket[int])
    assert_type(ticket.result(), int)
    assert_type(ticket.result(timeout="5s"), int)
    assert_type(ticket.result("2500ms"), int)
    assert_type(ticket.id, str)
    assert_type(ticket.state, Literal["queued", "running", "pending", "confirmed", "refused", "rejected", "failed"])
    assert_type(ticket.reason, str)
    assert_type(ticket.is_done, bool)
    assert_type(ticket.on_commit(lambda done: print(done.id)), hw.Ticket[int])
    if ticket.state == "confirmed":
        submit.send(note="gift", stars=3)
    ann = Person(name="Ann")
    assert_type(rename_to.send(ann, "Anna").result(), Person)
    assert_type(rename_to.once("12", by="stripe").send(ann, name="Anna"), hw.Ticket[Person])
    assert_type(submit.once("13").send("gift"), hw.Ticket[int])
    assert_type(submit.send_fields({"note": "gift"}), hw.Ticket[int])
    assert_type(submit_both.send("a", second="b").result(), int)
    assert_type(notes.send(Note("a")), hw.Ticket[object])
    assert_type(notes.once("14").send(Note("a")), hw.Ticket[object])
    assert_type(take.send(Note("a")), hw.Ticket[str])
    counts.send(3)
    try:
        ticket.result(timeout=0)
    except (hw.EventFailedError, hw.EventRefusedError) as error:
        print(error)
    except TimeoutError as error:
        print(error)


def use_parts_of_transactions() -> None:
    assert_type(submit("gift"), int)
    assert_type(submit_both("a", "b"), int)
    hw.after_commit(lambda: print("sent"))
    hw.after_commit(later)
    with hw.untracked():
        assert_type(doubled(), int)
    show.stop()


async def later() -> None:
    await asyncio.sleep(0)


async def use_events_in_a_loop() -> None:
    assert_type(await submit.send("gift"), int)
    assert_type(fetch.send("gift"), hw.Ticket[list[str]])
    assert_type(await fetch.send("gift"), list[str])
    assert_type(await asyncio.wait_for(submit.send("gift"), 5), int)
    assert_type(await asyncio.gather(submit.send("a"), fetch.send("b")), tuple[int, list[str]])


# --- workflows ----------------------------------------------------------------------------------------------

inbox = hw.App("inbox")
flow = inbox.workflow("inbox", on_poison="park", keep_runs=100, version=2)
letters = flow.topic("letters", Note)
numbers_in = flow.topic("numbers", int)
mail = flow.connector("mail")

assert_type(flow, hw.Workflow)
assert_type(letters, hw.Topic[Note])
assert_type(numbers_in, hw.Topic[int])
assert_type(mail, hw.Connector)


@flow.producer(every="5m", retry=hw.Retry(3, backoff="30s", on=(OSError, TimeoutError), jitter=0.5))
def poll(since: int = 0) -> int:
    letters.publish(Note("a"), id=str(since), title="A letter")
    return since + 1


@flow.producer(cron="0 9 * * *", zone="Europe/Berlin", timeout={"produce": "5m"}, uses=mail)
async def poll_daily(run: hw.Run) -> None:
    assert_type(run.call(unread, "inbox", limit=3), list[str])
    assert_type(await run.call(fetch_all), list[str])


@mail.read
def unread(folder: str, limit: int = 10) -> list[str]:
    return [folder] * limit


@mail.read
async def fetch_all() -> list[str]:
    await asyncio.sleep(0)
    return []


@mail.mutation
def send_mail(to: str, text: str, key: str = "") -> int:
    return len(to + text + key)


@send_mail.reconcile
def was_sent(key: str, to: str) -> hw.Answer[int]:
    return hw.Applied(len(key + to)) if key else hw.Unknown("no key")


@flow.consumer(letters, retry=hw.Retry(), timeout="1m", peek=10)
class Answer(hw.Consumer[Note, list[str], int]):
    state: int = 0

    def prepare(self, pending: Sequence[hw.Event[Note]]) -> hw.Plan[list[str]]:
        if not pending:
            return hw.Plan.idle(wake="1h")
        assert_type(self.state, int)
        assert_type(self.run.attempt, int)
        first = pending[0]
        assert_type(first, hw.Event[Note])
        assert_type(first.data, Note)
        assert_type(first.id, str)
        assert_type(first.topic, str)
        assert_type(first.at, datetime)
        assert_type(first.attempt, int)
        return hw.Plan([e.data.text for e in pending], take=pending[:3], title="Answer", ask=True, wake=first.at)

    def mutate(self, run: hw.Run, data: list[str]) -> int:
        assert_type(run.key, str)
        return len(data)

    def reconcile(self, run: hw.Run, data: list[str]) -> hw.Answer[int]:
        return hw.NotApplied() if data else hw.Unknown()

    def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
        assert_type(outcome.result, int | None)
        match outcome:
            case hw.Applied(count):
                assert_type(count, int)
                self.state += count
            case hw.Skipped() | hw.Nothing():
                pass
        numbers_in.publish(len(data), id=run.key)


@flow.consumer(numbers_in, uses=[mail])
class Forward(hw.Consumer[int, str, int]):
    async def prepare(self, pending: Sequence[hw.Event[int]]) -> hw.Plan[str]:
        assert_type(await self.run.call(fetch_all), list[str])
        return hw.Plan(",".join(str(e.data) for e in pending), take=pending)

    def mutate(self, run: hw.Run, data: str) -> None:
        assert_type(run.call(send_mail, "ann", data), int)

    async def next(self, run: hw.Run, data: str, outcome: hw.Outcome[int]) -> None:
        await asyncio.sleep(0)


@flow.fixer
def fix(broken: hw.Broken) -> str | None:
    return broken.source if broken.attempt == 1 else None


other_flow = inbox.workflow("other")
other_topic = other_flow.topic("texts", str)
other_flow.fixer(hw.OpenAIFixer(url="http://localhost:1/v1", model="m", key="", timeout="5s"))


@other_flow.consumer(other_topic)
class Inferred(hw.Consumer[str, list[str], None]):
    """As short as can be: what is not annotated has the types of the base class."""

    def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[list[str]]:
        return hw.Plan([e.data for e in pending], take=pending)


assert_type(Answer().prepare([]), hw.Plan[list[str]])
assert_type(Answer.state, int)


def use_workflows() -> None:
    with inbox.open("memory:") as space:
        poll(3)
        assert_type(unread("inbox"), list[str])
        letters.publish(Note("b"), id="b")
        assert_type(space.workflows.drain(), int)
        assert_type(flow.status.state, str)
        assert_type(flow.status.pending["letters"], int)
        assert_type(flow.status.parked, int)
        assert_type(flow.status.next_at, int | None)
        assert_type(flow.schedule, str)
        for run in flow.runs():
            assert_type(run.id, int)
            assert_type(run.status, str)
            if run.status == "paused:approval":
                flow.approve(run.id)
        for found in flow.inputs(limit=3):
            assert_type(found.title, str)
        try:
            flow.reject(99)
            flow.retry(99)
            flow.cancel(99)
            flow.reconcile(99, hw.Applied(3))
            flow.reconcile(99, hw.NotApplied())
            flow.reconcile(99, hw.Skipped())
            assert_type(flow.skip(99), int)
            assert_type(flow.reprocess(), int)
        except hw.TransitionError as error:
            print(error)
        except hw.HeadwaterError as error:
            print(error)
        flow.pause()
        flow.resume()
        space.workflows.drain()


def raise_workflow_errors(number: int) -> None:
    errors: list[hw.WorkflowError] = [
        hw.TransientError("busy", definite=True),
        hw.LogicError("odd"),
        hw.ApprovalError("sign in", service="mail"),
        hw.IndeterminateError("lost"),
        hw.InternalError("ours"),
    ]
    raise errors[number]


# --- spaces -------------------------------------------------------------------------------------------------


def use_space() -> None:
    with app.open("memory:", space="a", actor="ann", durability="full", on_error="log") as space:
        assert_type(space, hw.Space)
        assert_type(space.name, str)
        with space.transaction() as tx:
            assert_type(tx, hw.Transaction)
            use_cells()
            use_lists_in_cells()
            use_dicts_in_cells()
            use_documents()
            use_lists_and_maps()
            use_functions()
            use_parts_of_transactions()
        use_events()
        assert_type(space.cell("typing.number", int), hw.Cell[int])
        assert_type(space.cell("typing.numbers", list[int], default=[]), hw.Cell[list[int]])
        assert_type(space.cell("typing.number"), hw.Cell[object])
        assert_type(space.cell("typing.number").value, object)
        assert_type(space.doc("typing.board", Board), Board)
        assert_type(space.doc("typing.board"), hw.AnyDoc)
        space.doc("typing.board").name = "away"
        assert_type(space.doc("typing.board").items, object)
        assert_type(space.stats, hw.Stats)
        assert_type(space.stats.seq, int)
        assert_type(space.explain_resume(), hw.Resumption)
        assert_type(space.explain_resume().restored, int)
        assert_type(space.stats.runs, dict[str, int])
        assert_type(space.runs(doubled), int)
        space.settle()
        space.sync()
        space.sync(timeout="5s")
    opened = app.open("memory:")
    opened.close()


async def use_async_space() -> None:
    async with app.aopen("memory:", space="b") as space:
        assert_type(space, hw.AsyncSpace)
        with space.transaction() as tx:
            assert_type(tx, hw.Transaction)
        assert_type(space.cell("typing.number", int), hw.Cell[int])
        assert_type(space.doc("typing.board", Board), Board)
        assert_type(space.stats, hw.Stats)
        async with pages.aopen("memory:", space="c"):
            await use_events_in_a_loop()
        await space.settle()
        await space.synced()


if __name__ == "__main__":
    assert_type(hw.__version__, str)
    use_space()
    use_workflows()
    asyncio.run(use_async_space())
