"""The code of a pattern is changed between two openings: what is as it was resumes, the rest runs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from tests.runtime.pieces.kit import check_held, stored
from tests.runtime.restore.kit import Program

MAIN = """
import headwater as hw

app = hw.App("garden")
{helper}

@hw.pattern{options}
def bed(p, width: int = 2):
    plants = p.cell("plants", 3)
    {cell}

    @p.computed
    def area() -> int:
        return {area}

    @p.computed
    def load() -> int:
        return area() + {load}

    @p.computed
    def other() -> int:
        return plants.value

    {part}
    return {{"area": area, "load": load, "other": other}}
"""

PART = """
    @p.computed
    def extra() -> int:
        return 1
"""


def text(**parts: str) -> str:
    said = {"helper": "", "options": "", "cell": "", "area": "plants.value * width", "load": "1", "part": ""}
    return MAIN.format(**(said | parts))


def runs(space: hw.Space, piece: hw.Piece[Any]) -> dict[str, int]:
    return {name: (each(), space.runs(each))[1] for name, each in piece.outputs.items()}


@pytest.fixture
def program(tmp_path: Path) -> Program:
    made = Program(tmp_path)
    made.write(main=text())
    with made.start() as (space, main):
        piece = space.start(main.bed, "b")
        assert runs(space, piece) == {"area": 1, "load": 1, "other": 1}
        assert piece.generation == 1
    return made


def reopened(program: Program, **parts: str) -> tuple[dict[str, int], int]:
    program.write(main=text(**parts))
    with program.start() as (space, main):
        piece = space.start(main.bed, "b")
        found = runs(space, piece)
        assert stored(space, piece)["generation"] == piece.generation
        check_held(space)
        return found, piece.generation


NONE = {"area": 0, "load": 0, "other": 0}


def test_the_same_code_is_the_same_generation(program: Program) -> None:
    assert reopened(program) == (NONE, 1)


def test_comments_and_names_of_helpers_that_are_not_used_do_not_count(program: Program) -> None:
    assert reopened(program, cell="# a comment", helper="def unused(): return 1") == (NONE, 1)


def test_a_function_that_was_changed_runs_and_who_reads_it_only_if_it_came_to_something_else(program: Program) -> None:
    assert reopened(program, area="width * plants.value") == ({"area": 1, "load": 0, "other": 0}, 2)
    assert reopened(program, area="width * plants.value + 1") == ({"area": 1, "load": 1, "other": 0}, 3)
    assert reopened(program, area="width * plants.value + 1") == (NONE, 3)


def test_a_function_more_is_another_generation_and_runs_alone(program: Program) -> None:
    assert reopened(program, part=PART) == (NONE, 2)
    assert reopened(program) == (NONE, 3), "and one less likewise"


def test_a_helper_that_is_used_counts(program: Program) -> None:
    helper = "def more(): return {}"
    assert reopened(program, helper=helper.format(1), load="more()") == ({**NONE, "load": 1}, 2)
    assert reopened(program, helper=helper.format(2), load="more()") == ({**NONE, "load": 1}, 3)


def test_a_version_that_is_given_is_a_generation_and_runs_nothing_by_itself(program: Program) -> None:
    assert reopened(program, options="(version=2)") == (NONE, 2)


def test_what_is_built_anew_for_other_inputs_is_the_same_generation(program: Program) -> None:
    with program.start() as (space, main):
        piece = space.start(main.bed, "b", width=3)
        assert runs(space, piece) == {"area": 1, "load": 1, "other": 0}
        assert piece.generation == 1
        assert piece.outputs["area"]() == 9


def test_a_stopped_piece_of_changed_code_is_another_generation_when_it_is_started(program: Program) -> None:
    with program.start() as (space, main):
        space.start(main.bed, "b").stop()
    assert reopened(program, load="2") == ({**NONE, "load": 1}, 2)


def test_a_piece_whose_inputs_are_other_ones_by_now_says_which(program: Program) -> None:
    program.write(main=text().replace("width: int = 2", "width: int"))
    with program.start() as (space, main):
        assert space.start(main.bed, "b").outputs["area"]() == 6, "as they were kept"
    program.write(main=text().replace("width: int = 2", "height: int, width: int"))
    with program.start() as (space, main), pytest.raises(hw.HeadwaterError, match="height"):
        space.start(main.bed, "b")
