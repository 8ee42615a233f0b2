"""The answers of a program to questions that the server of its space passes on: about its functions, and no others."""

from __future__ import annotations

from typing import Final

import msgspec

from headwater.errors import HeadwaterError, UsageError
from headwater.inspect import live_functions
from headwater.inspect.envelope import VERSION, ErrorRecord, Response, answered
from headwater.inspect.function_records import FunctionQuestion
from headwater.inspect.incoming import read_request
from headwater.inspect.live_inspector import LiveInspector
from headwater.inspect.opening_port import OpeningPort
from headwater.inspect.space_records import GetPulse, Pulse
from headwater.machine import machine
from headwater.values.author_text import describe

ANSWER_MAX: Final = 8 * 1024 * 1024
"""Bytes of one answer: a graph of 20,000 nodes. Meanwhile the connection carries nothing else."""


def answer_text(openings: list[OpeningPort], text: str) -> str:
    """The response to a request, both as JSON."""
    response = _response(openings, text)
    found = msgspec.json.encode(response)
    if len(found) > ANSWER_MAX:
        refused = f"the answer is larger than {ANSWER_MAX:,} bytes; ask for less at once"
        found = msgspec.json.encode(Response(v=VERSION, pid=response.pid, refused=refused))
    return found.decode()


def _response(openings: list[OpeningPort], text: str) -> Response:
    request = read_request(text.encode())
    pid = machine().process_id()
    if isinstance(request, str):
        return Response(v=VERSION, pid=pid, refused=request)
    question = request.ask
    try:
        if not isinstance(question, FunctionQuestion | GetPulse) or request.do is not None:
            raise UsageError("a program is asked about its functions only: everything else is at the server")
        if isinstance(question, GetPulse):
            return answered(_pulse(openings), pid=pid)
        inspector = LiveInspector(openings, request.scope, wait_ms=request.wait_ms)
        return answered(inspector.ask(question), pid=pid)
    except HeadwaterError as error:
        return Response(v=VERSION, pid=pid, failure=ErrorRecord.of(error))
    except Exception as bug:  # noqa: BLE001  # of ours: it must not harm the program
        return Response(v=VERSION, pid=pid, refused=describe(bug))


def _pulse(openings: list[OpeningPort]) -> Pulse:
    """Of the functions alone: how far the space is, the server knows."""
    marks = ";".join(map(live_functions.mark_of, openings))
    running = [name for opening in openings for name in live_functions.running_now(opening)]
    return Pulse(space="", mark=marks, seq=0, at_ms=machine().now_ms(), running=tuple(running))
