"""What is around a run: callbacks after its commit, documents that it makes, and spaces in event loops."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import headwater as hw
from tests.runtime.workflows.mill import Mill, Note, until


class Person(hw.Doc):
    name: str


def test_what_is_asked_for_after_the_commit_is_called_once_and_only_then() -> None:
    mill, fails = Mill(), [True, False]

    def after(_: object, run: hw.Run, data: list[str], outcome: object) -> None:
        hw.after_commit(lambda: mill.log.append(("sent", mill.events())))
        if fails.pop(0):
            raise hw.TransientError("again")

    mill.take(mutate=None, next=after)
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == []
        mill.advance(10)
        space.workflows.drain()
        space.settle()
        assert mill.log == [("sent", {"a": "consumed"})]


def test_a_producer_may_ask_for_that_too() -> None:
    mill = Mill()
    mill.take(mutate=None, next=None)

    @mill.flow.producer(every="1h")
    def poll() -> None:
        mill.put("a")
        hw.after_commit(lambda: mill.log.append(list(mill.events())))

    with mill.open() as space:
        space.workflows.drain()
        space.settle()
        assert mill.log == [["a"]]


def test_documents_that_next_makes_are_there_with_the_commit() -> None:
    mill = Mill()
    people = mill.app.cell("people", list[Person](), type=list[Person])

    def after(_: object, run: hw.Run, data: list[str], outcome: object) -> None:
        for name in data:
            people.append(Person(name=name))

    mill.take(mutate=None, next=after)
    with mill.open() as space:
        mill.put("ann", "bob")
        space.workflows.drain()
        assert [person.name for person in people.value] == ["ann", "bob"]


def test_a_document_can_be_handed_from_phase_to_phase() -> None:
    mill = Mill()
    people = mill.app.cell("people", list[Person](), type=list[Person])

    class Take(hw.Consumer[Note, Person, Person]):
        def prepare(self, pending: Any) -> hw.Plan[Person]:
            return hw.Plan(people.value[0], take=pending)

        def mutate(self, run: hw.Run, data: Person) -> Person:
            mill.log.append(data.name)
            return data

        def next(self, run: hw.Run, data: Person, outcome: hw.Outcome[Person]) -> None:
            data.name = data.name.upper()

    mill.flow.consumer(mill.notes)(Take)
    with mill.open() as space:
        people.append(Person(name="ann"))
        mill.put("a")
        space.workflows.drain()
        assert mill.last.status == "committed", mill.last.error
        assert people.value[0].name == "ANN"
        assert mill.log == ["ann"]


def test_a_read_that_fails_and_is_caught_is_the_programs_own_business() -> None:
    mill = Mill()
    mail = mill.flow.connector("mail")

    @mail.read
    def look(name: str) -> str:
        raise LookupError(name)

    def prepare(consumer: Any, pending: Any) -> hw.Plan[Any]:
        try:
            found = consumer.run.call(look, "a")
        except LookupError:
            found = "nothing"
        return hw.Plan(found, take=pending)

    mill.take(prepare=prepare, mutate=None, consumer={"uses": mail})
    with mill.open() as space:
        mill.put("a")
        space.workflows.drain()
        assert mill.log == [("next", "nothing", None)]


# --- event loops ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("is_async", [False, True])
def test_an_app_in_an_event_loop_has_its_workflows_run_beside_it(is_async: bool) -> None:
    mill = Mill()
    done = asyncio.Event()

    class Take(hw.Consumer[Note, list[str], int]):
        def prepare(self, pending: Any) -> hw.Plan[list[str]]:
            return hw.Plan([e.id for e in pending], take=pending) if pending else hw.Plan.idle()

        def mutate(self, run: hw.Run, data: list[str]) -> int:
            return len(data)

        def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:
            mill.total.value += outcome.result or 0

    class AsyncTake(Take):
        async def mutate(self, run: hw.Run, data: list[str]) -> int:  # type: ignore[override]
            await asyncio.sleep(0)
            return len(data)

        async def next(self, run: hw.Run, data: list[str], outcome: hw.Outcome[int]) -> None:  # type: ignore[override]
            await asyncio.sleep(0)
            mill.total.value += outcome.result or 0

    mill.flow.consumer(mill.notes, name="Take")(AsyncTake if is_async else Take)

    @mill.app.sink
    def watch() -> None:
        if mill.total.value == 2:
            done.set()

    async def main() -> None:
        async with asyncio.timeout(20), mill.app.aopen("memory:") as space:
            space.workflows.start()
            mill.put("a")
            with space.transaction():
                mill.put("b")
            await done.wait()
            assert mill.events() == {"a": "consumed", "b": "consumed"}
            await asyncio.to_thread(until, lambda: mill.flow.status.state == "Idle")

    asyncio.run(main())
