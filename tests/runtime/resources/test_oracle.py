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
from tests.runtime.resources.outside import World, breathe, pause

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


class Trial:
    """Two readers, who look at names, and the model beside them."""

    def __init__(self, *, is_stubborn: bool) -> None:
        world = self.world = World()
        self.model = Model()
        self.wanted = [world.app.cell(f"wanted{index}", "") for index in range(2)]
        self.said = iter(range(1, 1000))
        self.answers: set[object] = {None}
        # Whatever any reader ever saw; and what each saw last.
        self.seen: set[object] = set()
        self.last: dict[int, object] = {}

        @world.app.resource(fresh_for=f"{FRESH_S}s", retry=hw.Retry(1, backoff=f"{BACKOFF_S}s"))
        async def ask(name: str) -> int:
            try:
                found: int = await world.wire.ask(name)
            except asyncio.CancelledError:
                if not is_stubborn:
                    raise
                await pause(STUBBORN_S)
                return JUNK
            return found

        self.ask = ask
        world.app.sink(name="first")(lambda: self.read(0))
        world.app.sink(name="second")(lambda: self.read(1))

    def read(self, index: int) -> None:
        name = self.wanted[index].value
        self.last[index] = (name, self.shown(self.ask(name)) if name else None)

    def shown(self, found: hw.Pending | hw.Ready[int] | hw.Failed[int]) -> object:
        match found:
            case hw.Pending():
                return "pending"
            case hw.Ready(value):
                self.seen.add(value)
                return value
            case hw.Failed(_, last):
                self.seen.add(last)
                return ("failed", last)

    async def take(self, what: str, rest: list[Any]) -> None:
        """One step, in both worlds; then a second passes."""
        forced = called = ""
        match what:
            case "look":
                index, name = rest
                self.wanted[index].value = self.model.readers[index] = name
            case "time":
                await pause(rest[0])
                self.model.now += rest[0]
            case "refresh":
                forced = rest[0]
                self.ask.refresh(forced)
            case "call":
                called = rest[0]
                self.ask(called)
            case _:
                await self.answer(rest[0], next(self.said) if what == "answer" else None)
        await breathe()
        self.model.quiet(forced, called)
        await pause(STEP_S)
        await breathe()
        self.model.now += STEP_S
        self.model.quiet()

    async def answer(self, name: str, value: int | None) -> None:
        if self.model.names[name].is_open:
            await self.world.says(name, OSError("down") if value is None else value)
            self.model.answered(name, value)
            self.answers.add(value)

    def compare(self) -> None:
        names = self.model.names
        assert sorted(self.world.wire.open) == [name for name in NAMES if names[name].is_open]
        asked = {name: self.world.wire.asked.count(name) for name in NAMES}
        assert asked == {name: kept.asked for name, kept in names.items()}
        for index, name in enumerate(self.model.readers):
            assert self.last[index] == (name, self.model.seen(name) if name else None)
        assert self.seen <= self.answers
        assert self.world.wire.most <= 1

    async def end(self) -> None:
        for cell in self.wanted:
            cell.value = ""
        await breathe()
        for name in list(self.world.wire.open):
            # Called for by plain code: nobody looks away from that.
            self.world.wire.answer(name, 0)


@given(st.lists(st.one_of(LOOKS, NAMED, TIME), max_size=30), st.booleans())
def test_requests_and_what_is_seen_are_what_the_rules_say(steps: list[tuple[Any, ...]], is_stubborn: bool) -> None:
    trial = Trial(is_stubborn=is_stubborn)

    async def main(_: hw.AsyncSpace) -> None:
        for what, *rest in steps:
            await trial.take(what, rest)
            trial.compare()
        await trial.end()

    trial.world.run(main)
    assert trial.world.errors == []
