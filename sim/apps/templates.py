"""The parts of generated apps that are the same in each."""

from __future__ import annotations

from typing import Final

HEAD: Final = """\
import asyncio

import headwater as hw
from headwater.errors import SchemaError
from simulated_outside import ask, called, show, work

app = hw.App("sim")
ledger = app.cell("ledger", type=list[dict[str, object]], default=[])


class Odd(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text")


class Item(hw.Doc):
    n: int = 0
    next: hw.Link["Item | None"] = hw.Link()


class Board(hw.Doc):
    x: int = 0
    items: hw.List[Item] = hw.List()
    marks: hw.Map[str, int] = hw.Map()
    first: hw.Link[Item | None] = hw.Link()


def at(part: hw.Cell[int]) -> int:
    try:
        return part.value
    except SchemaError:
        return 0


def first_of(board: Board) -> int:
    return -1 if board.first is None else board.first.n


def second_of(board: Board) -> int:
    return -1 if board.first is None or board.first.next is None else board.first.next.n
"""

RESTLESS: Final = """\
{name} = app.cell("{name}", 0)


@app.sink
def {name}_left() -> None:
    if {seed}.value < {limit} and {name}.value != {seed}.value + 1:
        {name}.value = {seed}.value + 1


@app.sink
def {name}_right() -> None:
    if {name}.value < {limit} and {seed}.value != {name}.value + 1:
        {seed}.value = {name}.value + 1
"""

RING: Final = """\
{name}_a = app.cell("{name}_a", 0)
{name}_b = app.cell("{name}_b", 0)


@app.computed(writes=[{name}_a])
def {name}_first() -> int:
    {name}_a.value = min({name}_b.value, 3)
    return {seed}.value


@app.computed(writes=[{name}_b])
def {name}_second() -> int:
    {name}_b.value = min({name}_a.value, 3)
    return {seed}.value + 1


@app.sink
def {name}() -> None:
    show("{name}", {name}_first() + {name}_second() if {lit}.value else -1)
"""

MATERIALIZER: Final = """\
@app.materializer(writes=[{target}])
def {name}() -> None:
    found = [str(each % 5) for each in {source}.value]
    for each in sorted(set(found)):
        {target}.key(each).value = found.count(each)
    for each in [each for each in {target}.value if each not in found]:
        {target}.remove(each)
"""

PATTERN: Final = """\
@hw.pattern
def {name}(p: hw.Builder, key: str, given: int) -> dict[str, object]:
    left = p.cell("left", given)

    @p.computed
    def label() -> int:
{label}
    @p.sink
    def shown() -> None:
        show("{name} " + key, label())

    @p.handler
    def tick(n: int, tag: str) -> int:
        called(tag)
        left.value = (left.value + n) % 997
        ledger.append({{"tag": tag, "by": "{name} " + key, "n": n, "sent": [], "result": left.value}})
        return left.value

{nested}    return {{"left": left, "label": label, "tick": tick}}
"""

PATIENT: Final = """\
@app.sink({options})
async def {name}() -> None:
    value = {cell}.value
    work(5)
    await asyncio.sleep(3000 if value == {held} else 0.01)
    show("{name}", value)
"""

STARTER: Final = """\
@app.sink
def {name}() -> None:
    keys = ["{name}" + str(each) for each in {source}.value]
    for each in {source}.value:
        hw.start({pattern}, "{name}" + str(each), key="{name}" + str(each), given=each)
{fails}    show("{name} children", sorted(set(keys)))
    show("{name}", len({source}.value))
"""

LIT: Final = """\
@app.computed
def {name}_lit() -> int:
    keys = ["{name}" + str(each) for each in {source}.value]
    for each in {source}.value:
        hw.start({pattern}, "{name}" + str(each), key="{name}" + str(each), given=each)
{fails}    show("{name} children", sorted(set(keys)))
    return len({source}.value)


@app.sink
def {name}() -> None:
    show("{name}", {name}_lit() if {lit}.value else -1)
"""

FAILS: Final = """\
    if {fails}.value % 3 == 2:
        raise ValueError("generated")
"""
