"""The fingerprint of a function: what the unit that it was compiled in, and names that it does not load, do to it."""

from __future__ import annotations

import dis
import random as random_module
import types
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.declare.functions import bytecode
from headwater.declare.functions.fingerprint import Fingerprints

IMPORTS = "import csv\nimport functools\nimport json as text\n"


def fingerprint(*units: str, name: str = "f", nonce: bytes = b"1") -> bytes:
    """The fingerprint of a function after these units of code were run one after the other, as cells of a notebook."""
    known: dict[str, Any] = {"__name__": "garden"}
    for unit in units:
        exec(compile(unit, "<unit>", "exec", dont_inherit=True), known)  # noqa: S102  # as a notebook does
    return Fingerprints(nonce, lambda package, module: package == module).of(known[name])


BODIES = {
    "call of a module": "def f(x):\n    return csv.reader(x)",
    "call with keywords": "def f(x):\n    return csv.reader(x, delimiter=';', *x)",
    "call of a result": "def f(x):\n    return functools.partial(csv.reader)(x)",
    "call of a call of a call": "def f(x):\n    return functools.partial(functools.partial(csv.reader)(x)())()",
    "call of an attribute of an attribute": "def f(x):\n    return text.decoder.JSONDecoder().decode(x)",
    "local variable with the name of a module": "def f(x):\n    csv = x\n    return csv.strip()",
    "variable of the closure": "def make(csv):\n    def f(x):\n        return csv.strip(x)\n    return f\nf = make(1)",
    "body of a class": "def f():\n    class A:\n        csv = csv\n        rows = csv.reader([])\n    return A",
    "decorator": "def f(x):\n    @functools.wraps(x)\n    def g():\n        return text.dumps(1)\n    return g",
    "loop": "def f(x):\n    for y in csv.reader(x):\n        if csv.reader(y): continue\n    return text.dumps(x)",
    "exception": "def f(x):\n    try:\n        return text.loads(x)\n    except text.Error:\n        x.close()",
    "lines": "def f(x):\n    return (\n        csv\n        .reader(\n            x\n        )\n    )",
    "comprehension": "def f(x):\n    return [text.dumps(y) for y in csv.reader(x) if text.loads(y)]",
    "coroutine": "async def f(x):\n    async with csv.reader(x) as y:\n        async for z in text.loads(y): await z",
    "long jump": "def f(x):\n    while x:\n" + "        csv.reader(text.loads(x))\n" * 200,
}


@pytest.mark.parametrize("body", BODIES)
def test_unit_that_contains_the_imports_does_not_count(body: str) -> None:
    assert fingerprint(f"{IMPORTS}\n{BODIES[body]}") == fingerprint(IMPORTS, BODIES[body])


def test_of_these_bodies_only_those_that_differ_in_line_breaks_have_one_fingerprint() -> None:
    prints = {name: fingerprint(IMPORTS, body) for name, body in BODIES.items()}
    assert prints.pop("lines") == prints["call of a module"]
    assert len(set(prints.values())) == len(prints)


def test_feature_of_the_unit_does_not_count() -> None:
    body = "def f(x):\n    return x + 1"
    assert fingerprint(f"from __future__ import annotations\n{body}") == fingerprint(body)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("csv.reader(x)", "csv.reader"),
        ("csv.reader(x)", "csv.writer(x)"),
        ("csv.reader(x)", "x.reader(csv)"),
        ("csv.reader.x()", "csv.reader().x"),
        ("csv.reader(x)()", "csv.reader(x())"),
        ("(csv.reader, x())", "csv.reader(x)"),
    ],
)
def test_other_call_is_another_fingerprint(one: str, other: str) -> None:
    units = [[f"{IMPORTS}def f(x):\n    return {each}"] for each in (one, other)]
    units += [[IMPORTS, f"def f(x):\n    return {each}"] for each in (one, other)]
    first, second, third, fourth = (fingerprint(*each) for each in units)
    assert first == third
    assert second == fourth
    assert first != second


def test_extent_of_a_try_counts() -> None:
    """The instructions are the same: only the exception table differs."""
    within = "def f():\n    try: a(); b()\n    except ValueError: c()"
    before = "def f():\n    a()\n    try: b()\n    except ValueError: c()"
    assert fingerprint(within) != fingerprint(before)


# -- names -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "body",
    [
        "return ' x '.strip()",
        "return x.strip",
        "x.strip = 1",
        "strip = 1; return strip",
        "import strip",
        "from x import strip",
        "return x(strip=1)",
        "return lambda y: y.strip()",
        "global strip; strip = 1",
    ],
)
def test_global_that_is_not_loaded_does_not_count(body: str) -> None:
    function = f"def f(x):\n    {body}"
    assert fingerprint("strip = object()", function, nonce=b"1") == fingerprint(function, nonce=b"2")


