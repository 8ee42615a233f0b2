"""Functions with parameters: one node for each set of arguments, run again only for what that one has read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

import headwater as hw
from headwater.declare.functions import instances
from headwater.errors import WriteError
from tests.app.holding import in_thread
from tests.app.workbench import Bench


@pytest.fixture
def bench() -> Bench:
    return Bench()


class Person(hw.Doc):
    name: str


class Item(hw.Doc):
    title: str
    owner: hw.Link[Person]
    done: bool = False


class Board(hw.Doc):
    name: str = "home"
    items: hw.List[Item] = hw.List()


# --- which node is meant ----------------------------------------------------------------------------------


def test_each_set_of_arguments_runs_once(bench: Bench) -> None:
    factor = bench.app.cell("factor", 2)

    @bench.app.computed
    def times(number: int) -> int:
        bench.log.append(number)
        return number * factor.value

    with bench.open() as space:
        assert [times(1), times(2), times(1), times(2)] == [2, 4, 2, 4]
        assert bench.taken() == [1, 2]
        factor.value = 3
        assert (times(2), bench.taken(), space.runs(times)) == (6, [2], 3)


def test_arguments_may_be_given_by_place_by_name_and_by_default(bench: Bench) -> None:
    @bench.app.computed
    def both(first: int, /, second: int = 2, *, third: int = 3) -> list[int]:
        bench.log.append(1)
        return [first, second, third]

    with bench.open():
        calls = [both(1), both(1, 2), both(1, second=2), both(1, third=3), both(1, 2, third=3)]
        assert (calls, len(bench.taken())) == ([[1, 2, 3]] * 5, 1)
        assert both(1, 3) == [1, 3, 3]


@pytest.mark.parametrize(
    "arguments",
    [
        [1, 1.0, True, "1", b"1", None, "None", "True", 0.0, -0.0, [1], [1.0], {"a": 1}, {"a": 1.0}],
        ["", " ", "a", "A", "a ", "\x00", "é"],
        [[], {}, [[]], [{}], ["a", "b"], ["a,b"], [["a"], "b"]],
    ],
)
def test_arguments_are_told_apart_exactly(bench: Bench, arguments: list[Any]) -> None:
    @bench.app.computed
    def shown(value: Any) -> str:
        return f"{type(value).__name__} {value!r}"

    with bench.open() as space:
        results = [shown(argument) for argument in arguments]
        assert len(set(results)) == len(arguments)
        assert [shown(argument) for argument in arguments] == results
        assert space.runs(shown) == len(arguments)


def test_dicts_with_the_same_entries_are_the_same_argument(bench: Bench) -> None:
    @bench.app.computed
    def size(of: dict[str, int]) -> int:
        return len(of)

    with bench.open() as space:
        assert size({"a": 1, "b": 2}) == size({"b": 2, "a": 1}) == 2
        assert space.runs(size) == 1


def test_document_is_told_by_its_id_however_it_was_reached(bench: Bench) -> None:
    board = bench.app.doc("board", Board)

    @bench.app.computed
    def row(item: Item) -> str:
        return f"{item.title} {item.owner.name}"

    with bench.open() as space:
        ann = Person(name="Ann")
        board.items.append(Item(title="milk", owner=ann))
        milk = board.items[0]
        assert row(milk) == row(board.items[0]) == row(space.doc(hw.id_of(milk), Item)) == "milk Ann"
        assert space.runs(row) == 1
        milk.title = "tea"
        assert row(board.items[0]) == "tea Ann"
        assert space.runs(row) == 2


def test_cell_is_told_by_its_place_and_not_by_what_stands_there(bench: Bench) -> None:
    prices = bench.app.cell("prices", {"milk": 1, "tea": 1})
    other = bench.app.cell("other", 1)

    @bench.app.computed
    def doubled(price: hw.Cell[int]) -> int:
        bench.log.append(price.address)
        return price.value * 2

    with bench.open():
        prices.value = {"milk": 1, "tea": 1}
        assert [doubled(prices.key("milk")), doubled(prices.key("tea")), doubled(other)] == [2, 2, 2]
        assert doubled(prices.key("milk")) == 2
        assert bench.taken() == ["bench.prices/milk", "bench.prices/tea", "bench.other"]
        prices.key("tea").value = 5
        assert [doubled(prices.key("milk")), doubled(prices.key("tea"))] == [2, 10]
        assert bench.taken() == ["bench.prices/tea"]


def test_functions_with_the_same_arguments_are_kept_apart(bench: Bench) -> None:
    @bench.app.computed
    def plus(number: int) -> int:
        return number + 1

    @bench.app.computed
    def minus(number: int) -> int:
        return number - 1

    with bench.open():
        assert (plus(1), minus(1), plus(1)) == (2, 0, 2)


def test_each_opening_has_instances_of_its_own(bench: Bench) -> None:
    factor = bench.app.cell("factor", 1)

    @bench.app.computed
    def times(number: int) -> int:
        return number * factor.value

    with bench.open() as outer:
        assert times(2) == 2
        with bench.open() as inner:
            factor.value = 10
            assert (times(2), inner.runs(times)) == (20, 1)
        assert (times(2), outer.runs(times)) == (2, 1)


# --- who runs again ---------------------------------------------------------------------------------------


def test_only_the_row_whose_item_changed_runs_again(bench: Bench) -> None:
    """The program of the guide: documents, links and lists."""
    board = bench.app.doc("board", Board)

    @bench.app.computed
    def row(item: Item) -> str:
        bench.log.append(f"row {item.title}")
        return f"[{'x' if item.done else ' '}] {item.title} ({item.owner.name})"

    @bench.app.sink
    def show() -> None:
        bench.log.append([row(item) for item in board.items if not item.done])

    with bench.open() as space:
        ann = Person(name="Ann")
        with space.transaction():
            board.items.append(Item(title="milk", owner=ann))
            board.items.append(Item(title="tea", owner=ann))
        assert bench.taken()[-1] == ["[ ] milk (Ann)", "[ ] tea (Ann)"]
        board.items[0].done = True
        assert bench.taken() == ["row milk", ["[ ] tea (Ann)"]], "show, and not row(tea)"
        board.items[0].done = False
        board.items[0].done = True
        bench.taken()
        board.items[0].title = "soy milk"
        assert bench.taken() == [], "it is not looked at any more"
        ann.name = "Anna"
        assert bench.taken() == ["row tea", ["[ ] tea (Anna)"]], "row(tea), then show"


def test_sink_reads_many_rows_and_one_change_runs_one_of_them(bench: Bench) -> None:
    values = bench.app.cell("values", {f"k{index}": index for index in range(100)})

    @bench.app.computed
    def entry(key: str) -> int:
        bench.log.append(key)
        return values.key(key).value * 2

    total: list[int] = []
    bench.app.sink(name="show")(lambda: total.append(sum(entry(f"k{index}") for index in range(100))))
    with bench.open():
        # Stored, so that an edit is not also the first appearance of all the others.
        values.value = dict(values.value)
        bench.taken()
        values.key("k7").value = 1000
        assert (bench.taken(), total[-1] - total[0]) == (["k7"], 2000 - 14)


def test_instance_that_is_not_read_any_more_does_not_run(bench: Bench) -> None:
    which, factor = bench.app.cell("which", 1), bench.app.cell("factor", 1)

    @bench.app.computed
    def times(number: int) -> int:
        bench.log.append(number)
        return number * factor.value

    bench.app.sink(name="show")(lambda: times(which.value))
    with bench.open():
        which.value = 2
        bench.taken()
        factor.value = 5
        assert bench.taken() == [2]


def test_recursion_runs_each_step_once(bench: Bench) -> None:
    start = bench.app.cell("start", 1)

    @bench.app.computed
    def fib(number: int) -> int:
        bench.log.append(number)
        return start.value if number < 2 else fib(number - 1) + fib(number - 2)

    with bench.open():
        assert (fib(20), len(bench.taken())) == (10946, 21)
        start.value = 2
        assert (fib(20), len(bench.taken())) == (21892, 21)


def test_recursion_deeper_than_the_stack(bench: Bench) -> None:
    start = bench.app.cell("start", 0)

    @bench.app.computed
    def count(number: int) -> int:
        return start.value if number == 0 else count(number - 1) + 1

    with bench.open() as space:
        assert count(800) == 800
        start.value = 1000
        assert (count(800), space.runs(count)) == (1800, 1602)


def test_recursion_into_itself_is_told(bench: Bench) -> None:
    @bench.app.computed
    def ring(number: int) -> int:
        return ring((number + 1) % 3)

    with bench.open(), pytest.raises(hw.UserCodeError, match="a value cannot be made of itself"):
        ring(0)


def test_error_is_that_of_its_own_arguments(bench: Bench) -> None:
    divisors = bench.app.cell("divisors", {"a": 0, "b": 2})

    @bench.app.computed
    def share(key: str) -> int:
        return 10 // divisors.key(key).value

    with bench.open():
        assert share("b") == 5
        with pytest.raises(ZeroDivisionError):
            share("a")
        divisors.key("a").value = 5
        assert (share("a"), share("b")) == (2, 5)


def test_function_with_parameters_may_not_write(bench: Bench) -> None:
    count = bench.app.cell("count", 0)

    @bench.app.computed
    def bad(number: int) -> int:
        count.value = number
        return number

    with bench.open(), pytest.raises(WriteError, match=r"HW104: bad\(1\) is computed and may not write bench.count"):
        bad(1)


# --- plain calls ------------------------------------------------------------------------------------------


@dataclass
class Thing:
    size: int


@pytest.mark.parametrize("given", [{1, 2}, object(), Thing(2), lambda: 1, range(2)])
def test_arguments_that_cannot_be_told_apart_make_it_a_plain_call(bench: Bench, given: Any) -> None:
    factor = bench.app.cell("factor", 1)

    @bench.app.computed
    def times(number: int, _anything: Any) -> int:
        bench.log.append("times")
        return number * factor.value

    @bench.app.sink
    def show() -> None:
        bench.log.append(times(2, given))

    with bench.open() as space:
        assert bench.taken() == ["times", 2]
        factor.value = 5
        assert bench.taken() == ["times", 10], "what it read counts for the caller"
        assert (times(3, given), space.runs(times)) == (15, 0)


@pytest.mark.parametrize(
    ("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"other": 2}), ((1,), {"number": 1}), ((), {"factor": 1})]
)
def test_wrong_arguments_are_told_as_python_does(bench: Bench, args: tuple[int, ...], kwargs: dict[str, int]) -> None:
    def times(number: int, factor: int = 2) -> int:
        return number * factor

    declared: Any = bench.app.computed(times)
    plain: Any = times
    with pytest.raises(TypeError) as expected:
        plain(*args, **kwargs)
    with bench.open() as space:
        with pytest.raises(TypeError) as told:
            declared(*args, **kwargs)
        assert str(told.value) == str(expected.value)
        assert space.runs(declared) == 0


def test_arguments_for_a_function_without_parameters_are_told_as_python_does(bench: Bench) -> None:
    declared: Any = bench.app.computed(name="one")(lambda: 1)
    with bench.open(), pytest.raises(TypeError, match="takes 0 positional arguments but 1 was given"):
        declared(5)


# --- how long they are kept -------------------------------------------------------------------------------


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> int:
    """As if not many were kept."""
    monkeypatch.setattr(instances, "UNREAD_MAX", 10)
    return 10


def test_instances_that_nobody_reads_are_forgotten_when_there_are_many(bench: Bench, few: int) -> None:
    @bench.app.computed
    def times(number: int) -> int:
        bench.log.append(number)
        return number

    with bench.open() as space:
        for number in range(few * 10):
            assert times(number) == number
        assert space.scheduler.get_stats().computations <= few * 2 + 1
        assert space.runs(times) == few * 10, "that they ran is not forgotten"
        bench.taken()
        assert (times(few * 10 - 1), times(0), bench.taken()) == (few * 10 - 1, 0, [0]), "an old one runs again"


def test_instance_that_was_used_lately_is_not_the_first_to_go(bench: Bench, few: int) -> None:
    @bench.app.computed
    def times(number: int) -> int:
        bench.log.append(number)
        return number

    with bench.open():
        for number in range(few * 10):
            times(number)
            times(0)
        assert bench.taken().count(0) == 1


def test_instances_that_somebody_reads_are_kept(bench: Bench, few: int) -> None:
    factor = bench.app.cell("factor", 1)

    @bench.app.computed
    def times(number: int) -> int:
        bench.log.append(number)
        return number * factor.value

    bench.app.sink(name="show")(lambda: [times(number) for number in range(few * 5)])
    with bench.open():
        for number in range(few * 5, few * 10):
            times(number)
        bench.taken()
        factor.value = 2
        assert bench.taken() == list(range(few * 5))


def test_instances_that_a_computed_has_read_are_kept_for_it(bench: Bench, few: int) -> None:
    """Nobody looks at the computed, but when somebody does, it has to know what has changed."""
    values = bench.app.cell("values", {f"k{index}": 1 for index in range(few * 10)})

    @bench.app.computed
    def entry(key: str) -> int:
        return values.key(key).value

    @bench.app.computed
    def total() -> int:
        return sum(entry(f"k{index}") for index in range(few * 10))

    with bench.open():
        assert total() == few * 10
        for index in range(few * 10):
            values.key(f"k{index}").value = 2
            assert total() == few * 10 + index + 1


def test_sink_that_goes_through_many_does_not_keep_them_all(bench: Bench, few: int) -> None:
    which = bench.app.cell("which", 0)

    @bench.app.computed
    def times(number: int) -> int:
        return number

    bench.app.sink(name="show")(lambda: times(which.value))
    with bench.open() as space:
        for number in range(few * 10):
            which.value = number
        assert space.scheduler.get_stats().computations <= few * 2 + 1


# --- replaced, asked, shared ------------------------------------------------------------------------------


def test_in_a_notebook_a_function_that_is_declared_anew_is_what_is_shown(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("builtins.__IPYTHON__", True, raising=False)

    @bench.app.computed(name="row")
    def first(number: int) -> str:
        return f"first {number}"

    row: Any = first
    bench.app.sink(name="show")(lambda: bench.log.append(row(1)))
    with bench.open() as space:
        assert bench.taken() == ["first 1"]

        @bench.app.computed(name="row")
        def second(number: int) -> str:
            return f"second {number}"

        assert bench.taken() == ["second 1"], "also through the name that still stands for the first"
        row = second
        assert (row(1), first(1), first(2)) == ("second 1", "second 1", "second 2")
        assert space.runs(second) == 2


def test_runs_of_a_function_that_was_never_called_are_none(bench: Bench) -> None:
    @bench.app.computed
    def times(number: int) -> int:
        return number

    with bench.open() as space:
        assert (space.runs(times), space.stats.runs) == (0, {"times": 0})


def test_names_of_instances_show_their_arguments(bench: Bench) -> None:
    board = bench.app.doc("board", Board)

    @bench.app.computed
    def shown(value: Any, _more: int = 1) -> str:
        return str(value)

    @bench.app.computed
    def row(item: Item) -> str:
        return item.title

    with bench.open() as space:
        for value in (1, "text", [1, 2], {"a": None}):
            shown(value)
        board.items.append(Item(title="milk", owner=Person(name="Ann")))
        row(board.items[0])
        names = [node.name for node in space.scheduler.get_graph_snapshot().nodes]
        assert names[:4] == ["shown(1, 1)", "shown('text', 1)", "shown([1, 2], 1)", "shown({'a': None}, 1)"]
        assert names[4].startswith("row(item:")
        assert "shown([1, 2], 1) is a computation, clean" in hw.why(shown, [1, 2])
        assert "has not been called here" in hw.why(shown, 99)


def test_threads_that_ask_at_once_for_the_same_arguments_get_one_node(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    @bench.app.computed
    def times(number: int) -> int:
        return number * 2

    get = instances.Instances.get
    others: list[int] = []

    def overtaken(self: instances.Instances, key: instances.Key) -> instances.Instance | None:
        """Between the look and what follows from it, another thread does the same."""
        found = get(self, key)
        if not others:
            others.append(0)
            in_thread(lambda: others.append(times(3)))
        return found

    monkeypatch.setattr(instances.Instances, "get", overtaken)
    with bench.open() as space:
        assert (times(3), others) == (6, [0, 6])
        assert (space.scheduler.get_stats().computations, space.runs(times)) == (1, 1)
