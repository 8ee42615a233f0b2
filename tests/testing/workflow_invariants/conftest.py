"""One world for each test, in memory and in a file; or only in memory, for tables of many cases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.spaces import EITHER
from tests.workflow.world import World


@pytest.fixture(params=EITHER)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    made = World(request.param, tmp_path)
    yield made
    made.close()


@pytest.fixture
def quick(tmp_path: Path) -> Iterator[World]:
    made = World("memory", tmp_path)
    yield made
    made.close()