@pytest.mark.parametrize(
    "body",
    [
        "return strip",
        "return strip(x)",
        "return strip.x",
        "return x.strip(strip)",
        "return lambda: strip",
        "return [strip for _ in x]",
        "del strip.x",
        "class A:\n        y = strip",
        "class A:\n        strip = strip",
        "class A:\n        def g(self): return strip",
    ],
)
def test_global_that_is_loaded_counts(body: str) -> None:
    function = f"def f(x):\n    {body}"
    prints = {fingerprint(f"strip = {value}", function) for value in (1, 2)}
    assert len(prints) == 2


def test_name_of_a_class_body_is_no_name_that_may_come() -> None:
    code = compile("def f():\n class A:\n  x = 1\n  y = x, z", "<unit>", "exec").co_consts[0]
    assert {"x", "z"} <= set(bytecode.global_names(code))
    assert "z" in bytecode.names_of(code).required
    assert "x" not in bytecode.names_of(code).required


# -- generated functions ---------------------------------------------------------------------------------------

NAMES = ("csv", "functools", "text", "x", "y", "size")
ATTRIBUTES = ("reader", "strip", "loads", "size", "csv")


class Source:
    """Functions made by chance."""

    def __init__(self, random: random_module.Random) -> None:
        self._random = random

    def function(self) -> str:
        depth = self._random.randint(1, 3)
        return "\n".join(["def f(x, y=1):", *self._block(depth, "    "), "    return x"])

    def _block(self, depth: int, indent: str) -> Iterator[str]:
        for _ in range(self._random.randint(1, 3)):
            yield from self._statement(depth, indent)

    def _statement(self, depth: int, indent: str) -> Iterator[str]:
        kind = self._random.randint(0, 6 if depth else 1)
        inner = indent + "    "
        if kind == 0:
            yield f"{indent}x = {self._value(3)}"
        elif kind == 1:
            yield f"{indent}{self._value(3)}"
        elif kind == 2:
            yield f"{indent}if {self._value(2)}:"
            yield from self._block(depth - 1, inner)
            yield f"{indent}else:"
            yield from self._block(depth - 1, inner)
        elif kind == 3:
            yield f"{indent}for y in {self._value(2)}:"
            yield from self._block(depth - 1, inner)
        elif kind == 4:
            yield f"{indent}try:"
            yield from self._block(depth - 1, inner)
            yield f"{indent}except {self._value(1)}:"
            yield from self._block(depth - 1, inner)
        elif kind == 5:
            yield f"{indent}with {self._value(2)} as y:"
            yield from self._block(depth - 1, inner)
        else:
            yield f"{indent}def g(csv=1, *, z=x):"
            yield from self._block(depth - 1, inner)

    def _value(self, depth: int) -> str:
        kind = self._random.randint(0, 7) if depth else 0
        if kind == 0:
            return self._random.choice(NAMES)
        inner = self._value(depth - 1)
        if kind == 1:
            return f"{inner}.{self._random.choice(ATTRIBUTES)}"
        if kind <= 4:
            return f"{inner}.{self._random.choice(ATTRIBUTES)}({self._value(depth - 1)})"
        if kind == 5:
            return f"{self._random.choice(NAMES)}({inner}, strip={self._value(depth - 1)})"
        if kind == 6:
            return f"[{inner} for y in {self._value(depth - 1)}]"
        return f"({inner} + {self._value(depth - 1)})"


sources = st.randoms(use_true_random=False).map(lambda random: Source(random).function())


@given(sources)
def test_function_has_one_fingerprint_in_one_unit_and_in_two(source: str) -> None:
    given = f"{IMPORTS}size = 1\n"
    assert fingerprint(given + source) == fingerprint(given, source) == fingerprint(f"{given}y = z = 2\n", source)


@given(sources)
def test_steps_of_code_are_those_of_the_standard_library(source: str) -> None:
    for code in nested(compile(IMPORTS + source, "<unit>", "exec")):
        told = [each for each in dis.get_instructions(code) if each.opname != "EXTENDED_ARG"]
        steps = bytecode._steps(code)
        assert [step.operation for step in steps] == [each.opcode for each in told]
        jumps = [each.argval for each in told if each.opcode in dis.hasjrel]
        assert [target * 2 for _, target in bytecode._jump_targets(steps, len(code.co_code) // 2)] == jumps
        loads = ("LOAD_GLOBAL", "LOAD_NAME")
        inner = [each for each in nested(code) if each is not code]
        loaded = {each.argval for each in told if each.opname in loads}.union(*map(bytecode.global_names, inner))
        assert set(bytecode.global_names(code)) == loaded


def nested(code: types.CodeType) -> Iterator[types.CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            yield from nested(constant)
