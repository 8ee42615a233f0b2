"""Nodes that are slowed down by themselves: effects that are slow, and whoever does not settle."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from headwater.cells.transaction import Transaction
from headwater.core import SetDoc, doc_key
from headwater.scheduler.graph.node import Node
from headwater.scheduler.scheduler_limits import AUTO_DEBOUNCE_MS, BACKOFF_MAX_MS, BACKOFF_MS, RUNS_MAX
from headwater.values.tree import Value
from tests.scheduler.workshop import Workshop, number, write


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


# --- auto-debounce ----------------------------------------------------------------------------------------


def takes(shop: Workshop, ms: float) -> Callable[[Transaction], None]:
    def run(tx: Transaction) -> None:
        number(tx, "a")
        shop.time += ms

    return run


def runs(shop: Workshop, count: int) -> None:
    """Change what it reads, and let it run, so often."""
    for _ in range(count):
        shop.put(a=number_of(shop) + 1)
        shop.run()


def number_of(shop: Workshop) -> int:
    seen = shop.see("a")
    return seen if isinstance(seen, int) else 0


def test_slow_effect_is_debounced_by_itself_after_three_runs(shop: Workshop) -> None:
    shop.effect("draw", takes(shop, 51))
    shop.run()
    runs(shop, 2)
    assert shop.taken() == []
    shop.put(a=100)
    assert (shop.run(), shop.wake_in()) == ([], AUTO_DEBOUNCE_MS)
    assert shop.after(AUTO_DEBOUNCE_MS) == ["draw"]


def test_effect_of_exactly_fifty_milliseconds_is_not_slow(shop: Workshop) -> None:
    shop.effect("draw", takes(shop, 50))
    shop.run()
    runs(shop, 5)
    shop.put(a=100)
    assert shop.run() == ["draw"]


def test_two_runs_say_nothing_yet(shop: Workshop) -> None:
    shop.effect("draw", takes(shop, 1000))
    shop.run()
    runs(shop, 1)
    shop.put(a=100)
    assert shop.run() == ["draw"]


def test_mean_counts_and_not_the_slowest_run(shop: Workshop) -> None:
    slow = [90.0, 30.0, 20.0, 1.0, 1.0]

    def run(tx: Transaction) -> None:
        number(tx, "a")
        shop.time += slow.pop(0)

    shop.effect("draw", run)
    shop.run()
    runs(shop, 2)
    shop.put(a=100)
    assert shop.run() == ["draw"], "46 on average"


def test_effect_that_has_become_quick_is_not_held_up_any_more(shop: Workshop) -> None:
    times = [60.0, 60.0, 60.0, 1.0, 1.0]

    def run(tx: Transaction) -> None:
        number(tx, "a")
        shop.time += times.pop(0)

    shop.effect("draw", run)
    shop.run()
    runs(shop, 2)
    shop.put(a=100)
    assert shop.run() == []
    assert shop.after(100) == ["draw"]
    shop.put(a=101)
    assert shop.run() == ["draw"], "45 on average now"


class One:
    def to_stored(self, _: object) -> Value:
        return 1


def test_slow_computation_is_never_debounced_by_itself(shop: Workshop) -> None:
    shop.computation("slow", takes(shop, 500), result_type=One())
    shop.show("show", "slow")
    shop.run()
    runs(shop, 4)
    shop.put(a=100)
    assert shop.run() == ["slow"]


def test_slow_effect_can_opt_out(shop: Workshop) -> None:
    shop.effect("draw", takes(shop, 500), no_auto_debounce=True)
    shop.run()
    runs(shop, 4)
    shop.put(a=100)
    assert shop.run() == ["draw"]


def test_slow_effect_can_opt_out_while_it_waits(shop: Workshop) -> None:
    draw = shop.effect("draw", takes(shop, 500))
    shop.run()
    runs(shop, 3)
    shop.put(a=100)
    assert shop.run() == []
    shop.scheduler.set_no_auto_debounce(draw)
    assert shop.run() == ["draw"]
    shop.scheduler.set_no_auto_debounce(draw, on=False)
    shop.put(a=101)
    assert shop.run() == ["draw"], "it is found slow again at the end of a run"
    shop.put(a=102)
    assert shop.run() == []


@pytest.mark.parametrize("ms", [0.0, 10.0, 3000.0])
def test_debounce_that_was_set_wins(shop: Workshop, ms: float) -> None:
    shop.effect("draw", takes(shop, 500), debounce_ms=ms)
    shop.run()
    for value in range(1, 5):
        shop.put(a=value)
        shop.after(ms)
    shop.taken()
    shop.put(a=100)
    assert (shop.run(), shop.wake_in()) == (([], ms) if ms else (["draw"], None))


def test_pull_once_is_never_held_up(shop: Workshop) -> None:
    def read(tx: Transaction) -> int:
        shop.time += 500
        return number_of(shop) if tx.is_open else 0

    for _ in range(5):
        assert shop.scheduler.pull_once(read) == 0


# --- those that do not settle -----------------------------------------------------------------------------


def pingpong(shop: Workshop, *, until: int | None = None) -> tuple[Node, Node]:
    """Two effects that wake each other: for ever, or until the number is there."""

    def ping(tx: Transaction) -> None:
        found = number(tx, "pong")
        if number(tx, "on") and (until is None or found < until):
            write(tx, "ping", found + 1)

    def pong(tx: Transaction) -> None:
        write(tx, "pong", number(tx, "ping"))

    return shop.effect("ping", ping), shop.effect("pong", pong)


def test_node_that_hits_the_bound_rests_and_is_reported_once(shop: Workshop) -> None:
    pingpong(shop)
    shop.run()
    shop.put(on=1)
    assert shop.run().count("ping") == RUNS_MAX
    (error,) = shop.errors
    assert error.facts["nodes"] == ("ping",)
    assert "ping() does not settle: it ran 10 times in one pass" in str(error)
    assert shop.wake_in() == BACKOFF_MS


def test_rest_doubles_up_to_two_seconds_and_is_still_one_episode(shop: Workshop) -> None:
    pingpong(shop)
    shop.put(on=1)
    shop.run()
    rests = []
    for _ in range(6):
        assert shop.wake_in() is not None
        rests.append(shop.wake_in())
        assert shop.after(shop.wake_in()).count("ping") == RUNS_MAX
    assert rests == [250, 500, 1000, 2000, 2000, 2000]
    assert rests[-1] == BACKOFF_MAX_MS
    assert len(shop.errors) == 1


def test_bystanders_go_on_while_others_rest(shop: Workshop) -> None:
    pingpong(shop)
    shop.sum("sum", "a")
    shop.show("show", "sum")
    shop.put(on=1)
    assert shop.run().count("show") >= 1
    shop.put(a=1)
    assert shop.run() == ["sum", "show"]
    stats = shop.scheduler.get_stats()
    assert (stats.gated, shop.wake_in()) == (1, BACKOFF_MS)


def test_rest_is_over_for_good_when_it_is_genuinely_clean(shop: Workshop) -> None:
    ping, _ = pingpong(shop)
    shop.put(on=1)
    shop.run()
    shop.after(250)
    assert shop.wake_in() == 500
    shop.put(on=0)
    assert shop.after(500).count("ping") == 1
    assert (shop.wake_in(), shop.scheduler.run_diagnosis()) == (None, [])
    assert ping.gate is not None
    assert ping.gate.backoff_ms == 0
    shop.put(on=1)
    shop.run()
    assert (shop.wake_in(), len(shop.errors)) == (250, 2), "a new episode begins from the beginning, and is told again"


def test_node_that_does_not_settle_in_one_pass_does_so_in_the_next(shop: Workshop) -> None:
    pingpong(shop, until=15)
    shop.put(on=1)
    shop.run()
    assert shop.wake_in() == 250
    shop.after(250)
    assert (shop.see("pong"), shop.wake_in()) == (15, None)


def test_change_from_outside_does_not_wake_one_that_rests(shop: Workshop) -> None:
    pingpong(shop)
    shop.put(on=1)
    shop.run()
    shop.put(on=2)
    assert (shop.run(), shop.wake_in()) == ([], 250)


def test_several_that_do_not_settle_are_one_report_with_all_names(shop: Workshop) -> None:
    for name in ("one", "two"):

        def push(tx: Transaction, name: str = name) -> None:
            write(tx, f"{name}.out", number(tx, f"{name}.in") + 1)

        def pull(tx: Transaction, name: str = name) -> None:
            write(tx, f"{name}.in", number(tx, f"{name}.out"))

        shop.effect(f"push.{name}", push)
        shop.effect(f"pull.{name}", pull)
    shop.run()
    (error,) = shop.errors
    assert error.facts["nodes"] == ("push.one", "push.two")


def test_resting_computation_that_is_called_gives_its_last_value_and_is_well_after_a_good_run(shop: Workshop) -> None:
    """It settles because a caller asked for it, outside of any pass."""
    stale = True

    def read(tx: Transaction) -> int:
        found = int(number(tx, "a"))
        if stale:
            shop.replica.commit(set_doc("a", found + 1))
        return found

    node = shop.computation("restless", read)
    show = shop.show("show", "restless")
    shop.run()
    (error,) = shop.errors
    assert error.facts["nodes"] == ("restless",)
    shop.scheduler.remove(show)
    stale = False
    shop.time += 250
    shop.scheduler.pull(node)
    assert node.is_clean
    stale = True
    shop.show("again", "restless")
    shop.put(a=1000)
    shop.run()
    assert (shop.wake_in(), len(shop.errors)) == (250, 2)


def set_doc(name: str, value: int) -> tuple[SetDoc]:
    return (SetDoc(doc_key(name), value),)
