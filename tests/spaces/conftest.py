"""Every test of several spaces works in a folder of its own, with nothing set in the environment."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.server.server import Server
from tests.cli.conftest import run
from tests.server.running import served, settle_in

__all__ = ["run"]


@pytest.fixture(autouse=True)
def _clean_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of a server."""
    settle_in(tmp_path, monkeypatch)
    (tmp_path / "store").mkdir(mode=0o700)
    return tmp_path / "store"


@pytest.fixture
def server(store: Path) -> Iterator[Server]:
    with served(store) as found:
        yield found
