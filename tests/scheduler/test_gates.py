"""Time gates: when a node that has to run may run, and the one time at which to look again."""

from __future__ import annotations

import pytest

from headwater.cells.transaction import Transaction
from headwater.core import doc_key
from tests.scheduler.workshop import Workshop, number


@pytest.fixture
def shop() -> Workshop:
    return Workshop()


# --- debounce ---------------------------------------------------------------------------------------------


def test_first_run_is_not_debounced(shop: Workshop) -> None:
    shop.show("show", "a", debounce_ms=100.0)
    assert shop.run() == ["show"]


def test_debounced_effect_runs_when_nothing_it_read_has_changed_for_so_long(shop: Workshop) -> None:
    shop.show("show", "a", debounce_ms=100.0)
    shop.run()
    shop.put(a=1)
    assert (shop.run(), shop.wake_in()) == ([], 100)
    assert (shop.after(99), shop.wake_in()) == ([], 1)
    assert (shop.after(1), shop.wake_in()) == (["show"], None)


def test_every_invalidation_begins_the_quiet_anew(shop: Workshop) -> None:
    shop.show("show", "a", debounce_ms=100.0)
    shop.run()
    for value in range(1, 6):
        shop.put(a=value)
        shop.run()
        assert shop.after(80) == []
        assert shop.wake_in() == 20
    assert shop.after(20) == ["show"]


def test_change_of_something_else_does_not_begin_the_quiet_anew(shop: Workshop) -> None:
    shop.show("show", "a", debounce_ms=100.0)
    shop.run()
    shop.put(a=1)
    shop.run()
    shop.after(60)
    shop.put(b=1)
    assert shop.after(40) == ["show"]


def test_value_that_is_written_again_as_it_is_does_not_begin_the_quiet_anew(shop: Workshop) -> None:
    shop.show("show", "a", debounce_ms=100.0)
    shop.run()
    shop.put(a=1)
    shop.run()
    shop.after(60)
    shop.put(a=1)
    assert shop.after(40) == ["show"]


def test_debounced_computation_holds_nobody_below_up(shop: Workshop) -> None:
    shop.sum("slow", "a", debounce_ms=100.0)
    shop.show("show", "slow", "a")
    shop.run()
    shop.put(a=1)
    assert shop.run() == ["show"], "it reads a, and the last value of slow"
    assert shop.see("slow") == 0
    assert shop.after(100) == ["slow", "show"]


def test_nothing_below_a_gated_computation_runs_early(shop: Workshop) -> None:
    shop.sum("slow", "a", debounce_ms=100.0)
    shop.show("show", "slow")
    shop.run()
    shop.put(a=1)
    assert shop.run() == []
    assert shop.after(100) == ["slow", "show"]


# --- throttle ---------------------------------------------------------------------------------------------


def test_throttled_effect_runs_at_once_and_then_at_most_once_in_so_much_time(shop: Workshop) -> None:
    shop.show("show", "a", throttle_ms=1000.0)
    assert shop.run() == ["show"]
    for value in range(1, 4):
        shop.put(a=value)
        assert shop.after(300) == []
    assert shop.wake_in() == 100
    assert shop.after(100) == ["show"], "the trailing edge: what changed meanwhile is not lost"


def test_throttled_effect_runs_at_once_after_a_pause(shop: Workshop) -> None:
    shop.show("show", "a", throttle_ms=1000.0)
    shop.run()
    assert shop.after(5000) == []
    shop.put(a=1)
    assert shop.run() == ["show"], "the leading edge"
    shop.put(a=2)
    assert shop.run() == []
    assert shop.after(1000) == ["show"]


def test_throttled_effect_that_nothing_happened_to_does_not_run_when_its_time_is_over(shop: Workshop) -> None:
    shop.show("show", "a", throttle_ms=1000.0)
    shop.run()
    assert (shop.after(1000), shop.wake_in()) == ([], None)


def test_throttle_counts_from_the_end_of_a_run(shop: Workshop) -> None:
    def slow(tx: Transaction) -> None:
        number(tx, "a")
        shop.time += 400

    shop.effect("show", slow, throttle_ms=1000.0, no_auto_debounce=True)
    shop.run()
    shop.put(a=1)
    assert (shop.run(), shop.wake_in()) == ([], 1000)


