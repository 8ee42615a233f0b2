"""The fixture behind `widths.at_both_widths`."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import pytest

from tests.values.widths import tiny_chunks

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(params=["usual-limits", "tiny-chunks"])
def either_width(request: pytest.FixtureRequest) -> Iterator[None]:
    with tiny_chunks() if request.param == "tiny-chunks" else nullcontext():
        yield
