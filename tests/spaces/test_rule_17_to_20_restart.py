"""Rules 17 to 20: after a restart exactly the readers of what has changed run, in this space or in another."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import NotOpen
from headwater.store.compaction import compact
from headwater.store.observations import decode_observation
from headwater.store.resumption import FarRow
from headwater.values.ids import BranchId
from tests.support.together import open_together


class Shop:
    """prices: tea, milk, with_tax; basket: count, total (through with_tax), direct (milk), own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.prices, self.basket = hw.App("prices"), hw.App("basket")
        tea, milk = self.prices.cell("tea", 4), self.prices.cell("milk", 1)
        count = self.basket.cell("count", 3)
        shown: list[tuple[int, int, int]] = []

        @self.prices.computed
        def with_tax() -> int:
            return tea.value * 12

        @self.basket.computed
        def total() -> int:
            return count.value * with_tax()

        @self.basket.computed
        def direct() -> int:
            return milk.value + 1

        @self.basket.computed
        def own() -> int:
            return count.value + 1

        @self.basket.sink
        def show() -> None:
            shown.append((total(), direct(), own()))

        self.tea, self.milk, self.count, self.shown = tea, milk, count, shown
        self.with_tax, self.total, self.direct, self.own = with_tax, total, direct, own

    @property
    def files(self) -> tuple[Path, Path]:
        return self.folder / "prices.db", self.folder / "basket.db"

    @contextmanager
    def open(self) -> Iterator[tuple[hw.Space, hw.Space]]:
        with self.prices.open(self.files[0]) as far, self.basket.open(self.files[1]) as near:
            yield far, near

    def ran(self, far: hw.Space, near: hw.Space) -> tuple[int, ...]:
        return near.runs(self.total), near.runs(self.direct), near.runs(self.own), far.runs(self.with_tax)


def visit(folder: Path, change: Callable[[Shop], object] = lambda _: None) -> tuple[int, ...]:
    """Open both, say what ran, change something, close both."""
    shop = Shop(folder)
    with shop.open() as (far, near):
        ran = shop.ran(far, near)
        change(shop)
    return ran


NOTHING = (0, 0, 0, 0)


def test_nothing_runs_and_no_far_document_is_loaded_if_nothing_has_changed(tmp_path: Path) -> None:
    assert visit(tmp_path) == (1, 1, 1, 1)
    shop = Shop(tmp_path)
    with shop.prices.open(shop.files[0]) as far:
        before = far.stats.documents
        with shop.basket.open(shop.files[1]) as near:
            assert shop.ran(far, near) == NOTHING
            assert near.explain_resume().restored == 3
            assert far.stats.documents == before
            # And everything is connected again.
            shop.tea.value = 5
            assert shop.shown[-1] == (180, 2, 4)
            assert shop.ran(far, near) == (1, 0, 0, 1)
    assert visit(tmp_path) == NOTHING


CHANGES: dict[str, tuple[Callable[[Shop], object], tuple[int, ...]]] = {
    "a far cell that one reads": (lambda s: setattr(s.milk, "value", 7), (0, 1, 0, 0)),
    "the input of a far function": (lambda s: setattr(s.tea, "value", 7), (1, 0, 0, 1)),
    "an equal value": (lambda s: setattr(s.milk, "value", 1), (0, 0, 0, 0)),
}


@pytest.mark.parametrize(("change", "runs"), CHANGES.values(), ids=CHANGES)
def test_exactly_the_readers_of_a_change_while_asleep_run(
    tmp_path: Path, change: Callable[[Shop], object], runs: tuple[int, ...]
) -> None:
    visit(tmp_path, lambda s: setattr(s.milk, "value", 1))
    assert visit(tmp_path) == NOTHING
    shop = Shop(tmp_path)
    with shop.prices.open(shop.files[0]):
        change(shop)
    assert visit(tmp_path) == runs
    assert visit(tmp_path) == NOTHING


def test_a_change_of_both_names_all_causes(tmp_path: Path) -> None:
    visit(tmp_path)
    shop = Shop(tmp_path)
    with shop.prices.open(shop.files[0]):
        shop.milk.value = 5
        shop.tea.value = 5
    shop = Shop(tmp_path)
    with shop.open() as (far, near):
        assert shop.ran(far, near) == (1, 1, 0, 1)
        told = {each.node.partition("#")[0]: each.reason for each in near.explain_resume().missed}
        assert told["direct"] == "prices:prices.milk has changed since"


