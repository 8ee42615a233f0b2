"""One server, and one process to fork from, for all tests of a worker."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.service import Service
from tests.system.crash.workflows.lives import Nursery
from tests.system.crash.workflows.worlds import Maker


@pytest.fixture(scope="session")
def service() -> Iterator[Service]:
    with Service() as service:
        yield service


@pytest.fixture(scope="session")
def maker(service: Service, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Maker]:
    folder = tmp_path_factory.mktemp("worlds")
    with Nursery(folder) as nursery:
        yield Maker(service, nursery, folder)
