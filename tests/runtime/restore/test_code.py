"""What a function is made of decides whether its last run still counts: edits that change it, and edits that do not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import pytest
from annotated_types import Le

import headwater as hw
from headwater.declare.functions import fingerprint
from headwater.values.ids import MAIN as BRANCH
from tests.runtime.restore.kit import Program, outcome, reason

MAIN = '''
import headwater as hw
from garden import lib, tools
from garden.tools import RATE, Box, Kind, Lot, Plant, Shed, helper
import garden.deep.inner
{imports}

app = hw.App("garden")
height = app.cell("height", {height_default})
beds = app.doc("beds", Plant)
shed = app.doc("shed", Shed)
lot = app.cell("lot", Lot(name="a"))
box = app.cell("box", Box("a"))
LEVELS = {levels}
SCALE = {scale}


class Marker:
    WIDTH = {width}
    SIZES = {sizes}

    def mark(self) -> int:
        return {marked}


def make(extra: int):
    def grown(step: int = {step}, *, more: int = {more}) -> {returns}:
        {doc}
        {comment}
        return {body}
    return grown


def size() -> {returns}:
    {doc}
    {comment}
    return {body}


def inner_lambda() -> int:
    return (lambda value: value + {in_lambda})(height.value)


def fill() -> None:
    """Documents of which the defaults are not stored."""
    plant = Plant()
    shed.plants.append(plant)
    del plant.age
    app.sole_space("lot").cell("garden.lot").value = {"name": "a"}
    app.sole_space("box").cell("garden.box").value = {"name": "a"}


tall = app.computed(name="tall"{version})(size)
closing = app.computed(name="closing")(make({extra}))
nested = app.computed(name="nested")(inner_lambda)
'''
TOOLS = """
import dataclasses
import enum
import msgspec
import headwater as hw

RATE = {rate}
TABLE = {table}


class Kind(enum.Enum):
    ROSE = {rose}


class Plant(hw.Doc):
    age: int = {age}


class Shed(hw.Doc):
    plants: hw.List[Plant] = hw.List()


class Lot(msgspec.Struct, frozen=True):
    name: str
    left: int = {left}


@dataclasses.dataclass(frozen=True)
class Box:
    name: str
    full: int = {full}


def helper(value: int) -> int:
    {helper_doc}
    return further(value) {helper_more}


def further(value: int) -> int:
    return value {further}
