"""The halves of the suite together prove all that there is to prove; and in which order."""

import gc
import os
import re
import subprocess
import sys
from runpy import run_path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.internal.conjecture import engine

from tests.structure.project import ROOT, find_python
from tests.support import halves
from tests.support.halves import FAST, FULL, HALVES, ITEMS, Kind, arranged, examples, halves_of, kind_of, rotated, seeds

SAFETY_S = 600


def test_every_test_is_in_a_half_and_properties_are_in_the_one_with_all_examples(
    request: pytest.FixtureRequest,
) -> None:
    items = request.config.stash[ITEMS]
    assert request.node in items
    for item in items:
        where = halves_of(item)
        assert where in ({"fast"}, {"rest"}, {"fast", "rest"}), item.nodeid
        if kind_of(item) is not Kind.EXAMPLE:
            assert "rest" in where, item.nodeid


def collected(half: str, paths: list[str]) -> set[str]:
    """The names of the tests that a run would run."""
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "-n0", "-p", "no:cacheprovider", *paths]
    command += ["--half", half]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=SAFETY_S, check=True)
    return {line for line in done.stdout.splitlines() if "::" in line}


@pytest.mark.slow
def test_both_halves_together_are_all_that_this_run_collects(request: pytest.FixtureRequest) -> None:
    """Each is collected in a process of its own: a list of parameters must not depend on the half."""
    names = set()
    for half in HALVES:
        here = request.session.items if half == request.config.getoption("half") else None
        names |= collected(half, request.config.args) if here is None else {item.nodeid for item in here}
    assert names == {item.nodeid for item in request.config.stash[ITEMS]}


def test_what_lands_is_tried_with_both_halves() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert re.findall(r"^ *bare (\./hw test.*)$", script, re.MULTILINE) == [
        "./hw test",
        "./hw test --rest",
        "./hw test --compiled",
    ]


def test_the_command_chooses_a_half_and_starts_no_workers_for_a_file() -> None:
    options, file = run_path(str(ROOT / "hw"))["options_of_pytest"], "tests/structure/test_halves.py"
    assert options([])[:3] == ["--half", "fast", "-n"]
    assert options(["--rest", "-x"])[:3] == ["--half", "rest", "-n"]
    assert options(["tests/structure", "-x"])[2:] == [*options(["-x"])[2:-1], "tests/structure", "-x"]
    assert options([file, "-k", "name"]) == ["--half", "fast", file, "-k", "name"]
    assert options([f"{file}::test"]) == [f"{file}::test"]


def test_numbers_of_examples_follow_the_half() -> None:
    """A number that is written down would be the same in both halves."""
    pattern = re.compile(r"max_examples=\d")
    assert [path for path in find_python("tests") if pattern.search(path.read_text(encoding="utf-8"))] == []


def test_a_test_that_asks_for_examples_has_to_be_marked() -> None:
    with pytest.raises(AssertionError, match="mark this test `property`"):
        examples()


@pytest.mark.property
def test_examples_are_in_proportion() -> None:
    assert [examples(), examples(10 * FULL)] == [settings().max_examples, 10 * settings().max_examples]
    assert examples(1) == max(1, settings().max_examples // FULL)
    slow = [bool(param.marks) for param in seeds(10)]
    assert slow == [False] * (10 * FAST // FULL) + [True] * (10 - 10 * FAST // FULL)


# --- the order ---------------------------------------------------------------------------------------------


class Fake:
    """A test with one mark."""

    def __init__(self, mark: str, number: int) -> None:
        self.mark = mark
        self.number = number

    def get_closest_marker(self, name: str) -> bool:
        return name == self.mark


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_worker_runs_examples_then_properties_then_machines(workers: int) -> None:
    marks = ["machine", "", "property", "", "slow", "machine", "", "property", "", "", "machine"]
    items: list[Any] = [Fake(mark, number) for number, mark in enumerate(marks)]
    order = arranged(items, workers)
    assert set(order) == set(items)
    # As xdist cuts the list.
    left = order
    for number in range(workers):
        size = len(left) // (workers - number)
        part, left = left[:size], left[size:]
        kinds = [kind_of(item) for item in part]
        assert kinds == sorted(kinds)
        assert Kind.EXAMPLE in kinds
        assert Kind.MACHINE in kinds


def test_a_run_is_in_that_order(request: pytest.FixtureRequest) -> None:
    if "PYTEST_XDIST_WORKER_COUNT" not in os.environ:
        kinds = [kind_of(item) for item in request.session.items]
        assert kinds == sorted(kinds)


FOLDERS = [("a", 10), ("b", 200), ("c", 90), ("d", 1), ("e", 150), ("f", 149)]


@pytest.mark.parametrize("workers", [1, 2, 3])
def test_each_worker_collects_every_folder_and_begins_in_another_part(workers: int) -> None:
    orders = [rotated(FOLDERS, workers, number) for number in range(workers)]
    names = [name for name, _ in FOLDERS]
    for order in orders:
        first = names.index(order[0])
        assert order == names[first:] + names[:first]
    assert [order[0] for order in orders] == {1: ["a"], 2: ["a", "d"], 3: ["a", "c", "f"]}[workers]


def test_garbage_is_collected_while_tests_run() -> None:
    assert gc.isenabled()


def test_a_worker_that_begins_elsewhere_has_its_tests_in_the_same_order(
    request: pytest.FixtureRequest,
) -> None:
    places = [item.path for item in request.config.stash[ITEMS]]
    assert [path.relative_to(ROOT).parts[:2] for path in places] == sorted(
        path.relative_to(ROOT).parts[:2] for path in places
    )


# --- shrinking ---------------------------------------------------------------------------------------------


def test_shrinking_ends_after_its_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """That hypothesis still reads what `halves` sets."""
    calls = []

    @settings(derandomize=True, database=None)
    @given(st.lists(st.integers(), min_size=6))
    def planted(numbers: list[int]) -> None:
        calls.append(numbers)
        assert sum(numbers) < 1000

    counts = []
    for seconds in (0, 60):
        monkeypatch.setattr(engine, "MAX_SHRINKING_SECONDS", seconds)
        calls.clear()
        with pytest.raises(AssertionError):
            planted()
        counts.append(len(calls))
    assert counts[0] < 20 < counts[1]


def test_each_property_that_fails_leaves_less_time_to_shrink_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engine, "MAX_SHRINKING_SECONDS", halves.SHRINKING_S)
    failing: Any = Fake("property", 0)
    spent = 0
    for _ in range(20):
        spent += engine.MAX_SHRINKING_SECONDS
        with pytest.raises(ZeroDivisionError), halves.noted(failing):
            raise ZeroDivisionError
    assert engine.MAX_SHRINKING_SECONDS == 1
    assert spent < 60


EXAMPLES = """
import sys
from hypothesis import given, strategies as st
from tests.support import halves

halves.load_profile("fast")
for name in sys.argv[1:]:
    __import__(name)


@given(st.lists(st.integers()), st.text(), st.floats())
def tell(numbers: list[int], text: str, number: float) -> None:
    print(ascii((numbers, text, number)))


tell()
"""


def test_examples_do_not_depend_on_the_modules_that_are_loaded() -> None:
    def told_by(*modules: str) -> str:
        command = [sys.executable, "-c", EXAMPLES, *modules]
        return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout

    alone = told_by()
    assert alone.count("\n") >= FAST
    assert told_by("headwater.app", "headwater.workflow.transitions") == alone
