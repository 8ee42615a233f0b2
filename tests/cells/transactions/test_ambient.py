"""Which space is open around code, and which transaction it is part of: along with `await`, tasks and `to_thread`."""

from __future__ import annotations

import asyncio
import contextvars
import threading

import pytest

from headwater.cells.context import CONTEXT, Addressed, find, innermost
from headwater.cells.context_frame import ContextFrame
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.cells.transaction_states import Status
from headwater.errors import ClosedError, NotOpen
from headwater.testing import SeededEntropy
from tests.cells.transactions.stage import A, B, Stage, seen
from tests.support.naive import NOTHING, plain


class App:
    """An owner of homes. `sole` is the only opening there is, if there is one."""

    def __init__(self) -> None:
        self.sole: SpacePort | None = None

    def sole_space(self, what: str | Addressed) -> SpacePort:
        if self.sole is None:
            raise NotOpen(f"{what} is used where nothing is open")
        return self.sole

    def open(self, name: str = "notes") -> SpacePort:
        return SpacePort(Stage().here, name, self, SeededEntropy(1), None)


def around() -> Transaction | None:
    """The transaction that this code is part of."""
    frame = CONTEXT.get()
    return frame.tx if frame is not None else None


@pytest.fixture
def app() -> App:
    return App()


# --- frames ---------------------------------------------------------------------------------------------------


def test_nothing_is_around_code_unless_something_was_opened(app: App) -> None:
    assert (CONTEXT.get(), innermost("x")) == (None, None)
    with pytest.raises(NotOpen, match="a cell"):
        find(app, "a cell")


def test_innermost_frame_wins_and_each_step_out_gives_back_the_one_before(app: App) -> None:
    home = app.open()
    with home.transaction() as tx:
        outer = CONTEXT.get()
        assert find(app, "x") == (home, tx)
        with home.transaction():
            assert CONTEXT.get() is not outer
            assert find(app, "x") == (home, tx)
        assert CONTEXT.get() is outer
    assert CONTEXT.get() is None


def test_of_two_openings_of_one_app_the_innermost_is_meant(app: App) -> None:
    first, second = app.open("first"), app.open("second")
    with first.transaction() as one:
        with second.transaction() as two:
            assert find(app, "x") == (second, two)
            assert innermost("x") == (second, two)
        assert find(app, "x") == (first, one)


def test_app_is_found_behind_the_spaces_of_others(app: App) -> None:
    home, other = app.open(), App().open()
    with home.transaction() as tx:
        token = CONTEXT.set(ContextFrame(other, None, CONTEXT.get()))
        try:
            assert find(app, "x") == (home, tx)
            assert find(other, "x") == (other, None)
            assert innermost("x") == (other, None)
        finally:
            CONTEXT.reset(token)


def test_cell_of_an_open_space_means_that_space_wherever_it_is(app: App) -> None:
    home, other = app.open(), app.open("other")
    with other.transaction():
        assert find(home, "x") == (home, None)
    with home.transaction() as tx, other.transaction():
        assert find(home, "x") == (home, tx)


def test_opened_space_without_a_transaction_is_a_frame_too(app: App) -> None:
    home = app.open()
    token = CONTEXT.set(ContextFrame(home, None, None))
    try:
        assert find(app, "x") == (home, None)
        with home.transaction() as tx:
            assert find(app, "x") == (home, tx)
        assert CONTEXT.get() is not None
    finally:
        CONTEXT.reset(token)


def test_only_opening_is_meant_where_nothing_says_which(app: App) -> None:
    app.sole = app.open()
    assert find(app, "x") == (app.sole, None)


def test_frames_are_left_whatever_happens_in_them(app: App) -> None:
    home = app.open()
    with pytest.raises(ZeroDivisionError), home.transaction(), home.transaction():
        raise ZeroDivisionError
    assert CONTEXT.get() is None


def test_space_that_is_wary_is_asked_first_wherever_it_is_found(app: App) -> None:
    home = app.open()
    app.sole = home
    with home.transaction() as tx:
        home.closed = home.needs_check = True
        for found in (lambda: find(app, "count"), lambda: innermost("count"), lambda: home.transaction().__enter__()):
            with pytest.raises(ClosedError, match="was closed"):
                found()
        tx.abort()
    with pytest.raises(ClosedError, match="count cannot be used"):
        find(app, "count")


