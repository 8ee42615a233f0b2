"""One opening: where it may be, how it ends, and what is told to whoever goes on using what it gave out."""

from __future__ import annotations

import logging
from collections.abc import Callable
from contextvars import copy_context
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.core import doc_key, open_space
from headwater.errors import (
    ClosedError,
    ConflictError,
    NotFoundError,
    NotOpen,
    SchemaError,
    SpaceHeldError,
    UsageError,
)
from headwater.store.commit import SetDoc


class Person(hw.Doc):
    name: str


class Board(hw.Doc):
    name: str = "home"
    people: hw.List[Person] = hw.List()
    marks: hw.Map[str, int] = hw.Map()


class Shop:
    """An app with one of each."""

    def __init__(self) -> None:
        self.app = hw.App("shop")
        self.stock = self.app.cell("stock", {"tea": 1})
        self.count = self.app.cell("count", 0)
        self.board = self.app.doc("board", Board)
        self.shown: list[int] = []
        self.doubled = self.app.computed(name="doubled")(self._double)
        self.app.sink(name="show")(lambda: self.shown.append(self.count.value))

    def _double(self) -> int:
        return self.count.value * 2


@pytest.fixture
def shop() -> Shop:
    return Shop()


def stored(path: Path, name: str) -> object:
    """What a fresh opening of the store finds."""
    with open_space(str(path), create=False) as space:
        return space.attach().read(doc_key(name))


# --- places -----------------------------------------------------------------------------------------------


