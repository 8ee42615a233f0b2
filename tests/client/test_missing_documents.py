"""A document that is not here yet, in an event loop: nobody is shown a wrong value, and nothing is written over."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Coroutine, Iterator
from functools import wraps
from pathlib import Path
from typing import ParamSpec

import pytest

import headwater as hw
from headwater.client import document_fetch
from headwater.errors import HeadwaterError, NotReadyError, OfflineError, UsageError, UserCodeError
from headwater.server.spaces import document_gathering
from headwater.store.commit import Commit, CommitOutcome, Committed, DeleteDoc, PatchDoc
from headwater.store.document import StoredDocument
from headwater.sync.client_listener import Brought
from headwater.sync.client_session import ClientSession
from headwater.values.address import doc_key
from headwater.values.ids import NEVER, LocalSeq, Seq, SessionId
from headwater.values.patch import Append, Replace
from headwater.values.tree import ABSENT, freeze
from tests.client.world import Behind, behind
from tests.server.running import DEADLINE_S, settle_in

P = ParamSpec("P")


class Person(hw.Doc):
    name: str = "?"
    age: int = 0


class Item(hw.Doc):
    title: str
    done: bool = False


class Board(hw.Doc):
    items: hw.List[Item] = hw.List()


class Desk:
    """A program with cells and a document of its own, and one that knows a document by its id only."""

    def __init__(self) -> None:
        app = self.app = hw.App("desk")
        self.ref = app.cell("ref", "")
        self.count = app.cell("zcount", 0)
        self.names = app.cell("znames", list[str]())
        self.dozen = app.cell("zdozen", 12)
        self.person = app.doc("zperson", Person)
        self.board = app.doc("board", Board)

    def fill(self, at: Behind, items: int = 0) -> str:
        """Somebody else has been here before."""
        with self.app.open(at.straight, actor="bob") as space:
            self.count.value, self.names.value, self.dozen.value = 41, ["keep"], 20
            self.person.name, self.person.age = "Bob", 41
            person = Person(name="Ann", age=30)
            self.ref.value = hw.id_of(person)
            with space.transaction():
                for number in range(items):
                    self.board.items.append(Item(title=str(number)))
            return hw.id_of(person)


def at_the_server(at: Behind, person: str) -> list[object]:
    """What everybody else sees."""
    desk = Desk()
    with desk.app.open(at.straight, actor="cat") as space:
        ann = space.doc(person, Person)
        return [desk.count.value, list(desk.names.value), desk.dozen.value, desk.person.age, ann.name, ann.age]


FILLED: list[object] = [41, ["keep"], 20, 41, "Ann", 30]


def looped(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """A test that runs in a loop."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


async def until(is_so: Callable[[], object], what: str) -> None:
    end = time.monotonic() + DEADLINE_S
    while not is_so():
        assert time.monotonic() < end, what
        await asyncio.sleep(0.01)


def is_here(read: Callable[[], object]) -> Callable[[], bool]:
    def look() -> bool:
        try:
            read()
        except NotReadyError:
            return False
        return True

    return look


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


