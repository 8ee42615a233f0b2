"""A file with one byte flipped, as people meet it: the app and the commands say so, or nothing is missing."""

from __future__ import annotations

from pathlib import Path
from shutil import copyfile

import apsw
import pytest

import headwater as hw
from headwater.errors import CorruptError
from tests.cli.conftest import Run

KEY = b"space/bank.balance"


def bank(path: Path, *, add: int = 0) -> int:
    """A program that counts, opened once more."""
    app = hw.App("bank")
    balance, other = app.cell("balance", 0), app.cell("other", 0)
    with app.open(str(path)):
        for _ in range(add):
            balance.value += 100
            other.value += 1
        return balance.value


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "bank.db"
    assert bank(path, add=30) == 3000
    return path


def flips(data: bytes) -> list[bytes]:
    """One for each page that has the key: with the key changed there."""
    pages = {at // 4096: at for at in range(len(data)) if data.startswith(KEY, at)}
    return [data[: at + 8] + bytes([data[at + 8] ^ 1]) + data[at + 9 :] for at in pages.values()]


def test_flipped_byte_in_a_key_never_reads_as_the_default(run: Run, file: Path) -> None:
    whole = file.read_bytes()
    refused = 0
    for data in flips(whole):
        file.write_bytes(data)
        try:
            # It goes on writing, so what it reads first counts.
            assert bank(file, add=1) == 3100
        except CorruptError:
            refused += 1
            for command in (("get", "bank.balance"), ("export",)):
                assert "HW205" in run(*command, "--url", str(file), exit=1).stderr
            run("verify", "--url", str(file), exit=1)
    assert refused
    file.write_bytes(whole)
    assert bank(file) == 3000


def test_damaged_write_ahead_log_of_a_killed_space_is_told_by_every_command(run: Run, tmp_path: Path) -> None:
    app = hw.App("bank")
    balance = app.cell("balance", 0)
    killed = tmp_path / "killed.db"
    with app.open(str(tmp_path / "bank.db")) as space:
        for _ in range(50):
            balance.value += 1
            space.sync()
        for suffix in ("", "-wal"):
            copyfile(tmp_path / f"bank.db{suffix}", f"{killed}{suffix}")
    log = Path(f"{killed}-wal")
    data = bytearray(log.read_bytes())
    data[len(data) // 3] ^= 1
    log.write_bytes(data)
    for command in (("get", "bank.balance"), ("export", "--history"), ("verify",)):
        told = run(*command, "--url", str(killed), exit=1)
        assert "killed.db-wal is damaged at byte" in told.stdout + told.stderr
        assert log.read_bytes() == data
    with pytest.raises(CorruptError, match="transactions after that were committed"):
        app.open(str(killed))


FORGED = {
    "count": "update flow_topic set pending = pending + 1",
    "reference": "update flow_event set topic = 77 where id = (select min(id) from flow_event)",
}


@pytest.mark.parametrize("what", FORGED)
def test_tables_of_workflows_that_do_not_fit_together_are_a_finding(run: Run, tmp_path: Path, what: str) -> None:
    copyfile(Path(__file__).parents[1] / "store" / "fixtures" / "format-4.db", tmp_path / "flows.db")
    assert run("verify", "--url", "flows.db").stdout.split("\t")[1] == "sound"
    with apsw.Connection(str(tmp_path / "flows.db")) as db:
        db.execute(f"pragma foreign_keys = off; {FORGED[what]}")
    db.close()
    _, state, *_, findings = run("verify", "--url", "flows.db", exit=1).stdout.split("\t")
    assert state == "damaged" and findings.strip()