def test_failed_run_counts_for_the_throttle(shop: Workshop) -> None:
    def fail(tx: Transaction) -> None:
        number(tx, "a")
        raise ValueError("no")

    shop.effect("show", fail, throttle_ms=1000.0)
    shop.run()
    shop.put(a=1)
    assert shop.run() == []
    assert shop.after(1000) == ["show"]


def test_debounce_and_throttle_together_wait_for_the_later(shop: Workshop) -> None:
    shop.show("show", "a", debounce_ms=100.0, throttle_ms=1000.0)
    shop.run()
    shop.put(a=1)
    assert (shop.run(), shop.wake_in()) == ([], 1000)
    shop.time += 950
    shop.put(a=2)
    assert (shop.run(), shop.wake_in()) == ([], 100)
    assert shop.after(100) == ["show"]


# --- changing a gate --------------------------------------------------------------------------------------


def test_gate_that_is_set_while_the_node_is_invalid_begins_then(shop: Workshop) -> None:
    show = shop.show("show", "a")
    shop.run()
    shop.put(a=1)
    shop.scheduler.invalidation.drain()
    shop.scheduler.set_debounce(show, 50)
    assert (shop.run(), shop.wake_in()) == ([], 50)
    assert shop.after(50) == ["show"]


def test_wake_is_recomputed_when_a_gate_is_changed_or_cleared(shop: Workshop) -> None:
    show = shop.show("show", "a", debounce_ms=100.0)
    shop.run()
    shop.put(a=1)
    shop.run()
    scheduler = shop.scheduler
    scheduler.set_debounce(show, 500)
    assert shop.wake_in() == 500
    scheduler.set_debounce(show, 30)
    assert shop.wake_in() == 30
    scheduler.set_throttle(show, 1000)
    assert shop.wake_in() == 1000
    scheduler.clear_throttle(show)
    assert shop.wake_in() == 30
    scheduler.clear_debounce(show)
    assert shop.wake_in() is None
    assert shop.scheduler.outstanding().is_due
    assert shop.run() == ["show"]


def test_whoever_waits_for_work_is_told_when_a_gate_is_changed(shop: Workshop) -> None:
    show = shop.show("show", "a", debounce_ms=1000.0)
    shop.run()
    shop.put(a=1)
    shop.run()
    shop.ticks.clear()
    shop.scheduler.set_debounce(show, 10)
    assert True in shop.ticks, "somebody sleeps until a time that is not right any more"
    shop.run()
    shop.ticks.clear()
    shop.scheduler.clear_debounce(show)
    assert True in shop.ticks


def test_throttle_that_is_set_later_counts_from_the_last_run(shop: Workshop) -> None:
    show = shop.show("show", "a")
    shop.run()
    shop.after(400)
    shop.scheduler.set_throttle(show, 1000)
    shop.put(a=1)
    assert (shop.run(), shop.wake_in()) == ([], 600)


def test_throttle_of_a_node_that_never_ran_does_not_hold_its_first_run(shop: Workshop) -> None:
    show = shop.show("show", "a")
    shop.scheduler.set_throttle(show, 1000)
    shop.scheduler.set_debounce(show, 1000)
    assert shop.run() == ["show"]


def test_gates_are_answered_as_they_were_set(shop: Workshop) -> None:
    scheduler = shop.scheduler
    plain, gated = shop.show("plain"), shop.show("gated", debounce_ms=100.0, throttle_ms=200.0)
    assert (scheduler.get_debounce(plain), scheduler.get_throttle(plain)) == (None, None)
    assert (scheduler.get_debounce(gated), scheduler.get_throttle(gated)) == (100, 200)
    scheduler.clear_debounce(gated)
    scheduler.set_throttle(gated, 300)
    assert (scheduler.get_debounce(gated), scheduler.get_throttle(gated)) == (None, 300)


# --- one wake ---------------------------------------------------------------------------------------------


def test_wake_is_the_earliest_of_all_that_wait(shop: Workshop) -> None:
    for ms in (300, 100, 200):
        shop.show(f"show{ms}", "a", debounce_ms=float(ms))
    shop.run()
    shop.put(a=1)
    assert (shop.run(), shop.wake_in()) == ([], 100)
    assert (shop.after(100), shop.wake_in()) == (["show100"], 100)
    assert (shop.after(200), shop.wake_in()) == (["show300", "show200"], None), "as they were registered"


