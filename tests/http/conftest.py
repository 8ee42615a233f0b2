"""What tests of requests share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.http.rig import Server


@pytest.fixture
def server() -> Iterator[Server]:
    with Server() as made:
        yield made
