"""Table `walk`: what one write runs through, `count.value += 1` with a computed and a sink that observe it.

Counts of Python calls, which are the same on every machine. Run by itself, it prints each call: `python -m bench.walk`.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from types import CodeType, FrameType
from typing import TYPE_CHECKING, Any, Final

import headwater as hw

if TYPE_CHECKING:
    from bench.table import Table

ROOT: Final = Path(hw.__file__).parent

CALLS_MAX: Final = 150
"""Calls in one walk: a part of a space that is idle and is asked on every write shows here."""


@dataclass(slots=True)
class Walk:
    """The calls of one write, in order: depth, file, function."""

    calls: list[tuple[int, str, str]]

    @property
    def files(self) -> set[str]:
        """The modules that were visited."""
        return {file for _, file, _ in self.calls}

    @property
    def depth(self) -> int:
        """Frames above the write."""
        return max(depth for depth, _, _ in self.calls)

    @property
    def changes(self) -> int:
        """How often a call was in another package than the call before it."""
        packages = [file.partition("/")[0] for _, file, _ in self.calls]
        return sum(one != other for one, other in pairwise(packages))


def walk() -> Walk:
    """One write, after some that have warmed everything up."""
    app = hw.App("walk")
    count = app.cell("count", 0)
    seen: list[int] = []

    @app.computed
    def double() -> int:
        return count.value * 2

    @app.sink
    def show() -> None:
        seen.append(double())

    with app.open("memory:") as space:
        for _ in range(5):
            count.value += 1
        space.sync()
        calls: list[tuple[int, str, str]] = []
        depth = 0
        known: dict[CodeType, str] = {}

        def record(frame: FrameType, event: str, _arg: Any) -> None:
            nonlocal depth
            if event == "call":
                depth += 1
                code = frame.f_code
                file = known.get(code)
                if file is None:
                    path = Path(code.co_filename)
                    file = known[code] = str(path.relative_to(ROOT)) if path.is_relative_to(ROOT) else ""
                if file:
                    calls.append((depth, file, code.co_qualname))
            elif event == "return":
                depth -= 1

        sys.setprofile(record)
        try:
            count.value += 1
        finally:
            sys.setprofile(None)
        assert seen[-1] == count.value * 2
    return Walk(calls)


def measure(table: Table) -> None:
    """All rows."""
    found = walk()
    table.add("calls", f"{len(found.calls)}", f"<= {CALLS_MAX}", len(found.calls) <= CALLS_MAX)
    table.add("files", f"{len(found.files)}")
    table.add("frames", f"{found.depth}")
    table.add("changes of package", f"{found.changes}")


if __name__ == "__main__":
    found = walk()
    for depth, file, name in found.calls:
        print(f"{'  ' * depth}{file} {name}")
    print(
        f"{len(found.calls)} calls, {len(found.files)} files, {found.depth} frames, {found.changes} changes of package"
    )
