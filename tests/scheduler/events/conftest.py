"""An office for each test; at its end, what must hold of everything that happened there is looked at."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.scheduler.events.office import Clerk, Office


@pytest.fixture
def office(tmp_path: Path) -> Iterator[Office]:
    office = Office(tmp_path)
    yield office
    office.close()


@pytest.fixture
def ann(office: Office) -> Clerk:
    return office.clerk("ann")
