"""No commit covers two spaces: a write to another one is refused at the line that makes it, with HW112 or HW104."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import CrossSpaceError, HeadwaterError, WriteError
from tests.app.shop import run
from tests.support.apart import overtake


class Board(hw.Doc):
    """A list and a map, as a document has them."""

    numbers: hw.List[int] = hw.List()
    table: hw.Map[str, int] = hw.Map()


class Towns:
    """Two apps: functions of `near` use what belongs to `far`. Opened on two spaces, or on one file but apart."""

    def __init__(self, tmp_path: Path, *, one_file: bool) -> None:
        self.near = hw.App("near")
        self.far = hw.App("far")
        self.urls = (
            [str(tmp_path / "one.db")] * 2 if one_file else [str(tmp_path / "near.db"), str(tmp_path / "far.db")]
        )
        self.here = self.near.cell("here", 0)
        self.there = self.far.cell("there", 1)
        self.items = self.far.cell("items", [1, 2])
        self.board = self.far.doc("board", Board)
        self.errors: list[hw.UserCodeError] = []
        self.total = self.far.computed(name="total")(self._total)
        self.row = self.far.computed(name="row")(self._row)
        self.add = self.far.handler(name="add")(self._add)
        self.doubled = self.far.each(self.board.numbers, lambda n: n * 2, name="doubled")

    def _total(self) -> int:
        return self.there.value * 10

    def _row(self, number: int) -> int:
        return self.there.value + number

    def _add(self, by: int) -> int:
        self.there.value += by
        return self.there.value

    def open_near(self) -> hw.Space:
        return self.near.open(self.urls[0], on_error=self.errors.append, apart=True)

    def open_far(self) -> hw.Space:
        return self.far.open(self.urls[1], on_error=self.errors.append)


@pytest.fixture(params=[False, True], ids=["two spaces", "one file"])
def towns(request: pytest.FixtureRequest, tmp_path: Path) -> Towns:
    return Towns(tmp_path, one_file=request.param)


Use = Callable[[Towns], object]

WRITES: dict[str, Use] = {
    "value": lambda t: setattr(t.there, "value", 9),
    "update": lambda t: t.there.update(lambda old: old + 1),
    "append": lambda t: t.items.append(3),
    "insert": lambda t: t.items.insert(0, 3),
    "remove": lambda t: t.items.remove(1),
    "clear": lambda t: t.there.clear(),
    "list": lambda t: t.board.numbers.append(3),
    "slice": lambda t: t.board.numbers.__setitem__(slice(0, 0), [4]),
    "map": lambda t: t.board.table.__setitem__("a", 1),
    "map pop": lambda t: t.board.table.pop("a", None),
    "delete": lambda t: hw.delete(t.there),
    "plain call of a handler": lambda t: t.add(1),
}

USES = WRITES


def everything(towns: Towns) -> list[object]:
    return [towns.there.value, towns.items.value, list(towns.board.numbers), dict(towns.board.table)]


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_computed_a_sink_and_a_block_are_refused_and_nothing_is_written(towns: Towns, use: Use) -> None:
    ran: list[str] = []

    @towns.near.computed
    def mirror() -> int:
        use(towns)
        return 1

    @towns.near.sink
    def show() -> None:
        try:
            use(towns)
        except CrossSpaceError as error:
            ran.append(error.code)
            raise

    with towns.open_far() as far, towns.open_near() as near:
        towns.board.numbers.append(5)
        before, seq = everything(towns), far.stats.commits
        code = "HW112" if use is WRITES["plain call of a handler"] else "HW104"
        with pytest.raises(CrossSpaceError, match="HW112"), near.transaction():
            use(towns)
        with pytest.raises(HeadwaterError, match=code), near.transaction():
            mirror()
        # A computed may write nowhere, as at home.
        with pytest.raises(HeadwaterError, match=code):
            mirror()
        assert ran == ["HW112"]
        assert [type(error.__cause__) for error in towns.errors][:1] == [CrossSpaceError]
        assert (everything(towns), far.stats.commits) == (before, seq)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_a_handler_is_refused_and_says_the_truth_about_what_was_written(towns: Towns, use: Use) -> None:
    @towns.near.handler
    def both() -> None:
        towns.here.value += 1
        use(towns)

    with towns.open_far(), towns.open_near():
        before = everything(towns)
        ticket = both.send()
        with pytest.raises(hw.EventFailedError, match=r"HW112.*Nothing of it was written") as failed:
            ticket.result()
        assert isinstance(failed.value.__cause__, CrossSpaceError)
        assert (towns.here.value, everything(towns)) == (0, before)


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_async_functions_are_refused_too(towns: Towns, use: Use) -> None:
    met: list[type[BaseException] | None] = []

    @towns.near.handler
    async def both() -> None:
        await asyncio.sleep(0)
        use(towns)

    @towns.near.sink
    async def show() -> None:
        await asyncio.sleep(0)
        use(towns)

    async def main() -> None:
        far = towns.far.aopen(towns.urls[1])
        near = towns.near.aopen(towns.urls[0], on_error=lambda error: met.append(type(error.__cause__)), apart=True)
        async with far, near as space:
            await space.settle()
            with pytest.raises(hw.EventFailedError, match="HW112"):
                await both.send()

    run(main())
    assert set(met) == {CrossSpaceError}
    assert len(met) == 2


def test_plain_code_uses_as_many_spaces_as_it_likes(towns: Towns) -> None:
    with towns.open_far() as far, towns.open_near() as near:
        for use in USES.values():
            if use is not WRITES["plain call of a handler"]:
                use(towns)
        with near.transaction():
            towns.here.value = towns.here.peek() + 1
        with far.transaction():
            towns.there.value = 4
            assert (towns.total(), towns.add(2)) == (40, 6)
        towns.here.value = towns.there.value
        assert towns.here.value == 6


def test_events_may_be_sent_to_another_space(towns: Towns) -> None:
    @towns.near.handler
    def pass_on(by: int) -> None:
        towns.here.value += by
        towns.add.send(by)

    with towns.open_far(), towns.open_near():
        pass_on.send(3).result()
        assert (towns.here.value, towns.there.value) == (3, 4)


def test_a_peek_and_a_repr_are_no_reads_that_count(towns: Towns) -> None:
    seen: list[object] = []

    @towns.near.sink
    def show() -> None:
        seen.extend((towns.there.peek(), "there = 1" in repr(towns.there), hw.why(towns.total) != ""))

    with towns.open_far(), towns.open_near():
        pass
    assert (seen, towns.errors) == ([1, True, True], [])


def test_a_handler_begins_no_transaction_of_another_space(towns: Towns) -> None:
    @towns.near.handler
    def both() -> None:
        towns.here.value = 1
        with far.transaction():
            towns.there.value = 2

    with towns.open_far() as far, towns.open_near():
        ticket = both.send()
        assert "HW116: a transaction of app 'far'" in ticket.reason
        assert (towns.here.value, towns.there.value) == (0, 1)


def test_pieces_of_another_space_are_neither_started_nor_stopped_in_a_run(towns: Towns) -> None:
    @hw.pattern
    def card(b: hw.Builder) -> dict[str, object]:
        return {"n": b.cell("n", 0)}

    met: list[str] = []

    @towns.near.handler
    def both() -> None:
        for use in (lambda: far.start(card, "b"), piece.stop):
            with pytest.raises(CrossSpaceError) as refused:
                use()
            met.append(refused.value.message.partition(" cannot be ")[2].partition(" ")[0])

    with towns.open_far() as far, towns.open_near():
        piece = far.start(card, "a")
        both.send().result()
        assert (met, piece.is_running) == (["started", "stopped"], True)


def test_the_store_is_not_written_twice_by_a_handler_that_is_repeated(towns: Towns) -> None:
    """As before the refusal: the first try wrote, conflicted in its own space, and the second wrote again."""
    calls: list[int] = []

    @towns.near.handler
    def both() -> None:
        calls.append(towns.here.value)
        if len(calls) == 1:
            overtake(other, theirs, 10)
        towns.here.value += 1
        towns.add.send(1)

    with towns.open_far(), towns.near.open(towns.urls[0], on_error="log", apart=True) as other, towns.open_near():
        theirs = other.cell("near.here", int, default=0)
        both.send().result()
        assert (calls, towns.here.value, towns.there.value) == ([0, 10], 11, 2)


def test_an_app_that_is_open_twice_means_the_opening_that_runs(tmp_path: Path) -> None:
    app, url = hw.App("app"), str(tmp_path / "twice.db")
    n = app.cell("n", 1)
    seen: list[int] = []

    @app.computed
    def total() -> int:
        return n.value * 10

    @app.sink
    def show() -> None:
        seen.append(total())

    @app.handler
    def add() -> int:
        n.value += 1
        return total()

    with app.open(url) as one, app.open(url) as two:
        assert add.send().result() == 20
        one.settle()
        assert add.once("x").send().result() == 30
        one.settle()
        two.settle()
        assert set(seen) == {10, 20, 30}
        with two.transaction():
            # A block of plain code says which opening it means: two openings are two programs to each other.
            one.cell("app.n").value = 7
            with one.transaction():
                n.value += 1
        assert one.cell("app.n").value == 8


def test_a_run_of_an_app_that_is_open_twice_writes_only_in_its_own_opening(tmp_path: Path) -> None:
    app, url = hw.App("app"), str(tmp_path / "twice.db")
    n = app.cell("n", 1)

    @app.handler
    def reach(*, write: bool) -> object:
        if write:
            one.cell("app.n").value = 7
        return one.cell("app.n", int, default=1).value

    with app.open(url) as one, app.open(url):
        assert reach.send(write=False).result() == 1
        ticket = reach.send(write=True)
        assert "HW112: app.n of another opening of app 'app'" in ticket.reason
        assert "a thread of its own" in ticket.reason
        assert n.value == 1


def test_the_message_says_what_was_used_where_and_what_to_do(towns: Towns) -> None:
    @towns.near.computed
    def mirror() -> None:
        towns.there.value = 2

    @towns.near.handler
    def reach() -> None:
        towns.there.value = 2

    on_same = ", on the same file," if towns.urls[0] == towns.urls[1] else ""
    far, near = Path(towns.urls[1]).stem, Path(towns.urls[0]).stem
    with towns.open_far(), towns.open_near() as space:
        with pytest.raises(WriteError) as written:
            mirror()
        assert written.value.message == (
            f"mirror() is computed and may not write far.there of app 'far' (space '{far}'); move the write to a "
            "@app.handler"
        )
        with pytest.raises(CrossSpaceError, match="or do it after the block") as refused, space.transaction():
            towns.there.value = 2
        assert "would stay if a transaction block failed" in refused.value.message
        assert refused.value.facts["what"] == "far.there"
        ticket = reach.send()
        assert (
            f"far.there of app 'far' (space '{far}'){on_same} cannot be written in reach() of app 'near' (space "
            f"'{near}')"
        ) in ticket.reason
        assert "Send an event to a handler of that app" in ticket.reason


def test_the_status_of_something_elsewhere_is_no_dependency(towns: Towns) -> None:
    @towns.near.computed
    def mirror() -> str:
        return str(hw.status(towns.there))

    with towns.open_far(), towns.open_near() as near:
        with pytest.raises(CrossSpaceError, match="would not run mirror"):
            mirror()
        with near.transaction():
            assert hw.status(towns.there) == "confirmed"


def test_a_console_listener_may_write_elsewhere(towns: Towns) -> None:
    """It is no run: what it hears may be kept in another space."""

    @towns.near.sink
    def show() -> None:
        print("hello")

    with (
        towns.open_far(),
        towns.near.open(towns.urls[0], on_console=lambda said: towns.items.append(len(said.text)), apart=True),
    ):
        pass
    with towns.open_far():
        assert towns.items.value == [1, 2, 5]


def test_on_error_may_write_elsewhere_also_in_the_middle_of_a_transaction(towns: Towns) -> None:
    @towns.near.sink
    def show() -> None:
        if towns.here.value:
            raise ValueError(towns.here.value)

    def tell(_error: hw.UserCodeError) -> None:
        towns.items.append(7)

    with (
        towns.open_far(),
        towns.near.open(towns.urls[0], on_error="log", apart=True) as other,
        towns.near.open(towns.urls[0], on_error=tell, apart=True) as near,
    ):
        theirs = other.cell("near.here", int, default=0)
        with near.transaction():
            overtake(other, theirs, 10)
            near.settle()
            assert towns.items.peek() == [1, 2, 7]


def test_a_task_that_outlives_its_transaction_is_in_none(towns: Towns) -> None:
    async def later() -> None:
        await asyncio.sleep(0)
        towns.there.value = 5

    async def main() -> None:
        async with towns.far.aopen(towns.urls[1]), towns.near.aopen(towns.urls[0], apart=True) as near:
            with near.transaction():
                task = asyncio.create_task(later())
            await task
            assert towns.there.value == 5

    run(main())


def test_a_closed_space_is_told_as_closed(towns: Towns) -> None:
    with towns.open_far() as far:
        cell = far.cell("far.there")
    with towns.open_near() as near, pytest.raises(HeadwaterError, match="HW103"), near.transaction():
        assert cell.value
