"""Rule 16: the space that is read may be at a server, or the space that reads, or both. Restarts are the same there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import headwater as hw
from headwater.client import initial_fetch
from headwater.errors import AccessError, NotOpen, SessionLostError
from headwater.server.server import Server
from tests.server.running import DEADLINE_S, served, token_for, until
from tests.spaces.market import in_loop

Urls = tuple[str, str]
"""Of the space that is read, and of the one that reads."""


@pytest.fixture
def second(tmp_path: Path) -> Iterator[Server]:
    """Another server, in a folder of its own."""
    (tmp_path / "second").mkdir(mode=0o700)
    with served(tmp_path / "second") as found:
        yield found


@pytest.fixture(params=["far", "near", "one server", "two servers"])
def urls(request: pytest.FixtureRequest, server: Server, tmp_path: Path) -> Urls:
    prices, basket = f"{server.url}/prices", f"{server.url}/basket"
    if request.param == "far":
        return prices, str(tmp_path / "basket.db")
    if request.param == "near":
        return str(tmp_path / "prices.db"), basket
    if request.param == "one server":
        return prices, basket
    return prices, f"{request.getfixturevalue('second').url}/basket"


class Shop:
    """A program: `basket` reads a cell and a function of `prices`."""

    def __init__(self) -> None:
        self.prices, self.basket = hw.App("prices"), hw.App("basket")
        tea = self.tea = self.prices.cell("tea", 4)
        milk = self.milk = self.prices.cell("milk", 1)
        count = self.count = self.basket.cell("count", 3)
        shown = self.shown = list[tuple[int, int]]()

        @self.prices.computed
        def with_tax() -> int:
            return tea.value * 12

        @self.basket.computed
        def total() -> int:
            return count.value * with_tax()

        @self.basket.computed
        def direct() -> int:
            return milk.value + 1

        @self.basket.sink
        def show() -> None:
            shown.append((total(), direct()))

        self.with_tax, self.total, self.direct = with_tax, total, direct

    def runs(self, far: hw.Space, near: hw.Space) -> tuple[int, int, int]:
        return near.runs(self.total), near.runs(self.direct), far.runs(self.with_tax)


def visit(
    urls: Urls, change: Callable[[Shop], None] | None = None
) -> tuple[tuple[int, int, int], list[tuple[int, int]]]:
    """Open both, note what ran, change something, close both."""
    shop = Shop()
    with shop.prices.open(urls[0]) as far, shop.basket.open(urls[1]) as near:
        ran = shop.runs(far, near)
        if change is not None:
            change(shop)
    return ran, shop.shown


def change_alone(url: str, name: str, value: int) -> None:
    """From another client, while the basket is closed."""
    prices = hw.App("prices")
    cell = prices.cell(name, 0)
    with prices.open(url):
        cell.value = value


def test_a_far_write_runs_exactly_its_readers(urls: Urls) -> None:
    shop = Shop()
    with shop.prices.open(urls[0]) as far, shop.basket.open(urls[1]) as near:
        assert (shop.runs(far, near), shop.shown) == ((1, 1, 1), [(144, 2)])
        shop.milk.value = 7
        assert (shop.runs(far, near), shop.shown[1:]) == ((1, 2, 1), [(144, 8)])
        shop.tea.value = 5
        assert (shop.runs(far, near), shop.shown[2:]) == ((2, 2, 2), [(180, 8)])
        far.sync()
        near.sync()
        assert (shop.runs(far, near), len(shop.shown)) == ((2, 2, 2), 3), "the verdicts of the servers run nothing"


def test_after_a_restart_only_readers_of_a_change_run(urls: Urls) -> None:
    assert visit(urls) == ((1, 1, 1), [(144, 2)])
    assert visit(urls) == ((0, 0, 0), [(144, 2)])
    assert visit(urls, lambda shop: setattr(shop.tea, "value", 5)) == ((0, 0, 0), [(144, 2), (180, 2)])
    assert visit(urls) == ((0, 0, 0), [(180, 2)])
    change_alone(urls[0], "milk", 7)
    assert visit(urls) == ((0, 1, 0), [(180, 8)])
    change_alone(urls[0], "tea", 9)
    assert visit(urls) == ((1, 0, 1), [(324, 8)])
    assert visit(urls) == ((0, 0, 0), [(324, 8)])


def test_a_change_by_another_client_wakes_the_near_functions(server: Server, tmp_path: Path) -> None:
    shop, other = Shop(), hw.App("prices")
    tea, milk = other.cell("tea", 4), other.cell("milk", 1)
    url = f"{server.url}/prices"
    with (
        shop.prices.open(url) as far,
        shop.basket.open(tmp_path / "basket.db") as near,
        other.open(url, apart=True) as theirs,
    ):

        def is_shown(value: tuple[int, int]) -> bool:
            near.settle()
            return shop.shown[-1] == value

        milk.value = 7
        theirs.sync()
        until(lambda: is_shown((144, 8)), "the change of a cell")
        assert shop.runs(far, near) == (1, 2, 1)
        tea.value = 5
        theirs.sync()
        until(lambda: is_shown((180, 8)), "the change of what a far function reads")
        assert shop.runs(far, near) == (2, 2, 2)


def test_in_an_event_loop_such_a_change_needs_no_call(server: Server, tmp_path: Path) -> None:
    shop, other = Shop(), hw.App("prices")
    milk, changed = other.cell("milk", 1), asyncio.Event()
    url = f"{server.url}/prices"

    @shop.basket.sink
    def note() -> None:
        shop.direct()
        changed.set()

    async def work() -> None:
        async with shop.prices.aopen(url), shop.basket.aopen(tmp_path / "basket.db"):
            assert shop.shown == [(144, 2)]
            changed.clear()

            def write() -> None:
                with other.open(url, apart=True):
                    milk.value = 7

            await asyncio.to_thread(write)
            await asyncio.wait_for(changed.wait(), DEADLINE_S)
            assert shop.shown == [(144, 2), (144, 8)]

    in_loop(work)


class Item(hw.Doc):
    title: str


class Board(hw.Doc):
    items: hw.List[Item] = hw.List()


def test_a_restored_function_is_notified_of_far_documents_that_did_not_come_with_the_opening(
    server: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"{server.url}/todo"

    def program() -> tuple[hw.App, Board, hw.App, list[str]]:
        todo, view, seen = hw.App("todo"), hw.App("view"), list[str]()
        board = todo.doc("board", Board)

        @view.computed
        def last() -> str:
            return "".join(item.title for item in board.items)

        @view.sink
        def show() -> None:
            seen.append(last())

        return todo, board, view, seen

    todo, board, view, seen = program()
    with todo.open(url) as far:
        with far.transaction():
            for number in range(5):
                board.items.append(Item(title=str(number)))
        with view.open(tmp_path / "view.db"):
            assert seen == ["01234"]
    monkeypatch.setattr(initial_fetch, "PREFETCH_MAX", 1)
    (todo, board, view, seen), (other, theirs, _, _) = program(), program()
    with todo.open(url) as far, view.open(tmp_path / "view.db") as near:
        assert (seen, near.stats.runs["last"]) == (["01234"], 0)
        with other.open(url, apart=True) as beside:
            theirs.items[0].title = "other"
            beside.sync()

        def is_seen() -> bool:
            near.settle()
            return seen[-1] == "other1234"

        until(is_seen, "the change")


def test_far_rights_that_are_revoked_leave_results_and_are_an_error_of_the_next_opening(
    server: Server, tmp_path: Path
) -> None:
    url = f"{server.url}/prices"
    owners = Shop()
    with owners.prices.open(url) as owner:
        token = token_for(server, "prices", "write", actor="ann")
        shop = Shop()
        far = shop.prices.open(url, token=token, actor="ann")
        with shop.basket.open(tmp_path / "basket.db") as near:
            far.sync()
            [grant] = server.access.ls()
            server.access.revoke(grant.id)
            until(lambda: far.connection.state == "over", "the end of the session")
            owners.milk.value = 7
            owner.sync()
            # What was read before stays, also for runs that begin now.
            shop.count.value = 4
            far.settle()
            assert (shop.shown, shop.runs(far, near)) == ([(144, 2), (192, 2)], (2, 1, 1))
            with pytest.raises(SessionLostError, match="HW404"):
                shop.tea.value = 3
        far.close()
    shop = Shop()
    with pytest.raises(AccessError, match="HW403"):
        shop.prices.open(url, token=token, actor="ann")
    errors: list[hw.UserCodeError] = []
    with shop.basket.open(tmp_path / "basket.db", on_error=errors.append):
        # As for a space that is not open.
        assert [type(each.__cause__) for each in errors] == [NotOpen]
        with pytest.raises(NotOpen, match="HW001"):
            shop.total()
        token = token_for(server, "prices", "write", actor="ann")
        with shop.prices.open(url, token=token, actor="ann"):
            assert shop.shown == [(192, 8)], "with rights again, the functions run again"
