"""Most properties of values are checked twice: with the limits as they are, and with containers wide from five."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from tests.values.strategies import tiny_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="module", params=["usual-limits", "tiny-chunks"])
def either_limits(request: pytest.FixtureRequest) -> Iterator[None]:
    with tiny_chunks() if request.param == "tiny-chunks" else nullcontext():
        yield
