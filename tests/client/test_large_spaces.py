"""Spaces that are larger than what a program asks for: how many documents an opening and a walk fetch, and hold."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.client import document_fetch, read_ahead, remote_storage, unread_documents
from headwater.client.read_ahead import ReadAhead
from headwater.client.server_link import ServerLink
from headwater.host import document_loading
from headwater.host.plain_space import Space
from headwater.sync.frames import Watch
from headwater.values.ids import DocKey
from headwater.values.link import link_to
from headwater.values.tree import freeze
from tests.client.world import SPACE, Behind, behind, settled, state_is, storage_of
from tests.server.running import settle_in, until

MANY = 600
ROOM = 4_000


class Item(hw.Doc):
    title: str = ""
    done: bool = False


class Shop:
    """A list that does not fit into what an opening fetches, and small cells beside it."""

    def __init__(self) -> None:
        self.app = hw.App("shop")
        self.items = self.app.cell("items", [], type=list[Item])
        self.count = self.app.cell("zcount", 0)
        self.never = self.app.cell("never", 3)

    def fill(self, at: Behind, count: int = MANY) -> None:
        with self.app.open(at.straight) as space:
            with space.transaction():
                self.items.value = [Item(title=str(number)) for number in range(count)]
                self.count.value = 7
            space.sync()


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    monkeypatch.setattr(remote_storage, "OPENING_BYTES", ROOM)
    with behind(tmp_path / "store") as world:
        yield world


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> list[Watch]:
    """The requests for documents that were waited for."""
    found: list[Watch] = []
    ask = ServerLink.ask

    def counted(self: ServerLink, frame: object, *args: float) -> object:
        if isinstance(frame, Watch):
            found.append(frame)
        return ask(self, frame, *args)  # type: ignore[arg-type]  # as it was called

    monkeypatch.setattr(ServerLink, "ask", counted)
    return found


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Small batches, and few documents held."""
    monkeypatch.setattr(read_ahead, "MOST", 32)
    monkeypatch.setattr(unread_documents, "WALKED_MAX", 64)
    monkeypatch.setattr(unread_documents, "WALKED_STEP", 32)


def held(space: Space) -> int:
    return space._opening.replica.document_count


def watched(at: Behind) -> int:
    assert at.server.spaces is not None
    return at.server.spaces.channels[SPACE].watching


# -- the opening -------------------------------------------------------------------------------------------


def test_first_value_does_not_depend_on_the_size_of_the_space(at: Behind, asked: list[Watch]) -> None:
    shop, other = Shop(), Shop()
    shop.fill(at)
    asked.clear()
    with other.app.open(at.url, token=at.token) as space:
        link = storage_of(space).link
        assert (other.count.value, other.never.value) == (7, 3)
        # The app's documents, without the list, in one question; a cell that was never written needs no other.
        assert len(asked) == 1
        assert held(space) < 8
        assert link.heard_bytes < 2 * ROOM


def test_document_that_was_left_out_is_fetched_when_it_is_read(at: Behind, asked: list[Watch]) -> None:
    shop, other = Shop(), Shop()
    shop.fill(at)
    with other.app.open(at.url, token=at.token):
        asked.clear()
        assert len(other.items.value) == MANY
        assert len(asked) == 1
        assert len(other.items.value) == MANY
        assert len(asked) == 1


def test_changes_of_a_document_that_was_left_out_are_seen_by_the_first_read(at: Behind) -> None:
    shop, other = Shop(), Shop()
    shop.fill(at)
    with other.app.open(at.url, token=at.token) as space, shop.app.open(at.straight) as beside:
        shop.items.value = shop.items.value[:5]
        shop.count.value = 8
        beside.sync()
        until(lambda: settled(space) and other.count.value == 8, "it has arrived")
        assert [item.title for item in other.items.value] == list("01234")
        shop.items.value = shop.items.value[:2]
        beside.sync()
        until(lambda: settled(space) and len(other.items.value) == 2, "it is watched from then on")


