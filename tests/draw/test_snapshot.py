"""Snapshots can be kept: what is read back is what was written, and the bytes are always the same."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec
import pytest
from hypothesis import given

from headwater.scheduler.inspect.graph_snapshot import Snapshot
from tests.draw.graphs import shop, snapshot, some_snapshot, sources

if TYPE_CHECKING:
    from random import Random


@given(sources)
def test_what_is_read_back_is_what_was_written(random: Random) -> None:
    given_ = some_snapshot(random, random.randint(0, 10))
    assert Snapshot.from_json(given_.to_json()) == given_


def test_equal_snapshots_give_equal_bytes_in_the_order_given() -> None:
    assert shop().to_json() == shop().to_json()
    assert (
        shop().to_json().startswith(b'{"space":"shop","at_ms":1760000000000,"seq":4711,"nodes":[{"id":"query","name":')
    )


def test_snapshot_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        snapshot([]).seq = 2  # type: ignore[misc]


@pytest.mark.parametrize("data", [b"", b"[]", b'{"space":1,"at_ms":0,"seq":0}', b'{"space":"s","at_ms":0}'])
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(msgspec.DecodeError):
        Snapshot.from_json(data)