def test_memo_ends_with_the_transaction(app: App) -> None:
    with app.open().transaction() as tx:
        tx.memo["cell"] = 1
        frame = CONTEXT.get()
        assert frame is not None
        assert frame.tx is tx
    assert tx.memo == {}, "what was remembered ends with the transaction"


# --- along with the code --------------------------------------------------------------------------------------


def test_transaction_goes_along_with_await(app: App) -> None:
    async def inner() -> Transaction | None:
        await asyncio.sleep(0)
        return around()

    async def main() -> None:
        with app.open().transaction() as tx:
            assert await inner() is tx
            await asyncio.sleep(0)
            assert around() is tx
        assert around() is None

    asyncio.run(main())


def test_tasks_side_by_side_each_have_their_own(app: App) -> None:
    home = app.open()

    async def work(number: int) -> None:
        with home.transaction() as tx:
            tx.set(A, (str(number),), number)
            await asyncio.sleep(0)
            assert around() is tx
            await asyncio.sleep(0)
            assert plain(tx.document(A)) == {str(number): number}

    async def main() -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(work(number))
        assert around() is None

    asyncio.run(main())
    assert seen(home.begin(), "a") == {str(number): number for number in range(5)}


def test_task_started_in_a_block_is_part_of_it(app: App) -> None:
    home = app.open()

    async def part() -> None:
        await asyncio.sleep(0)
        with home.transaction() as tx:
            tx.set(B, (), "part")

    async def main() -> None:
        with home.transaction() as tx:
            async with asyncio.TaskGroup() as group:
                group.create_task(part())
            assert seen(tx, "b") == "part"
            tx.abort()

    asyncio.run(main())
    assert seen(home.begin(), "b") is NOTHING


def test_block_entered_in_a_task_is_not_around_the_code_that_started_it(app: App) -> None:
    home = app.open()
    entered = asyncio.Event()

    async def work(done: asyncio.Event) -> None:
        with home.transaction():
            entered.set()
            await done.wait()

    async def main() -> None:
        done = asyncio.Event()
        async with asyncio.TaskGroup() as group:
            group.create_task(work(done))
            await entered.wait()
            assert around() is None
            done.set()

    asyncio.run(main())


def test_transaction_goes_along_to_a_thread_that_asyncio_starts(app: App) -> None:
    home = app.open()

    def work() -> Transaction | None:
        with home.transaction() as tx:
            tx.set(A, (), "from a thread")
        return around()

    async def main() -> None:
        with home.transaction() as tx:
            assert await asyncio.to_thread(work) is tx
            assert seen(tx, "a") == "from a thread"

    asyncio.run(main())


def test_plain_thread_starts_with_nothing_around_it(app: App) -> None:
    found: list[Transaction | None] = []
    with app.open().transaction():
        thread = threading.Thread(target=lambda: found.append(around()))
        thread.start()
        thread.join()
    assert found == [None]


def test_plain_thread_can_be_given_the_context_of_another(app: App) -> None:
    found: list[Transaction | None] = []
    with app.open().transaction() as tx:
        context = contextvars.copy_context()
        thread = threading.Thread(target=lambda: context.run(lambda: found.append(around())))
        thread.start()
        thread.join()
    assert found == [tx]


def test_task_that_outlives_its_block_is_told_that_it_is_too_late(app: App) -> None:
    home = app.open()

    async def straggler(over: asyncio.Event) -> None:
        await over.wait()
        found, tx = find(app, "a cell")
        assert (found, tx is not None and tx.status) == (home, Status.PENDING)
        assert tx is not None
        with pytest.raises(ClosedError, match="task or thread started in it, needs a transaction of its own"):
            tx.set(B, (), 1)

    async def main() -> None:
        over = asyncio.Event()
        with home.transaction() as tx:
            tx.set(A, (), 1)
            task = asyncio.ensure_future(straggler(over))
        over.set()
        await task

    asyncio.run(main())


def test_task_that_outlives_its_block_can_begin_a_transaction_of_its_own(app: App) -> None:
    """What the message tells it to do."""
    home = app.open()

    async def straggler(over: asyncio.Event) -> None:
        await over.wait()
        with home.transaction() as own:
            own.set(B, (), "late")

    async def main() -> None:
        over = asyncio.Event()
        with home.transaction() as tx:
            tx.set(A, (), 1)
            task = asyncio.ensure_future(straggler(over))
        over.set()
        await task

    asyncio.run(main())
    assert seen(home.begin(), "b") == "late"
