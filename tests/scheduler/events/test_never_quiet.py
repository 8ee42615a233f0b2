"""An event that waits for a function which waits for quiet: for a while, and then that function is run for it."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headwater.core import doc_key
from headwater.scheduler.scheduler_limits import QUIET_MAX_MS
from tests.scheduler.events.office import Clerk, Office, look, states
from tests.scheduler.events.waiting import noter
from tests.support.halves import examples

QUIET = 300.0


@pytest.fixture
def shop(ann: Clerk) -> Clerk:
    """A handler that reads what waits for quiet, directly or through others, and one that reads nothing."""
    return stocked(ann)


def stocked(ann: Clerk, *between: str, **spec: float) -> Clerk:
    ann.put(price=1)
    last = ann.sum("slow", "price", **{"debounce_ms": QUIET, **spec})
    above = "slow"
    for name in between:
        last = ann.sum(name, above)
        above = name
    ann.handler("ask", lambda tx, _: look(tx, above), reads=(doc_key(above),))
    noter(ann)
    ann.scheduler.pull(last)
    ann.put(price=2)
    ann.log.clear()
    return ann


def disturb(shop: Clerk, ms: float, every: float = 100) -> list[str]:
    """Change what it reads without pause, for so long. What has run."""
    ran: list[str] = []
    end = shop.office.time + ms
    while shop.office.time < end:
        shop.office.advance(every)
        shop.put(price=int(shop.office.time))
        ran += shop.run()
    return ran


def test_it_is_run_without_its_quiet_and_those_behind_have_their_turn(shop: Clerk) -> None:
    event, behind = shop.send("ask"), shop.send("note", 1)
    shop.run()
    assert disturb(shop, QUIET + QUIET_MAX_MS - 200) == []
    assert states(event, behind) == ["queued", "queued"]
    assert disturb(shop, 400) == ["slow", "ask", "note 1"]
    assert event.result is not None
    assert int(str(event.result)) > 2, "what the handler saw is current, and not what was there before"
    (error,) = shop.errors
    assert "has waited for slow(), which waits for quiet" in str(error)
    assert (error.facts["event"], error.facts["node"]) == (event.id, "slow")


def test_it_is_reported_once(shop: Clerk) -> None:
    for _ in range(3):
        shop.send("ask")
        shop.run()
        disturb(shop, QUIET + QUIET_MAX_MS + 400)
    assert len(shop.errors) == 1


def test_a_sleeping_host_is_woken_at_the_latest_time(shop: Clerk) -> None:
    shop.send("ask")
    since = shop.office.time
    shop.run()
    disturb(shop, QUIET + QUIET_MAX_MS - 200)
    wake = shop.scheduler.settle()
    assert wake == since + QUIET + QUIET_MAX_MS


def test_quiet_that_comes_in_time_is_waited_for(shop: Clerk) -> None:
    shop.send("ask")
    shop.run()
    assert disturb(shop, QUIET_MAX_MS - 1000) == []
    shop.office.advance(QUIET)
    assert shop.run() == ["slow", "ask"]
    assert shop.errors == []


def test_what_stands_further_up_is_run_as_well(ann: Clerk) -> None:
    shop = stocked(ann, "more", "most")
    event = shop.send("ask")
    shop.run()
    ran = disturb(shop, QUIET + QUIET_MAX_MS + 400)
    assert ran == ["slow", "more", "most", "ask"]
    assert len(states(event)) == 1


def test_a_turn_that_is_limited_is_waited_for(ann: Clerk) -> None:
    """A throttle ends by itself: it is not run before that."""
    shop = stocked(ann, throttle_ms=2 * QUIET_MAX_MS)
    shop.send("ask")
    shop.run()
    assert disturb(shop, QUIET + QUIET_MAX_MS + 400) == []
    assert disturb(shop, QUIET_MAX_MS) == ["slow", "ask"]


@settings(max_examples=examples(60))
@given(
    steps=st.lists(st.tuples(st.floats(1, QUIET - 1), st.booleans()), min_size=20, max_size=120), chained=st.booleans()
)
def test_no_event_waits_longer_and_none_passes_another(steps: list[tuple[float, bool]], chained: bool) -> None:
    office = Office(Path())
    shop = stocked(office.clerk("ann"), *(["more"] if chained else []))
    expected: list[str] = []
    done: list[str] = []
    for ms, sends in steps:
        if sends:
            number = len(expected)
            shop.send("note" if number % 2 else "ask", number)
            expected.append(f"note {number}" if number % 2 else f"ask {number}")
        office.advance(ms)
        shop.put(price=int(office.time * 7))
        done += shop.run()
        head = next(iter(shop.scheduler.lanes), None)
        since = None if head is None or head.head is None else head.head.waits_since
        assert since is None or office.time < since + QUIET + QUIET_MAX_MS
    office.advance(QUIET)
    done += shop.run()
    assert [each for each in done if each.startswith(("ask", "note"))] == expected
    office.close()
