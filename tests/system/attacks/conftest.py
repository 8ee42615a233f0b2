"""A server for each file of attacks, in a thread: what they leave behind is not in each other's way."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.system.attacks.served import Served


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with Served.running(tmp_path_factory.mktemp("served")) as served:
        yield served