"""
PLAIN = {
    "imports": "",
    "height_default": "1",
    "levels": "(1, 2)",
    "scale": "{'a': [1, 2]}",
    "width": "4",
    "marked": "self.WIDTH",
    "step": "1",
    "more": "1",
    "returns": "int",
    "doc": "pass",
    "comment": "pass",
    "body": "height.value",
    "in_lambda": "1",
    "version": "",
    "extra": "1",
    "rate": "2",
    "table": "{'x': 1}",
    "rose": "1",
    "age": "3",
    "helper_doc": "pass",
    "helper_more": "",
    "further": "+ 1",
    "deep": "7",
    "later": "7",
    "sizes": "(4,)",
    "left": "1",
    "full": "1",
}


def text(**edits: str) -> dict[str, str]:
    """The modules of the program, with these parts of it edited."""
    parts = {**PLAIN, **edits}

    def fill(template: str) -> str:
        for name, part in parts.items():
            template = template.replace("{" + name + "}", part)
        return template

    return {
        "main": fill(MAIN),
        "tools": fill(TOOLS),
        "lib": "",
        "deep/inner": f"CONSTANT = {parts['deep']}\n",
        "later": f"SIZE = {parts['later']}\n",
    }


def ran_after(folder: Path, before: dict[str, str], after: dict[str, str], name: str) -> int:
    """Start the program and look at a function; edit it, start it again and look. How often did it run then?"""
    program = Program(folder)
    program.write(**text(**before))
    with program.start() as (_, main):
        main.fill()
        getattr(main, name)()
    program.write(**text(**after))
    with program.start() as (space, main):
        result = getattr(main, name)()
        runs: int = space.runs(getattr(main, name))
    # And what it came to is what it comes to when nothing is kept.
    fresh = Program(folder / "fresh")
    fresh.write(**text(**after))
    with fresh.start() as (_, main):
        main.fill()
        assert getattr(main, name)() == result
    return runs


MISSES = {
    "body": ({}, {"body": "height.value + 1"}, "tall"),
    "constant in the body": ({"body": "height.value + 1"}, {"body": "height.value + 2"}, "tall"),
    "order of operands": ({"body": "height.value - 2"}, {"body": "2 - height.value"}, "tall"),
    "operator": ({"body": "height.value + 2"}, {"body": "height.value * 2"}, "tall"),
    "1 and True": ({"body": "height.value + 1"}, {"body": "height.value + True"}, "tall"),
    "1 and 1.0": (
        {"returns": "float", "body": "height.value + 1"},
        {"returns": "float", "body": "height.value + 1.0"},
        "tall",
    ),
    "global constant": ({"body": "height.value * RATE"}, {"body": "height.value * RATE", "rate": "5"}, "tall"),
    "global tuple": ({"body": "LEVELS[0]"}, {"body": "LEVELS[0]", "levels": "(9, 2)"}, "tall"),
    "nested containers": ({"body": "SCALE['a'][1]"}, {"body": "SCALE['a'][1]", "scale": "{'a': [1, 9]}"}, "tall"),
    "constant of a module of the package": (
        {"body": "tools.TABLE['x']"},
        {"body": "tools.TABLE['x']", "table": "{'x': 5}"},
        "tall",
    ),
    "constant of a module within a package within": (
        {"body": "garden.deep.inner.CONSTANT"},
        {"body": "garden.deep.inner.CONSTANT", "deep": "8"},
        "tall",
    ),
    "constant imported in the body": (
        {"comment": "from garden.deep.inner import CONSTANT as rate", "body": "rate"},
        {"comment": "from garden.deep.inner import CONSTANT as rate", "body": "rate", "deep": "8"},
        "tall",
    ),
    "constant imported in the body from a neighbour": (
        {"comment": "from .deep.inner import CONSTANT as rate", "body": "rate"},
        {"comment": "from .deep.inner import CONSTANT as rate", "body": "rate", "deep": "8"},
        "tall",
    ),
    "constant of a module imported in the body": (
        {"comment": "from . import later", "body": "later.SIZE"},
        {"comment": "from . import later", "body": "later.SIZE", "later": "8"},
        "tall",
    ),
    "tuple of a class": ({"body": "Marker.SIZES[0]"}, {"body": "Marker.SIZES[0]", "sizes": "(5,)"}, "tall"),
    "default of a field of a document in a list": (
        {"body": "sum(plant.age for plant in shed.plants)"},
        {"body": "sum(plant.age for plant in shed.plants)", "age": "5"},
        "tall",
    ),
    "default of a field of a struct": ({"body": "lot.value.left"}, {"body": "lot.value.left", "left": "5"}, "tall"),
    "default of a field of a dataclass": ({"body": "box.value.full"}, {"body": "box.value.full", "full": "5"}, "tall"),
    "helper": ({"body": "helper(height.value)"}, {"body": "helper(height.value)", "helper_more": "* 2"}, "tall"),
    "helper of a helper": (
        {"body": "helper(height.value)"},
        {"body": "helper(height.value)", "further": "+ 9"},
        "tall",
    ),
    "helper by its module": (
        {"body": "tools.helper(height.value)"},
        {"body": "tools.helper(height.value)", "further": "+ 9"},
        "tall",
    ),
    "method of a class": ({"body": "Marker().mark()"}, {"body": "Marker().mark()", "marked": "self.WIDTH + 1"}, "tall"),
    "constant of a class": ({"body": "Marker.WIDTH"}, {"body": "Marker.WIDTH", "width": "5"}, "tall"),
    "value of an enum": ({"body": "Kind.ROSE.value"}, {"body": "Kind.ROSE.value", "rose": "5"}, "tall"),
    "default of a cell": ({}, {"height_default": "5"}, "tall"),
    "default of a field of a document": ({"body": "beds.age"}, {"body": "beds.age", "age": "5"}, "tall"),
    "type of the result": ({}, {"returns": "int | None"}, "tall"),
    "version": ({}, {"version": ", version=2"}, "tall"),
    "default argument": ({"body": "height.value + step"}, {"body": "height.value + step", "step": "5"}, "closing"),
    "default of a keyword": ({"body": "height.value + more"}, {"body": "height.value + more", "more": "5"}, "closing"),
    "closure": ({"body": "height.value + extra"}, {"body": "height.value + extra", "extra": "5"}, "closing"),
    "function within the function": ({}, {"in_lambda": "5"}, "nested"),
}
NEEDS_ARGUMENTS = ("default argument", "default of a keyword", "closure")


@pytest.mark.parametrize("edit", MISSES)
def test_edit_of_what_a_result_depends_on_is_a_miss(edit: str, tmp_path: Path) -> None:
    before, after, name = MISSES[edit]
    body = before.get("body", PLAIN["body"])
    if name == "closing":
        # The other function of this text knows no such names.
        before, after = ({**part, "imports": "step = more = extra = 1"} for part in (before, after))
    elif "step" in body:
        raise AssertionError(body)
    assert ran_after(tmp_path, before, after, name) == 1


HITS = {
    "nothing": ({}, {}, "tall"),
    "comment": ({}, {"comment": "pass  # grows"}, "tall"),
    "lines and spaces": (
        {"body": "height.value + 1"},
        {"body": "(\n        height.value\n        +    1\n    )"},
        "tall",
    ),
    "docstring is new": ({"doc": "'''Old.'''"}, {"doc": "'''How tall it is now.'''"}, "tall"),
    "docstring of a helper": (
        {"body": "helper(height.value)", "helper_doc": "'''Old.'''"},
        {"body": "helper(height.value)", "helper_doc": "'''New.'''"},
        "tall",
    ),
    "constant that it does not name": ({}, {"rate": "5"}, "tall"),
    "helper that it does not name": ({}, {"further": "+ 9"}, "tall"),
    "another function of the module": ({}, {"in_lambda": "9"}, "tall"),
    "lines above it": ({}, {"imports": "import math\n\n\nUNRELATED = 3\n"}, "tall"),
}


@pytest.mark.parametrize("edit", HITS)
def test_edit_that_changes_no_result_is_a_hit(edit: str, tmp_path: Path) -> None:
    before, after, name = HITS[edit]
    assert ran_after(tmp_path, before, after, name) == 0


SMALL = """
import headwater as hw
app = hw.App("garden")
height = app.cell("height", 1)