def test_a_run_that_saw_an_undecided_far_commit_is_noted_when_that_is_decided(tmp_path: Path) -> None:
    """Without that, each first start after a change would run one function more."""
    visit(tmp_path)
    shop = Shop(tmp_path)
    with shop.open() as (_, near):
        shop.milk.value = 9
        persistence = near._opening.scheduler.persistence
        assert [node.name for node in persistence.late] == ["direct"]
        near.sync()
        assert not persistence.late
    assert visit(tmp_path) == NOTHING


def test_the_far_space_may_be_closed_first(tmp_path: Path) -> None:
    visit(tmp_path)
    shop = Shop(tmp_path)
    near = shop.basket.open(shop.files[1], on_error="log")
    with shop.prices.open(shop.files[0]):
        near.settle()
        shop.milk.value = 9
    near.close()
    assert visit(tmp_path) == NOTHING


def test_what_is_stored_has_space_lineage_branch_watermark_and_reads(tmp_path: Path) -> None:
    visit(tmp_path)
    shop = Shop(tmp_path)
    with shop.open() as (far, near):
        rows = near._opening.ask_store(lambda engine: list(engine.backend.observations("main", "space/basket.direct")))
        observation = decode_observation(rows[0].body)
        assert observation is not None
        assert observation.extra is not None
        [seen] = observation.extra.far
        assert (seen.space, seen.branch, seen.reads) == (far._opening.space_id, "main", ("space/prices.milk",))
        assert seen.lineage == far._opening.lineage.hex()
        assert 0 <= seen.seq <= far.stats.seq
        own = decode_observation(
            next(iter(near._opening.ask_store(lambda e: list(e.backend.observations("main", "space/basket.own"))))).body
        )
        assert own is not None
        assert own.extra is None  # nothing is added where nothing far was read


def test_another_lineage_runs(tmp_path: Path) -> None:
    visit(tmp_path)
    shop = Shop(tmp_path)
    with shop.prices.open(shop.files[0]) as far:
        far._opening.ask_store(lambda engine: engine.backend.set_meta("lineage", "00" * 8))
    assert visit(tmp_path) == (1, 1, 0, 0)
    assert visit(tmp_path) == NOTHING


def test_another_space_in_its_place_runs(tmp_path: Path) -> None:
    visit(tmp_path)
    shop = Shop(tmp_path)
    for name in ("prices.db", "prices.db-wal"):
        (tmp_path / name).unlink(missing_ok=True)
    assert visit(tmp_path) == (1, 1, 0, 1)
    del shop


def test_a_far_log_that_was_put_back_runs(tmp_path: Path) -> None:
    """A copy by hand has the same id and lineage: the watermark is above its head."""
    visit(tmp_path)
    saved = tmp_path / "saved.db"
    shutil.copy(tmp_path / "prices.db", saved)
    visit(tmp_path, lambda s: setattr(s.milk, "value", 9))
    assert visit(tmp_path) == NOTHING
    (tmp_path / "prices.db-wal").unlink(missing_ok=True)
    shutil.copy(saved, tmp_path / "prices.db")
    ran = visit(tmp_path)
    assert ran[1] == 1


def test_a_log_that_begins_after_the_watermark_runs(tmp_path: Path) -> None:
    visit(tmp_path)
    shop = Shop(tmp_path)
    with shop.prices.open(shop.files[0]) as far:
        for number in range(5):
            shop.milk.value = 10 + number
        shop.milk.value = 1
        far.sync()
        far._opening.ask_store(lambda engine: compact(engine, engine.head))
    ran = visit(tmp_path)
    assert ran[1] == 1


def test_a_space_that_is_not_open_is_not_asked_and_its_readers_run_when_demanded(tmp_path: Path) -> None:
    visit(tmp_path)
    shop = Shop(tmp_path)
    with shop.basket.open(shop.files[1], on_error="log") as near:
        told = {each.node.partition("#")[0]: each for each in near.explain_resume().missed}
        assert "is not open" in told["direct"].reason
        assert near.runs(shop.own) == 0
        with pytest.raises(NotOpen):
            shop.direct()


@pytest.mark.parametrize("near_first", [True, False])
def test_opened_together_the_order_does_not_matter(tmp_path: Path, near_first: bool) -> None:
    visit(tmp_path)
    shop = Shop(tmp_path)
    both = [(shop.prices, shop.files[0]), (shop.basket, shop.files[1])]
    with ExitStack() as stack:
        opened = open_together(stack, both[::-1] if near_first else both)
        far, near = opened[::-1] if near_first else opened
        assert shop.ran(far, near) == NOTHING
        assert shop.shown == [(144, 2, 4)]