def test_many_that_wait_are_one_wake_and_settle_says_when(shop: Workshop) -> None:
    for index in range(50):
        shop.show(f"show{index}", "a", debounce_ms=100.0)
    shop.run()
    shop.put(a=1)
    assert shop.scheduler.settle() == shop.time + 100
    assert shop.scheduler.outstanding().gated == 50
    shop.time += 100
    assert shop.scheduler.settle() is None
    assert len(shop.taken()) == 50


def test_idle_is_not_held_up_by_gated_work(shop: Workshop) -> None:
    shop.show("show", "a", debounce_ms=100.0)
    shop.run()
    shop.put(a=1)
    assert shop.scheduler.idle() == shop.time + 100
    outstanding = shop.scheduler.outstanding()
    assert (outstanding.is_idle, outstanding.is_due, outstanding.gated) == (True, False, 1)


def test_nothing_fires_after_dispose(shop: Workshop) -> None:
    shop.show("show", "a", debounce_ms=100.0)
    shop.run()
    shop.put(a=1)
    shop.run()
    shop.scheduler.dispose()
    assert shop.wake_in() is None
    shop.put(a=2)
    assert shop.after(1000) == []
    assert shop.scheduler.outstanding().is_idle


def test_node_that_is_removed_while_it_waits_wakes_nobody(shop: Workshop) -> None:
    show = shop.show("show", "a", debounce_ms=100.0)
    shop.run()
    shop.put(a=1)
    shop.run()
    shop.scheduler.remove(show)
    assert (shop.wake_in(), shop.scheduler.outstanding().gated) == (None, 0)
    assert shop.after(1000) == []


# --- dormant and gated ------------------------------------------------------------------------------------


def test_gate_of_a_dormant_node_wakes_nobody(shop: Workshop) -> None:
    slow = shop.sum("slow", "a", debounce_ms=100.0)
    shop.scheduler.pull(slow)
    shop.put(a=1)
    assert (shop.run(), shop.wake_in()) == (["slow"], None)
    assert shop.after(1000) == []
    assert shop.scheduler.is_invalid(slow)


def test_gated_node_that_nobody_looks_at_any_more_wakes_nobody(shop: Workshop) -> None:
    shop.sum("slow", "a", debounce_ms=100.0)
    show = shop.show("show", "slow")
    shop.run()
    shop.put(a=1)
    shop.run()
    assert shop.wake_in() == 100
    shop.scheduler.remove(show)
    assert (shop.wake_in(), shop.after(1000)) == (None, [])
    shop.show("again", "slow")
    assert shop.run() == ["again", "slow", "again"], "its time is over: it runs as soon as somebody looks"


def test_gated_node_that_is_looked_at_again_still_waits(shop: Workshop) -> None:
    shop.sum("slow", "a", debounce_ms=100.0)
    show = shop.show("show", "slow")
    shop.run()
    shop.put(a=1)
    shop.run()
    shop.scheduler.remove(show)
    shop.time += 30
    shop.show("again", "slow")
    assert (shop.run(), shop.wake_in()) == (["again"], 70)
    assert shop.after(70) == ["slow", "again"]


def test_caller_of_a_gated_computation_gets_its_last_value(shop: Workshop) -> None:
    slow = shop.sum("slow", "a", debounce_ms=100.0)
    shop.scheduler.pull(slow)
    shop.put(a=1)
    shop.scheduler.pull(slow)
    assert (shop.taken(), shop.see("slow")) == (["slow"], 0)
    shop.time += 100
    shop.scheduler.pull(slow)
    assert (shop.taken(), shop.see("slow")) == (["slow"], 1)


def test_gated_computation_above_the_one_that_is_called_keeps_its_last_value(shop: Workshop) -> None:
    shop.sum("slow", "a", debounce_ms=100.0)
    top = shop.sum("top", "slow", "b", declared_reads=(doc_key("slow"),))
    shop.scheduler.pull(top)
    assert shop.taken() == ["slow", "top"]
    shop.put(a=1, b=10)
    shop.scheduler.pull(top)
    assert (shop.taken(), shop.see("top")) == (["top"], 10)
    shop.time += 100
    shop.scheduler.pull(top)
    assert (shop.taken(), shop.see("top")) == (["slow", "top"], 11)


def test_gated_computation_that_never_ran_runs_for_its_caller(shop: Workshop) -> None:
    slow = shop.sum("slow", "a", debounce_ms=100.0, throttle_ms=100.0)
    shop.put(a=1)
    shop.scheduler.pull(slow)
    assert shop.see("slow") == 1
