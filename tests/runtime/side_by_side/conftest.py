"""One space on each backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.spaces import EITHER, Space


@pytest.fixture(params=EITHER)
def space(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Space]:
    """An empty space; the test runs once on each backend."""
    space = Space(request.param, tmp_path)
    yield space
    space.close()
