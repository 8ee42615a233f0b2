"""Threads, tasks and processes beside each other: what one of them does is never silently undone by another."""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

import headwater as hw
from headwater.errors import ConflictError, NotFoundError, UsageError
from tests.app.holding import SAFETY_S
from tests.app.shop import run


def test_transactions_of_threads_are_judged_when_they_end_and_sinks_see_only_what_was() -> None:
    app = hw.App("bank")
    accounts = [app.cell(f"a{number}", 100) for number in range(4)]
    sums: set[int] = set()
    app.sink(name="audit")(lambda: sums.add(sum(account.value for account in accounts)))
    landed: list[int] = []

    def work(seed: int) -> None:
        chance = random.Random(seed)
        for _ in range(150):
            one, other = chance.sample(accounts, 2)
            try:
                with space.transaction():
                    x, y = one.value, other.value
                    time.sleep(0)  # let the other thread in
                    one.value, other.value = x - 1, y + 1
            except ConflictError:
                continue
            landed.append(seed)

    with app.open("memory:") as space:
        threads = [threading.Thread(target=work, args=(seed,)) for seed in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SAFETY_S)
        space.sync()
        assert space.stats.rejected == 0
        assert sums == {400}
        assert set(landed) == {0, 1}


def test_part_that_fails_beside_another_task_dooms_the_transaction_instead_of_undoing_the_other() -> None:
    app = hw.App("parts")
    items = app.cell("items", list[int]())

    async def part(space: hw.AsyncSpace, number: int, *, fails: bool) -> None:
        with space.transaction():
            items.append(number)
            await asyncio.sleep(0)
            if fails:
                raise KeyError(number)

    async def main() -> None:
        async with app.aopen("memory:") as space:
            with pytest.raises(UsageError, match="Give each task a transaction of its own"), space.transaction():
                await asyncio.gather(part(space, 1, fails=True), part(space, 2, fails=False), return_exceptions=True)
            assert items.value == []
            with space.transaction():
                await asyncio.gather(part(space, 1, fails=False), part(space, 2, fails=False))
                with pytest.raises(KeyError):
                    await part(space, 3, fails=True)
            assert items.value == [1, 2]

    run(main())


FORKING = """
import os, sys
import headwater as hw

app = hw.App("forked")
count = app.cell("count", 0)
space = app.open("forked.db")
count.value = 1
space.sync()
child = os.fork()
if child == 0:
    for use in (lambda: setattr(count, "value", 99), space.sync, space.close):
        try:
            use()
        except hw.HeadwaterError as error:
            print(error.code, "was opened by the process that this one was forked from" in str(error), flush=True)
    sys.exit(0)
os.waitpid(child, 0)
count.value = 2
space.close()
with app.open("forked.db"):
    print(count.value)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork on this system")
def test_forked_child_cannot_use_what_its_parent_has_open_and_does_it_no_harm(tmp_path: Path) -> None:
    (tmp_path / "forking.py").write_text(FORKING, encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "forking.py"], cwd=tmp_path, capture_output=True, text=True, check=True, timeout=SAFETY_S
    )
    assert ran.stdout.split("\n") == ["HW103 True"] * 3 + ["2", ""]


def test_file_of_another_space_is_not_opened_by_a_wrong_name(tmp_path: Path) -> None:
    app = hw.App("tenant")
    name = app.cell("name", "")
    url = str(tmp_path / "one.db")
    with app.open(url, space="ann"):
        name.value = "Ann"
        with pytest.raises(NotFoundError, match="holds the space 'ann', not 'bob'"):
            app.open(url, space="bob")
    with pytest.raises(NotFoundError, match="holds the space 'ann', not 'bob'"):
        app.open(url, space="bob")
    with app.open(tmp_path / "one.db"):
        assert name.value == "Ann"
