"""Threads of a world: one at a time, in an order that is a function of the seed, on virtual time."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from concurrent.futures import CancelledError
from functools import partial
from queue import Empty

import pytest

from headwater.machine import Files, machine, use
from headwater.testing.simulation.conductor import Conductor, SimProcess, WorldStuckError
from headwater.testing.simulation.sim_machine import SimMachine


def on(conductor: Conductor, name: str = "p", *, rate: float = 1.0) -> SimMachine:
    return SimMachine(name, conductor, files=Files(), rate=rate)


def run(conductor: Conductor, *bodies: Callable[[], object], process: SimProcess | None = None) -> None:
    """Start them all, and wait for the last."""
    errors: list[BaseException] = []
    conductor.on_error = lambda _actor, error: errors.append(error)
    actors = [conductor.begin(f"t{number}", body, process) for number, body in enumerate(bodies)]
    for actor in actors:
        conductor.join(actor)
    if errors:
        raise errors[0]


# -- order ---------------------------------------------------------------------------------------------------


def order_of(seed: int, *, switch: float = 0.5, pct_depth: int = 0) -> str:
    conductor = Conductor(seed, switch=switch, pct_depth=pct_depth, pct_steps=40)
    system, seen = on(conductor), list[str]()

    def body(name: str) -> Callable[[], None]:
        def do() -> None:
            lock = system.lock()
            for number in range(5):
                with lock:
                    seen.append(f"{name}{number}")

        return do

    run(conductor, body("a"), body("b"), body("c"))
    return f"{''.join(seen)} {conductor.digest}"


@pytest.mark.parametrize("pct_depth", [0, 2])
def test_order_is_a_function_of_the_seed(pct_depth: int) -> None:
    orders = [order_of(seed, pct_depth=pct_depth) for seed in range(20)]
    assert orders == [order_of(seed, pct_depth=pct_depth) for seed in range(20)]
    assert len(set(orders)) > 10


def test_without_switching_an_actor_runs_until_it_waits() -> None:
    found = order_of(1, switch=0.0).split()[0]
    assert sorted(found[at : at + 10] for at in range(0, 30, 10)) == [
        "a0a1a2a3a4",
        "b0b1b2b3b4",
        "c0c1c2c3c4",
    ]


def test_lock_inversion_of_two_threads_is_found_within_50_seeds() -> None:
    def is_stuck(seed: int) -> bool:
        conductor = Conductor(seed, switch=0.5)
        system = on(conductor)
        first, second = system.lock(), system.lock()

        def forth() -> None:
            with first, second:
                pass

        def back() -> None:
            with second, first:
                pass

        try:
            run(conductor, forth, back)
        except WorldStuckError as error:
            return "a lock of" in str(error)
        return False

    assert any(is_stuck(seed) for seed in range(50))


def test_lost_notification_is_stuck_and_says_what_is_waited_for() -> None:
    conductor = Conductor(1)
    system = on(conductor)
    condition = system.condition()

    def wait() -> None:
        with condition:
            condition.wait()

    with pytest.raises(WorldStuckError, match=r"t0 waits for a condition since 0\.000"):
        run(conductor, wait)


def test_endless_loop_that_only_passes_points_is_stuck() -> None:
    conductor = Conductor(1)
    lock = on(conductor).lock()

    def spin() -> None:
        while True:
            with lock:
                pass

    with pytest.raises(WorldStuckError, match="runs for ever"):
        run(conductor, spin)


def finds_a_late_start(seed: int, *, pct_depth: int) -> bool:
    """Whether a short thread starts only when a long one is nearly done, and then runs without a break."""
    conductor = Conductor(seed, switch=0.5, pct_depth=pct_depth, pct_steps=120)
    system = on(conductor)
    lock, state, hit = system.lock(), [0], [False]

    def long() -> None:
        for step in range(60):
            with lock:
                state[0] = step

    def other() -> None:
        seen = []
        for _ in range(3):
            with lock:
                seen.append(state[0])
        # All of `other` runs between two steps of `long`, late.
        hit[0] = seen[0] == seen[1] == seen[2] and seen[0] > 55

    run(conductor, long, other)
    return hit[0]


def test_priorities_find_an_order_that_a_uniform_draw_misses() -> None:
    assert not any(finds_a_late_start(seed, pct_depth=0) for seed in range(1_000))
    assert any(finds_a_late_start(seed, pct_depth=2) for seed in range(300))


# -- time ----------------------------------------------------------------------------------------------------


def test_time_passes_only_when_no_actor_can_run() -> None:
    conductor = Conductor(1)
    seen: list[tuple[str, float]] = []

    def sleeper(name: str, seconds: float) -> Callable[[], None]:
        def do() -> None:
            conductor.sleep(seconds)
            seen.append((name, conductor.now))

        return do

    run(conductor, sleeper("late", 30.0), sleeper("early", 2.0))
    assert seen == [("early", 2.0), ("late", 30.0)]


def test_equal_deadlines_go_in_the_order_of_being_set() -> None:
    for seed in range(20):
        conductor = Conductor(seed, switch=0.0)
        seen, set_in = list[int](), list[int]()
        run(conductor, *(partial(sleep_and_say, conductor, number, set_in, seen) for number in range(5)))
        assert seen == set_in


def sleep_and_say(conductor: Conductor, number: int, before: list[int], after: list[int]) -> None:
    before.append(number)
    conductor.sleep(5.0)
    after.append(number)


def test_clock_of_a_node_runs_at_its_rate_and_its_timeouts_too() -> None:
    conductor = Conductor(1)
    fast = on(conductor, rate=2.0)

    def do() -> None:
        with use(fast):
            begin = machine().monotonic()
            machine().sleep(10.0)
            assert machine().monotonic() - begin == pytest.approx(10.0)
            assert not machine().event().wait(4.0)

    run(conductor, do, process=fast.sim_process)
    assert conductor.now == pytest.approx(7.0)


def test_jump_of_the_wall_clock_leaves_monotonic_time() -> None:
    conductor = Conductor(1)
    system = on(conductor)
    before, wall = system.monotonic(), system.time()
    system.skew -= 3600
    assert system.monotonic() == before
    assert system.time() == wall - 3600
    system.set_rate(0.5)
    assert system.monotonic() == before


# -- processes -----------------------------------------------------------------------------------------------


def test_killed_process_runs_no_further_and_cleans_nothing_up() -> None:
    conductor = Conductor(1)
    node, seen = on(conductor, "n"), list[str]()

    def victim() -> None:
        try:
            for number in range(100):
                seen.append(str(number))
                conductor.sleep(1.0)
        finally:
            seen.append("cleaned")

    conductor.begin("victim", victim, node.sim_process)
    conductor.sleep(3.5)
    conductor.kill(node.sim_process)
    conductor.sleep(100.0)
    assert seen == ["0", "1", "2", "3"]


def test_process_that_kills_itself_does_not_return() -> None:
    conductor = Conductor(1)
    node, seen = on(conductor, "n"), list[str]()

    def victim() -> None:
        seen.append("before")
        conductor.kill(node.sim_process)
        seen.append("after")

    conductor.begin("victim", victim, node.sim_process)
    conductor.sleep(1.0)
    assert seen == ["before"]


def test_paused_process_goes_on_later_and_its_timers_with_it() -> None:
    conductor = Conductor(1)
    node, seen = on(conductor, "n"), list[float]()

    def ticks() -> None:
        for _ in range(4):
            conductor.sleep(1.0)
            seen.append(conductor.now)

    actor = conductor.begin("ticks", ticks, node.sim_process)
    conductor.sleep(1.5)
    conductor.pause(node.sim_process, 10.0)
    conductor.join(actor)
    assert seen == [1.0, 11.5, 12.5, 13.5]


# -- what threads use ----------------------------------------------------------------------------------------


def test_pool_has_at_most_its_size_at_work_and_its_futures_raise() -> None:
    conductor = Conductor(3, switch=0.5)
    system = on(conductor)
    at_work, most = [0], [0]

    def task(number: int) -> int:
        at_work[0] += 1
        most[0] = max(most[0], at_work[0])
        conductor.sleep(1.0)
        at_work[0] -= 1
        if number == 3:
            raise ValueError("three")
        return number

    def do() -> None:
        pool = system.pool(2, "pool")
        futures = [pool.submit(task, number) for number in range(5)]
        assert [future.result() for future in futures if future is not futures[3]] == [0, 1, 2, 4]
        with pytest.raises(ValueError, match="three"):
            futures[3].result()
        pool.shutdown()
        with pytest.raises(RuntimeError):
            pool.submit(task, 1)

    run(conductor, do, process=system.sim_process)
    assert most == [2]


def test_waiting_for_a_future_ends_with_its_time() -> None:
    conductor = Conductor(1)
    system = on(conductor)

    def do() -> None:
        future = system.future()
        with pytest.raises(TimeoutError):
            future.result(2.0)
        assert conductor.now == 2.0
        assert future.cancel()
        with pytest.raises(CancelledError):
            future.result()

    run(conductor, do)


def test_queue_gives_in_order_and_raises_when_the_time_is_over() -> None:
    conductor = Conductor(1, switch=0.5)
    queue, seen = on(conductor).queue(), list[int]()

    def put() -> None:
        for number in range(5):
            queue.put(number)
            conductor.sleep(1.0)

    def get() -> None:
        seen.extend(queue.get() for _ in range(5))
        with pytest.raises(Empty):
            queue.get(timeout=3.0)

    run(conductor, put, get)
    assert seen == list(range(5))


def test_reentrant_lock_is_free_after_as_many_releases() -> None:
    conductor = Conductor(1)
    lock = on(conductor).rlock()
    got: list[bool] = []

    def hold() -> None:
        with lock, lock:
            conductor.sleep(5.0)

    def try_it() -> None:
        conductor.sleep(1.0)
        got.append(lock.acquire(blocking=False))
        got.append(lock.acquire(timeout=1.0))
        got.append(lock.acquire())
        lock.release()
        with pytest.raises(RuntimeError):
            lock.release()

    run(conductor, hold, try_it)
    assert got == [False, False, True]


def test_digest_depends_on_what_is_noted() -> None:
    digests = set()
    for text in ("one", "other"):
        conductor = Conductor(1)
        conductor.note(text)
        digests.add(conductor.digest)
    assert len(digests) == 2
    assert hashlib.sha256(b"").hexdigest()[:16] not in digests
