"""Rule 23: what is sent to another space is part of the commit that sends it, and is handled there exactly once."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

import headwater as hw
from headwater.scheduler.events import outgoing
from headwater.scheduler.events.cursors import cursor_of
from headwater.scheduler.events.outbox import OUTBOX
from headwater.values.tree import Value
from tests.spaces.sales_to_kill import NOTHING_WRONG, STEPS, Sales

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("SPACES_KILLS", "20"))
"""Kills of the random run. The figures in docs/internals/reliability.md are of 500."""

PART = 100
"""As many in one test, with files of its own: a test has a limit of time, however many kills there are."""


def entries(space: hw.Space) -> list[Mapping[str, Value]]:
    found = space._opening.replica.read(OUTBOX)
    assert isinstance(found, Mapping)
    return list(found.values())


# --- one commit here, one there, one here -----------------------------------------------------------------


def test_the_entry_is_part_of_the_commit_and_is_taken_out_after_the_receipt(tmp_path: Path) -> None:
    sales = Sales()
    with sales.open_bank(str(tmp_path)) as bank, sales.open_shop(str(tmp_path)) as shop:
        with shop.transaction():
            sales.stock.value -= 2
            ticket = sales.credit.send(1, 2)
            assert (ticket.state, shop.stats.undelivered) == ("queued", 0)
        (entry,) = entries(shop)
        assert {name: entry[name] for name in ("to", "stream")} == {"to": bank.id, "stream": "bank.credit"}
        assert ticket.result() is None
        shop.delivered()
        assert (entries(shop), shop.stats.undelivered, sales.balance.value) == ([], 0, 2)
        cursor = bank._opening.replica.read(cursor_of(shop.id))
        assert isinstance(cursor, Mapping)
        assert list(cursor) == [shop._opening.lineage.hex()]


def test_nothing_is_sent_by_a_transaction_that_is_rolled_back(tmp_path: Path) -> None:
    sales = Sales()
    with sales.open_bank(str(tmp_path)) as bank, sales.open_shop(str(tmp_path)) as shop:
        with pytest.raises(KeyError), shop.transaction():
            ticket = sales.credit.send(1, 2)
            raise KeyError
        with shop.transaction():
            with pytest.raises(ValueError, match="inner"), shop.transaction():
                inner = sales.credit.send(1, 2)
                sales.posted.post.increment(1)
                raise ValueError("inner")
            sales.sold.value = 1
        shop.delivered()
        bank.sync()
        assert (ticket.state, inner.state, bank.runs(sales.credit), sales.posted.value) == ("refused", "refused", 0, 0)


def test_an_event_with_an_id_of_its_own_is_the_same_event_for_every_sender(tmp_path: Path) -> None:
    sales = Sales()
    with sales.open_bank(str(tmp_path)) as bank, sales.open_shop(str(tmp_path)) as shop:
        sales.credit.once("sale 1", by="till").send(1, 2)
        with shop.transaction():
            ticket = sales.credit.once("sale 1", by="till").send(1, 2)
        shop.delivered()
        assert (sales.credited.value, bank.runs(sales.credit), ticket.result()) == (1, 1, None)


def test_a_large_payload_is_a_document_of_its_own_until_it_is_handled(tmp_path: Path) -> None:
    shop, bank = hw.App("shop"), hw.App("bank")
    letters = bank.cell("letters", 0)

    @bank.handler
    def read(text: str) -> None:
        letters.value += len(text)

    with shop.open(str(tmp_path / "shop.db")) as near:
        with near.transaction(), bank.open(str(tmp_path / "bank.db")):
            read.send("x" * 100_000)
            read.send("y")
        (large, small) = outgoing.entries(near._opening.replica)
        assert ("payload" in entries(near)[0], "payload" in entries(near)[1]) != (True, True)
        assert near._opening.replica.read(outgoing.payload_of(large.letters)) == {"text": "x" * 100_000}
        with bank.open(str(tmp_path / "bank.db")):
            near.delivered()
            assert (letters.value, small.payload) == (100_001, {"text": "y"})
        assert near._opening.replica.read(outgoing.payload_of(large.letters)) != {"text": "x" * 100_000}


def test_a_file_with_entries_for_other_spaces_names_the_feature_before_the_first_of_them(tmp_path: Path) -> None:
    sales = Sales()
    with sales.open_bank(str(tmp_path)) as bank, sales.open_shop(str(tmp_path)) as shop:
        features = [space._opening.ask_store(lambda engine: engine.backend.features()) for space in (bank, shop)]
        assert features == ["", ""]
        with shop.transaction():
            sales.credit.send(1, 1)
            assert "spaces" in shop._opening.ask_store(lambda engine: engine.backend.features())
        assert bank._opening.ask_store(lambda engine: engine.backend.features()) == ""


# --- crashes ----------------------------------------------------------------------------------------------


def run_until_killed(folder: Path, seed: int, step: str = "", after_s: float = 0.0) -> None:
    command = [sys.executable, "-m", "tests.spaces.sales_to_kill", str(folder), str(seed), *([step] if step else [])]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as child:
        if step:
            _, told = child.communicate(timeout=120)
            assert child.returncode == -9, told.decode()
            return
        ready = folder / f"ready-{seed}"
        while not ready.exists():
            assert child.poll() is None, child.communicate()[1].decode()
            time.sleep(0.005)
        time.sleep(after_s)
        child.kill()
        child.communicate()


def outcome_in(folder: Path) -> tuple[int, dict[str, int]]:
    sales = Sales()
    with sales.open_bank(str(folder)), sales.open_shop(str(folder)) as shop:
        shop.delivered()
        return sales.sold.value, sales.outcome()


@pytest.mark.parametrize("step", STEPS)
def test_a_process_that_dies_at_a_step_leaves_nothing_lost_and_nothing_doubled(tmp_path: Path, step: str) -> None:
    run_until_killed(tmp_path, 1, step)
    sold, outcome = outcome_in(tmp_path)
    assert outcome == NOTHING_WRONG
    assert sold >= 2


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, KILLS, PART))
def test_a_process_that_is_killed_at_random_moments_loses_doubles_and_reorders_nothing(
    tmp_path: Path, first: int
) -> None:
    rng, kills = random.Random(4 + first), min(PART, KILLS - first)
    for seed in range(first, first + kills):
        run_until_killed(tmp_path, seed, after_s=rng.random() * 0.15)
    sold, outcome = outcome_in(tmp_path)
    print(f"{kills} kills, {sold:,} sales: {outcome}")
    assert outcome == NOTHING_WRONG
    assert sold >= kills
