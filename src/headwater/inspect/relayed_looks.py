"""Answers of a program whose space is at a server: an owner asks there, and the server passes the question on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, Protocol, cast

import msgspec

from headwater.errors import HeadwaterError, UsageError
from headwater.inspect import live_functions
from headwater.inspect.envelope import VERSION, ErrorRecord, Response, answered
from headwater.inspect.function_records import FunctionQuestion
from headwater.inspect.opening_port import OpeningPort
from headwater.inspect.space_records import GetPulse, Pulse
from headwater.machine import machine
from headwater.values.author_text import describe

ANSWER_MAX: Final = 8 * 1024 * 1024
"""Bytes of one answer: a graph of 20,000 nodes. Meanwhile the connection carries nothing else."""


class _Looked(Protocol):
    """A storage at a server."""

    answer_look: Callable[[str], str] | None


def join(storage: object, opening: OpeningPort) -> Callable[[], None] | None:
    """Answer for an opening. Returns the function that ends this; None: the space is at no server."""
    if not hasattr(storage, "answer_look"):
        return None
    remote = cast("_Looked", storage)
    # Several apps may share one connection. They are closed one by one.
    before = remote.answer_look
    openings = [*before.openings, opening] if isinstance(before, _Answers) else [opening]
    remote.answer_look = _Answers(openings)

    def end() -> None:
        left = [each for each in openings_of(remote) if each is not opening]
        remote.answer_look = _Answers(left) if left else None

    return end


class _Answers:
    """The answers of some openings: JSON of a request to JSON of its response."""

    def __init__(self, openings: list[OpeningPort]) -> None:
        self.openings = openings

    def __call__(self, text: str) -> str:
        response = _bounded(_response(self.openings, text))
        return response.decode()


def openings_of(remote: _Looked) -> list[OpeningPort]:
    """The openings that answer."""
    found = remote.answer_look
    return found.openings if isinstance(found, _Answers) else []


def _response(openings: list[OpeningPort], text: str) -> Response:
    from headwater.inspect.incoming import read_request  # noqa: PLC0415  # likewise
    from headwater.inspect.live_inspector import LiveInspector  # noqa: PLC0415  # most programs are never asked

    request = read_request(text.encode())
    pid = machine().process_id()
    if isinstance(request, str):
        return Response(v=VERSION, pid=pid, refused=request)
    question = request.ask
    try:
        if (
            not isinstance(question, FunctionQuestion | GetPulse)
            or request.do is not None
            or request.follow is not None
        ):
            raise UsageError("only functions are asked about here: everything else is at the server")
        if isinstance(question, GetPulse):
            return answered(_pulse(openings), pid=pid)
        inspector = LiveInspector(openings, request.scope, wait_ms=request.wait_ms)
        return answered(inspector.ask(question), pid=pid, mark=inspector.mark(question))
    except HeadwaterError as error:
        return Response(v=VERSION, pid=pid, failure=ErrorRecord.of(error))
    except Exception as bug:  # noqa: BLE001  # of ours: it must not harm the program
        return Response(v=VERSION, pid=pid, refused=describe(bug))


def _pulse(openings: list[OpeningPort]) -> Pulse:
    """Of the functions alone: how far the space is, the server knows."""
    marks = ";".join(map(live_functions.mark_of, openings))
    running = [name for opening in openings for name in live_functions.running_now(opening)]
    return Pulse(mark=marks, seq=0, at_ms=machine().now_ms(), running=tuple(running))


def _bounded(response: Response) -> bytes:
    found = msgspec.json.encode(response)
    if len(found) <= ANSWER_MAX:
        return found
    refused = f"the answer is larger than {ANSWER_MAX:,} bytes; ask for less at once"
    return msgspec.json.encode(Response(v=VERSION, pid=response.pid, refused=refused))
