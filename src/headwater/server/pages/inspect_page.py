"""Questions about a served space, and commands to its workflows: `POST /spaces/{space}/inspect`.

Functions run in the programs that have the space open. So all answers come from the store: documents, events, tables
of workflows, and the state of functions when the space was last closed as a file. Documents and events are written by
sessions only, which have limits and an order of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.responses import Response as HttpResponse

from headwater.access.grants import Grant
from headwater.access.rights import Right
from headwater.errors import ClosedError, HistoryError, UsageError, WorkflowError
from headwater.inspect.document_records import SetValue
from headwater.inspect.envelope import VERSION, ErrorRecord, Request, Response, answered
from headwater.inspect.event_records import DropEvent, RedeliverEvent, SendEvent
from headwater.inspect.incoming import read_request
from headwater.inspect.space_records import ChangeBranch, GetPulse
from headwater.inspect.stored_inspector import StoredInspector
from headwater.inspect.workflow_records import PublishEvent
from headwater.machine import machine
from headwater.server.authenticator import Authenticator
from headwater.server.pages.page_access import check_right, grant_of, peer_of
from headwater.server.spaces.channel import Channel
from headwater.server.spaces.client_connection import acting_as
from headwater.server.spaces.program_looks import answered_with, ask_programs
from headwater.server.topic_intake import Intake
from headwater.store.collection_rules import Access
from headwater.sync.session_scope import SessionScope
from headwater.values.ids import BranchId, SessionId

if TYPE_CHECKING:
    from starlette.requests import Request as HttpRequest

AT_ONCE_MAX: Final = 4
"""Questions that are answered at the same time. Each holds the store for some milliseconds."""

ANSWER_MAX: Final = 32 * 1024 * 1024
"""Bytes of one answer."""

AGAIN_S: Final = 60.0
"""How often a question that a page asks again and again is in the audit log."""

SAID_MAX: Final = 10_000
"""Questions of pages that are remembered for that."""

TRIES: Final = 3
"""An unused space may be closed just after it was found."""

_PAGE: Final = SessionId("inspect")
"""No session: there are no documents of it."""


class Inspections:
    """The page of one server."""

    def __init__(self, authenticator: Authenticator) -> None:
        self._authenticator = authenticator
        self._intake = Intake()
        self._at_once = 0
        # When a page's question was written to the audit log last.
        self._said: dict[tuple[str, str, str, str], float] = {}

    async def post(self, http: HttpRequest) -> HttpResponse:
        """One question or command."""
        grant = grant_of(http, self._authenticator)
        space: str = http.path_params["space"]
        check_right(self._authenticator, grant, space, Right.READ)
        if http.headers.get("content-type", "").partition(";")[0].strip().lower() != "application/json":
            raise HTTPException(415, "a question is JSON; send it with `Content-Type: application/json`")
        request = read_request(await self._intake.body(http))
        if isinstance(request, str):
            return _sent(Response(v=VERSION, refused=request))
        # Again: a body may take its time.
        check_right(self._authenticator, grant, space, _needed(request))
        if self._at_once >= AT_ONCE_MAX:
            raise HTTPException(503, f"{AT_ONCE_MAX} questions are being answered; try again", {"retry-after": "1"})
        self._at_once += 1
        try:
            return _sent(await self._answer(http, grant, space, request))
        finally:
            self._at_once -= 1

    def _is_new(self, grant: Grant, space: str, actor: str, request: Request) -> bool:
        """Whether a question has a line in the audit log. A page asks the same again: it is there once in a while."""
        if not request.live or request.do is not None:
            return True
        if isinstance(request.ask, GetPulse):
            # It tells how far the space is, as every frame of a session does.
            return False
        now, key = machine().monotonic(), (grant.id, space, actor, _what(request))
        said = self._said.get(key)
        if said is not None and now - said < AGAIN_S:
            return False
        while len(self._said) >= SAID_MAX:
            del self._said[next(iter(self._said))]
        self._said[key] = now
        return True

    async def _answer(self, http: HttpRequest, grant: Grant, space: str, request: Request) -> Response:
        actor = acting_as(grant, request.actor)
        if not request.unless and self._is_new(grant, space, actor, request):
            # As a session: who reads or decides is in the audit log, or gets no answer. A question that is asked again
            # and again is there once.
            audit = self._authenticator.spaces.access.audit
            audit.write("inspected", peer=peer_of(http), id=grant.id, space=space, actor=actor, what=_what(request))
        right = self._authenticator.spaces.right(grant, space)
        access = Access(right >= Right.WRITE, right >= Right.OWN, frozenset(grant.roles), actor)
        branch = BranchId(request.scope.branch)
        for turn in range(TRIES):
            channel = await self._authenticator.spaces.channel(space, create=False)
            channel.keep()
            may_read = partial(channel.rules.may_read, branch, access=access)
            may_see = SessionScope(actor, _PAGE, may_read).holds
            inspector = StoredInspector(channel.storage, request.scope, origin="server", may_see=may_see, actor=actor)
            is_owners = request.live and right >= Right.OWN and request.ask is not None
            asked = ask_programs(channel, request.scope, request.ask, actor) if is_owners and request.ask else None
            responses = [] if asked is None else await asked
            try:
                return await machine().to_thread(_response, channel, branch, inspector, request, responses)
            except ClosedError:
                if turn == TRIES - 1:
                    raise
            except (UsageError, HistoryError, WorkflowError) as error:
                return Response(v=VERSION, failure=ErrorRecord.of(error))
        raise AssertionError


def _needed(request: Request) -> Right:
    """The right that a request takes. Raises HTTPException."""
    match request.do:
        case None:
            return Right.READ
        case PublishEvent():
            return Right.WRITE
        case _:
            return Right.OWN


def _what(request: Request) -> str:
    found: msgspec.Struct | None = request.do or request.ask
    return "nothing" if found is None else str(found.__struct_config__.tag)


def _response(
    channel: Channel,
    branch: BranchId,
    inspector: StoredInspector,
    request: Request,
    responses: Sequence[Response],
) -> Response:
    channel.load_rules(branch)
    match request.do:
        case SetValue() | ChangeBranch() | SendEvent() | RedeliverEvent() | DropEvent():
            raise UsageError("documents and events of a served space are written by a session, not by this page")
        case None:
            pass
        case command:
            return _bounded(answered(inspector.do(command)))
    if request.follow is not None:
        raise UsageError("functions run in the programs that have the space open, not at the server")
    if request.ask is None:
        return Response(v=VERSION)
    mark = inspector.mark()
    if request.unless and request.unless == mark:
        return Response(v=VERSION, mark=mark)
    if responses:
        return _bounded(answered(answered_with(inspector, request.ask, responses), mark=mark))
    return _bounded(answered(inspector.ask(request.ask), mark=mark))


def _bounded(response: Response) -> Response:
    if len(bytes(response.answer)) > ANSWER_MAX:
        raise UsageError(f"the answer is larger than {ANSWER_MAX:,} bytes; ask for less at once")
    return response


def _sent(response: Response) -> HttpResponse:
    return HttpResponse(
        msgspec.json.encode(response), media_type="application/json", headers={"cache-control": "no-store"}
    )
