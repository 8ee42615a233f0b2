"""The real machine: threads, loops, clocks and chance of the system, and the record of the process."""

from __future__ import annotations

import asyncio
import os
import re
import subprocess
import sys
import time
from contextvars import ContextVar
from dataclasses import dataclass, field

import pytest

from headwater.machine import WAIT_MAX, Empty, Machine, machine, use

WAIT_S = 10.0


@dataclass
class Counters:
    names: list[str] = field(default_factory=list)


@dataclass
class Outer:
    inner: Counters = field(default_factory=lambda: machine().state(Counters))


def test_state_is_one_instance_per_machine() -> None:
    one, other = Machine(), Machine()
    one.state(Counters).names.append("a")
    assert one.state(Counters) is one.state(Counters)
    assert one.state(Counters).names == ["a"]
    assert other.state(Counters).names == []


def test_state_may_ask_for_another_state_while_it_is_made() -> None:
    with use(Machine()) as other:
        assert other.state(Outer).inner is other.state(Counters)


def test_threads_that_ask_for_a_state_at_once_get_the_same_one() -> None:
    system = Machine()
    start = system.event()
    found: list[Counters] = []

    def ask() -> None:
        start.wait(WAIT_S)
        found.append(system.state(Counters))

    threads = [system.thread(ask, name=f"ask-{number}") for number in range(8)]
    for thread in threads:
        thread.start()
    start.set()
    for thread in threads:
        thread.join(WAIT_S)
    assert len(found) == 8
    assert len({id(each) for each in found}) == 1


def test_forked_child_makes_state_although_a_thread_of_the_parent_was_making_some() -> None:
    program = """
import os, threading
from headwater.machine import machine

begun, go_on = threading.Event(), threading.Event()

class Slow:
    def __init__(self):
        begun.set()
        go_on.wait(60)

class Quick: ...

maker = threading.Thread(target=lambda: machine().state(Slow))
maker.start()
begun.wait(60)
child = os.fork()
if child == 0:
    machine().state(Quick)
    os._exit(7)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
go_on.set()
maker.join()
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True)
    assert done.stdout == "7\n"


def test_pipe_carries_bytes() -> None:
    reader, writer = Machine().pipe()
    try:
        os.write(writer, b"!")
        assert os.read(reader, 8) == b"!"
    finally:
        os.close(reader)
        os.close(writer)


def test_use_puts_a_machine_in_place_and_takes_it_out_again() -> None:
    before = machine()
    with pytest.raises(KeyError), use(Machine()) as other:
        assert machine() is other
        raise KeyError
    assert machine() is before


def test_thread_is_on_the_machine_that_made_it_and_inherits_no_other_variable() -> None:
    variable: ContextVar[str] = ContextVar("variable", default="none")
    system = Machine()
    found = system.future()

    def look(word: str) -> None:
        found.set_result((machine(), variable.get(), word, system.is_main_thread()))

    variable.set("mine")
    with use(system):
        thread = machine().thread(look, name="look", args=("given",))
    thread.start()
    assert found.result(WAIT_S) == (system, "none", "given", False)
    thread.join(WAIT_S)
    assert not thread.is_alive()
    assert system.is_main_thread()


def test_pool_and_loops_are_on_the_machine_that_made_them() -> None:
    system = Machine()
    with system.pool(2, "pool") as pool:
        assert pool.submit(machine).result(WAIT_S) is system

        async def ask() -> list[Machine]:
            loop = asyncio.get_running_loop()
            return [
                machine(),
                await system.to_thread(machine),
                await system.in_pool(loop, None, machine),
                await system.in_pool(loop, pool, machine),
            ]

        with use(system):
            assert system.run(ask()) == [system] * 4


def test_coroutine_runs_in_the_loop_of_another_thread() -> None:
    system = Machine()
    loop = system.new_loop()

    async def ask() -> tuple[Machine, int]:
        return machine(), system.thread_id()

    thread = system.thread(loop.run_forever, name="loop")
    thread.start()
    with use(system):
        assert system.submit(loop, ask()).result(WAIT_S) == (system, thread.ident)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(WAIT_S)
    loop.close()


def test_lock_excludes_other_threads_and_a_reentrant_one_not_its_own() -> None:
    system = Machine()
    plain, reentrant = system.lock(), system.rlock()
    found: list[bool] = []
    with plain, reentrant:
        assert not plain.acquire(blocking=False)
        assert reentrant.acquire(timeout=WAIT_MAX)
        reentrant.release()
        thread = system.thread(lambda: found.append(reentrant.acquire(timeout=0.01)), name="other")
        thread.start()
        thread.join(WAIT_S)
    assert found == [False]


def test_condition_event_and_queue_wake_the_thread_that_waits() -> None:
    system = Machine()
    condition, event, rung = system.condition(), system.event(), system.queue()
    said: list[str] = []

    def work() -> None:
        with condition:
            condition.wait_for(lambda: "go" in said, WAIT_S)
            said.append("done")
        event.set()
        rung.put("ring")

    thread = system.thread(work, name="work")
    thread.start()
    with condition:
        said.append("go")
        condition.notify_all()
    assert event.wait(WAIT_S)
    assert rung.get(timeout=WAIT_S) == "ring"
    assert said == ["go", "done"]
    with pytest.raises(Empty):
        rung.get(timeout=0.001)


def test_clocks_go_forward() -> None:
    system = Machine()
    begun, begun_ms, at, at_ms = system.monotonic(), system.steady_ms(), system.time(), system.now_ms()
    system.sleep(0.01)
    assert 0.01 <= system.monotonic() - begun < WAIT_S
    assert 10 <= system.steady_ms() - begun_ms < WAIT_S * 1000
    assert system.time() > at
    assert system.now_ms() > at_ms
    assert abs(at * 1000 - at_ms) < 1000
    assert system.process.started <= at
    assert re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", system.local_time(at))
    assert system.local_time(at, "%Y") == time.strftime("%Y")


def test_tokens_differ_and_have_their_alphabet() -> None:
    system = Machine()
    assert 0 <= system.random() < 1
    assert len(system.token_bytes(9)) == 9
    for make, form in (
        (system.token, r"[a-z2-7]{26}"),
        (lambda: system.token_hex(6), r"[0-9a-f]{12}"),
        (lambda: system.token_urlsafe(32), r"[\w-]{43}"),
    ):
        assert re.fullmatch(form, make(), re.ASCII)
        assert make() != make()


def test_all_tokens_are_made_of_token_bytes() -> None:
    class Counting(Machine):
        def token_bytes(self, size: int) -> bytes:
            return bytes(range(size))

    system = Counting()
    assert system.token_hex(3) == "000102"
    assert system.token_urlsafe(3) == "AAEC"
    assert system.token() == "aaaqeayeaudaocajbifqydiob4"