def test_opened_one_by_one_everything_is_current_in_the_end(tmp_path: Path) -> None:
    visit(tmp_path)
    shop = Shop(tmp_path)
    with shop.basket.open(shop.files[1], on_error="log"), shop.prices.open(shop.files[0]):
        assert shop.shown == [(144, 2, 4)]
        shop.tea.value = 5
        assert shop.shown[-1] == (180, 2, 4)


def test_calls_of_far_functions_with_arguments_are_restored(tmp_path: Path) -> None:
    def opened() -> tuple[list[int], int, int]:
        prices, basket = hw.App("prices"), hw.App("basket")
        tea = prices.cell("tea", 4)

        @prices.computed
        def times(by: int) -> int:
            return tea.value * by

        @basket.computed
        def total() -> int:
            return times(2) + times(3)

        seen: list[int] = []

        @basket.sink
        def show() -> None:
            seen.append(total())

        with prices.open(tmp_path / "p.db") as far, basket.open(tmp_path / "b.db") as near:
            ran = near.runs(total), far.runs(times)
            tea.value += 1
        return seen, *ran

    assert opened() == ([20, 25], 1, 2)
    assert opened() == ([25, 30], 0, 0)


def test_a_far_function_that_fails_now_is_not_taken_for_clean(tmp_path: Path) -> None:
    def declared() -> tuple[hw.App, hw.App, hw.Cell[int], list[str]]:
        prices, basket = hw.App("prices"), hw.App("basket")
        tea = prices.cell("tea", 4)

        @prices.computed
        def checked() -> int:
            if tea.value < 0:
                raise ValueError("negative")
            return 1

        @basket.computed
        def total() -> str:
            try:
                return str(checked())
            except ValueError:
                return "fails"

        seen: list[str] = []

        @basket.sink
        def show() -> None:
            seen.append(total())

        @prices.sink
        def watch() -> None:
            checked()

        return prices, basket, tea, seen

    prices, basket, tea, seen = declared()
    with prices.open(tmp_path / "p.db", on_error="log"), basket.open(tmp_path / "b.db"):
        assert seen == ["1"]
    prices, _, tea, _ = declared()
    with prices.open(tmp_path / "p.db", on_error="log"):
        tea.value = -1
    prices, basket, tea, seen = declared()
    with prices.open(tmp_path / "p.db", on_error="log"), basket.open(tmp_path / "b.db"):
        assert seen[-1] == "fails"
        tea.value = 1
        assert seen[-1] == "1"


def test_all_rows_are_asked_for_by_one_question_and_only_changed_documents_are_loaded(tmp_path: Path) -> None:
    count = 300

    def declared() -> tuple[hw.App, hw.App, list[hw.Cell[int]], list[object]]:
        prices, basket = hw.App("prices"), hw.App("basket")
        cells = [prices.cell(f"c{n}", 0) for n in range(count)]

        def reader(cell: hw.Cell[int]) -> Callable[[], int]:
            return lambda: cell.value + 1

        functions = [basket.computed(name=f"f{n}", version=1)(reader(cell)) for n, cell in enumerate(cells)]

        @basket.sink
        def show() -> None:
            for function in functions:
                function()

        return prices, basket, cells, list(functions)

    prices, basket, cells, functions = declared()
    with prices.open(tmp_path / "p.db") as far, basket.open(tmp_path / "b.db"), far.transaction():
        for cell in cells:
            cell.value = 1
    prices, basket, cells, functions = declared()
    with prices.open(tmp_path / "p.db"):
        for cell in cells[:5]:
            cell.value = 2
    prices, basket, cells, functions = declared()
    with prices.open(tmp_path / "p.db") as far:
        asked: list[int] = []
        before = far.stats.documents
        cache = far._opening.run_cache
        question = cache.changed_since

        def counted(branch: BranchId, rows: Sequence[FarRow]) -> list[list[tuple[str | int, ...]]]:
            asked.append(len(rows))
            return question(branch, rows)

        cache.changed_since = counted  # type: ignore[method-assign]
        with basket.open(tmp_path / "b.db") as near:
            assert asked == [count]
            assert sum(near.runs(function) for function in functions) == 5
            assert far.stats.documents == before + 5