@app.computed
def {name}() -> int:
    return height.value

@app.computed
def steady() -> int:
    return height.value + 1

@app.computed
def times(number: int) -> int:
    return height.value * number
"""


def test_renamed_function_is_another_and_the_old_ones_row_is_forgotten(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.write(main=SMALL.replace("{name}", "tall"))
    with program.start() as (_, main):
        main.tall()
        main.steady()
    program.write(main=SMALL.replace("{name}", "size"))
    with program.start() as (space, main):
        assert outcome(space) == (1, 0, 1)
        rows = space._opening.ask_store(lambda engine: engine.backend.observations(BRANCH))
        assert [row.doc for row in rows] == ["space/garden.steady"]
        assert main.size() == 1
        assert space.runs(main.size) == 1
    with program.start() as (space, main):
        assert main.size() == 1
        assert space.runs(main.size) == 0


def test_same_function_with_other_arguments_has_a_row_of_its_own(tmp_path: Path) -> None:
    program = Program(tmp_path)
    program.write(main=SMALL.replace("{name}", "tall"))
    with program.start() as (_, main):
        assert main.times(2) == 2
    with program.start() as (space, main):
        assert main.times(3) == 3
        assert space.runs(main.times) == 1
        assert main.times(2) == 2
        assert space.runs(main.times) == 1


def test_code_that_comes_back_is_believed_only_if_nothing_was_written_by_the_other(tmp_path: Path) -> None:
    program = Program(tmp_path)
    old, new = text(), text(body="height.value * 10")
    program.write(**old)
    with program.start() as (_, main):
        assert main.tall() == 1
    program.write(**new)
    with program.start() as (_, main):
        assert main.tall() == 10
    program.write(**old)
    with program.start() as (_, main):
        assert main.tall() == 1


# -- what the program changes while it runs --------------------------------------------------------------------

COUNTING = """
import headwater as hw

