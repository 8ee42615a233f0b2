"""What the programs that have a served space open answer about their functions, beside what the store tells."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, TypeVar, cast

import msgspec

from headwater.errors import HeadwaterError, NotFoundError
from headwater.inspect.envelope import Request, Response
from headwater.inspect.function_records import FunctionQuestion, OpeningView
from headwater.inspect.names import InspectScope
from headwater.inspect.request import Question
from headwater.inspect.space_records import GetPulse, Pulse
from headwater.inspect.stored_inspector import StoredInspector
from headwater.server.spaces.channel import Channel
from headwater.server.spaces.client_connection import ClientConnection

A = TypeVar("A")

_decoder: Final = msgspec.json.Decoder(Response)


async def ask_programs(channel: Channel, scope: InspectScope, question: Question[Any], actor: str) -> list[Response]:
    """The answers of the programs that let owners ask. In the event loop, for an owner."""
    clients = [
        each
        for each in channel.connections.values()
        if isinstance(each, ClientConnection) and each.inspects and each.talk.branch == scope.branch
    ]
    if not clients or not isinstance(question, FunctionQuestion | GetPulse):
        return []
    text = msgspec.json.encode(Request(scope=scope, ask=question)).decode()
    answers = await asyncio.gather(*(each.looks.ask(text, actor) for each in clients), return_exceptions=True)
    found: list[Response] = []
    for answer in answers:
        if isinstance(answer, str) and answer:
            # A program may send anything.
            with suppress(msgspec.MsgspecError):
                found.append(_decoder.decode(answer.encode("utf-8", "replace")))
    return found


def answered_with(inspector: StoredInspector, question: Question[Any], responses: Sequence[Response]) -> object:
    """The answer of the store with those of programs. Not in the loop: it reads from the disk."""
    if isinstance(question, GetPulse):
        return _pulse(inspector.ask(question), _read(question, responses))
    if not isinstance(question, FunctionQuestion):
        return inspector.ask(question)
    live = _told_apart([view for views in _read(question, responses) for view in views])
    try:
        stored = cast("tuple[OpeningView, ...]", inspector.answer(question))
    except NotFoundError:
        if not live:
            raise
        return live
    apps = {each.app for each in live}
    return (*live, *(each for each in stored if each.app not in apps))


def _read(question: Question[A], responses: Sequence[Response]) -> list[A]:
    found: list[A] = []
    for response in responses:
        # A program of another version, or one that is being closed.
        with suppress(HeadwaterError):
            found.append(response.read(question, "a program"))
    return found


def _told_apart(views: Sequence[OpeningView]) -> tuple[OpeningView, ...]:
    """Each app with a label of its own."""
    labels = [each.label for each in views]
    return tuple(
        msgspec.structs.replace(each, label=f"{each.label} ({labels[:place].count(each.label) + 1})")
        if labels.count(each.label) > 1
        else each
        for place, each in enumerate(views)
    )


def _pulse(stored: Pulse, pulses: Sequence[Pulse]) -> Pulse:
    if not pulses:
        return stored
    mark = ";".join([stored.mark, *sorted(each.mark for each in pulses)])
    running = tuple(name for each in pulses for name in each.running)
    return msgspec.structs.replace(stored, mark=mark, running=running)
