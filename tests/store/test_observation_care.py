"""What is kept of runs is counted, checked, and forgotten when it is of no use."""

from __future__ import annotations

import pytest

from headwater.store.branching import fork
from headwater.store.commit import Commit, NewObservation, Submission
from headwater.store.compaction import compact
from headwater.store.observations import encode_observation
from headwater.store.resumption import drop_stale, listing, observations_size
from headwater.store.verification import verify
from headwater.values.address import doc_key
from headwater.values.ids import MAIN, BranchId, LocalSeq, SessionId
from tests.support.spaces import Space, drop, put

RUNS = SessionId("runs")
BODY = encode_observation(b"a print.", [(doc_key("input"), (), 0)])


def run_of(space: Space, name: str, number: int, branch: BranchId = MAIN) -> None:
    """A run that wrote its result."""
    space.engine.admit(
        [Submission(Commit(RUNS, LocalSeq(number), (put(name, number),), branch=branch, seen=(0, BODY)))]
    )


def note_of(space: Space, name: str, branch: BranchId = MAIN) -> None:
    """One that had nothing to write, as those of sinks."""
    space.engine.observe([NewObservation(doc_key(name), BODY, Commit(RUNS, LocalSeq(0), (), branch=branch))])


def kept(space: Space, branch: BranchId = MAIN) -> set[str]:
    return {row.partition("/")[2] for row in listing(space.engine, branch).rows}


def test_what_is_kept_of_deleted_results_goes_and_nothing_else(space: Space) -> None:
    run_of(space, "app.gone", 1)
    run_of(space, "app.there", 2)
    note_of(space, "app.sink")
    space.writer("me").commit(drop("app.gone"))
    assert drop_stale(space.engine) == 1
    assert kept(space) == {"app.there", "app.sink"}
    assert drop_stale(space.engine) == 0


def test_row_of_a_branch_whose_result_is_inherited_stays(space: Space) -> None:
    run_of(space, "app.result", 1)
    fork(space.engine, space.clock, "side", MAIN)
    note_of(space, "app.result", BranchId("side"))
    assert drop_stale(space.engine) == 0
    assert kept(space, BranchId("side")) == {"app.result"}


def test_compacting_tells_how_many_it_forgot(space: Space) -> None:
    run_of(space, "app.gone", 1)
    space.writer("me").commit(drop("app.gone"))
    assert compact(space.engine, None).observations_dropped == 1
    assert compact(space.engine, None).observations_dropped == 0


def test_size_is_that_of_one_app(space: Space) -> None:
    run_of(space, "app.one", 1)
    run_of(space, "other.one", 2)
    assert observations_size(space.engine, MAIN, doc_key("app.")) == (1, len(BODY))
    assert observations_size(space.engine, MAIN) == (2, 2 * len(BODY))


def test_sound_rows_are_counted(space: Space) -> None:
    run_of(space, "app.one", 1)
    note_of(space, "app.sink")
    report = verify(space.engine)
    assert (report.observations, report.findings) == (2, [])


@pytest.mark.parametrize(
    "harm",
    [
        "update observation set body = x'00'",
        "update observation set body = substr(body, 1, 4)",
        "update observation set seq = seq + 1",
        "update observation set sum = sum + 1",
        "update observation set doc = 99",
        "update observation set branch = 99",
    ],
)
def test_damaged_rows_are_found_and_taken_away(file_space: Space, harm: str) -> None:
    run_of(file_space, "app.one", 1)
    file_space.engine.fold()
    file_space.tamper(harm)
    file_space.reopen()
    assert kept(file_space) == set()
    assert verify(file_space.engine).findings == [
        "damaged rows of what functions have read: 1; these functions run once more"
    ]
    assert drop_stale(file_space.engine) == 1
    assert verify(file_space.engine).ok
