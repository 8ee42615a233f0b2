"""Requests as a process or a server receives them, with all known questions and commands."""

from __future__ import annotations

from typing import Final, TypeAlias

import msgspec

from headwater.inspect.declared_records import DeclaredQuestion, RefetchResource
from headwater.inspect.document_records import DocumentQuestion, SetValue
from headwater.inspect.envelope import VERSION, Request
from headwater.inspect.event_records import EventCommand, EventQuestion
from headwater.inspect.function_records import FunctionQuestion
from headwater.inspect.space_records import ChangeBranch, GetPulse, SpaceQuestion
from headwater.inspect.workflow_records import WorkflowCommand, WorkflowQuestion

AnyQuestion: TypeAlias = (
    FunctionQuestion | EventQuestion | DocumentQuestion | SpaceQuestion | GetPulse | DeclaredQuestion | WorkflowQuestion
)
AnyCommand: TypeAlias = SetValue | RefetchResource | ChangeBranch | EventCommand | WorkflowCommand


class IncomingRequest(Request, frozen=True, kw_only=True):
    """A request with a known question or command."""

    ask: AnyQuestion | None = None
    do: AnyCommand | None = None


class _Versioned(msgspec.Struct):
    v: int


_request: Final = msgspec.json.Decoder(IncomingRequest)


def read_request(data: bytes) -> IncomingRequest | str:
    """The request, or the reason why it is not understood."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).v
        if version != VERSION:
            return f"it speaks version {VERSION} of this protocol, not {version}"
        return _request.decode(data)
    except msgspec.MsgspecError as error:
        text = str(error)
        if text.endswith(("`$.ask.question`", "`$.do.command`")):
            return f"the question is unknown there: {text.partition(' - at')[0]}; it runs another version of Headwater"
        return f"the request is not understood: {text}"
