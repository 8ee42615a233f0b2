"""Defects that worlds of one program have found, as plans."""

from __future__ import annotations

from sim.apart import play_all
from sim.apps import parts as p
from sim.faults import KillInIo
from sim.plan import Plan
from sim.program import operations as o


def test_space_opens_after_a_kill_before_a_sync_and_a_power_cut_in_the_next_life() -> None:
    """Two transactions were in one log without a sync between them: the loss of the first read as a damaged log."""
    plan = Plan(
        kind="program",
        nodes=(o.Program(),),
        app=p.App(parts=(p.IntCell("i1"), p.ListCell("l1"))),
        operations=tuple(
            o.Block(tag=f"x{n}", gap=0.01, steps=(p.Count("i1", p.Const(1)), p.Push("l1", p.Const(n))))
            for n in range(12)
        ),
        faults=(
            KillInIo(at=0.03, node="p", kind="sync", nth=1, after=False, keep=1.0, down=0.01),
            KillInIo(at=0.035, node="p", kind="sync", nth=1, after=False, keep=0.5, down=0.01),
        ),
    )
    for outcome in play_all([(plan, seed) for seed in (15, 26, 34, 35, 37, 39)]):
        assert outcome.violations == ()


def test_parts_of_pieces_of_two_patterns_show_their_values_under_names_of_their_own() -> None:
    """Both parts had one name on the screen: the oracle took the value of one for the old value of the other."""
    plan = Plan(
        kind="program",
        nodes=(o.Program(),),
        app=p.App(
            parts=(
                p.Pattern("p1", p.Param(), ""),
                p.Pattern("p2", p.Param(), "p1"),
                p.Pattern("p3", p.Param(), "p1"),
            )
        ),
        operations=(
            o.Piece(tag="x1", pattern="p2", key="k", given=1, how="start"),
            o.Piece(tag="x2", pattern="p3", key="k", given=2, how="start"),
        ),
    )
    (outcome,) = play_all([(plan, 1)])
    assert outcome.violations == ()


def test_function_that_reads_what_a_stopped_sink_writes_may_run_after_a_restart() -> None:
    """An opening starts the sink again, which then writes what has changed since it was stopped."""
    parts = (
        p.IntCell("i1"),
        p.IntCell("t1"),
        p.IntCell("t2"),
        p.Handler("n1", (p.Put("t2", p.Param()),), p.Param()),
        p.Sink("s1", (p.Read("i1"),), target="t1"),
        p.Sink("s2", (p.Read("i1"),), sends="n1"),
        p.Computed("c1", p.Read("t1")),
        p.Computed("c2", p.Read("t2")),
        p.Sink("s3", (p.Call("c1"), p.Call("c2"))),
    )
    plan = Plan(
        kind="program",
        nodes=(o.Program(),),
        app=p.App(parts=parts),
        operations=(
            o.Settle(gap=0.1),
            o.StopSink(gap=0.1, sink="s1"),
            o.StopSink(gap=0.1, sink="s2"),
            o.Write(gap=0.1, step=p.Put("i1", p.Const(4))),
        ),
    )
    (outcome,) = play_all([(plan, 1)])
    assert outcome.violations == ()


def test_sink_that_was_stopped_in_another_session_may_have_written_last() -> None:
    """The other session sees the value at the end only, which is the one before: nothing runs its sink."""
    plan = Plan(
        kind="program",
        nodes=(o.Program(sessions=2, threads=(0, 1)),),
        app=p.App(parts=(p.IntCell("i1"), p.IntCell("t1"), p.Sink("s1", (p.Read("i1"),), target="t1"))),
        operations=(
            o.Write(thread=1, step=p.Put("i1", p.Const(1))),
            o.Settle(thread=0, gap=0.1),
            o.Write(thread=1, gap=0.2, step=p.Put("i1", p.Const(5))),
            o.StopSink(thread=1, sink="s1"),
            o.Write(thread=1, step=p.Put("i1", p.Const(1))),
            o.Sync(thread=1),
        ),
    )
    (outcome,) = play_all([(plan, 1)])
    assert outcome.violations == ()


def test_debounced_function_runs_without_its_quiet_for_an_event_that_has_waited_too_long() -> None:
    """As decision 53 says: the oracle took it for a function that does not wait."""
    plan = Plan(
        kind="program",
        nodes=(o.Program(),),
        app=p.App(
            parts=(
                p.IntCell("i1"),
                p.Computed("c1", p.Read("i1"), debounce=8000, eager=True),
                p.IntCell("t1"),
                p.Handler("h1", (p.Put("t1", p.Call("c1")),), p.Param()),
            )
        ),
        operations=(
            o.Write(step=p.Put("i1", p.Const(1))),
            o.Send(handler="h1", tag="x1", n=1),
            *(o.Write(gap=1.0, step=p.Put("i1", p.Const(n))) for n in range(2, 25)),
        ),
    )
    (outcome,) = play_all([(plan, 1)])
    assert outcome.violations == ()


def test_debounce_counts_from_before_an_opening_for_what_the_opening_finds_outdated() -> None:
    """A run that a caller asked for passes the time of its causes on. The oracle took the end of that run instead."""
    plan = Plan(
        kind="program",
        nodes=(o.Program(loop=True),),
        app=p.App(
            parts=(
                p.IntCell("i1"),
                p.Computed("c1", p.Read("i1"), waits=10),
                p.Computed("c2", p.Call("c1"), waits=1, debounce=50),
                p.Sink("s1", (p.Call("c2"),)),
            )
        ),
        operations=(
            o.Write(gap=1.0, step=p.Put("i1", p.Const(1))),
            o.Pass(seconds=1.0),
            o.Reopen(aside=(("i1", 2), ("c2", 7))),
            o.Pass(seconds=1.0),
        ),
    )
    (outcome,) = play_all([(plan, 1)])
    assert outcome.violations == ()
