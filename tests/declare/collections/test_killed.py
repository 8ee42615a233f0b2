"""Killed while a collection is filled, and while its indexes are built: the file is whole, and the rest can be done."""

import os
import random
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.store.engine import Engine
from headwater.store.verification import verify
from headwater.values.ids import MAIN
from headwater.values.sortkey import AFTER
from tests.declare.collections.stock import Part, stock

ROOT = Path(__file__).parents[3]


def run_and_kill(verb: str, path: Path, lines: int) -> list[str]:
    """Let a program work, and kill it after so many lines. Returns all that it has said."""
    code = f"from tests.declare.collections.stock import {verb}; {verb}({str(path)!r})"
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, cwd=ROOT, env=dict(os.environ), text=True
    ) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        said += child.stdout.readlines()
    return [line.strip() for line in said if line.endswith("\n")]


def check(engine: Engine) -> None:
    """Verify finds nothing, and each index equals one made anew."""
    collections = engine.collections
    named = collections.records(MAIN)["part"].named
    for each, anew in zip(named, collections.made(MAIN, named), strict=True):
        assert collections.span(MAIN, each.name, b"", AFTER) == anew.all_keys()
    assert collections.rebuilt == []
    report = verify(engine)
    assert report.ok, report.findings


@pytest.mark.slow
def test_killed_while_it_is_filled_the_batches_before_are_there_and_indexed(tmp_path: Path) -> None:
    rng, path = random.Random(3), tmp_path / "stock.db"
    cut = 0
    for _ in range(6):
        said = run_and_kill("fill", path, rng.randrange(2, 20))
        cut += "done" not in said
        app, parts = stock(more=False)
        with app.open(path) as space:
            numbers = parts.order_by(Part.number).values(Part.number)
            assert numbers == list(range(len(numbers)))
            assert len(numbers) % 1000 == 0, "whole batches"
            space._opening.ask_store(check)
    assert cut, "at least once in the middle"


@pytest.mark.slow
def test_killed_while_indexes_are_built_the_next_opening_builds_them(tmp_path: Path) -> None:
    path = tmp_path / "stock.db"
    app, parts = stock(more=False)
    with app.open(path):
        parts.insert_many({"number": n, "shelf": f"s{n % 17}", "weight": n / 8} for n in range(5500))
    cut = 0
    for lines in (1, 2, 3, 4, 5, 6):
        said = run_and_kill("widen", path, lines)
        cut += "open" not in said
        with app.open(path) as space:
            assert parts.count() == 5500
            space._opening.ask_store(check)
    assert cut >= 3
    app, parts = stock(more=True)
    with app.open(path) as space:
        assert parts.where(Part.shelf == "s3").count() == len(range(3, 5500, 17))
        space._opening.ask_store(check)
