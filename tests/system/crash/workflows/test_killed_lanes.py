"""A host with several lanes at work is killed at random moments, again and again."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import pytest

from headwater.core import doc_key, open_space
from tests.support.service import SAFETY_S
from tests.system.crash.workflows.till import CUSTOMERS, PAYMENTS

KILLS = 8
ROOT = Path(__file__).parents[4]


def started(path: Path, calls: Path) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.system.crash.workflows.till", str(path), str(calls)]
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE)


def lines_of(calls: Path) -> list[list[str]]:
    return [line.split() for line in calls.read_text(encoding="utf-8").splitlines()] if calls.exists() else []


@pytest.mark.slow
def test_no_payment_is_lost_or_made_twice_or_out_of_order_whatever_moment_the_host_is_killed_at(tmp_path: Path) -> None:
    rng = random.Random(17)
    path, calls = tmp_path / "till.db", tmp_path / "calls.txt"
    for _ in range(KILLS):
        wanted = len(lines_of(calls)) + rng.randrange(3, 10)
        process = started(path, calls)
        end = time.monotonic() + SAFETY_S
        while len(lines_of(calls)) < wanted and process.poll() is None and time.monotonic() < end:
            time.sleep(0.002)
        # A moment more, that is never the same: nothing is waited for.
        time.sleep(rng.random() * 0.01)
        process.kill()
        process.communicate(timeout=SAFETY_S)
    made = lines_of(calls)
    assert KILLS <= len(made) < len(CUSTOMERS) * PAYMENTS, "each life has got somewhere, and none to the end"

    process = started(path, calls)
    said, _ = process.communicate(timeout=SAFETY_S)
    assert (said.strip(), process.returncode) == (b"done", 0)
    made = lines_of(calls)
    keys: dict[tuple[str, str], set[str]] = defaultdict(set)
    order: dict[str, list[int]] = defaultdict(list)
    for key, customer, number in made:
        keys[customer, number].add(key)
        order[customer].append(int(number))
    # A call that was lost is sent again under its key: the bank makes each payment once.
    assert all(len(known) == 1 for known in keys.values())
    assert len(keys) == len(CUSTOMERS) * PAYMENTS
    # Of one customer, none before the one before it; a number comes again only right after itself.
    assert {customer: list(dict.fromkeys(numbers)) for customer, numbers in order.items()} == {
        customer: list(range(PAYMENTS)) for customer in CUSTOMERS
    }
    assert all(numbers == sorted(numbers) for numbers in order.values())
    with open_space(str(path), create=False) as space:
        assert space.attach().read(doc_key("till.paid")) == len(CUSTOMERS) * PAYMENTS
