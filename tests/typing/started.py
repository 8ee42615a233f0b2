"""Patterns and pieces as authors type them, with the types that they have. Checkers read this file, and it runs."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import TypedDict, assert_type

import headwater as hw


class Item(hw.Doc):
    title: str


@dataclass
class Timer:
    left: hw.Cell[int]
    doubled: hw.Computed[[], int]
    tick: hw.Handler[[int], int]


class Row(TypedDict):
    text: hw.Computed[[], str]


app = hw.App("started")
step = app.cell("step", 1)


@hw.pattern
def timer(p: hw.Builder, minutes: int, step: hw.Cell[int], *, name: str = "") -> Timer:
    left = p.cell("left", minutes)
    assert_type(left, hw.Cell[int])

    @p.computed
    def doubled() -> int:
        return left.value * 2

    @p.sink
    def show() -> None:
        print(name, doubled())

    @p.handler
    def tick(by: int) -> int:
        left.value -= by * step.value
        return left.value

    return Timer(left, doubled, tick)


@hw.pattern(name="line", version=2)
def row(p: hw.Builder, item: Item) -> Row:
    inner = p.start(timer, "inner", minutes=1, step=step)
    assert_type(inner, hw.Piece[Timer])
    other = p.start(timer, "other", 1, step, name="other")

    @p.computed
    def text() -> str:
        return f"{item.title} {inner.outputs.doubled()} {other.outputs.left.value}"

    return {"text": text}


@app.computed
def chosen() -> hw.Piece[Timer] | str:
    if step.value > 100:
        return "none"
    return timer(3, step, name="chosen")


@app.computed
def started() -> int:
    return hw.start(timer, "child", minutes=2, step=step).outputs.doubled()


@app.handler
def make(title: str) -> str:
    return hw.start(row, title, item=Item(title=title)).id


def use_pieces() -> None:
    assert_type(timer.name, str)
    with app.open("memory:") as space:
        kitchen = space.start(timer, "kitchen", minutes=3, step=step)
        assert_type(kitchen, hw.Piece[Timer])
        assert_type(kitchen.outputs, Timer)
        assert_type(kitchen.outputs.doubled(), int)
        assert_type(kitchen.outputs.tick.send(1).result(), int)
        assert_type(kitchen.generation, int)
        assert_type(kitchen.key, str)
        assert_type(kitchen.is_running, bool)
        assert_type(space.start(row, "r", Item(title="milk")).outputs["text"](), str)
        found = chosen()
        if isinstance(found, hw.Piece):
            assert_type(found.outputs.left.value, int)
        assert_type(started(), int)
        assert_type(make.send("tea").result(), str)
        kitchen.stop()
        assert kitchen.status == "stopped"


async def use_pieces_in_a_loop() -> None:
    async with app.aopen("memory:", space="b") as space:
        assert_type(space.start(timer, "kitchen", 3, step), hw.Piece[Timer])
        await space.settle()


if __name__ == "__main__":
    use_pieces()
    asyncio.run(use_pieces_in_a_loop())
