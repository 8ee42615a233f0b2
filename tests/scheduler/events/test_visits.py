"""Finding what an event needs costs what stands between it and what is invalid, however much there is besides."""

from __future__ import annotations

import pytest

from headwater.core import doc_key
from tests.scheduler.events.office import Clerk, Office, look, put

READERS = 200
OTHERS = 5_000
FEW = 20


def hub(clerk: Clerk) -> None:
    """A document that 200 computations read, each with one of its own, and one that reads them all."""
    clerk.put(hub=1, **{f"own{number}": number for number in range(READERS)})
    for number in range(READERS):
        clerk.sum(f"spoke{number}", "hub", f"own{number}")
    clerk.scheduler.pull(clerk.sum("rim", *(f"spoke{number}" for number in range(READERS))))


def unrelated(clerk: Clerk, count: int) -> None:
    """Computations that have nothing to do with any of it. All of them are current."""
    clerk.put(elsewhere=0)
    for number in range(count):
        clerk.scheduler.pull(clerk.sum(f"other{number}", "elsewhere"))


def visits(clerk: Clerk, stream: str) -> int:
    """Nodes that are looked at before an event is handled, and while it is."""
    before = clerk.scheduler.preflight.visits
    event = clerk.send(stream)
    clerk.scheduler.idle()
    assert event.state.value == "pending"
    return clerk.scheduler.preflight.visits - before


@pytest.fixture
def wheel(ann: Clerk) -> Clerk:
    hub(ann)
    ann.handler("hub", lambda tx, _: put(tx, "seen", look(tx, "hub")), reads=(doc_key("hub"),))
    ann.handler("spoke", lambda tx, _: look(tx, "spoke7"), reads=(doc_key("spoke7"),))
    ann.handler("other", lambda tx, _: look(tx, "spoke8"))
    ann.handler("rim", lambda tx, _: look(tx, "rim"))
    return ann


@pytest.mark.parametrize("stream", ["hub", "spoke", "other", "rim"])
def test_a_hub_of_which_one_reader_is_invalid_costs_few_visits(wheel: Clerk, stream: str) -> None:
    wheel.put(own7=100)
    assert visits(wheel, stream) < FEW
    assert ("spoke7" in wheel.log[-4:]) is (stream in ("spoke", "rim"))


def test_a_hub_that_is_read_and_computed_by_nobody_costs_nothing(wheel: Clerk) -> None:
    wheel.put(own7=100)
    assert visits(wheel, "hub") == 0


def test_a_hub_that_is_computed_and_invalid_costs_few_visits_for_one_of_its_readers(ann: Clerk) -> None:
    ann.put(base=1)
    ann.sum("hub", "base")
    hub_readers = [ann.sum(f"spoke{number}", "hub") for number in range(READERS)]
    for node in hub_readers:
        ann.scheduler.pull(node)
    ann.handler("ask", lambda tx, _: look(tx, "spoke7"))
    visits(ann, "ask")
    ann.put(base=2)
    assert visits(ann, "ask") < FEW
    assert ann.log[-3:] == ["hub", "spoke7", "ask"]


def test_nothing_is_looked_at_while_everything_is_current(wheel: Clerk) -> None:
    for stream in ("hub", "spoke", "other", "rim"):
        visits(wheel, stream)
        assert visits(wheel, stream) == 0


@pytest.mark.parametrize("invalid", [pytest.param(False, marks=pytest.mark.slow), True])
@pytest.mark.parametrize(
    "stream", [*(pytest.param(name, marks=pytest.mark.slow) for name in ("spoke", "other")), "both"]
)
def test_unrelated_nodes_cost_nothing_however_many_there_are(office: Office, stream: str, invalid: bool) -> None:
    found = []
    for name, count in (("ann", 20), ("bob", OTHERS)):
        clerk = office.clerk(name)
        hub(clerk)
        clerk.handler("spoke", lambda tx, _: look(tx, "spoke7"), reads=(doc_key("spoke7"),))
        clerk.handler("other", lambda tx, _: look(tx, "spoke8"))
        clerk.handler("both", lambda tx, _: look(tx, "spoke8") + look(tx, "spoke7"))
        unrelated(clerk, count)
        visits(clerk, stream)
        clerk.put(own7=100, elsewhere=int(invalid))
        found.append(visits(clerk, stream))
    assert found[0] == found[1] < FEW
