"""What happened, as records: each kind says what it should, and looking on changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Union

import msgspec
import pytest

from headwater.cells.transaction import Transaction
from headwater.core import NodeKind, NodeSpec, RetryImmediately, SetDoc, doc_key
from headwater.errors import AccessError, UsageError
from headwater.scheduler.graph.node import Node
from headwater.scheduler.runs.attempt import Attempt
from headwater.scheduler.scheduler import Scheduler
from headwater.scheduler.scheduler_limits import RUNS_MAX, TRACE_MAX
from headwater.scheduler.trace import (
    TRACE_KINDS,
    DemandChanged,
    NodeGated,
    NodeInvalidated,
    NodeRegistered,
    NodeRemoved,
    NodeRestless,
    PassEnded,
    RunDiscarded,
    RunFailed,
    RunFinished,
    RunStarted,
    RunSuspended,
    TraceRecord,
)
from tests.scheduler.workshop import START_MS, Workshop, number, write


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


def heard(shop: Workshop, *kinds: type[TraceRecord]) -> list[TraceRecord]:
    """A list that fills with what happens, of these kinds or of all."""
    records: list[TraceRecord] = []
    shop.scheduler.on_trace(lambda record: records.append(record) if not kinds or type(record) in kinds else None)
    return records


# --- each kind --------------------------------------------------------------------------------------------


def test_registered_and_removed(shop: Workshop) -> None:
    records = heard(shop, NodeRegistered, NodeRemoved)
    made: list[Node] = []

    def make(_: Transaction) -> None:
        if not made:
            made.append(shop.sum("child", "a"))

    maker = shop.effect("maker", make)
    shop.run()
    shop.scheduler.remove(made[0])
    shop.scheduler.remove(maker)
    assert records == [
        NodeRegistered(START_MS, "maker#1", "effect", None),
        NodeRegistered(START_MS, "child#2", "computation", "maker#1"),
        NodeRemoved(START_MS, "child#2"),
        NodeRemoved(START_MS, "maker#1"),
    ]


def test_started_and_finished(shop: Workshop) -> None:
    def take(tx: Transaction) -> int:
        shop.time += 7
        return int(number(tx, "a"))

    records = heard(shop, RunStarted, RunFinished)
    node = shop.computation("slow", take)
    shop.show("show", "slow", declared_reads=(doc_key("slow"),))
    shop.run()
    shop.put(a=2)
    shop.run()
    rank = node.rank
    first = [
        RunStarted(START_MS, "slow#1", 1, 1, rank, "live", (), True),
        RunFinished(START_MS + 7, "slow#1", 1, 7, True, 1),
        RunStarted(START_MS + 7, "show#2", 1, 1, rank + 1, "live", (), True),
        RunFinished(START_MS + 7, "show#2", 1, 0, False, 1),
    ]
    assert records[:4] == first
    again = records[4]
    assert isinstance(again, RunStarted)
    assert (again.node, again.number, again.pass_number, again.causes, again.first) == ("slow#1", 2, 2, ("a",), False)


def test_started_for_a_caller(shop: Workshop) -> None:
    records = heard(shop, RunStarted)
    node = shop.sum("sum", "a")
    shop.scheduler.pull(node)
    assert [record.demand for record in records if isinstance(record, RunStarted)] == ["pulled"]


def test_finished_says_whether_anything_changed(shop: Workshop) -> None:
    records = heard(shop, RunFinished)
    shop.computation("parity", lambda tx: number(tx, "a") % 2, eager=True)
    shop.run()
    shop.put(a=2)
    shop.run()
    assert [record.changed for record in records if isinstance(record, RunFinished)] == [True, False]


def test_failed(shop: Workshop) -> None:
    records = heard(shop, RunFailed)
    shop.effect("bad", lambda tx: 1 // number(tx, "a"))
    shop.run()
    assert records == [RunFailed(START_MS, "bad#1", 1, "ZeroDivisionError: integer division or modulo by zero")]


def test_function_without_a_stored_result_has_failed(shop: Workshop) -> None:
    """Its readers ran into the error: its next run notifies them, although it may write nothing (I5)."""
    records = heard(shop, RunFailed)
    shop.sum("total", "a", eager=True)
    shop.run()
    shop.desk.fail(AccessError("it may not be written"))
    shop.desk.tell()
    (record,) = records
    assert isinstance(record, RunFailed)
    assert (record.node, record.number) == ("total#1", 1)
    assert "could not be stored" in record.error


def test_invalidated(shop: Workshop) -> None:
    records = heard(shop, NodeInvalidated)
    shop.show("show", "a")
    shop.run()
    shop.put(a=1)
    shop.run()
    assert records == [NodeInvalidated(START_MS, "show#1", "a", "commit")]


def test_taken_back_says_why(shop: Workshop) -> None:
    records = heard(shop, RunDiscarded)
    tries = [1]

    def again(tx: Transaction) -> None:
        if tries:
            tries.pop()
            raise RetryImmediately
        if number(tx, "a") < 1:
            shop.replica.commit((SetDoc(doc_key("a"), 1),))

    shop.effect("again", again)
    shop.run()
    assert [(record.node, record.reason) for record in records if isinstance(record, RunDiscarded)] == [
        ("again#1", "asked to be run again"),
        ("again#1", "what it read changed while it ran"),
    ]


def test_demand_comes_and_goes(shop: Workshop) -> None:
    records = heard(shop, DemandChanged)
    shop.sum("sum", "a")
    show = shop.show("show", "sum")
    shop.run()
    shop.scheduler.remove(show)
    assert [(record.node, record.live) for record in records if isinstance(record, DemandChanged)] == [
        ("show#2", True),
        ("sum#1", True),
        ("sum#1", False),
    ]


def test_gated_says_until_when(shop: Workshop) -> None:
    records = heard(shop, NodeGated)
    shop.show("show", "a", debounce_ms=100.0)
    shop.run()
    shop.put(a=1)
    shop.run()
    assert [(record.node, record.until_ms) for record in records if isinstance(record, NodeGated)] == [
        ("show#1", START_MS + 100)
    ]


def test_restless(shop: Workshop) -> None:
    records = heard(shop, NodeRestless)

    def run(_: Transaction) -> None:
        raise RetryImmediately

    shop.effect("never", run)
    shop.run()
    assert records == [NodeRestless(START_MS, "never#1", RUNS_MAX)]


def test_passes_are_numbered_and_counted(shop: Workshop) -> None:
    records = heard(shop, PassEnded)
    shop.sum("sum", "a")
    shop.show("show", "sum", declared_reads=(doc_key("sum"),))
    shop.scheduler.settle()
    shop.put(a=1)
    shop.scheduler.settle()
    assert records == [PassEnded(START_MS, "", 1, 2), PassEnded(START_MS, "", 2, 2)]


def test_suspended(shop: Workshop) -> None:
    """A host may say that a function waits; others go on, and it comes back."""
    waiting: list[Attempt] = []

    def perform(attempt: Attempt) -> None:
        attempt.suspended = True
        waiting.append(attempt)

    scheduler = Scheduler(shop.replica, now=lambda: 0.0, perform=perform)
    records: list[TraceRecord] = []
    scheduler.on_trace(records.append)
    scheduler.register(NodeSpec(name="slow", fn=lambda _: None, kind=NodeKind.EFFECT, is_async=True))
    scheduler.settle()
    (attempt,) = waiting
    assert RunSuspended(0.0, "slow#1", 1) in records
    assert (scheduler.get_stats().in_flight, scheduler.outstanding().is_idle) == (1, False)
    attempt.suspended = False
    scheduler.resume(attempt)
    assert (scheduler.get_stats().in_flight, scheduler.outstanding().is_idle) == (0, True)


# --- keeping and listening --------------------------------------------------------------------------------


def test_only_kinds_that_were_asked_for_are_kept(shop: Workshop) -> None:
    shop.scheduler.set_trace_enabled("finished", True)
    shop.show("show", "a")
    shop.run()
    assert [type(record) for record in shop.scheduler.get_trace()] == [RunFinished]
    assert shop.scheduler.get_trace("started") == []
    shop.scheduler.set_trace_enabled("finished", False)
    shop.put(a=1)
    shop.run()
    assert len(shop.scheduler.get_trace("finished")) == 1


def test_kept_records_of_all_kinds_are_in_the_order_of_what_happened(shop: Workshop) -> None:
    """Also when no time has passed between them."""
    for kind in TRACE_KINDS:
        shop.scheduler.set_trace_enabled(kind, True)
    records = heard(shop)
    shop.sum("sum", "a")
    shop.show("show", "sum")
    shop.run()
    shop.put(a=1)
    shop.run()
    assert shop.scheduler.get_trace() == records
    assert len(records) > 15


def test_oldest_records_are_forgotten(shop: Workshop) -> None:
    shop.scheduler.set_trace_enabled("pass", True)
    for _ in range(TRACE_MAX + 10):
        shop.scheduler.settle()
    kept = shop.scheduler.get_trace("pass")
    assert (len(kept), kept[0]) == (TRACE_MAX, PassEnded(START_MS, "", 11, 0))


def test_unknown_kind_is_refused_with_those_there_are(shop: Workshop) -> None:
    for ask in (shop.scheduler.get_trace, lambda kind: shop.scheduler.set_trace_enabled(kind, True)):
        with pytest.raises(UsageError, match=r"'runs' is no kind of trace; there are registered, removed"):
            ask("runs")


def test_listener_given_twice_hears_twice_and_each_ends_for_itself(shop: Workshop) -> None:
    records: list[TraceRecord] = []
    first, _ = shop.scheduler.on_trace(records.append), shop.scheduler.on_trace(records.append)
    shop.scheduler.settle()
    first()
    first()
    shop.scheduler.settle()
    assert len(records) == 3


def test_records_can_be_sent_as_json_and_read_back(shop: Workshop) -> None:
    records = heard(shop)
    shop.sum("sum", "a")
    shop.show("show", "sum")
    shop.run()
    kind: Any = Union[tuple(TRACE_KINDS.values())]  # noqa: UP007  # of as many as there are
    assert [msgspec.json.decode(msgspec.json.encode(record), type=kind) for record in records] == records


# --- nothing depends on it --------------------------------------------------------------------------------


def busy_day(watch: Callable[[Workshop], None], look: Callable[[Workshop], None]) -> tuple[list[str], object, object]:
    """Everything that can happen, watched or not; returns who ran, what stands there, and when to come again."""
    shop = Workshop()
    watch(shop)
    other = shop.desk.replica("other")
    ran: list[str] = []

    def took() -> None:
        look(shop)
        ran.extend(shop.run())
        look(shop)

    def parent(tx: Transaction) -> None:
        if number(tx, "go") == 1:
            shop.sum("made", "a")

    def restless(tx: Transaction) -> None:
        write(tx, "tick", number(tx, "tock") + number(tx, "on"))

    shop.sum("one", "a")
    shop.sum("two", "one", debounce_ms=50.0)
    shop.computation("bad", lambda tx: 1 // number(tx, "b"))
    shop.computation(
        "fill", lambda tx: tx.set(doc_key("big"), ("x",), number(tx, "a")), side_write_envelope=((doc_key("big"), ()),)
    )
    shop.computation("x", lambda tx: max(number(tx, "y"), number(tx, "a")))
    shop.sum("y", "x")
    shop.effect("parent", parent)
    shop.effect("restless", restless)
    shop.effect("tock", lambda tx: write(tx, "tock", number(tx, "tick")))
    shop.show("show", "two", "bad", "y")
    shop.effect("big", lambda tx: tx.read(doc_key("big"), ("x",)))
    shop.put(big={"x": 0})
    took()
    for step in range(6):
        shop.put(a=step, b=step % 2)
        took()
        shop.time += 30
        other.commit((SetDoc(doc_key("a"), step * 10),))
        shop.decide()
        took()
    shop.put(go=1, on=1)
    took()
    shop.time += 1000
    took()
    names = ("a", "one", "two", "y", "big", "made")
    errors = [str(error) for error in shop.errors]
    return ran, [shop.see(name) for name in names], (shop.wake_in(), errors)


def nothing(_: Workshop) -> None:
    pass


def all_traces(shop: Workshop) -> None:
    for kind in TRACE_KINDS:
        shop.scheduler.set_trace_enabled(kind, True)
    shop.scheduler.on_trace(lambda _: None)


def all_looks(shop: Workshop) -> None:
    scheduler = shop.scheduler
    scheduler.get_graph_snapshot().to_json()
    scheduler.get_stats()
    scheduler.get_filter_stats()
    scheduler.run_diagnosis()
    scheduler.outstanding()
    for node in list(scheduler.registry.nodes):
        scheduler.why(node)
        scheduler.get_action_stats(node)
        scheduler.get_dependents(node)


def idempotency(shop: Workshop) -> None:
    """Functions are called twice, so who ran is asked of the records."""
    shop.scheduler.set_idempotency_check(True)


def breakpoint_nowhere(shop: Workshop) -> None:
    node = shop.sum("never", "nothing")
    shop.scheduler.set_breakpoint(node)
    shop.scheduler.clear_breakpoint(node)
    shop.scheduler.remove(node)


@pytest.mark.parametrize(
    ("watch", "look"),
    [(all_traces, nothing), (nothing, all_looks), (all_traces, all_looks), (breakpoint_nowhere, all_looks)],
)
def test_same_nodes_run_in_the_same_order_looked_at_or_not(
    watch: Callable[[Workshop], None], look: Callable[[Workshop], None]
) -> None:
    assert busy_day(watch, look) == busy_day(nothing, nothing)


def test_same_nodes_run_in_the_same_order_when_each_is_run_twice() -> None:
    """The second calls are in the log of the functions, not in the records of the scheduler."""

    def started(watch: Callable[[Workshop], None]) -> tuple[list[object], object, object]:
        records: list[object] = []

        def listen(shop: Workshop) -> None:
            watch(shop)

            def keep(record: TraceRecord) -> None:
                if isinstance(record, RunStarted):
                    records.append((record.node, record.number, record.pass_number, record.causes))

            shop.scheduler.on_trace(keep)

        _, documents, end = busy_day(listen, nothing)
        return records, documents, end

    assert started(idempotency) == started(nothing)
