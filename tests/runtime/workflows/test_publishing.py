"""What is published lands with what it is part of, or not at all; and each id is one event, however often sent."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import pytest

import headwater as hw
from headwater.errors import AmbiguousError, ClosedError, ConflictError, CrossSpaceError, WriteError
from tests.app.holding import in_thread
from tests.runtime.workflows.mill import SAFETY_S, Mill, Note, until


@pytest.fixture
def mill() -> Mill:
    mill = Mill()
    mill.take(mutate=None)
    return mill


def titles(mill: Mill) -> list[str]:
    return [found.title for found in mill.flow.inputs()][::-1]


def test_the_same_id_is_the_same_event() -> None:
    mill, got = Mill(), list[str]()

    def prepare(_: object, pending: Any) -> hw.Plan[None]:
        got.extend(event.data.text for event in pending)
        return hw.Plan(None, take=pending)

    mill.take(prepare=prepare, mutate=None)
    with mill.open() as space:
        mill.notes.publish(Note("a", "first"), id="a")
        mill.notes.publish(Note("a", "second"), id="a")
        space.workflows.drain()
        # It was taken: what a run was given does not change, and it is not taken again.
        mill.notes.publish(Note("a", "third"), id="a")
        space.workflows.drain()
        assert got == ["second"]
        assert mill.events() == {"a": "consumed"}
        assert len(mill.flow.inputs()) == 1


def test_the_same_id_in_another_topic_is_another_event() -> None:
    mill = Mill()
    others = mill.flow.topic("others", Note)
    mill.flow.consumer(mill.notes, others)(mill.taker(mutate=None))
    with mill.open() as space:
        mill.put("a")
        others.publish(Note("a"), id="a")
        space.workflows.drain()
        assert mill.log == [("next", ["a", "a"], None)]
        assert mill.events() == mill.events("others") == {"a": "consumed"}


# --- transactions ---------------------------------------------------------------------------------------------


def test_it_lands_with_the_transaction_around_it(mill: Mill) -> None:
    with mill.open() as space:
        with space.transaction():
            mill.put("a")
            mill.total.value = 1
            space.sync()
            assert mill.events() == {}
        space.sync()
        assert mill.events() == {"a": "pending"}
        assert mill.total.value == 1


def test_a_published_id_that_is_kept_does_not_keep_the_payload(mill: Mill) -> None:
    with mill.open() as space:
        with space.transaction():
            published = mill.notes.publish(Note("a", "text"), id="a")
            [step] = [weakref.ref(each) for each in published._transaction.steps.values()]
            assert step() is not None
        assert published.sync() is True
        space.sync()
        gc.collect()
        assert step() is None
        assert published.sync() is True


def test_it_goes_with_a_transaction_that_is_taken_back(mill: Mill) -> None:
    with mill.open() as space:
        with pytest.raises(ZeroDivisionError), space.transaction():
            mill.put("a")
            mill.total.value = 1 // 0
        space.workflows.drain()
        assert mill.events() == {}


def test_it_goes_with_an_inner_block_that_is_taken_back(mill: Mill) -> None:
    with mill.open() as space:
        with space.transaction():
            mill.put("a")
            with pytest.raises(ZeroDivisionError), space.transaction():
                mill.put("b")
                mill.total.value = 1 // 0
            mill.put("c")
        space.sync()
        assert mill.events() == {"a": "pending", "c": "pending"}


def test_a_block_of_which_nothing_is_left_is_no_harm(mill: Mill) -> None:
    with mill.open() as space:
        with space.transaction(), pytest.raises(ZeroDivisionError), space.transaction():
            mill.put("a")
            mill.total.value = 1 // 0
        space.sync()
        assert mill.events() == {}


def test_it_goes_with_a_transaction_that_was_overtaken(mill: Mill) -> None:
    with mill.open() as space:
        with pytest.raises(ConflictError), space.transaction():
            mill.put("a")
            seen = mill.total.value

            def overtake() -> None:
                mill.total.value = 10

            in_thread(overtake)
            mill.total.value = seen + 1
        space.sync()
        assert mill.total.value == 10
        assert mill.events() == {}


def test_alone_it_is_a_transaction_of_its_own(mill: Mill) -> None:
    with mill.open() as space:
        mill.put("a")
        space.sync()
        assert mill.events() == {"a": "pending"}
        in_thread(lambda: mill.put("b"))
        space.sync()
        assert mill.events() == {"a": "pending", "b": "pending"}


def test_many_threads_publish_at_once(mill: Mill) -> None:
    with mill.open() as space:
        threads = [
            threading.Thread(target=lambda n=n: mill.put(*(f"{n}-{i % 20}" for i in range(40))))  # type: ignore[misc]
            for n in range(8)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(SAFETY_S)
        space.sync()
        assert len(mill.events()) == 160
        space.workflows.drain()
        assert set(mill.events().values()) == {"consumed"}


def test_a_task_that_outlives_its_transaction_publishes_nothing(mill: Mill) -> None:
    async def main() -> None:
        async with mill.app.aopen("memory:") as space:
            go = asyncio.Event()

            async def late() -> None:
                await go.wait()
                mill.put("a")

            with space.transaction():
                task = asyncio.create_task(late())
                await asyncio.sleep(0)
                mill.put("b")
            go.set()
            with pytest.raises(ClosedError, match=r"cannot publish to mill.notes.notes"):
                await task
            space._opening.wait_for_disk()
            assert mill.events() == {"b": "pending"}

    asyncio.run(main())


# --- functions ------------------------------------------------------------------------------------------------


def test_a_handler_publishes_with_the_commit_of_its_event(mill: Mill) -> None:
    @mill.app.handler
    def submit(name: str, fails: bool = False) -> None:
        mill.put(name)
        mill.total.value += 1
        if fails:
            raise ValueError(name)

    with mill.open() as space:
        submit.send("a").result(timeout=f"{SAFETY_S}s")
        with pytest.raises(hw.EventFailedError):
            submit.send("b", fails=True).result(timeout=f"{SAFETY_S}s")
        space.sync()
        assert mill.events() == {"a": "pending"}
        assert mill.total.value == 1
        assert titles(mill) == ["Note a"]


def test_a_handler_that_only_publishes_is_done_once(mill: Mill) -> None:
    calls: list[str] = []

    @mill.app.handler
    def submit(name: str) -> str:
        calls.append(name)
        mill.put(name)
        return name

    with mill.open() as space:
        assert submit.send("a").result(timeout=f"{SAFETY_S}s") == "a"
        space.workflows.drain()
        assert calls == ["a"]
        assert mill.events() == {"a": "consumed"}


def test_a_handler_that_was_overtaken_publishes_once(tmp_path: Path) -> None:
    mill, seen = Mill(tmp_path), []
    mill.take(mutate=None)

    @mill.app.handler
    def submit(name: str) -> None:
        seen.append(mill.total.value)
        mill.put(f"{name}{mill.total.value}")
        if len(seen) == 1:
            in_thread(overtake)
        mill.total.value = mill.total.value + 1

    def overtake() -> None:
        with rival.transaction():
            mill.total.value = 10
        rival.sync()

    with mill.open() as rival, mill.open() as space:
        submit.send("a").result(timeout=f"{SAFETY_S}s")
        space.sync()
        assert seen == [0, 10]
        assert mill.events() == {"a10": "pending"}
        assert mill.total.value == 11


def test_an_async_handler_publishes_like_any_other(mill: Mill) -> None:
    @mill.app.handler
    async def submit(name: str) -> None:
        await asyncio.sleep(0)
        mill.put(name)

    async def main() -> None:
        async with mill.app.aopen("memory:"):
            await submit.send("a")
            assert mill.events() == {"a": "pending"}

    asyncio.run(main())


def test_what_is_computed_does_not_publish(mill: Mill) -> None:
    @mill.app.computed
    def doubled() -> int:
        mill.put("a")
        return mill.total.value * 2

    with mill.open() as space:
        told = "only reads, and may be run again: publish to mill.notes.notes in a handler"
        with pytest.raises(WriteError, match=told):
            doubled()
        space.sync()
        assert mill.events() == {}


def test_a_sink_that_may_write_may_publish(mill: Mill) -> None:
    @mill.app.sink
    def watch() -> None:
        if mill.total.value > 2:
            mill.put(f"{mill.total.value // 10}")
        if mill.total.value == 40:
            raise ValueError("what it published goes with it")

    with mill.open() as space:
        for value in (1, 30, 31, 40):
            mill.total.value = value
        space.workflows.drain()
        assert mill.events() == {"3": "consumed"}
        assert len(mill.errors) == 1


def test_a_handler_cannot_publish_through_what_it_computes(mill: Mill) -> None:
    @mill.app.computed
    def doubled(by: int) -> int:
        mill.put("a")
        return mill.total.value * by

    @mill.app.handler
    def submit() -> int:
        return doubled(2)

    with mill.open() as space:
        with pytest.raises(hw.EventFailedError):
            submit.send().result(timeout=f"{SAFETY_S}s")
        space.sync()
        assert mill.events() == {}


# --- several apps and openings --------------------------------------------------------------------------------


def test_another_app_of_the_same_file_publishes_in_the_same_transaction(tmp_path: Path) -> None:
    mill = Mill(tmp_path)
    mill.take(mutate=None)
    desk = hw.App("desk")
    count = desk.cell("count", 0)

    @desk.handler
    def submit(name: str, fails: bool = False) -> None:
        count.value += 1
        mill.put(name)
        if fails:
            raise ValueError(name)

    with mill.open() as space, desk.open(mill.url, on_error=mill.errors.append, durability="normal") as other:
        submit.send("a").result(timeout=f"{SAFETY_S}s")
        with pytest.raises(hw.EventFailedError):
            submit.send("b", fails=True).result(timeout=f"{SAFETY_S}s")
        other.sync()
        assert mill.events() == {"a": "pending"}
        space.workflows.drain()
        assert mill.events() == {"a": "consumed"}


def test_next_publishes_to_a_workflow_of_another_app_of_the_file_with_its_own_commit(tmp_path: Path) -> None:
    mill, fails = Mill(tmp_path), [True]
    desk = hw.App("desk")
    desk_flow = desk.workflow("flow")
    letters = desk_flow.topic("letters", Note)
    desk_flow.consumer(letters)(mill.taker(mutate=None))

    def go_on(_: object, run: hw.Run, data: list[str], outcome: object) -> None:
        letters.publish(Note("a"), id="a")
        if fails.pop():
            raise hw.TransientError("not yet")

    mill.take(mutate=None, next=go_on)
    with mill.open() as space, desk.open(mill.url, durability="normal") as other:
        mill.put("a")
        space.workflows.drain()
        other.workflows.drain()
        assert mill.statuses == ["paused:transient"]
        assert mill.events("letters") == {}
        fails.append(False)
        mill.advance(10)
        space.workflows.drain()
        assert mill.events("letters") == {"a": "pending"}
        # It is about what the run was about, not about something that came in.
        assert desk_flow.inputs() == []


def test_a_phase_a_handler_and_a_block_publish_to_another_file_when_they_are_confirmed(tmp_path: Path) -> None:
    mill = Mill(tmp_path)
    desk = hw.App("desk")
    desk_flow = desk.workflow("flow")
    letters = desk_flow.topic("letters", Note)
    desk_flow.consumer(letters)(mill.taker(mutate=None))

    def put(name: str) -> None:
        letters.publish(Note(name), id=name, title=f"Letter {name}")

    @mill.app.handler
    def submit() -> None:
        put("b")

    mill.take(mutate=None, next=lambda *_: put("a"))
    with mill.open() as space, desk.open(str(tmp_path / "desk.db")) as other:
        mill.put("a")
        space.workflows.drain()
        submit.send().result(timeout=f"{SAFETY_S}s")
        with space.transaction():
            put("c")
        assert mill.statuses == ["committed"]
        space.delivered(timeout=f"{SAFETY_S}s")
        other.sync()
        # The number of the run means nothing there: each is an input of its own.
        assert [found.title for found in desk_flow.inputs()][::-1] == ["Letter a", "Letter b", "Letter c"]


def test_a_phase_reads_cells_of_other_spaces_and_writes_only_those_of_its_own(tmp_path: Path) -> None:
    mill, refused = Mill(tmp_path), list[str]()
    desk = hw.App("desk")
    count = desk.cell("count", 0)

    def use(*_: object) -> None:
        refused.append(str(count.value))
        with pytest.raises(CrossSpaceError) as error:
            count.value = 7
        refused.append(str(error.value.facts["use"]))

    mill.take(mutate=None, next=use)
    with desk.open(str(tmp_path / "desk.db")), mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert (count.value, refused) == (0, ["0", "written"])


def test_of_several_openings_the_one_around_the_code_is_meant(mill: Mill) -> None:
    with mill.open() as one, mill.open() as two:
        with one.transaction():
            mill.put("a")
        one.sync()
        mill.put("b")
        two.sync()
        assert mill.events() == {"b": "pending"}

        def outside() -> None:
            with pytest.raises(AmbiguousError):
                mill.put("c")

        in_thread(outside)
    assert mill.url == "memory:"


def test_an_event_of_the_http_kind_is_checked_like_any_other(mill: Mill) -> None:
    with mill.open() as space:
        assert mill.notes.from_json(space._opening, {"name": "a", "text": "b"})
        with pytest.raises(hw.HeadwaterError, match="name"):
            mill.notes.from_json(space._opening, {"name": 3})


def test_a_thread_that_outlives_its_run_publishes_nothing(mill: Mill) -> None:
    """What was started in a run, with its context, and goes on after it."""
    mill, raised, go, began = Mill(), [], threading.Event(), threading.Event()

    def later() -> None:
        began.set()
        assert go.wait(SAFETY_S)
        try:
            mill.put("late")
        except hw.WorkflowError as error:
            raised.append(error)

    async def prepare(_: object, pending: Any) -> hw.Plan[Any]:
        tasks.append(asyncio.get_running_loop().run_in_executor(None, later))
        tasks.append(asyncio.create_task(asyncio.to_thread(later)))
        await asyncio.to_thread(began.wait)
        return hw.Plan(None, take=pending)

    tasks: list[Any] = []
    mill.take(prepare=prepare, mutate=None)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == [("next", None, None)]
        go.set()
        until(tasks[1].done)
        # The one that knew of its run was refused; the other is a plain thread like any other.
        assert [str(error) for error in raised] == [
            "HW503: mill.notes.notes.publish() in None: publish in a producer or in next, whose commit it is part of"
        ]
