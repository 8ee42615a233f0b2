"""What table `patterns` counts, in small: it is the same for many as for few."""

from __future__ import annotations

import pytest

from bench import pattern_counts as counts
from bench.counting import calls_by_name
from bench.pattern_counts import Cost, Listing
from bench.table import is_compiled
from headwater.scheduler.scheduler_limits import UNREAD_MAX


def shown(cost: Cost) -> tuple[int, int, dict[str, int]]:
    return cost.started, cost.stopped, cost.runs


def test_one_child_in_the_place_of_another_starts_one_and_stops_one() -> None:
    for children in (3, 30):
        other, same = counts.replaced_child(children)
        assert shown(other) == (1, 1, {"board": 1, "label": 1, "watch": 1})
        assert shown(same) == (0, 0, {"board": 1}), "in another order, they are the same"


def test_a_pattern_that_is_returned_again_starts_nothing_and_runs_no_reader() -> None:
    cost = counts.returned_pattern()
    assert shown(cost.same) == (0, 0, {"view": 1})
    assert shown(cost.inputs) == (1, 0, {"view": 1, "label": 1, "show": 1})
    assert shown(cost.other) == (1, 1, {"view": 1, "label": 1, "show": 1})
    assert shown(cost.plain) == (0, 1, {"view": 1, "show": 1})


def test_an_element_that_comes_in_the_middle_runs_once_and_the_others_not() -> None:
    few, many = (counts.list_cost(size, Listing.insert) for size in (5, 50))
    assert few.runs == many.runs == counts.ONE
    assert few.node_writes == many.node_writes


def test_a_list_that_is_turned_round_runs_no_element() -> None:
    cost = counts.list_cost(20, Listing.reverse)
    assert (cost.runs, cost.node_writes) == (counts.NONE, 0)


def test_one_more_costs_the_same_whether_there_are_few_or_many() -> None:
    for grown in (counts.grown_list, counts.grown_wall):
        few, many = grown(5), grown(50)
        assert (few.runs, few.node_writes) == (many.runs, many.node_writes)
        assert sum(few.runs.values()) == 3


def test_one_request_is_for_all_who_look() -> None:
    assert counts.resource_requests(20) == 1


def test_pieces_that_were_stopped_leave_nothing_behind_in_memory() -> None:
    for keys in (1, 60):
        before, during, after = counts.rounds(60, keys=keys)
        assert during.pieces == before.pieces + 1
        assert after == before


@pytest.mark.skipif(is_compiled(), reason="calls of compiled functions are not seen")
def test_a_list_around_a_thousand_elements_is_not_looked_through_at_each_that_comes() -> None:
    listing = Listing()
    with listing.open(UNREAD_MAX):
        listing.insert()
        del listing.board.items[0]
        again = calls_by_name(listing.insert)
    assert again["scheduler/graph/node.py Node.is_live"] < 10
    assert again.total() < UNREAD_MAX
