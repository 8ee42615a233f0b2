"""Rule 23, where the other space is at a server: the sending process and the server are killed, one or both."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from headwater.host.space_files import file_name
from headwater.scheduler.events import outgoing
from tests.cli.conftest import Run
from tests.server.running import DEADLINE_S, ServeProcess, until
from tests.spaces.sales_to_kill import NOTHING_WRONG, STEPS, Sales

ROOT = Path(__file__).parents[2]
KILLS = int(os.environ.get("SPACES_KILLS", "10"))
"""Kills of the sending process, and as many of the server. docs/internals/reliability.md has the figures of more."""

PART = 40
"""As many in one test, with files of its own: a test has a limit of time, however many kills there are."""


@contextmanager
def selling(folder: Path, seed: int, url: str) -> Iterator[subprocess.Popen[bytes]]:
    """A process that sells, in the folder, with the bank at the server. It is killed at the end."""
    command = [sys.executable, "-m", "tests.spaces.sales_to_kill", str(folder), str(seed)]
    told = folder / "told"
    with told.open("wb") as writing:
        child = subprocess.Popen(command, cwd=ROOT, stdout=writing, stderr=writing, env={**os.environ, "BANK": url})
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not (folder / f"ready-{seed}").exists():
            assert child.poll() is None, told.read_text()
            assert time.monotonic() < deadline, "the process does not sell"
            time.sleep(0.005)
        yield child
        assert child.poll() is None, told.read_text()
    finally:
        child.kill()
        child.wait()


class Killer:
    """A server and a process that sends to it. Each has its own number of kills."""

    def __init__(self, folder: Path, store: Path, exits: ExitStack) -> None:
        self.folder, self.store, self.exits = folder, store, exits
        self.rng = random.Random(23)
        self.server = exits.enter_context(ServeProcess(store, "--log", "off"))
        self.port = self.server.port
        self.kills = {"server": 0, "sender": 0}

    @property
    def url(self) -> str:
        return f"ws://127.0.0.1:{self.port}/bank"

    def kill_server(self) -> None:
        self.server.end(signal.SIGKILL)
        assert self.server.wait() == -signal.SIGKILL
        self.kills["server"] += 1

    def start_server(self) -> None:
        self.server = self.exits.enter_context(ServeProcess(self.store, "--log", "off", port=self.port))

    def await_sender(self) -> None:
        """Wait until the sender reaches the new server: otherwise most kills would meet a process that waits."""
        log = self.store / f"{file_name('bank')}-wal"
        before = log.stat().st_mtime_ns if log.exists() else 0
        until(lambda: log.exists() and log.stat().st_mtime_ns > before, "the sender delivers to the new server")

    def sell(self, seed: int, server_kills: int) -> None:
        """One process sells, until it is killed. The server is killed meanwhile, and at times is away at the end."""
        is_away = False
        with selling(self.folder, seed, self.url):
            for number in range(server_kills):
                time.sleep(self.rng.random() * 0.3)
                self.kill_server()
                is_away = number == server_kills - 1 and self.rng.random() < 0.3
                if not is_away:
                    self.start_server()
                    self.await_sender()
            time.sleep(self.rng.random() * (0.05 if is_away else 0.3))
        self.kills["sender"] += 1
        if is_away:
            self.start_server()


def receipts_in(run: Run, path: Path) -> int:
    """The number of receipts in a file, which is verified first."""
    run("verify", "--url", path)
    return len(json.loads(run("ls", "receipt:", "--json", "--url", path).stdout))


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS)
def test_a_server_that_is_killed_after_its_sender_died_at_a_step_has_lost_and_doubled_nothing(
    tmp_path: Path, store: Path, step: str
) -> None:
    sales = Sales()
    with ExitStack() as exits:
        killer = Killer(tmp_path, store, exits)
        command = [sys.executable, "-m", "tests.spaces.sales_to_kill", str(tmp_path), "1", step]
        child = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "BANK": killer.url}, capture_output=True, timeout=120, check=False
        )
        assert child.returncode == -signal.SIGKILL, child.stderr.decode()
        killer.kill_server()
        killer.start_server()
        with sales.bank.open(killer.url), sales.open_shop(str(tmp_path)) as shop:
            shop.delivered(timeout="2m")
            assert (sales.outcome(), shop.stats.undelivered) == (NOTHING_WRONG, 0)
            assert sales.sold.value >= 2


@pytest.mark.slow
@pytest.mark.parametrize("first", range(0, KILLS, PART))
def test_kills_of_the_sender_and_of_the_server_lose_double_and_reorder_nothing(
    tmp_path: Path, store: Path, run: Run, first: int
) -> None:
    sales, kills = Sales(), min(PART, KILLS - first)
    with ExitStack() as exits:
        killer = Killer(tmp_path, store, exits)
        for seed in range(kills):
            rest = kills - killer.kills["server"]
            killer.sell(seed, rest if seed == kills - 1 else min(rest, killer.rng.randint(0, 2)))
        with sales.bank.open(killer.url), sales.open_shop(str(tmp_path)) as shop:
            shop.delivered(timeout="2m")
            sold, outcome, left = sales.sold.value, sales.outcome(), outgoing.entries(shop._opening.replica)
    receipts = receipts_in(run, store / file_name("bank"))
    print(f"{killer.kills} kills, {sold:,} sales, {receipts:,} receipts: {outcome}")
    assert killer.kills == {"server": kills, "sender": kills}
    assert (outcome, left) == (NOTHING_WRONG, [])
    assert sold >= kills
    # Of the event and of the post.
    assert receipts == 2 * sold
