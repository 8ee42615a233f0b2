"""What the tests of one module have parsed is forgotten after them."""

from collections.abc import Iterator

import pytest

from tests.structure.project import parsed


@pytest.fixture(scope="module", autouse=True)
def _trees_forgotten() -> Iterator[None]:
    yield
    parsed.cache_clear()
