"""Crons to try, of every form that the naive judge reads."""

from __future__ import annotations

from hypothesis import assume
from hypothesis import strategies as st

from tests.workflow.cron_oracle import RANGES, numbers


@st.composite
def terms(draw: st.DrawFn, low: int, high: int) -> str:
    first = draw(st.integers(low, high))
    last = draw(st.integers(first, high))
    step = draw(st.integers(1, high))
    forms = ["*", f"*/{step}", f"{first}", f"{first}-{last}", f"{first}/{step}"]
    if first < last:  # a range of one with a step is refused
        forms.append(f"{first}-{last}/{step}")
    return draw(st.sampled_from(forms))


def fields(low: int, high: int) -> st.SearchStrategy[str]:
    return st.lists(terms(low, high), min_size=1, max_size=3).map(",".join)


@st.composite
def crons(draw: st.DrawFn) -> str:
    """Most of them fire every day or on some weekdays: those have more to show within a few days."""
    minute, hour, day, month, weekday = (fields(*limits) for limits in RANGES)
    often = st.just("*")
    text = f"{draw(minute)} {draw(hour)} {draw(often | day)} {draw(often | often | month)} {draw(often | weekday)}"
    assume(may_fire(text))
    return text


def may_fire(text: str) -> bool:
    """Not only on the 30th or 31st of some months: those that never fire have a test of their own."""
    _, _, day, month, _ = text.split()
    return month == "*" or min(numbers(day, *RANGES[2])) < 30
