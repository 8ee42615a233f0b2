"""What comes after the opening: functions, documents without a block around them, a second opening."""

from __future__ import annotations

import builtins
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import AmbiguousError, NotOpen


class Person(hw.Doc):
    name: str


def test_function_declared_while_the_app_is_open_runs_from_then_on() -> None:
    app = hw.App("late")
    count = app.cell("count", 1)
    seen: list[int] = []
    with app.open("memory:") as space:
        count.value = 2

        @app.computed
        def doubled() -> int:
            return count.value * 2

        @app.sink
        def show() -> None:
            seen.append(doubled())

        count.value = 3
        assert seen == [4, 6]
        assert space.runs(show) == 2


def test_function_declared_again_in_a_notebook_takes_the_place_of_the_one_before(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(builtins, "__IPYTHON__", True, raising=False)
    app = hw.App("late")
    count = app.cell("count", 1)
    seen: list[str] = []
    with app.open("memory:"):

        @app.sink(name="show")
        def first() -> None:
            seen.append(f"first {count.value}")

        @app.sink(name="show")
        def second() -> None:
            seen.append(f"second {count.value}")

        count.value = 2
    assert seen == ["first 1", "second 1", "second 2"]


def test_document_goes_into_the_only_open_space_without_a_block_around_it() -> None:
    app = hw.App("late")
    space = app.open("memory:")
    try:
        ann = Person(name="Ann")
        assert space.doc(hw.id_of(ann), Person).name == "Ann"
    finally:
        space.close()
    with pytest.raises(NotOpen, match=r"Person\(\.\.\.\) needs an open space"):
        Person(name="Bob")


def test_document_that_could_go_into_several_spaces_is_refused() -> None:
    app = hw.App("late")
    one, other = app.open("memory:", space="one"), app.open("memory:", space="other")
    try:
        with pytest.raises(AmbiguousError, match=r"any of 2 open spaces \('one', 'other'\)"):
            Person(name="Ann")
        with other:
            assert other.doc(hw.id_of(Person(name="Bob")), Person).name == "Bob"
    finally:
        one.close()
        other.close()


def test_second_opening_of_a_file_sees_from_the_start_what_the_first_has_written(tmp_path: Path) -> None:
    app = hw.App("late")
    count = app.cell("count", 0)
    seen: list[int] = []
    app.sink(name="show")(lambda: seen.append(count.value))
    url = str(tmp_path / "late.db")
    with app.open(url):
        count.value = 5
        with app.open(url):
            pass
    assert seen == [0, 5, 5]


def test_address_of_a_users_own_cell_leads_back_to_it() -> None:
    app = hw.App("late")
    draft = app.cell("draft", "", scope="user")
    with app.open("memory:", actor="ann") as space:
        draft.value = "hello"
        assert draft.address == "user!late.draft"
        assert space.cell(draft.address, str).value == "hello"
        assert space.cell("user:ann!late.draft", str).value == "hello"
