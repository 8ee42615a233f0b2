"""Whatever happens in whichever order: one request at a time, the newest wins, what was dropped is never seen.

A model that knows no events, only rules, says after each step which requests are open, how many there were, and what
readers see.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import headwater as hw
from tests.resources.outside import World, breathe, pause

NAMES = ("a", "b")
FRESH_S, BACKOFF_S, STEP_S, STUBBORN_S = 10.0, 4.0, 1.0, 0.25
JUNK = -1
"""What requests say that were told to stop and go on."""


@dataclass
class Kept:
    """What the model knows of one name."""

    value: int | None = None
    has_failed: bool = False
    came: float | None = None
    is_open: bool = False
    asked: int = 0
    failures: int = 0
    retry_at: float | None = None
    is_called: bool = False
    was_live: bool = False


@dataclass
class Model:
    now: float = 0.0
    readers: list[str] = field(default_factory=lambda: ["", ""])
    names: dict[str, Kept] = field(default_factory=lambda: {name: Kept() for name in NAMES})

    def quiet(self, forced: str = "", called: str = "") -> None:
        """Nothing is under way in here: what should be asked for is."""
        for name, kept in self.names.items():
            is_live = name in self.readers
            if kept.was_live and not is_live:
                kept.is_called = False
            is_anew = is_live and not kept.was_live
            kept.was_live = is_live
            if name == called and not is_live:
                kept.is_called = is_anew = True
            if name == forced:
                kept.is_called = kept.is_called or not is_live
            if not (is_live or kept.is_called):
                kept.is_open, kept.retry_at, kept.failures = False, None, 0
                continue
            if name == forced:
                kept.is_open = False
            if kept.is_open:
                continue
            if name == forced or self._is_due(kept, is_anew=is_anew):
                kept.is_open, kept.retry_at = True, None
                kept.asked += 1
            elif kept.retry_at is None:
                kept.is_called = False

    def _is_due(self, kept: Kept, *, is_anew: bool) -> bool:
        if kept.retry_at is not None:
            return self.now >= kept.retry_at
        return kept.came is None or (kept.has_failed and is_anew) or self.now >= kept.came + FRESH_S

    def answered(self, name: str, value: int | None) -> None:
        kept = self.names[name]
        kept.is_open = False
        if value is None:
            kept.failures += 1
            if kept.failures <= 1:
                kept.retry_at = self.now + BACKOFF_S
                return
        else:
            kept.value = value
        kept.failures, kept.has_failed, kept.came, kept.is_called = 0, value is None, self.now, False

    def seen(self, name: str) -> object:
        kept = self.names[name]
        if kept.came is None:
            return "pending"
        return ("failed", kept.value) if kept.has_failed else kept.value


LOOKS = st.tuples(st.just("look"), st.sampled_from([0, 1]), st.sampled_from(["", *NAMES]))
NAMED = st.tuples(st.sampled_from(["refresh", "call", "answer", "fail"]), st.sampled_from(NAMES))
TIME = st.tuples(st.just("time"), st.sampled_from([1, 3, 6, 20]))


@given(st.lists(st.one_of(LOOKS, NAMED, TIME), max_size=30), st.booleans())
def test_requests_and_what_is_seen_are_what_the_rules_say(steps: list[tuple[Any, ...]], is_stubborn: bool) -> None:
    world = World()
    model = Model()
    wanted = [world.app.cell(f"wanted{index}", "") for index in range(2)]
    said = iter(range(1, 1000))
    seen: set[object] = set()

    @world.app.resource(fresh_for=FRESH_S, retry=hw.Retry(1, backoff=BACKOFF_S))
    async def ask(name: str) -> int:
        try:
            found: int = await world.wire.ask(name)
        except asyncio.CancelledError:
            if not is_stubborn:
                raise
            await pause(STUBBORN_S)
            return JUNK
        return found

    def shown(found: object) -> object:
        match found:
            case hw.Pending():
                return "pending"
            case hw.Ready(value):
                seen.add(value)
                return value
            case hw.Failed(_, last):
                seen.add(last)
                return ("failed", last)
            case _:
                raise AssertionError(found)

    last: dict[int, object] = {}

    def reader(index: int) -> None:
        name = wanted[index].value
        last[index] = (name, shown(ask(name)) if name else None)

    world.app.sink(lambda: reader(0), name="first")
    world.app.sink(lambda: reader(1), name="second")

    async def main(space: hw.AsyncSpace) -> None:
        answers: set[int] = set()
        for what, *rest in steps:
            forced = called = ""
            match what:
                case "look":
                    index, name = rest
                    wanted[index].value = model.readers[index] = name
                case "time":
                    await pause(rest[0])
                    model.now += rest[0]
                case "refresh":
                    forced = rest[0]
                    ask.refresh(forced)
                case "call":
                    called = rest[0]
                    ask(called)
                case _ if model.names[rest[0]].is_open:
                    value = next(said) if what == "answer" else None
                    await world.says(rest[0], OSError("down") if value is None else value)
                    model.answered(rest[0], value)
                    answers |= set() if value is None else {value}
                case _:
                    continue
            await breathe()
            model.quiet(forced, called)
            await pause(STEP_S)
            await breathe()
            model.now += STEP_S
            model.quiet()
            assert sorted(world.wire.open) == [name for name in NAMES if model.names[name].is_open], what
            asked = {name: world.wire.asked.count(name) for name in NAMES}
            assert asked == {name: kept.asked for name, kept in model.names.items()}, what
            for index, name in enumerate(model.readers):
                assert last[index] == (name, model.seen(name) if name else None)
        assert seen <= answers | {None}
        assert world.wire.most <= 1
        for cell in wanted:
            cell.value = ""
        await breathe()
        for name in list(world.wire.open):
            # Called for by plain code: nobody looks away from that.
            world.wire.answer(name, 0)

    world.run(main)
    assert world.errors == []
