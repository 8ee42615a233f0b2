"""A space that was closed is not kept by what was known of its workflows."""

from __future__ import annotations

import gc
from weakref import ref

from headwater.host.storage import Storage
from tests.server.ingress.shop import Shop


def opened_and_closed() -> ref[Storage]:
    shop = Shop()
    with shop.app.open("memory:") as space:
        return ref(space._opening.flows._storage)


def test_the_storage_of_a_closed_space_goes_with_it() -> None:
    found = [opened_and_closed() for _ in range(3)]
    gc.collect()
    assert [each() for each in found] == [None] * 3
