"""Mistakes planted in what replicas and transactions know of indexes: random histories have to find each of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pytest

from headwater.cells.replica import Replica
from headwater.cells.spans import keys
from headwater.cells.transaction import Transaction
from headwater.errors import HeadwaterError
from sim.mutants.mutant import STORAGE, Mutant, applied, maker
from tests.cells.spans.shelf import SpanDesk, inside, order, put, space_of, states, value
from tests.cells.spans.test_serializability import play

_m = maker("spans", STORAGE)

HISTORIES: Final = (
    _m(
        "own_writes_not_seen",
        "cells.span_reads:SpanReads.slice",
        "self._draft(basis, drafts, lo, hi, found)",
        "pass",
        "own",
    ),
    _m("pending_keys_not_added", "cells.span_reads:SpanReads.slice", "overlay.between(lo, hi)", "()", "own layers"),
    _m("pending_keys_not_gone", "cells.span_reads:SpanReads.slice", "key not in overlay.gone", "True", "own layers"),
    _m("nothing_seen", "cells.span_entries:SpanEntry.saw", "self.end = key", "pass", "reads"),
)
INTERLEAVED: Final = (
    _m("shifts_not_looked_at", "cells.span_entries:SpanBasis.advance", "self.changed.append", "list().append", "I1"),
    _m(
        "key_before_alone",
        "cells.span_entries:SpanBasis.is_hit",
        "after is not None and lo <= after < hi",
        "False",
        "I1",
    ),
    _m(
        "key_after_alone",
        "cells.span_entries:SpanBasis.is_hit",
        "before is not None and lo <= before < hi",
        "False",
        "I1",
    ),
    _m(
        "fields_unchecked",
        "cells.span_entries:SpanBasis.is_hit",
        "any(name in names for name in fields)",
        "False",
        "I1",
    ),
    _m("span_not_rewound", "cells.span_entries:SpanBasis.advance", "before != after", "False", "one version"),
)
TOGETHER: Final = (
    _m("pending_forgotten", "cells.replica_view:ReplicaView.load_ahead", "doc not in documents", "True", "own"),
    _m(
        "pending_passed_over",
        "cells.replica_view:ReplicaView.visible_many",
        "record.visible",
        "record.confirmed",
        "own",
    ),
)


def are_serializable() -> bool:
    try:
        return all(play(seed).is_serializable() for seed in range(200))
    except (AssertionError, HeadwaterError, LookupError, TypeError):
        return False


def pending_writes_survive() -> bool:
    """Documents that are loaded or read together have the writes that wait for their verdict."""
    desk = SpanDesk()
    replica = desk.replica("here")
    for number in range(3):
        put(replica, number)
    desk.settle()
    put(replica, 1, cents=7)
    orders = [order(number) for number in range(3)]
    read = replica.visible_many(orders)
    replica.load_ahead(orders)
    return bool(replica.read(order(1)) == value(cents=7) and read[order(1)] == value(cents=7))


def is_checked(change: Callable[[Replica], None], *, is_hit: bool) -> bool:
    """Whether a transaction sees its span as at the first read while something changes, and commits if it may."""
    desk = SpanDesk()
    replica = desk.replica("here")
    for number in range(4):
        put(replica, number, cents=10 * number)
    desk.settle()
    space, tx = space_of(replica), Transaction(replica)
    with inside(space, tx):
        first = list(keys(space, states("open"), fields=("note",)))
        change(replica)
        if list(keys(space, states("open"), fields=("note",))) != first:
            return False
        tx.put(order(50), value("sum", 3))
    tx.commit()
    return tx.is_rejected == is_hit


def changes_are_checked() -> bool:
    return (
        is_checked(lambda replica: put(replica, 9, "open", 15), is_hit=True)
        and is_checked(lambda replica: put(replica, 2, "paid", 20), is_hit=True)
        and is_checked(lambda replica: put(replica, 2, "open", 20, note="new"), is_hit=True)
        and is_checked(lambda replica: put(replica, 2, "open", 20, other="new"), is_hit=False)
        and is_checked(lambda replica: put(replica, 9, "paid", 15), is_hit=False)
    )


@pytest.mark.pure("mistakes are planted in sources")
@pytest.mark.parametrize("mutant", HISTORIES, ids=lambda mutant: mutant.name)
def test_mistake_in_spans_is_found(mutant: Mutant) -> None:
    with applied(mutant):
        assert not are_serializable()


@pytest.mark.pure("mistakes are planted in sources")
@pytest.mark.parametrize("mutant", INTERLEAVED, ids=lambda mutant: mutant.name)
def test_mistake_in_the_check_of_an_open_transaction_is_found(mutant: Mutant) -> None:
    with applied(mutant):
        assert not changes_are_checked()


@pytest.mark.pure("mistakes are planted in sources")
@pytest.mark.parametrize("mutant", TOGETHER, ids=lambda mutant: mutant.name)
def test_loading_or_reading_over_pending_writes_is_found(mutant: Mutant) -> None:
    with applied(mutant):
        assert not pending_writes_survive()


def test_histories_without_a_mistake_find_none() -> None:
    assert are_serializable()
    assert pending_writes_survive()
    assert changes_are_checked()
