"""What collections cost, in counts that every machine has."""

import pytest

from bench.collections_costs import calls_of_a_page, calls_of_writes, deltas_of_a_change
from bench.table import is_compiled

PAGE_CALLS = 1_620
"""Python calls for a page of 50 in a transaction, a field of each included. It may only shrink."""

STRANGER_CALLS = 10
"""More calls for a write of a document of no collection, in a space with collections. It may only shrink."""


@pytest.mark.pure("replaces a method")
def test_a_change_under_a_sum_is_one_delta_however_many_documents_there_are() -> None:
    assert deltas_of_a_change(100) == deltas_of_a_change(3_000) == (1, 1, 1)


def test_a_page_takes_the_same_calls_in_a_large_collection() -> None:
    small, large = calls_of_a_page(200), calls_of_a_page(5_000)
    assert large <= small * 1.05
    assert is_compiled() or large <= PAGE_CALLS


def test_a_write_of_no_collection_takes_few_calls_more_beside_one() -> None:
    without, beside = calls_of_writes()
    assert is_compiled() or beside - without <= STRANGER_CALLS
