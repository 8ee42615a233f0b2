"""A disk that fails while something is asked for: the request does not leave, or its answer is asked for again."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

import headwater as hw
from headwater.errors import StoreFullError, UnavailableError
from headwater.host.loop_opening import LoopOpening
from headwater.host.storage import storage_of
from headwater.store.commit import CommitOutcome, Submission
from tests.runtime.resources.outside import World, breathe, pause
from tests.runtime.resources.test_resources import Town


@pytest.fixture
def world() -> World:
    return World()


def test_a_request_does_not_leave_when_the_disk_cannot_say_and_is_made_a_second_later(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    Town(world)
    real = LoopOpening.when_on_disk
    failing = [True]

    def when_on_disk(space: LoopOpening, then: Callable[[BaseException | None], None]) -> None:
        if failing[0]:
            then(UnavailableError("the disk is away"))
        else:
            real(space, then)

    monkeypatch.setattr(LoopOpening, "when_on_disk", when_on_disk)

    async def main(_: hw.AsyncSpace) -> None:
        await pause(3.5)
        assert world.asked() == []
        failing[0] = False
        await pause(1)
        assert world.wire.open == ["Oslo"]
        await world.says("Oslo", 7)

    world.run(main)
    assert world.taken() == ["loading", 7]


@pytest.mark.pure("replaces a method")
def test_an_answer_that_the_store_did_not_take_is_asked_for_again(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    town = Town(world)
    failing = [True]

    async def main(space: hw.AsyncSpace) -> None:
        await breathe()
        engine = storage_of(space._opening._lease)._engine
        real = engine.admit

        def admit(group: Sequence[Submission]) -> list[CommitOutcome]:
            docs = [operation.doc for each in group for operation in each.commit.operations]
            if failing[0] and any("weather" in doc for doc in docs):
                raise StoreFullError("no room on the disk")
            return real(group)

        monkeypatch.setattr(engine, "admit", admit)
        await world.says("Oslo", 7)
        await space.synced()
        assert town.weather("Oslo") == hw.Pending(), "taken back"
        failing[0] = False
        await pause(1)
        await breathe(lambda: world.wire.open == ["Oslo"])
        await world.says("Oslo", 8)
        assert town.weather("Oslo") == hw.Ready(8)

    world.run(main)
    assert world.taken()[-1] == 8
