"""What `publish` returns: an id that can be waited for, and what is on disk when that has come back."""

from __future__ import annotations

import asyncio
import copy
import pickle
import sqlite3
import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import EventRefusedError, UsageError
from tests.runtime.workflows.mill import Mill, Note


def mill_in(folder: Path | None = None) -> Mill:
    mill = Mill(folder)
    mill.take(mutate=None, next=None)
    return mill


def test_it_is_the_id_and_can_be_used_as_that(tmp_path: Path) -> None:
    mill = mill_in(tmp_path)
    kept = mill.app.cell("kept", "")
    with mill.open():
        found = mill.notes.publish(Note("a"), id="a")
        assert found == "a" and {found: 1} == {"a": 1} and f"{found}" == "a"
        assert type(found.id) is str
        kept.value = found
        assert type(kept.value) is str
        for copied in (copy.deepcopy(found), pickle.loads(pickle.dumps(found))):  # noqa: S301  # our own
            assert type(copied) is str and copied == "a"


def test_synced_it_is_on_disk_and_it_is_known_whether_it_is_new(tmp_path: Path) -> None:
    mill = mill_in(tmp_path)
    with mill.open():
        assert mill.notes.publish(Note("a"), id="a").sync() is True
        with sqlite3.connect(f"file:{tmp_path / 'mill.db'}?mode=ro", uri=True) as db:
            assert db.execute("select message, status from flow_event").fetchall() == [("a", "pending")]
        assert mill.notes.publish(Note("a"), id="a").sync() is False
        assert mill.notes.publish(Note("a", "other"), id="a").sync(60) is False


def test_it_can_be_awaited() -> None:
    mill = mill_in()

    async def work() -> tuple[bool, bool]:
        first, second = (mill.notes.publish(Note("a"), id="a") for _ in range(2))
        return await first, await second

    with mill.open():
        assert asyncio.run(work()) == (True, False)


def test_in_a_transaction_it_is_waited_for_after_that() -> None:
    mill = mill_in()
    with mill.open() as space:
        with space.transaction():
            found = mill.notes.publish(Note("a"), id="a")
            with pytest.raises(UsageError, match="which has not ended; wait for it after that"):
                found.sync()
        assert found.sync() is True
        assert mill.events() == {"a": "pending"}


def test_what_was_rolled_back_was_not_published() -> None:
    mill = mill_in()
    found: Any = None
    with mill.open() as space:
        with pytest.raises(ValueError, match="no"), space.transaction():
            found = mill.notes.publish(Note("a"), id="a")
            raise ValueError("no")
        with pytest.raises(EventRefusedError, match="a was not published"):
            found.sync()
        assert mill.events() == {}


def test_what_was_rolled_back_in_a_part_of_a_transaction_was_not_published() -> None:
    mill = mill_in()
    found: Any = None
    with mill.open() as space:
        with space.transaction():
            kept = mill.notes.publish(Note("b"), id="b")
            with pytest.raises(ValueError, match="no"), space.transaction():
                found = mill.notes.publish(Note("a"), id="a")
                raise ValueError("no")
        assert kept.sync() is True
        with pytest.raises(EventRefusedError, match="a was not published"):
            found.sync()
        assert mill.events() == {"b": "pending"}


def test_a_process_that_is_killed_after_it_has_synced_has_published(tmp_path: Path) -> None:
    program = f"""
        import os, signal
        import headwater as hw
        app = hw.App("a"); flow = app.workflow("f"); topic = flow.topic("t", str)
        @flow.consumer(topic)
        class Take(hw.Consumer[str, str, None]):
            def prepare(self, pending): return hw.Plan.idle()
        app.open({str(tmp_path / "a.db")!r})
        assert topic.publish("x", id="x").sync()
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)], check=False, timeout=60, capture_output=True
    )
    assert done.returncode == -9, done.stderr
    with sqlite3.connect(tmp_path / "a.db") as db:
        assert db.execute("select message from flow_event").fetchall() == [("x",)]


# --- what came of a call --------------------------------------------------------------------------------------


@pytest.mark.parametrize("reconciles", [False, True])
def test_what_came_of_a_call_is_on_disk_before_next_is_called_unless_it_can_be_asked_for(
    tmp_path: Path, reconciles: bool
) -> None:
    mill, seen = Mill(tmp_path), []

    def after(_: object, run: hw.Run, data: Any, outcome: Any) -> None:
        with sqlite3.connect(f"file:{tmp_path / 'mill.db'}?mode=ro", uri=True) as db:
            seen.extend(db.execute("select status, resolved_by from flow_call").fetchall())

    more = {"reconcile": lambda _, run, data: hw.Applied(1)} if reconciles else {}
    mill.take(next=after, **more)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.events() == {"a": "consumed"}
    assert seen in ([("applied", "call")], [("in_flight", None)] if reconciles else [("applied", "call")])