def test_function_over_a_document_that_was_left_out_runs_when_it_changes(at: Behind) -> None:
    shop, other = Shop(), Shop()
    shop.fill(at)
    seen: list[int] = []

    @other.app.sink
    def show() -> None:
        seen.append(len(other.items.value))

    with other.app.open(at.url, token=at.token) as space, shop.app.open(at.straight) as beside:
        assert seen == [MANY]
        shop.items.value = shop.items.value[:2]
        beside.sync()
        until(lambda: settled(space) and seen[-1] == 2, "it has run")


def test_document_that_became_too_large_while_the_server_was_away_is_fetched_when_it_is_read(at: Behind) -> None:
    shop, other = Shop(), Shop()
    with other.app.open(at.url, token=at.token) as space:
        at.go_away()
        state_is(space, "offline")
        shop.fill(at)
        at.come_back()
        state_is(space, "live")
        until(lambda: storage_of(space).link.session.is_caught_up, "what was missed is here")
        until(lambda: settled(space) and other.count.value == 7, "the small one is here")
        assert held(space) < 8
        assert len(other.items.value) == MANY


def test_prefix_is_not_watched_with_more_documents_left_out_than_an_answer_names(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.server.spaces.space_answers.LEFT_MAX", 3)
    app = hw.App("big")
    cells = [app.cell(f"c{number}", "") for number in range(8)]
    small = app.cell("small", 0)
    with app.open(at.straight) as space:
        with space.transaction():
            for cell in cells:
                cell.value = "x" * ROOM
            small.value = 1
        space.sync()
    with app.open(at.url, token=at.token) as space:
        assert storage_of(space).link.session.prefixes == {}
        assert [len(cell.value) for cell in cells] == [ROOM] * 8
        assert small.value == 1


def test_with_a_local_folder_everything_is_fetched_for_the_time_without_a_server(at: Behind, tmp_path: Path) -> None:
    shop, other = Shop(), Shop()
    shop.fill(at)
    with other.app.open(at.url, token=at.token, local=tmp_path / "local") as space:
        at.go_away()
        state_is(space, "offline")
        assert [item.title for item in other.items.value] == list(map(str, range(MANY)))


# -- walks -------------------------------------------------------------------------------------------------


@pytest.mark.usefixtures("small")
def test_walk_fetches_in_batches_and_holds_few_documents(at: Behind, asked: list[Watch]) -> None:
    shop, other = Shop(), Shop()
    shop.fill(at)
    most = most_watched = 0
    with other.app.open(at.url, token=at.token) as space:
        items = other.items.value
        asked.clear()
        for number, item in enumerate(items):
            assert item.title == str(number)
            most = max(most, held(space))
            if number % 50 == 0:
                most_watched = max(most_watched, watched(at))
        assert [len(each.docs) for each in asked] == [16, *[32] * 18, 8]
        assert most <= 64 + 32 + 32 + 8
        # The requests to end watches are on their way.
        assert most_watched <= 3 * (64 + 32)
        # Backwards: what was released is fetched again.
        assert [item.title for item in reversed(items)] == list(map(str, reversed(range(MANY))))


@pytest.mark.usefixtures("small")
def test_walk_that_writes_holds_few_documents(at: Behind) -> None:
    shop, other = Shop(), Shop()
    shop.fill(at, 300)
    with other.app.open(at.url, token=at.token) as space:
        for number, item in enumerate(other.items.value):
            with space.transaction():
                item.done = True
            if number % 20 == 0:
                space.sync()
        space.sync()
        assert held(space) <= 64 + 32 + 32 + 40
    with shop.app.open(at.straight):
        assert all(item.done for item in shop.items.value)


@pytest.mark.usefixtures("small")
def test_document_that_a_function_reads_is_not_released_by_a_walk(at: Behind) -> None:
    shop, other = Shop(), Shop()
    shop.fill(at)
    seen: list[str] = []
    chosen = other.app.cell("chosen", 3)

    @other.app.sink
    def show() -> None:
        seen.append(other.items.value[chosen.value].title)

    with other.app.open(at.url, token=at.token) as space, shop.app.open(at.straight) as beside:
        for item in other.items.value:
            assert item.title
        # Read by a walk before the function reads it.
        chosen.value = MANY - 1
        for item in other.items.value:
            assert item.title
        shop.items.value[MANY - 1].title = "other"
        beside.sync()
        until(lambda: settled(space) and seen[-1] == "other", "it is notified")
    assert seen == ["3", str(MANY - 1), "other"]


@pytest.mark.usefixtures("small")
def test_transaction_over_a_walk_is_one(at: Behind) -> None:
    """What was released inside a transaction is compared by its content when the transaction ends."""
    shop, other = Shop(), Shop()
    shop.fill(at)
    with other.app.open(at.url, token=at.token) as space:
        with space.transaction():
            other.count.value = sum(int(item.title) for item in other.items.value)
        space.sync()
        assert other.count.value == sum(range(MANY))


def test_documents_loaded_on_purpose_are_released_near_the_limit_of_the_server(
    at: Behind, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert at.server.spaces is not None
    at.server.spaces.limits["watches"] = 200
    monkeypatch.setattr(unread_documents, "HELD_MAX", 150)
    monkeypatch.setattr(unread_documents, "HELD_STEP", 40)
    monkeypatch.setattr(document_loading, "LINKED_MAX", 100)
    monkeypatch.setattr(document_fetch, "PREFETCH_MAX", 100)
    shop, other = Shop(), Shop()

    async def walk() -> list[str]:
        found: list[str] = []
        async with other.app.aopen(at.url, token=at.token) as space:
            await space.load("shop.items")
            items = other.items.value
            for start in range(0, MANY, 20):
                some = items[start : start + 20]
                await space.load(*some)
                found += [item.title for item in some]
        return found

    with shop.app.open(at.straight) as space:
        for start in range(0, MANY, 50):
            with space.transaction():
                made = [Item(title=str(number)) for number in range(start, start + 50)]
                shop.items.value = [*shop.items.value, *made]
            # A document with an undecided commit is not released.
            space.sync()
        assert held(space) < MANY
    assert asyncio.run(walk()) == list(map(str, range(MANY)))


@pytest.mark.parametrize(("read", "most"), [(1, MANY // 2), (MANY, MANY + 10)])
def test_function_in_an_event_loop_gets_more_of_a_list_with_each_attempt(at: Behind, read: int, most: int) -> None:
    """64 elements, then 256, then all; not all of them for a function that reads one."""
    shop, other = Shop(), Shop()
    shop.fill(at)
    seen: list[str] = []

    @other.app.sink
    def show() -> None:
        seen.append("".join(item.title for item in other.items.value[:read]))

    async def run() -> int:
        async with other.app.aopen(at.url, token=at.token) as space:
            # On a busy machine the server may not answer in time: then `settle` returns, and the function waits.
            while not seen:
                await space.settle()
                await asyncio.sleep(0.01)
            return held(space)  # type: ignore[arg-type]  # counted as in a plain one

    count = asyncio.run(run())
    assert seen == ["".join(map(str, range(read)))]
    assert read <= count <= most


# -- parts of a list ---------------------------------------------------------------------------------------


def test_part_of_a_list_fetches_only_the_documents_that_are_read(at: Behind, asked: list[Watch]) -> None:
    shop, app = Shop(), hw.App("shop")
    shop.fill(at)
    items = app.cell("items", [], type=hw.List[Item])
    with app.open(at.url, token=at.token) as space:
        part = items.value[300:310]
        before, missing = held(space), space.doc(f"item:{0:032d}", Item)
        asked.clear()
        # A handle, a search and a loop that is left read no document.
        assert (len(part), part[3] in items.value, missing in items.value) == (10, True, False)
        assert items.value.index(part[3]) == 303
        assert next(iter(items.value)) == items.value[0]
        assert (asked, held(space)) == ([], before)
        assert [item.title for item in part] == [str(number) for number in range(300, 310)]
        # One question, with what a walk that has begun reads next.
        assert [len(each.docs) for each in asked] == [read_ahead.FIRST]
        assert held(space) == before + read_ahead.FIRST


def test_function_over_a_part_of_a_list_runs_when_that_part_changes_at_the_server(at: Behind) -> None:
    shop, app = Shop(), hw.App("shop")
    shop.fill(at, 100)
    items, mark = app.cell("items", [], type=hw.List[Item]), app.cell("zcount", 0)
    seen: list[list[str]] = []

    @app.sink
    def show() -> None:
        seen.append([item.title for item in items.value[10:12]])

    with app.open(at.url, token=at.token) as space, shop.app.open(at.straight) as beside:
        own = beside.cell("shop.items", hw.List[Item]).value
        own[50] = Item(title="behind")
        own.append(Item(title="at the end"))
        shop.count.value = 8
        beside.sync()
        until(lambda: settled(space) and mark.value == 8, "it has arrived")
        assert seen == [["10", "11"]]
        own.insert(0, Item(title="before"))
        beside.sync()
        until(lambda: settled(space) and len(seen) == 2, "it has run")
    assert seen == [["10", "11"], ["9", "10"]]


# -- which documents are next ------------------------------------------------------------------------------


def list_of(*names: str) -> object:
    return freeze([link_to(DocKey(f"space/{name}")).to_value() for name in names])


def docs(*numbers: int) -> list[DocKey]:
    return [DocKey(f"space/d{number}") for number in numbers]


def test_walk_asks_for_more_with_each_request() -> None:
    ahead = ReadAhead()
    ahead.note(DocKey("space/list"), list_of(*(f"d{number}" for number in range(2_000))))  # type: ignore[arg-type]
    asked, at = [], 0
    while at < 2_000:
        found = ahead.after(docs(at)[0])
        assert found == docs(*range(at + 1, at + 1 + len(found)))
        asked.append(len(found) + 1)
        at += len(found) + 1
    assert asked == [16, 64, 256, 1_024, 640]


def test_read_somewhere_else_in_the_list_starts_again() -> None:
    ahead = ReadAhead()
    ahead.note(DocKey("space/list"), list_of(*(f"d{number}" for number in range(2_000))))  # type: ignore[arg-type]
    assert len(ahead.after(docs(0)[0])) == 15
    assert len(ahead.after(docs(16)[0])) == 63
    assert ahead.after(docs(1_000)[0]) == docs(*range(1_001, 1_016))
    assert ahead.after(docs(5_000)[0]) == []


def test_large_documents_make_small_requests() -> None:
    ahead = ReadAhead()
    ahead.note(DocKey("space/list"), list_of(*(f"d{number}" for number in range(2_000))))  # type: ignore[arg-type]
    assert len(ahead.after(docs(0)[0])) == 15
    ahead.answered(16, 16 * 100_000)
    assert len(ahead.after(docs(16)[0])) == read_ahead.MOST_BYTES // 100_000 - 1
    ahead.answered(10, 10 * 10_000_000)
    assert ahead.after(docs(26)[0]) == []


def test_short_lists_are_not_remembered_and_the_oldest_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read_ahead, "LINKS_MAX", 25)
    ahead = ReadAhead()
    ahead.note(DocKey("space/short"), list_of("s1", "s2"))  # type: ignore[arg-type]
    assert ahead.after(DocKey("space/s1")) == []
    for name in "abc":
        ahead.note(DocKey(f"space/{name}"), list_of(*(f"{name}{number}" for number in range(10))))  # type: ignore[arg-type]
    assert ahead.after(DocKey("space/a0")) == []
    assert len(ahead.after(DocKey("space/b0"))) == 9
    # The same document again, with another list.
    ahead.note(DocKey("space/b"), list_of(*(f"d{number}" for number in range(8))))  # type: ignore[arg-type]
    assert ahead.after(DocKey("space/b0")) == []
    assert len(ahead.after(DocKey("space/c0"))) == 9
