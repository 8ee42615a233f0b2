"""A desk for each test: a workflow's tables, on each backend."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.flows import Desk, flow_spec
from tests.support.spaces import EITHER


@pytest.fixture(params=EITHER)
def desk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Desk]:
    """A workflow with one consumer, deployed and looked at once; the test runs on each backend."""
    desk = Desk(request.param, tmp_path, flow_spec())
    desk.idle(desk.begin())
    yield desk
    desk.close()
