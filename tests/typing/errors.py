"""Mistakes that type checkers find: in the lines that say so, and in no others. Nobody runs this file.

Values are read before wrong ones are assigned: a checker believes an assignment even if it has refused it.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

import headwater as hw


class Person(hw.Doc):
    name: str


class Item(hw.Doc):
    title: str
    owner: hw.Link[Person]
    helper: hw.Link[Person | None] = hw.Link()
    done: bool = False


class Board(hw.Doc):
    items: hw.List[Item] = hw.List()
    votes: hw.Map[str, int] = hw.Map()


app = hw.App("mistakes")
number = app.cell("number", 0)
ratio = app.cell("ratio", 0.5)
text = app.cell("text", "")
numbers = app.cell("numbers", list[int]())
table = app.cell("table", dict[str, int]())
level: hw.Cell[Literal["low", "high"]] = app.cell("level", "low", type=Literal["low", "high"])
numbers_in_row = app.cell("numbers in row", (1, 2), type=tuple[int, ...])
maybe: hw.Cell[int | None] = app.cell("maybe", None)
board = app.doc("board", Board)


# --- names --------------------------------------------------------------------------------------------------


def names() -> None:
    print(hw.Celll)  # refused
    print(app.cel("number", 0))  # refused
    hw.App(3)  # refused
    hw.App("a", url="a.db")  # refused


# --- cells --------------------------------------------------------------------------------------------------

wrong_default: hw.Cell[int] = app.cell("wrong", "a")  # refused
wrong_type: hw.Cell[int] = app.cell("wrong", type=str)  # refused
wrong_both: hw.Cell[int] = app.cell("wrong", "a", type=int)  # refused
app.cell("nothing")  # refused
app.cell("number", 0, scope="usr")  # refused
app.cell(0, "number")  # refused


def values() -> None:
    print(number + 1)  # refused
    print(maybe.value + 1)  # refused
    print(number())  # refused
    print(number.values)  # refused
    text.value = number.peek()  # refused
    text.value = number.value  # refused
    number.value = "a"  # refused
    number.values = 3  # refused
    number.exists = True  # refused
    number.update(str)  # refused
    number.update(lambda n: f"{n}")  # refused
    ratio.value += "a"  # refused
    maybe.value = "a"  # refused
    level.value = "medium"  # refused


def parts() -> None:
    print(numbers.at(0).value.title)  # refused
    print(table.at("a").value.title)  # refused
    print(table.key("a").value.title)  # refused
    table.key(0)  # refused
    numbers.at(0).value = "a"  # refused
    table.at("a").value = "b"  # refused
    table.key("a").value = "b"  # refused
    numbers.value = ["a"]  # refused
    table.value = {"a": "b"}  # refused


def edits() -> None:
    number.increment("a")  # refused
    number.increment(0.5)  # refused
    ratio.increment("a")  # refused
    text.increment()  # refused
    maybe.increment()  # refused
    numbers.increment()  # refused

    numbers.append("a")  # refused
    numbers.extend(["a"])  # refused
    numbers.extend(1)  # refused
    numbers.insert("a", 1)  # refused
    numbers.insert(0, "a")  # refused
    numbers.add_unique("a")  # refused
    numbers.remove("a")  # refused
    table.remove(0)  # refused
    numbers_in_row.append("a")  # refused
    numbers_in_row.remove("a")  # refused

    number.append(1)  # refused
    number.extend([1])  # refused
    number.insert(0, 1)  # refused
    number.add_unique(1)  # refused
    number.remove(1)  # refused
    text.append("a")  # refused
    table.append(1)  # refused


def truth() -> None:
    if number:  # refused by pyright
        print("something")


def untruth() -> bool:
    return not number  # refused by pyright


# --- documents ----------------------------------------------------------------------------------------------


def constructors(ann: Person, tea: Item) -> None:
    Person("Ann")  # refused
    Person()  # refused
    Person(name=3)  # refused
    Person(nmae="Ann")  # refused
    Person(name="Ann", age=3)  # refused
    Item(title="tea")  # refused
    Item(title="tea", owner="Ann")  # refused
    Item(title="tea", owner=None)  # refused
    Item(title="tea", owner=tea)  # refused
    Item(title="tea", owner=ann, helper="Bob")  # refused
    Board(items=[ann])  # refused
    Board(items="tea")  # refused
    Board(votes={"a": "b"})  # refused


def fields(ann: Person, tea: Item) -> None:
    print(ann.nmae)  # refused
    print(tea.owner.nmae)  # refused
    print(tea.helper.name)  # refused
    print(board.items[0].titel)  # refused
    ann.name = 3  # refused
    ann.nmae = "Anna"  # refused
    tea.done = "yes"  # refused
    tea.owner = "Ann"  # refused
    tea.owner = None  # refused
    tea.owner = tea  # refused
    tea.helper = "Bob"  # refused


def lists_and_maps(ann: Person) -> None:
    print(board.items["a"])  # refused
    board.items.append(ann)  # refused
    board.items.append("tea")  # refused
    board.items.extend([ann])  # refused
    board.items.add_unique(ann)  # refused
    board.items.insert(0, ann)  # refused
    board.items.remove(ann)  # refused
    board.items[0] = ann  # refused
    board.items += [ann]  # refused
    board.items = [ann]  # refused
    board.items = "tea"  # refused
    print(board.votes[0])  # refused
    board.votes[0] = 1  # refused
    board.votes["a"] = "b"  # refused
    board.votes = {"a": "b"}  # refused


def wholes() -> None:
    app.doc("board", "Board")  # refused
    app.doc("board", dict[str, int])  # refused
    app.doc("board", Board, scope="usr")  # refused
    hw.delete("board")  # refused
    hw.exists(3)  # refused
    hw.id_of(number)  # refused


# --- functions ----------------------------------------------------------------------------------------------


@app.computed
def doubled() -> int:
    return number.value * 2


@app.computed
def row(item: Item, mark: str = "x") -> str:
    return item.title + mark


@app.computed(name="other")
def named(item: Item) -> str:
    return item.title


@app.sink
def show() -> None:
    print(doubled())


@app.sink  # refused
def show_one(item: Item) -> None:
    print(item.title)


@app.sink(name="show two")  # refused
def show_two(item: Item) -> None:
    print(item.title)


app.computed(3)  # refused
app.computed(nmae="other")  # refused


def calls(ann: Person, tea: Item) -> None:
    doubled(3)  # refused
    print(doubled.value)  # refused
    print(doubled().title)  # refused
    row()  # refused
    row(ann)  # refused
    row("tea")  # refused
    row(tea, mark=3)  # refused
    row(tea, makr="x")  # refused
    print(row(tea).value)  # refused
    named(ann)  # refused
    show(tea)  # refused


@app.resource(fresh_for="10m")
async def weather(city: str) -> int:
    return len(city)


@app.resource  # refused
def not_async(city: str) -> int:
    return len(city)


app.resource(fresh="10m")  # refused
app.resource(retry=3)  # refused


def resources(tea: Item) -> None:
    weather()  # refused
    weather(3)  # refused
    print(weather("Oslo").value)  # refused
    weather.refresh(tea)  # refused
    weather("Oslo") + 1  # refused
    hw.clock(every=tea)  # refused
    hw.Ready(1).value = 2  # refused


# --- events -------------------------------------------------------------------------------------------------


@app.handler
def submit(note: str, stars: int = 0) -> int:
    return len(note) + stars


@app.handler(backlog=10)
async def fetch(item: Item) -> str:
    return item.title


items = app.stream("items", Item)


@app.handler(on=items)
def take(item: Item) -> str:
    return item.title


app.handler(3)  # refused
app.handler(backlog="many")  # refused
app.handler(debounce="5s")  # refused
app.handler(on="items")  # refused
app.stream("items")  # refused
app.stream("items", 3)  # refused


def events(ann: Person, tea: Item) -> None:
    submit.send()  # refused
    submit.send(3)  # refused
    submit.send("gift", stars="many")  # refused
    submit.send("gift", star=3)  # refused
    submit.send("gift", 3, 4)  # refused
    submit.send_fields("gift")  # refused
    submit.once(3).send("gift")  # refused
    submit.once("3", by=4).send("gift")  # refused
    submit.once("3").send(4)  # refused
    submit(3)  # refused
    fetch.send(ann)  # refused
    items.send(ann)  # refused
    items.send("tea")  # refused
    items.send()  # refused
    items.once("3").send(ann)  # refused
    take.send(ann)  # refused
    wrong: str = submit.send("gift").result()  # refused
    text.value = submit.send("gift")  # refused
    number.value = fetch.send(tea).result()  # refused
    number.value = items.send(tea).result()  # refused
    print(wrong, submit.send("gift").value)  # refused
    submit.send("gift").result(timeout=None, until=3)  # refused
    submit.send("gift").result(timeout=[])  # refused
    if submit.send("gift").state == "done":  # refused
        pass
    submit.send("gift").on_commit(3)  # refused
    submit.send("gift").state = "queued"  # refused
    hw.after_commit(3)  # refused
    hw.after_commit(len)  # refused


async def async_events(tea: Item) -> None:
    wrong: str = await submit.send("gift")  # refused
    number.value = await fetch.send(tea)  # refused
    print(wrong, await submit("gift"))  # refused
    print(await fetch)  # refused


# --- workflows ----------------------------------------------------------------------------------------------

flow = app.workflow("flow")
letters = flow.topic("letters", str)
mail = flow.connector("mail")
app.workflow()  # refused
app.workflow("odd", on_poison="drop")  # refused
app.workflow("odd", keep_runs="all")  # refused
flow.topic("letters")  # refused
flow.topic("letters", "str")  # refused
flow.consumer("letters")  # refused
flow.consumer(letters, peek="many")  # refused
flow.consumer(letters, retry=3)  # refused
flow.consumer(letters, timeout={"prepar": "5s"})  # refused
flow.consumer(letters, uses="mail")  # refused
flow.producer(every=[])  # refused
flow.producer(crom="* * * * *")  # refused
flow.fixer(3)  # refused
hw.Retry("five")  # refused
hw.Retry(on="OSError")  # refused
hw.OpenAIFixer(model="m")  # refused
hw.OpenAIFixer(url="http://localhost", model="m", header="k")  # refused


@flow.producer  # refused
def poll_bare() -> None:
    pass


@flow.consumer(letters)  # refused
def not_a_class() -> None:
    pass


@flow.consumer(letters)  # refused by pyright
class NotAConsumer:  # refused by mypy
    pass


@flow.fixer  # refused
def fix_wrongly(broken: str) -> str:
    return broken


@flow.fixer  # refused
def fix_with_numbers(broken: hw.Broken) -> int:
    return broken.attempt


@mail.read
def unread(folder: str) -> list[str]:
    return [folder]


@mail.mutation
def send_mail(to: str, key: str = "") -> int:
    return len(to + key)


class Wrong(hw.Consumer[str, list[str], int]):
    def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[int]:  # refused
        print(pending[0].data.name)  # refused
        print(pending[0].text)  # refused
        return hw.Plan(3, take=["a"])  # refused

    def mutate(self, run: hw.Run, data: str) -> str:  # refused
        run.call(unread)  # refused
        run.call(unread, 3)  # refused
        run.call(unread, "inbox", limit=3)  # refused
        run.call(send_mail, "ann", text="hello")  # refused
        wrong: str = run.call(send_mail, "ann")  # refused
        run.call(len, 3)  # refused
        print(run.keys)  # refused
        return wrong + data

    def reconcile(self, run: hw.Run, data: list[str]) -> bool:  # refused
        return bool(data)

    def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[str]) -> None:  # refused
        print(outcome.reason)  # refused


class Calculating(hw.Consumer[str, int, int]):
    def prepare(self, pending: Sequence[hw.Event[str]]) -> hw.Plan[int]:
        return hw.Plan("three", take=pending)  # refused

    def next(self, run: hw.Run, data: int, outcome: hw.Outcome[int]) -> None:
        print(outcome.result + 1)  # refused
        letters.publish(data, id="a")  # refused
        letters.publish("a")  # refused
        letters.publish("a", id=3)  # refused
        letters.publish("a", id="a", titel="A")  # refused


class NoPrepare(hw.Consumer[str, int, int]):
    pass


def workflows() -> None:
    NoPrepare()  # refused
    hw.Plan()  # refused
    hw.Plan(3, taken=[])  # refused
    hw.Plan(3, wake=[])  # refused
    hw.Applied()  # refused
    hw.Skipped("why")  # refused
    flow.approve("1")  # refused
    flow.reconcile(1, "applied")  # refused
    flow.reconcile(1, hw.Nothing())  # refused
    flow.skip("a")  # refused
    print(flow.status.stat)  # refused
    print(flow.status.pending[0])  # refused
    print(flow.runs()[0].stat)  # refused
    with app.open("a.db") as space:
        space.workflows.drain("all")  # refused
    raise hw.TransientError  # refused


# --- pieces -------------------------------------------------------------------------------------------------


@hw.pattern
def card(p: hw.Builder, who: str, size: hw.Cell[int]) -> dict[str, hw.Computed[[], str]]:
    @p.computed
    def label() -> str:
        return who * size.value

    p.cell("n", 0, typ=int)  # refused
    p.start(card, "inner", who=3, size=size)  # refused
    return {"label": label}


@app.computed
def chosen_card() -> hw.Piece[int]:
    return card("a", number)  # refused


def pieces() -> None:
    with app.open("a.db") as space:
        space.start(card, 3, "a", number)  # refused
        space.start(card, "k", who=3, size=number)  # refused
        space.start(card, "k", who="a", size=text)  # refused
        space.start(card, "k", who="a", size=number, colour="red")  # refused
        space.start(card, "k", who="a")  # refused
        space.start(pieces, "k")  # refused
        hw.start(card, "k", "a", number, 3)  # refused
        piece = space.start(card, "k", "a", number)
        wrong: hw.Piece[int] = piece  # refused
        piece.generation = 3  # refused
        piece.outputs = {}  # refused
        print(wrong, piece.outputs["label"]() + 1, piece.output)  # refused
        piece.stop(now=True)  # refused


# --- spaces -------------------------------------------------------------------------------------------------


def spaces() -> None:
    app.open(3)  # refused
    app.open("a.db", durability="ful")  # refused
    app.open("a.db", creat=True)  # refused
    with app.open("a.db") as space:
        wrong: hw.Cell[int] = space.cell("a", int, default="a")  # refused
        print(wrong, space.cell("a").value + 1)  # refused
        space.cell("a").append(1)  # refused
        space.cell("a", int).value = "a"  # refused
        print(space.doc("a", Board).name)  # refused
        print(space.doc("a").name.title)  # refused
        space.doc("a", dict[str, int])  # refused
        print(space.stats.sequence)  # refused
        space.stats.seq = 3  # refused
        space.sync([])  # refused
        with space.transaction() as tx:
            print(tx.value)  # refused
    with app.aopen("a.db"):  # refused
        pass


async def async_spaces() -> None:
    async with app.open("a.db"):  # refused
        pass
    async with app.aopen("a.db") as space:
        space.sync()  # refused
        space.settle()  # refused
        space.synced()  # refused
        async with space.transaction():  # refused
            pass


# --- queries ------------------------------------------------------------------------------------------------


class Order(hw.Doc):
    number: int
    created: datetime
    cents: int = 0
    state: str = "open"
    due: datetime | None = None


orders = app.collection(Order, indexes=[Order.state, Order.due])


def queries() -> None:
    orders.where(Order.stat == "open")  # refused
    orders.where(Order.cents >= "100")  # refused
    orders.where(Order.state == 5)  # refused
    orders.where(hw.col(Order.due) < 5)  # refused
    orders.where(hw.col(Order.cents).starts_with("1"))  # refused
    orders.sum(Order.state)  # refused
    orders.where("state = open")  # refused
    Order(number=1, cents=2)  # refused
    titles: list[str] = orders.values(Order.cents)  # refused
    print(titles)
    app.collection(int)  # refused
    app.collection(Order, scope="session")  # refused
    orders.where(hw.col(Order.due).is_none() & hw.col(Order.due).is_none())  # refused
    orders.where(~hw.col(Order.due).is_none())  # refused
    orders.where(Order.state == "open")[0]  # refused
    orders.limit("5")  # refused
    orders.page(5, after=3)  # refused
    orders.insert_many([1, 2])  # refused
    number: int = orders.where(Order.state == "open").first()  # refused
    print(number)


class Parcel(hw.Doc):
    number: int


def changes() -> None:
    hw.renamed(Parcel.amount, was="cents")  # refused
    hw.renamed(Parcel.number, was=5)  # refused
    hw.renamed(Parcel.number)  # refused
    hw.retyped(Parcel.number, was=str)  # refused
    hw.retyped(Parcel.number, was=str, how=5)  # refused
    hw.dropped(5)  # refused
    app.collection(Parcel, changes=["number"])  # refused
    app.collection(Parcel, changes=[hw.total(Parcel.number)])  # refused
