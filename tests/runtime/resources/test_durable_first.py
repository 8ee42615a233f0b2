"""No request leaves before what it follows from is on disk: held up, taken back, or killed at that very moment."""

from __future__ import annotations

import asyncio
import random
import signal
import subprocess
import threading
from pathlib import Path

import pytest

import headwater as hw
from headwater.core import doc_key, open_space
from headwater.declare.functions.instances import Instances, key_of
from headwater.host.storage import storage_of
from tests.runtime.resources.outside import World
from tests.runtime.resources.test_resources import Town
from tests.support.power import POWER_CUT

CHILD = Path(__file__).with_name("askers_to_kill.py")


def known(space: hw.Space | hw.AsyncSpace, *docs: str) -> None:
    """Looked at before: what nobody has looked at is read from the disk, and that would be held up, too."""
    for doc in docs:
        space._opening.replica.read(doc_key(doc))


def weather_of(name: str) -> str:
    key = key_of({"name": name})
    assert key is not None
    return Instances.doc_of("world.weather", key)


def ask_and_kill(path: Path, how: str, durability: str, lines: int) -> int:
    """Kill it when so much was asked. Returns the last number that was."""
    with subprocess.Popen(
        [*POWER_CUT, str(CHILD), str(path), how, durability],
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None
        said = [child.stdout.readline() for _ in range(lines)]
        child.send_signal(signal.SIGKILL)
        said += [line for line in child.stdout if line.endswith("\n")]
    return max(int(line) for line in said)


def stored_number(path: Path) -> int:
    with open_space(str(path)) as space:
        found = space.attach().read(doc_key("asker.number"))
        return found if isinstance(found, int) else 0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["plain", "async"])
def test_what_was_asked_outside_follows_from_what_power_cuts_leave(how: str, tmp_path: Path) -> None:
    rng = random.Random(7)
    path = tmp_path / "asker.db"
    for _ in range(5):
        asked = ask_and_kill(path, how, "full", rng.randrange(1, 30))
        assert stored_number(path) >= asked


def test_power_cuts_do_show_requests_without_a_cause_when_syncs_are_skipped(tmp_path: Path) -> None:
    """The test above can fail."""
    path = tmp_path / "asker.db"
    lost = 0
    for _ in range(6):
        asked = ask_and_kill(path, "plain", "normal", 30)
        lost += stored_number(path) < asked
        if lost:
            break
    assert lost > 0


def test_a_request_waits_while_the_disk_is_held_up(tmp_path: Path) -> None:
    world = World(str(tmp_path / "world.db"))
    town = Town(world)
    with world.open() as space:
        world.wire.wait(lambda wire: wire.open == ["Oslo"])
        known(space, weather_of("Rome"), weather_of("Bonn"))
        with storage_of(space._opening._lease)._lock:
            town.city.value = "Rome"
            threading.Event().wait(0.05)
            assert "Rome" not in world.wire.asked
        world.wire.wait(lambda wire: "Rome" in wire.asked)


def test_in_a_loop_a_request_waits_while_the_disk_is_held_up(tmp_path: Path) -> None:
    """In a real loop: a simulated one would hold up the disk itself."""
    app = hw.App("held")
    number = app.cell("number", 0)
    asked: list[int] = []

    @app.resource
    async def square(of: int) -> int:
        asked.append(of)
        return of * of

    @app.sink
    def show() -> None:
        square(number.value)

    async def main() -> None:
        async with app.aopen(tmp_path / "held.db") as space:
            await space.settle()
            key = key_of({"of": 5})
            assert key is not None
            known(space, Instances.doc_of("held.square", key))
            with storage_of(space._opening._lease)._lock:
                number.value = 5
                await asyncio.sleep(0.05)
                assert asked == [0]
            await space.settle()
            assert asked == [0, 5]

    asyncio.run(main())


def test_what_was_taken_back_is_never_asked_for(tmp_path: Path) -> None:
    world = World(str(tmp_path / "world.db"))
    town = Town(world)
    guard = world.app.cell("guard", 0)
    other = hw.App("other")
    with world.open() as space, other.open(world.url) as beside:
        space.sync()
        known(space, weather_of("Rome"), "world.guard")
        known(beside, "world.guard")
        with storage_of(space._opening._lease)._lock:
            # Decided first, and not known here yet.
            beside.cell("world.guard", int).value = 1
            with space.transaction():
                assert guard.value == 0
                town.city.value = "Rome"
            assert world.log[-1] == "loading"
        beside.sync()
        space._opening.catch_up()
        assert town.city.value == "Oslo"
        # A second request, to know that the first would have left by now.
        town.city.value = "Bonn"
        world.wire.wait(lambda wire: "Bonn" in wire.asked)
        space._opening.runtime.unreported.clear()
    assert "Rome" not in world.wire.asked


def test_what_was_taken_back_is_not_asked_for_at_the_end_of_a_pass_that_has_not_taken_in_the_verdict(
    tmp_path: Path,
) -> None:
    world = World(str(tmp_path / "world.db"))
    town = Town(world)
    guard = world.app.cell("guard", 0)
    other = hw.App("other")
    with world.open() as space, other.open(world.url) as beside:
        space.sync()
        known(space, weather_of("Rome"), "world.guard")
        known(beside, "world.guard")
        runtime = space._opening
        with storage_of(runtime._lease)._lock:
            beside.cell("world.guard", int).value = 1
            with space.transaction():
                assert guard.value == 0
                town.city.value = "Rome"
        beside.sync()
        assert runtime.inbox
        assert runtime._fetcher is not None
        # As at the end of a pass that began before the verdict arrived.
        runtime._fetcher.look()
        runtime.catch_up()
        assert town.city.value == "Oslo"
        # A second request, to know that the first would have left by now.
        town.city.value = "Bonn"
        world.wire.wait(lambda wire: "Bonn" in wire.asked)
        runtime.runtime.unreported.clear()
    assert "Rome" not in world.wire.asked


def test_a_request_that_was_given_up_before_the_disk_was_ready_never_leaves(tmp_path: Path) -> None:
    world = World(str(tmp_path / "world.db"))
    town = Town(world)
    with world.open() as space:
        world.wire.wait(lambda wire: wire.open == ["Oslo"])
        known(space, weather_of("Rome"), weather_of("Bonn"))
        with storage_of(space._opening._lease)._lock:
            town.city.value = "Rome"
            town.city.value = "Bonn"
        world.wire.wait(lambda wire: "Bonn" in wire.asked)
    assert "Rome" not in world.wire.asked


def test_a_request_whose_cause_may_have_been_taken_back_and_written_again_waits_once_more(tmp_path: Path) -> None:
    world = World(str(tmp_path / "world.db"))
    town = Town(world)
    with world.open() as space:
        world.wire.wait(lambda wire: wire.open == ["Oslo"])
        known(space, weather_of("Rome"))
        runtime, storage = space._opening, storage_of(space._opening._lease)
        with storage._lock:
            town.city.value = "Rome"
            # As by a rollback, after which another event wrote the same before any sink ran.
            runtime.runtime.rejected_count += 1
        assert runtime._fetcher is not None
        for _ in range(3000):
            # Until the storage has reported.
            if runtime._fetcher._ready:
                break
            threading.Event().wait(0.01)
        with storage._lock:
            runtime._fetcher.look()
            threading.Event().wait(0.05)
            assert "Rome" not in world.wire.asked
        for _ in range(3000):
            runtime._fetcher.look()
            if "Rome" in world.wire.asked:
                break
            threading.Event().wait(0.01)
        assert "Rome" in world.wire.asked
