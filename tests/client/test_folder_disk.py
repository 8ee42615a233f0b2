"""The disk under a local folder fails, or is full."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from headwater.client import client_folder
from headwater.errors import RejectedError, UnconfirmedError
from tests.client.world import Behind, Counter, behind, storage_of
from tests.server.running import settle_in


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Behind]:
    settle_in(tmp_path, monkeypatch)
    with behind(tmp_path / "store") as world:
        yield world


@pytest.mark.parametrize(("error", "code"), [(apsw.IOError, "HW204"), (apsw.FullError, "HW203")])
def test_the_error_of_the_disk_is_told_although_sqlite_has_ended_the_transaction(
    at: Behind, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: type[apsw.Error], code: str
) -> None:
    """After some errors, SQLite has rolled back by itself: there is nothing left to roll back."""
    counter = Counter()
    with counter.open(at, local=tmp_path / "local", on_error=lambda _: None) as space:
        folder = storage_of(space)._folder
        assert folder is not None

        def fails(_: object) -> bytes:
            folder._db.execute("rollback")
            raise error("from the disk")

        with monkeypatch.context() as failing:
            failing.setattr(client_folder, "_frame", fails)
            counter.count.value = 1
            with pytest.raises((RejectedError, UnconfirmedError), match=code):
                space.sync()