app = hw.App("garden")
size = app.cell("size", 3)
calls = []
names = {{}}

def note(name):
    names[name] = names.get(name, 0) + 1

@app.computed
def area() -> int:
    calls.append("area")
    note("area")
    return size.value ** 2

@app.computed
def double(times: int) -> int:
    calls.append("double")
    return area() * times

@app.sink(resume="quiet")
def show() -> None:
    calls.append("show")
    double(2)
{then}
"""


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(tmp_path)


def test_list_that_functions_append_to_is_no_other_code_at_the_next_start(program: Program) -> None:
    program.write(main=COUNTING.format(then=""))
    with program.start() as (space, main):
        assert main.double(2) == 18
        main.size.value = 4
        assert main.double(2) == 32
        assert main.calls
    for _ in range(2):
        with program.start() as (space, main):
            assert space.explain_resume().missed == ()
            assert main.double(2) == 32
            assert main.calls == []


def test_function_that_first_runs_late_is_known_by_what_it_used_when_the_space_was_opened(program: Program) -> None:
    program.write(main=COUNTING.format(then=""))
    with program.start() as (space, main):
        main.calls += ["something else"]
        assert main.area() == 9
    with program.start() as (space, main):
        assert main.area() == 9
        assert space.runs(main.area) == 0


def test_list_that_the_program_has_changed_before_the_opening_is_named(program: Program) -> None:
    program.write(main=COUNTING.format(then="calls.append('started')\nnames['x'] = 1"))
    with program.start() as (space, main):
        assert main.area() == 9
    program.write(main=COUNTING.format(then="calls.append('started again')\nnames['x'] = 1"))
    with program.start() as (space, main):
        told = reason(space, "area")
        assert told.startswith("its code, or something that it uses, has changed: it uses ")
        assert "calls (a list)" in told
        assert "names (a dict)" in told
        assert told.endswith("which the program has changed since the function was declared")


def test_other_code_is_not_put_down_to_a_list_that_did_not_change(program: Program) -> None:
    program.write(main=COUNTING.format(then=""))
    with program.start() as (space, main):
        assert main.area() == 9
    program.write(main=COUNTING.format(then="").replace("** 2", "** 3"))
    with program.start() as (space, main):
        assert reason(space, "area") == "its code, or something that it uses, has changed"
        assert main.area() == 27


def test_why_gives_the_reason_for_the_first_run_after_an_edit(program: Program) -> None:
    program.write(main=COUNTING.format(then=""))
    with program.start() as (_, main):
        assert main.double(2) == 18
        assert "the last time because it had not run before, for " in hw.why(main.area)
    program.write(main=COUNTING.format(then="").replace("** 2", "** 3"))
    with program.start() as (space, main):
        assert main.double(2) == 54
        assert f"It ran once, the last time because {reason(space, 'area')}, for " in hw.why(main.area)
        main.size.value = 4
        assert main.double(2) == 128
        assert "It ran 2 times, the last time because garden.size changed, for " in hw.why(main.area)


def test_helper_that_is_defined_after_the_opening_counts(tmp_path: Path) -> None:
    def start(factor: int) -> tuple[int, int]:
        names: dict[str, Any] = {"__name__": "garden", "hw": hw}
        exec("app = hw.App('garden')\nsize = app.cell('size', 3)", names)  # noqa: S102  # as a notebook does
        with names["app"].open(tmp_path / "garden.db") as space:
            exec("@app.computed\ndef area() -> int:\n    return outer() * size.value", names)  # noqa: S102
            exec("def outer():\n    return factor()", names)  # noqa: S102
            exec(f"def factor():\n    return {factor}", names)  # noqa: S102
            return names["area"](), space.runs(names["area"])

    assert start(2) == (6, 1)
    assert start(3) == (9, 1)


def test_global_with_the_name_of_an_attribute_is_no_part_of_the_code(program: Program) -> None:
    program.write(
        main="""
