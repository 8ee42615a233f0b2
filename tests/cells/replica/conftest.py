"""A hub on a space in memory, with a document."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.hub import Hub
from tests.support.spaces import Space, put


@pytest.fixture
def hub() -> Hub:
    space = Space("memory", Path())
    space.writer("setup").accept(put("a", {"x": 0, "y": 0, "l": [1, 2]}), put("b", {"n": 0}))
    return Hub(space)
