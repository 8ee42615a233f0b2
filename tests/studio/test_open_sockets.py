"""Room for sockets: for those that have said who they are, and for those that have not yet."""

from __future__ import annotations

import asyncio

from headwater.studio.limits import GRANT_TABS, HALF_OPEN, HALF_OPEN_PEER, TABS
from headwater.studio.open_sockets import HalfOpen, OpenSockets


async def _wait(half_open: HalfOpen) -> None:
    """As long as a socket may be silent."""
    try:
        async with half_open.time:
            await asyncio.Event().wait()
    except TimeoutError:
        assert half_open.made_room


async def _begun(sockets: OpenSockets, peer: str) -> tuple[HalfOpen, asyncio.Task[None]]:
    made = sockets.begin(peer)
    assert made is not None
    waiting = asyncio.ensure_future(_wait(made))
    await asyncio.sleep(0)
    return made, waiting


async def _end(begun: list[tuple[HalfOpen, asyncio.Task[None]]]) -> None:
    for _, waiting in begun:
        waiting.cancel()
    await asyncio.gather(*(waiting for _, waiting in begun), return_exceptions=True)


def test_one_address_makes_room_for_itself_only() -> None:
    async def run() -> None:
        sockets = OpenSockets()
        other = await _begun(sockets, "other")
        begun = [await _begun(sockets, "many") for _ in range(HALF_OPEN_PEER + 3)]
        assert [each.made_room for each, _ in begun] == [True] * 3 + [False] * HALF_OPEN_PEER
        assert not other[0].made_room
        await asyncio.gather(*(waiting for _, waiting in begun[:3]))
        await _end([other, *begun])

    asyncio.run(run())


def test_of_many_addresses_the_one_with_the_most_makes_room() -> None:
    async def run() -> None:
        sockets = OpenSockets()
        first = await _begun(sockets, "one")
        begun = [await _begun(sockets, "two") for _ in range(HALF_OPEN_PEER)]
        begun += [await _begun(sockets, f"peer{number}") for number in range(HALF_OPEN - HALF_OPEN_PEER)]
        assert [each.made_room for each, _ in begun[:2]] == [True, False]
        assert not first[0].made_room
        await _end([first, *begun])

    asyncio.run(run())


def test_who_is_being_let_in_is_not_ended_for_a_newer_one() -> None:
    async def run() -> None:
        sockets = OpenSockets()
        begun = [await _begun(sockets, "one") for _ in range(HALF_OPEN_PEER)]
        for each, _ in begun:
            each.heard()
        assert sockets.begin("one") is None
        sockets.end(begun[0][0])
        assert sockets.begin("one") is not None
        assert not any(each.made_room for each, _ in begun)
        await _end(begun)

    asyncio.run(run())


def test_a_token_has_some_of_the_room_and_gives_it_back() -> None:
    sockets = OpenSockets()

    def enter(grant: str, left: int) -> int:
        """How many of so many tabs have entered at the same time."""
        if not left:
            return 0
        with sockets.tab(grant) as why_not:
            return (not why_not) + enter(grant, left - 1)

    assert enter("one", TABS) == GRANT_TABS
    assert enter("one", TABS) == GRANT_TABS, "again"
    assert enter("", TABS + 3) == TABS, "a local Studio has no tokens"
    assert not sockets.is_full
