"""A shop that is open and served, and somebody who posts to it over a real socket."""

from __future__ import annotations

from collections.abc import Iterator

import httpx
import pytest

import headwater as hw
from headwater.server.ingress import Ingress, serve_ingress
from tests.server.ingress.shop import Shop


@pytest.fixture
def shop() -> Shop:
    return Shop()


@pytest.fixture
def space(shop: Shop) -> Iterator[hw.Space]:
    with shop.app.open("memory:") as space:
        yield space


@pytest.fixture
def server(space: hw.Space) -> Iterator[Ingress]:
    with serve_ingress(space) as server:
        yield server


@pytest.fixture
def client(server: Ingress) -> Iterator[httpx.Client]:
    with httpx.Client(base_url=server.url, trust_env=False, timeout=30) as client:
        yield client
