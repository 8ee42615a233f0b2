"""Questions to programs about their functions: what a program may send back, and how long it is waited for."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from headwater.errors import ServerLimitError
from headwater.server.server_limits import LOOKS_MAX
from headwater.server.spaces import looks
from headwater.sync.frames import EXTENSIONS, Hello, Look, LookAnswer, Open, Ping, Pong, SpaceOpened, Welcome
from tests.system.attacks.raw import Raw
from tests.system.attacks.served import Served


class Program:
    """One that was asked."""

    def __init__(self) -> None:
        self.asked: list[Look] = []
        self.looks = looks.Looks(self.asked.append)

    async def answered(self, *answers: tuple[int, str]) -> str:
        """Ask, and give these answers, by number."""
        asking = asyncio.ensure_future(self.looks.ask("{}", "ann"))
        await asyncio.sleep(0)
        for number, answer in answers:
            self.looks.seen(number, answer)
        return await asking


def test_an_answer_is_that_of_its_number() -> None:
    program = Program()
    assert asyncio.run(program.answered((7, "another"), (0, "none"), (1, "the one"), (1, "again"))) == "the one"
    assert program.asked == [Look(1, "{}", "ann")]


def test_a_program_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(looks, "LOOK_S", 0.01)
    program = Program()
    assert asyncio.run(program.answered((2, "another"))) == ""
    program.looks.seen(1, "too late")


def test_a_program_that_has_left_has_no_answer() -> None:
    async def left() -> str:
        program = Program()
        asking = asyncio.ensure_future(program.looks.ask("{}", ""))
        await asyncio.sleep(0)
        program.looks.end()
        program.looks.end()
        return await asking

    assert asyncio.run(left()) == ""


def test_questions_to_one_program_are_no_more_than_a_bound() -> None:
    async def many() -> None:
        program = Program()
        asking = [asyncio.ensure_future(program.looks.ask("{}", "")) for _ in range(LOOKS_MAX)]
        await asyncio.sleep(0)
        with pytest.raises(ServerLimitError):
            await program.looks.ask("{}", "")
        program.looks.end()
        await asyncio.gather(*asking)

    asyncio.run(many())


def opened(served: Served, can: tuple[str, ...], *, inspects: bool) -> Raw:
    """A program that says all by itself."""
    raw = Raw.upgrade(served.port, served.token("*"))
    raw.say(Hello((1,), can=can))
    raw.expect(Welcome)
    raw.say(Open("home", inspect=inspects))
    raw.expect(SpaceOpened)
    return raw


@pytest.mark.parametrize("can", [(), ("far", "spans")])
def test_an_answer_without_the_extension_ends_the_connection(tmp_path: Path, can: tuple[str, ...]) -> None:
    with Served.running(tmp_path) as served, opened(served, can, inspects=True) as raw:
        raw.say(LookAnswer(1, "{}"))
        assert raw.closed().code == 4400


def test_an_answer_that_was_not_asked_for_is_dropped(tmp_path: Path) -> None:
    with Served.running(tmp_path) as served, opened(served, EXTENSIONS, inspects=True) as raw:
        for answer in ("", "{", "\0", '{"v":4,"answer":[]}', "x" * 100_000):
            raw.say(LookAnswer(1, answer))
        raw.say(Ping(5))
        assert raw.expect(Pong).number == 5, "the answers did no harm"