import headwater as hw

app = hw.App("garden")
strip = object()
append = []

@app.computed
def label() -> str:
    found = []
    found.append(" rose ".strip())
    return found[0]

append.append(1)
"""
    )
    with program.start() as (space, main):
        assert main.label() == "rose"
        assert space.runs(main.label) == 1
    with program.start() as (space, main):
        assert space.explain_resume().missed == ()
        assert main.label() == "rose"
        assert space.runs(main.label) == 0


def test_list_with_the_name_of_an_attribute_is_not_blamed_for_an_edit(program: Program) -> None:
    text = COUNTING.format(then="append.append(1)").replace("names = {}", "names = {}\nappend = []")
    program.write(main=text)
    with program.start() as (_, main):
        assert main.area() == 9
    program.write(main=text.replace("** 2", "** 3"))
    with program.start() as (space, main):
        assert reason(space, "area") == "its code, or something that it uses, has changed"


def test_function_that_moves_from_a_notebook_to_a_script_does_not_run(tmp_path: Path) -> None:
    """In a notebook, imports and functions are compiled one after the other; in a script, together."""
    imports = "import csv\nimport headwater as hw\n"
    rest = """
app = hw.App("garden")
lines = app.cell("lines", ["name,height", "rose,3"])

@app.computed
def heights() -> list[int]:
    return [int(row["height"]) for row in csv.DictReader(lines.value)]
"""

    def start(*cells: str) -> tuple[list[int], int]:
        names: dict[str, Any] = {"__name__": "garden"}
        for cell in cells:
            exec(compile(cell, "<cell>", "exec", dont_inherit=True), names)  # noqa: S102  # as a notebook does
        with names["app"].open(tmp_path / "garden.db") as space:
            return list(names["heights"]()), space.runs(names["heights"])

    assert start(imports, rest) == ([3], 1)
    assert start(imports + rest) == ([3], 0)
    assert start(imports, rest) == ([3], 0)


def test_rules_of_a_type_are_part_of_the_code(tmp_path: Path) -> None:
    def opened(limit: int) -> tuple[int, list[int]]:
        app, ran = hw.App("rules"), list[int]()

        def value() -> int:
            ran.append(1)
            return 3

        value.__annotations__["return"] = Annotated[int, Le(limit)]
        result = app.computed(value)
        with app.open(tmp_path / "a.db"):
            return result(), ran

    assert opened(10) == (3, [1])
    assert opened(10) == (3, [])
    assert opened(20) == (3, [1])


def test_a_name_that_does_not_exist_costs_one_look_at_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as `get_ipython` outside of IPython: the print is good as long as the name does not exist."""
    looks: list[object] = []
    function = fingerprint.Fingerprints._function

    def counted(self: fingerprint.Fingerprints, fn: Any, package: str) -> Any:
        looks.append(fn)
        return function(self, fn, package)

    monkeypatch.setattr(fingerprint.Fingerprints, "_function", counted)
    app = hw.App("a")

    @app.computed
    def item(number: int) -> int:
        return number if number >= 0 else does_not_exist(number)  # type: ignore[name-defined]  # noqa: F821

    with app.open("memory:"):
        assert sum(item(number) for number in range(50)) == 1225
    assert len(looks) == 1
