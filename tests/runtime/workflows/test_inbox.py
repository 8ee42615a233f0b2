"""The program of the guide, as it stands in examples/: notes become rows of a ledger, each once."""

from __future__ import annotations

import csv
import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest

from headwater.runtime.options import Options
from headwater.testing import SimClock

PROGRAM = Path(__file__).resolve().parents[3] / "examples" / "inbox.py"


@pytest.fixture
def inbox(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The program, imported in a folder with two notes."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "inbox").mkdir()
    for name in ("a.txt", "b.txt"):
        (tmp_path / "inbox" / name).write_text(f"text of {name}", encoding="utf-8")
    spec = importlib.util.spec_from_file_location("inbox_program", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "inbox_program", module)
    spec.loader.exec_module(module)
    return module


def options(clock: SimClock) -> Options:
    return Options(wall=clock.now_ms, durability="normal")


def ledger() -> list[list[str]]:
    path = Path("ledger.csv")
    return list(csv.reader(path.read_text(encoding="utf-8").splitlines())) if path.exists() else []


def test_notes_become_rows_once_somebody_has_approved(inbox: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    clock = SimClock()
    with inbox.app.open_with("inbox.db", options(clock)) as space:
        space.workflows.drain()
        assert inbox.flow.status.sentence == "Waiting for you to approve: Append 2 rows. Approve it or reject it."
        assert inbox.flow.schedule == "poll every 5 minutes"
        assert ledger() == []
        [run] = [run for run in inbox.flow.runs() if run.status == "paused:approval"]
        inbox.flow.approve(run.id)
        space.workflows.drain()
        assert sorted(row[1:] for row in ledger()) == [["a.txt", "text of a.txt"], ["b.txt", "text of b.txt"]]
        assert capsys.readouterr().out == "2 rows added\n"
        # Polled again, the same notes are the same events.
        clock.advance(300_000)
        space.workflows.drain()
        assert len(ledger()) == 2
        assert inbox.flow.status.state == "Idle"


def test_a_power_failure_after_the_rows_were_written_adds_none(
    inbox: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    clock = SimClock()
    mutate = inbox.Summarise.mutate

    def dies(self: object, run: object, data: object) -> object:
        mutate(self, run, data)
        raise KeyboardInterrupt

    with inbox.app.open_with("inbox.db", options(clock)) as space:
        space.workflows.drain()
        inbox.flow.approve(inbox.flow.runs()[0].id)
        monkeypatch.setattr(inbox.Summarise, "mutate", dies)
        with pytest.raises(KeyboardInterrupt):
            space.workflows.drain()
    monkeypatch.setattr(inbox.Summarise, "mutate", mutate)
    with inbox.app.open_with("inbox.db", options(clock)) as space:
        space.workflows.drain()
        assert len(ledger()) == 2
        assert capsys.readouterr().out == "2 rows added\n"
        assert [found.status for found in inbox.flow.inputs()] == ["done", "done"]


def test_a_power_failure_before_the_rows_were_written_has_them_written(
    inbox: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimClock()
    mutate = inbox.Summarise.mutate

    def dies(self: object, run: object, data: object) -> object:
        raise KeyboardInterrupt

    with inbox.app.open_with("inbox.db", options(clock)) as space:
        space.workflows.drain()
        inbox.flow.approve(inbox.flow.runs()[0].id)
        monkeypatch.setattr(inbox.Summarise, "mutate", dies)
        with pytest.raises(KeyboardInterrupt):
            space.workflows.drain()
    monkeypatch.setattr(inbox.Summarise, "mutate", mutate)
    with inbox.app.open_with("inbox.db", options(clock)) as space:
        space.workflows.drain()
        # The same plan was approved in this chain: nobody is asked twice.
        assert len(ledger()) == 2
