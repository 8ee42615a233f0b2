"""Wide containers in small examples: limits so low that a handful of entries makes a container wide."""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

import pytest
from hypothesis import HealthCheck, settings

from headwater.values import chunked, codec, tree

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

Test = TypeVar("Test", bound="Callable[..., None]")


@contextmanager
def tiny_chunks() -> Iterator[None]:
    """Containers of more than four entries are wide, in chunks of at most four."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tree, "CHUNKED_FROM", 4)
        patch.setattr(tree, "CHUNKED_UNTIL", 2)
        patch.setattr(codec, "CHUNKED_FROM", 4)
        patch.setattr(chunked, "CHUNK_MAX", 4)
        patch.setattr(chunked, "_HALF", 2)
        yield


def at_both_widths(test: Test) -> Test:
    """Check a property twice: with the limits as they are, and with tiny chunks."""
    # The fixture is set up once for all examples, which is what is wanted here.
    unworried = settings(suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
    twice: Test = pytest.mark.usefixtures("either_width")(unworried(test))
    return twice
