"""Tallies that follow changes give what a new tally of the same documents gives."""

from __future__ import annotations

import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.cells.span_records import AnswerKind, SpanQuestion
from headwater.cells.span_tallies import ExistsTally, SumTally, Tally, answer_digest, tally_of
from headwater.store.index_field import IndexField
from headwater.values.sortkey import Elapsed, Ordered
from headwater.values.tree import ABSENT

FIELD, GROUP = IndexField("cents"), IndexField("state")

VALUES: tuple[Ordered, ...] = (
    0, 1, -7, 10**30, True, None, ABSENT, "text", "", b"bytes", 0.0, 0.1, -0.1, 1e308, 5e-324, -1e308, math.inf,
    -math.inf, math.nan,
)  # fmt: skip


@pytest.mark.parametrize("kind", ["count", "sum", "min", "max", "distinct"])
@pytest.mark.parametrize("by", [None, GROUP])
def test_a_tally_that_follows_changes_equals_a_new_one(kind: AnswerKind, by: IndexField | None) -> None:
    question = SpanQuestion(kind, None if kind == "count" else FIELD, by)
    rng = random.Random(f"{kind}{by}")
    live, members = tally_of(question), dict[int, tuple[Ordered, Ordered]]()
    for step in range(10_000):
        number = rng.randrange(30)
        if number in members:
            live.take(_key(number), *members.pop(number))
        if rng.random() < 0.6:
            picked = rng.choice(VALUES) if rng.random() < 0.5 else rng.uniform(-1e6, 1e6)
            made = picked if picked != 10**30 or kind == "sum" else 1
            members[number] = (made, rng.choice(("open", "paid", None, 1, 1.0, True)))
            live.put(_key(number), *members[number])
        if step % 7 == 0:
            assert answer_digest(live.answer()) == answer_digest(_full(question, members).answer())


def _key(number: int) -> bytes:
    return number.to_bytes(2, "big")


def _full(question: SpanQuestion, members: dict[int, tuple[Ordered, Ordered]]) -> Tally:
    tally = tally_of(question)
    for number, (made, group) in members.items():
        tally.put(_key(number), made, group)
    return tally


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), max_size=30), st.randoms())
def test_a_sum_of_floats_is_that_of_fsum_in_any_order(numbers: list[float], chance: random.Random) -> None:
    tally = SumTally()
    chance.shuffle(numbers)
    for each in numbers:
        tally.put(b"", each, None)
        tally.put(b"", 0.1, None)
        tally.take(b"", 0.1, None)
    try:
        wanted = math.fsum(numbers)
    except OverflowError:
        # A partial sum was too large for fsum, or the sum is.
        return
    assert tally.answer() == wanted


def test_a_sum_has_the_type_of_what_is_in_it() -> None:
    tally = SumTally()
    assert answer_digest(tally.answer()) == answer_digest(0)
    tally.put(b"", 2**80, None)
    assert answer_digest(tally.answer()) == answer_digest(2**80)
    tally.put(b"", 0.5, None)
    assert tally.answer() == float(2**80)
    tally.take(b"", 2**80, None)
    assert answer_digest(tally.answer()) == answer_digest(0.5)
    tally.take(b"", 0.5, None)
    tally.put(b"", Elapsed(5), None)
    assert tally.answer() == Elapsed(5)


def test_a_witness_that_goes_has_to_be_looked_for() -> None:
    tally = ExistsTally()
    assert tally.answer() is False
    tally.put(b"a", None, None)
    tally.put(b"b", None, None)
    tally.take(b"b", None, None)
    assert tally.answer() is True
    assert not tally.is_unsure
    tally.take(b"a", None, None)
    assert tally.is_unsure


def test_answers_of_different_types_are_different() -> None:
    digests = {answer_digest(each) for each in (1, 1.0, True, "1", (1,), (1, 1), ((1, 1),), None, ABSENT, 2**100)}
    assert len(digests) == 10