def test_file_is_made_and_found_again(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with shop.app.open(str(file)) as space:
        assert (space.name, shop.count.value) == ("shop", 0)
        shop.count.value = 5
    with shop.app.open(str(file)):
        assert shop.count.value == 5
    assert stored(file, "shop.count") == 5


def test_folder_holds_a_file_for_each_space(shop: Shop, tmp_path: Path) -> None:
    folder = f"{tmp_path}/data/"
    for number, name in enumerate(["north", "south"]):
        with shop.app.open(folder, space=name) as space:
            assert (space.name, shop.count.value) == (name, 0)
            shop.count.value = number + 1
    for number, name in enumerate(["north", "south"]):
        with shop.app.open(folder, space=name):
            assert shop.count.value == number + 1
    assert len(list((tmp_path / "data").glob("*.db"))) == 2


def test_memory_is_fresh_each_time(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for _ in range(2):
        with shop.app.open("memory:") as space:
            assert (space.name, shop.count.value) == ("main", 0)
            shop.count.value = 5
    with shop.app.open("memory:", space="scratch") as space:
        assert space.name == "scratch"
    assert list(tmp_path.iterdir()) == []


def test_without_a_url_the_environment_says_where(shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_URL", str(tmp_path / "there.db"))
    with shop.app.open():
        shop.count.value = 5
    assert stored(tmp_path / "there.db", "shop.count") == 5


def test_without_a_url_the_only_file_of_the_folder_is_meant(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HEADWATER_URL", raising=False)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(UsageError, match="which space"):
        shop.app.open()
    with shop.app.open("only.db"):
        shop.count.value = 5
    with shop.app.open():
        assert shop.count.value == 5


def test_space_that_is_not_there_is_not_made_when_that_is_not_wanted(shop: Shop, tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match=r"missing\.db"):
        shop.app.open(str(tmp_path / "missing.db"), create=False)
    with pytest.raises(NotFoundError):
        shop.app.open(f"{tmp_path}/", space="missing", create=False)
    assert list(tmp_path.iterdir()) == []
    shop.app.open(str(tmp_path / "there.db")).close()
    with shop.app.open(str(tmp_path / "there.db"), create=False):
        assert shop.count.value == 0


@pytest.mark.parametrize(
    "url",
    ["", "ws:///x", "ws://host:port/x", "wss://me@host/x", "mysql://x", "http://x", "a\0b", None, 7, b"x.db"],
)
def test_url_that_is_none_is_refused_and_nothing_is_open(
    shop: Shop, url: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("HEADWATER_URL", raising=False)
    with pytest.raises(UsageError):
        shop.app.open(url)
    assert "open in 0 spaces" in repr(shop.app)
    assert list(tmp_path.iterdir()) == []


def test_branch_is_opened_by_name(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with shop.app.open(str(file)):
        shop.count.value = 1
    with open_space(str(file)) as storage:
        storage.fork("draft")
    with shop.app.open(str(file), branch="draft"):
        shop.count.value = 2
    with shop.app.open(str(file)):
        assert shop.count.value == 1
    with pytest.raises(NotFoundError, match="nowhere"):
        shop.app.open(str(file), branch="nowhere")
    open_space(str(file)).close()


def test_actor_decides_whose_cells_are_meant(tmp_path: Path) -> None:
    app = hw.App("shop")
    theme = app.cell("theme", "light", scope="user")
    tab = app.cell("tab", 0, scope="session")
    url = str(tmp_path / "shop.db")
    for actor, mine in (("ann", "dark"), ("bob", "blue")):
        with app.open(url, actor=actor):
            assert (theme.value, tab.value) == ("light", 0)
            theme.value, tab.value = mine, 3
    with app.open(url, actor="ann"):
        assert (theme.value, tab.value) == ("dark", 0), "a session is over when it is over"
    with app.open(url), pytest.raises(NotOpen, match=r"open the space with actor=\.\.\."):
        theme.value  # noqa: B018


def test_file_that_another_opening_holds_for_itself_is_refused_and_can_be_opened_afterwards(
    shop: Shop, tmp_path: Path
) -> None:
    url = str(tmp_path / "shop.db")
    with open_space(url), pytest.raises(SpaceHeldError):
        shop.app.open(url)
    with shop.app.open(url):
        shop.count.value = 1


# --- the end ----------------------------------------------------------------------------------------------


def test_closing_twice_is_no_harm(shop: Shop, tmp_path: Path) -> None:
    space = shop.app.open(str(tmp_path / "shop.db"))
    shop.count.value = 1
    space.close()
    space.close()
    with shop.app.open(str(tmp_path / "shop.db")) as space:
        space.close()
    assert stored(tmp_path / "shop.db", "shop.count") == 1


def test_closed_space_is_not_entered_again(shop: Shop) -> None:
    with shop.app.open("memory:") as space:
        pass
    with pytest.raises(ClosedError, match="was closed; open it again"), space:
        pass


def test_what_was_committed_before_an_exception_is_kept_and_the_rest_is_not(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with pytest.raises(KeyError), shop.app.open(str(file)) as space:
        shop.count.value = 1
        with space.transaction():
            shop.count.value = 2
            raise KeyError
    assert stored(file, "shop.count") == 1
    assert shop.shown == [0, 1]
    with pytest.raises(NotOpen):
        shop.count.value  # noqa: B018


def test_transaction_that_was_lost_is_told_when_the_space_is_closed(shop: Shop) -> None:
    space = shop.app.open("memory:")
    lose_one(shop, space)
    with pytest.raises(ConflictError, match=r"shop\.count"):
        space.close()
    assert space.closed and shop.app.open("memory:").close() is None  # type: ignore[func-returns-value]


def test_lost_transaction_does_not_hide_the_error_that_ends_the_block(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR), pytest.raises(KeyError), shop.app.open("memory:") as space:
        lose_one(shop, space)
        raise KeyError
    assert "while closing space 'main' after an error" in caplog.text and "HW211" in caplog.text


def lose_one(shop: Shop, space: hw.Space) -> None:
    """Have the store reject a transaction: another replica was first."""
    other = space._opening._lease.storage.attach()
    other.commit([SetDoc(doc_key("shop.count"), 7)])
    with space.transaction():
        shop.count.value = shop.count.value + 1


def test_interrupt_while_opening_leaves_nothing_open(shop: Shop, tmp_path: Path) -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    url = str(tmp_path / "shop.db")
    shop.app.sink(name="stop")(interrupt)
    with pytest.raises(KeyboardInterrupt):
        shop.app.open(url)
    assert "open in 0 spaces" in repr(shop.app)
    open_space(url).close()


# --- afterwards -------------------------------------------------------------------------------------------


def test_before_and_after_the_block_everything_of_the_app_says_what_to_do(shop: Shop) -> None:
    uses: list[Callable[[], object]] = [
        lambda: shop.count.value,
        lambda: setattr(shop.count, "value", 1),
        shop.count.increment,
        lambda: shop.count.update(lambda n: n + 1),
        shop.count.clear,
        lambda: shop.count.exists,
        lambda: shop.stock.key("tea").value,
        lambda: setattr(shop.stock.at("tea"), "value", 1),
        lambda: shop.board.name,
        lambda: setattr(shop.board, "name", "x"),
        lambda: len(shop.board.people),
        shop.board.people.clear,
        lambda: shop.board.marks["a"],
        lambda: hw.delete(shop.board),
        shop.doubled,
    ]
    opened = shop.app.open("memory:")
    opened.close()
    for use in uses:
        with pytest.raises(NotOpen, match=r"HW001: .+ has no open space here; wrap the code in `with app\.open"):
            use()
    with pytest.raises(NotOpen, match=r"Person\(\.\.\.\) needs an open space, and there is none here"):
        Person(name="Ann")


def test_message_names_the_cell_as_the_program_does(shop: Shop) -> None:
    with pytest.raises(NotOpen) as caught:
        shop.count.value  # noqa: B018
    assert str(caught.value) == "HW001: count has no open space here; wrap the code in `with app.open(...)`"
    with pytest.raises(NotOpen, match="HW001: doubled has no open space here"):
        shop.doubled()


def test_message_names_the_app_where_another_one_is_open(shop: Shop) -> None:
    with hw.App("other").open("memory:"), pytest.raises(NotOpen, match="HW001: count of app 'shop' has no open space"):
        shop.count.value  # noqa: B018


def test_handles_that_a_closed_space_gave_out_say_that_it_was_closed(shop: Shop) -> None:
    with shop.app.open("memory:") as space:
        ann = Person(name="Ann")
        shop.board.people.append(ann)
        found = shop.board.people[0]
        cell = space.cell("shop.stock/tea", int)
        doc = space.doc("shop.board", Board)
        people, marks, loose = doc.people, doc.marks, space.doc("shop.board")
    uses: list[Callable[[], object]] = [
        lambda: ann.name,
        lambda: setattr(ann, "name", "x"),
        lambda: found.name,
        lambda: cell.value,
        lambda: setattr(cell, "value", 2),
        cell.increment,
        lambda: doc.name,
        lambda: len(people),
        lambda: people.append(ann),
        lambda: people[0],
        lambda: marks.update(a=1),
        lambda: loose.name,
        lambda: hw.exists(ann),
        lambda: hw.delete(ann),
    ]
    for use in uses:
        with pytest.raises(ClosedError, match=r"HW103: .+ was closed; open it again with `with app\.open"):
            use()
    assert "not readable here" in repr(ann) and "not readable here" in repr(cell)
    with shop.app.open("memory:"):
        for use in uses:
            with pytest.raises((ClosedError, SchemaError)):
                use()


def test_everything_of_a_closed_space_says_that_it_was_closed(shop: Shop) -> None:
    with shop.app.open("memory:") as space:
        pass
    uses: list[Callable[[], object]] = [
        space.sync,
        space.settle,
        lambda: space.cell("shop.count"),
        lambda: space.doc("shop.board"),
        lambda: space.transaction().__enter__(),
    ]
    for use in uses:
        with pytest.raises(ClosedError, match="space 'main' was closed"):
            use()
    assert "closed" in repr(space)
    assert space.stats.space == "main" and space.runs(shop.doubled) == 0, "what was counted can still be asked for"


def test_transaction_that_outlives_its_space_is_refused_and_nothing_is_written(shop: Shop, tmp_path: Path) -> None:
    file = tmp_path / "shop.db"

    def outlive() -> None:
        with shop.app.open(str(file)) as space:
            shop.count.value = 4
            block = space.transaction()
            block.__enter__()
            shop.count.value = 5
            space.close()
            with pytest.raises(ClosedError, match=r"shop\.count cannot be used: space 'shop' was closed"):
                shop.count.value = 6
            with pytest.raises(ClosedError):
                block.__exit__(None, None, None)

    copy_context().run(outlive)
    assert stored(file, "shop.count") == 4


def test_handle_of_one_opening_is_not_put_into_another(shop: Shop) -> None:
    with shop.app.open("memory:"):
        ann = Person(name="Ann")
    with shop.app.open("memory:"), pytest.raises(UsageError, match="belongs to another space"):
        shop.board.people.append(ann)