@pytest.fixture
def little(monkeypatch: pytest.MonkeyPatch) -> None:
    """Next to nothing comes with an opening."""
    monkeypatch.setattr(document_gathering, "PREFETCH_BYTES_MAX", 1)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The kinds of questions that were put."""
    found: list[str] = []
    ask = ClientSession.ask

    def counted(self: ClientSession, frame: object, done: object) -> None:
        found.append(type(frame).__name__)
        ask(self, frame, done)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(ClientSession, "ask", counted)
    return found


# -- code that is no run -----------------------------------------------------------------------------------


@looped
async def test_plain_code_is_told_that_a_document_is_not_here_and_writes_nothing_over_it(at: Behind) -> None:
    desk = Desk()
    ann = await asyncio.to_thread(desk.fill, at)
    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        person = space.doc(ann, Person)
        with pytest.raises(NotReadyError, match=r"await space\.load\("):
            print(person.age)
        with pytest.raises(NotReadyError):
            person.age += 1
        with pytest.raises(NotReadyError):
            person.age = 5
        with pytest.raises(NotReadyError):
            hw.exists(person)
        with pytest.raises(NotReadyError):
            hw.status(person)
        with pytest.raises(NotReadyError), space.transaction():
            desk.count.value = 7
            person.age += 1
        with pytest.raises(NotReadyError):
            hw.delete(person)
        assert desk.count.value == 41
        await space.synced()
        await until(is_here(lambda: person.age), "it has come by itself")
        assert (person.name, person.age, hw.exists(person), hw.status(person)) == ("Ann", 30, True, "confirmed")
        person.age += 1
        await space.synced()
    assert (await asyncio.to_thread(at_the_server, at, ann))[-2:] == ["Ann", 31]


@pytest.mark.usefixtures("little")
@looped
async def test_what_the_app_has_declared_is_not_written_over_either(at: Behind) -> None:
    desk = Desk()
    ann = await asyncio.to_thread(desk.fill, at)
    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        with pytest.raises(NotReadyError):
            desk.count.value += 1
        with pytest.raises(NotReadyError):
            desk.names.value = [*desk.names.value, "new"]
        with pytest.raises(NotReadyError):
            desk.person.age += 1
        await space.synced()
        await until(is_here(lambda: (desk.count.value, desk.names.value, desk.person.age)), "they have come")
        assert (desk.count.value, list(desk.names.value), desk.person.age) == (41, ["keep"], 41)
    assert await asyncio.to_thread(at_the_server, at, ann) == FILLED


@pytest.mark.usefixtures("little")
@looped
async def test_what_is_written_without_reading_is_written_right(at: Behind) -> None:
    desk = Desk()
    ann = await asyncio.to_thread(desk.fill, at)
    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        at.proxy.freeze(True)
        desk.count.increment()
        desk.names.append("new")
        with pytest.raises(NotReadyError):
            # What it is added to depends on whether something is there.
            desk.dozen.increment()
        desk.dozen.value = 3
        # What was written as a whole is known; what was added to is not.
        assert (desk.dozen.value, hw.status(desk.dozen)) == (3, "pending")
        desk.dozen.value += 1
        with pytest.raises(NotReadyError):
            print(desk.count.value)
        at.proxy.freeze(False)
        await space.synced()
        await until(is_here(lambda: (desk.count.value, desk.names.value)), "they have come")
        assert (desk.count.value, list(desk.names.value), desk.dozen.value) == (42, ["keep", "new"], 4)
    seen = await asyncio.to_thread(at_the_server, at, ann)
    assert seen == [42, ["keep", "new"], 4, 41, "Ann", 30]


@looped
async def test_a_thread_beside_the_loop_waits_for_it(at: Behind) -> None:
    desk = Desk()
    ann = await asyncio.to_thread(desk.fill, at)
    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        person = space.doc(ann, Person)
        at.proxy.freeze(True)
        with pytest.raises(NotReadyError):
            print(person.age)
        reading = asyncio.ensure_future(asyncio.to_thread(lambda: person.age))
        await asyncio.sleep(0.05)
        at.proxy.freeze(False)
        assert await reading == 30
        assert person.age == 30


# -- loading -----------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("little")
@looped
async def test_load_brings_cells_documents_lists_and_addresses_with_one_question(at: Behind, asked: list[str]) -> None:
    desk = Desk()
    ann = await asyncio.to_thread(desk.fill, at, 3)
    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        asked.clear()
        await space.load(desk.count, desk.person, "desk.znames", ann)
        assert asked == ["Watch"]
        assert (desk.count.value, desk.person.age, space.doc(ann, Person).age) == (41, 41, 30)
        assert list(desk.names.value) == ["keep"]
        await space.load(desk.count, desk.person)
        assert asked == ["Watch"]
        with pytest.raises(UsageError, match="cells, documents, lists, queries and addresses"):
            await space.load(3)  # type: ignore[arg-type]  # that is what is tested
    assert await asyncio.to_thread(at_the_server, at, ann) == FILLED


@looped
async def test_what_the_links_of_a_list_lead_to_comes_along(
    at: Behind, asked: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    desk = Desk()
    await asyncio.to_thread(desk.fill, at, 50)
    with monkeypatch.context() as patch:
        patch.setattr(document_gathering, "PREFETCH_BYTES_MAX", 1)
        space = await desk.app.aopen(at.url, token=at.token, actor="ann").__aenter__()
    try:
        asked.clear()
        await space.load(desk.board.items)
        assert asked == ["Watch"]
        assert [item.title for item in desk.board.items] == [str(number) for number in range(50)]
        assert asked == ["Watch"]
    finally:
        space._opening.leave()
        await space.close()


@pytest.mark.usefixtures("little")
@looped
async def test_what_did_not_fit_into_the_answer_is_asked_for_besides(at: Behind, asked: list[str]) -> None:
    desk = Desk()
    await asyncio.to_thread(desk.fill, at, 50)
    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        asked.clear()
        await space.load(desk.board)
        assert asked == ["Watch", "Watch"]
        assert sum(item.done for item in desk.board.items) == 0
        assert asked == ["Watch", "Watch"]


@looped
async def test_load_says_that_the_server_does_not_answer(at: Behind, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document_fetch, "PATIENCE_S", 0.2)
    desk = Desk()
    ann = await asyncio.to_thread(desk.fill, at)
    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        at.proxy.freeze(True)
        with pytest.raises(OfflineError, match="has not answered"):
            await space.load(ann)
        at.proxy.freeze(False)
        await space.load(ann)
        assert space.doc(ann, Person).age == 30


@pytest.mark.usefixtures("little")
def test_plain_spaces_load_and_wait(at: Behind, asked: list[str]) -> None:
    desk = Desk()
    ann = desk.fill(at, 5)
    with desk.app.open(at.url, token=at.token, actor="ann") as space:
        asked.clear()
        space.load(desk.board.items, ann)
        before = len(asked)
        assert [item.title for item in desk.board.items] == ["0", "1", "2", "3", "4"]
        assert space.doc(ann, Person).age == 30
        assert len(asked) == before


def test_where_everything_is_here_loading_is_nothing() -> None:
    desk = Desk()
    with desk.app.open("memory:") as space:
        space.load(desk.count, desk.board.items, "desk.zperson", "nothing")

    async def in_a_loop() -> None:
        async with desk.app.aopen("memory:") as space:
            await space.load(desk.count, desk.board.items, "desk.zperson", "nothing")

    asyncio.run(in_a_loop())


# -- runs --------------------------------------------------------------------------------------------------


@looped
async def test_sinks_and_computeds_show_nothing_before_it_is_here(at: Behind) -> None:
    desk, told, drawn, slow = Desk(), list[UserCodeError](), list[str](), list[str]()
    ann = await asyncio.to_thread(desk.fill, at)
    async with desk.app.aopen(at.url, token=at.token, actor="ann", on_error=told.append) as space:
        person = space.doc(ann, Person)
        absent = space.cell("elsewhere.thing", int, default=7)

        @desk.app.computed
        def label() -> str:
            return f"{person.name} {person.age}"

        @desk.app.sink
        def show() -> None:
            drawn.append(f"{label()} {hw.status(person)} {absent.value}")

        @desk.app.sink
        async def show_slowly() -> None:
            await asyncio.sleep(0)
            slow.append(f"{person.name} {hw.exists(person)}")

        await until(lambda: drawn and slow, "both have drawn")
        await space.settle()
        assert (drawn, slow, told) == (["Ann 30 confirmed 7"], ["Ann True"], [])
        # Once in vain for the person, once for what does not exist, and once.
        assert space.runs(show) <= 3
        assert space.runs(label) <= 2
        person.age += 1
        await until(lambda: drawn[-1].startswith("Ann 31"), "it is watched")
    assert (await asyncio.to_thread(at_the_server, at, ann))[-2:] == ["Ann", 31]


@pytest.mark.usefixtures("little")
@looped
async def test_a_run_over_many_documents_is_not_repeated_for_each(at: Behind) -> None:
    desk, told, drawn = Desk(), list[UserCodeError](), list[list[str]]()
    await asyncio.to_thread(desk.fill, at, 300)

    @desk.app.sink
    def show() -> None:
        drawn.append([item.title for item in desk.board.items if not item.done])

    async with desk.app.aopen(at.url, token=at.token, actor="ann", on_error=told.append) as space:
        await until(lambda: drawn, "it has drawn")
        await space.settle()
        assert drawn == [[str(number) for number in range(300)]]
        # One that misses the list, two that miss elements (64 are requested, then 256), and one that has them all:
        # the documents of each request arrive together, whatever the connection's thread does meanwhile.
        assert space.runs(show) == 4
        assert told == []


@looped
async def test_a_handler_is_called_when_what_it_needs_is_here(at: Behind) -> None:
    desk, told, seen = Desk(), list[UserCodeError](), list[int]()
    ann = await asyncio.to_thread(desk.fill, at)

    @desk.app.handler
    def birthday(who: str) -> int:
        person = space.doc(who, Person)
        person.age += 1
        seen.append(person.age)
        return person.age

    @desk.app.handler
    async def slow_birthday(who: str) -> int:
        person = space.doc(who, Person)
        await asyncio.sleep(0)
        person.age += 1
        return person.age

    async with desk.app.aopen(at.url, token=at.token, actor="ann", on_error=told.append) as space:
        at.proxy.freeze(True)
        ticket = birthday.send(ann)
        await asyncio.sleep(0.05)
        assert seen == []
        at.proxy.freeze(False)
        assert await ticket == 31
        assert await slow_birthday.send(ann) == 32
        await space.settled()
        assert (seen, told, space.runs(birthday)) == ([31], [], 1)
    assert (await asyncio.to_thread(at_the_server, at, ann))[-2:] == ["Ann", 32]


@looped
async def test_a_document_that_is_let_go_and_read_again_at_once_stays_current(at: Behind) -> None:
    desk = Desk()
    ann = await asyncio.to_thread(desk.fill, at)

    def grow() -> None:
        with hw.App("other").open(at.straight, actor="bob") as other:
            other.doc(ann, Person).age = 31

    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        person, storage = space.doc(ann, Person), space._opening._lease.storage
        may_go_on = threading.Event()
        storage.link.soon(lambda: may_go_on.wait(DEADLINE_S))  # type: ignore[attr-defined]  # as long as this is done
        assert not is_here(lambda: person.age)()
        space._opening.replica.release(doc_key(ann))
        assert not is_here(lambda: person.age)()
        may_go_on.set()
        await until(is_here(lambda: person.age), "it has come")
        await space.settle()
        await asyncio.to_thread(grow)
        await until(lambda: person.age == 31, "the change of another client")


@looped
async def test_a_change_that_comes_before_the_document_is_part_of_the_document(at: Behind) -> None:
    desk = Desk()
    ann = await asyncio.to_thread(desk.fill, at)
    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        person, replica = space.doc(ann, Person), space._opening.replica
        at.proxy.freeze(True)
        assert not is_here(lambda: person.age)()
        # The document was held a moment ago, and the server has told this before it was asked for it once more.
        edit = PatchDoc(doc_key(ann), (Replace(("age",), 31),))
        replica.integrate([CommitOutcome(Commit(SessionId("other"), LocalSeq(0), (edit,)), Committed(replica.seq))])
        assert not is_here(lambda: person.age)()
        at.proxy.freeze(False)
        await until(is_here(lambda: person.age), "it has come")


@looped
async def test_a_change_that_comes_right_after_the_document_is_taken_in(at: Behind) -> None:
    """Together with the document, which does not exist yet: the thread was busy when both of them came."""
    desk = Desk()
    await asyncio.to_thread(desk.fill, at)
    doc = doc_key("elsewhere.list")
    for known in (
        Brought(doc, StoredDocument(ABSENT, NEVER)),
        CommitOutcome(Commit(SessionId("other"), LocalSeq(0), (DeleteDoc(doc),)), Committed(Seq(1_000))),
    ):
        async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
            replica = space._opening.replica
            at.proxy.freeze(True)
            assert replica.is_missing(doc)
            append = PatchDoc(doc, (Append((), (freeze(1),)),))
            commit = Commit(SessionId("other"), LocalSeq(0), (append,))
            replica.integrate([known, CommitOutcome(commit, Committed(Seq(1_001)))])
            assert not replica.is_missing(doc)
            assert list(replica.read(doc)) == [1]  # type: ignore[call-overload]  # a list
            at.proxy.freeze(False)


@looped
async def test_an_event_that_waits_for_a_document_ends_with_the_session(at: Behind) -> None:
    desk, told = Desk(), list[UserCodeError]()
    ann = await asyncio.to_thread(desk.fill, at)

    @desk.app.handler
    def birthday(who: str) -> int:
        space.doc(who, Person).age += 1
        return space.doc(who, Person).age

    async with desk.app.aopen(at.url, token=at.token, actor="ann", on_error=told.append) as space:
        at.proxy.freeze(True)
        ticket = birthday.send(ann)
        await asyncio.sleep(0.05)
        for grant in at.server.access.ls():
            at.server.access.revoke(grant.id)
        at.proxy.cut()
        at.proxy.freeze(False)
        await until(lambda: space.connection.state == "over", "the session is over")
        with pytest.raises(HeadwaterError):
            await asyncio.wait_for(ticket, 10.0)
        await asyncio.wait_for(space.settle(), 10.0)


@looped
async def test_a_handler_is_called_also_if_what_it_needs_does_not_exist(at: Behind) -> None:
    app = hw.App("notes")

    @app.handler
    def look(who: str) -> bool:
        return hw.exists(space.doc(who, Person))

    async with app.aopen(at.url, token=at.token, actor="ann") as space:
        assert await look.send("nobody") is False


@pytest.mark.usefixtures("little")
@looped
async def test_many_that_are_read_one_by_one_all_come(
    at: Behind, monkeypatch: pytest.MonkeyPatch, asked: list[str]
) -> None:
    monkeypatch.setattr(document_fetch, "DOCS_MAX", 100)
    desk = Desk()
    await asyncio.to_thread(desk.fill, at, 1000)
    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        await space.load("desk.board")
        await until(is_here(lambda: desk.board.items), "the list is here")
        asked.clear()

        def readable() -> int:
            return sum(is_here(lambda item=item: item.title)() for item in desk.board.items)  # type: ignore[misc]

        await until(lambda: readable() == 1000, "all have come")


@looped
async def test_who_waits_for_quiet_or_for_a_value_waits_for_what_is_on_its_way(at: Behind) -> None:
    desk, drawn = Desk(), list[int]()
    ann = await asyncio.to_thread(desk.fill, at)
    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        person = space.doc(ann, Person)

        @desk.app.computed
        def age() -> int:
            return person.age

        with pytest.raises(NotReadyError):
            age()
        assert await space.fresh(age) == 30

    async with desk.app.aopen(at.url, token=at.token, actor="ann") as space:
        person = space.doc(ann, Person)

        @desk.app.sink
        def show() -> None:
            drawn.append(person.age)

        await space.settle()
        assert drawn == [30]
