"""A server of its own for each test that asks for one, in a home of its own."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.server.server import Server
from tests.server.running import served


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "spaces"


@pytest.fixture
def server(store: Path) -> Iterator[Server]:
    with served(store) as server:
        yield server
