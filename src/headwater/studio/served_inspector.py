"""Inspection of a space of a server, inside the server, for one token: with its rights, its roles and its actor."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Final, TypeAlias, TypeVar

from headwater.access.grants import Grant
from headwater.access.rights import Right
from headwater.errors import AccessError, ClosedError, NotFoundError, UsageError
from headwater.inspect.document_records import SetValue
from headwater.inspect.envelope import Response, TraceLine
from headwater.inspect.event_records import DropEvent, RedeliverEvent, SendEvent
from headwater.inspect.function_records import FunctionQuestion
from headwater.inspect.incoming import AnyCommand, AnyQuestion
from headwater.inspect.inspector import AnsweringInspector
from headwater.inspect.names import InspectScope
from headwater.inspect.request import Question
from headwater.inspect.space_records import GetPulse
from headwater.inspect.stored_inspector import StoredInspector, takes_app
from headwater.inspect.workflow_records import PublishEvent
from headwater.server.authenticator import Authenticator
from headwater.server.spaces.channel import Channel
from headwater.server.spaces.program_looks import answered_with
from headwater.store.collection_rules import Access
from headwater.sync.server_session import RECEIPT
from headwater.sync.session_scope import SessionScope
from headwater.values.address import parse_address
from headwater.values.ids import BranchId, DocKey, SessionId

A = TypeVar("A")
T = TypeVar("T")

TRIES: Final = 3
"""An unused space may be closed just after it was found."""

Look: TypeAlias = Callable[[str, InspectScope, Question[Any], str], list[Response]]
"""Asks programs about their functions: space, scope, question, and who asks."""

_PAGE: Final = SessionId("studio")
"""No session: there are no documents of it."""


class ServedInspector(AnsweringInspector):
    """The inspector of one space for one grant. Its methods may be called in any thread but the loop's."""

    def __init__(
        self,
        authenticator: Authenticator,
        grant: Grant,
        space: str,
        branch: str,
        *,
        channel_of: Callable[[str], Channel],
        look: Look,
    ) -> None:
        """`channel_of`: opens a space if necessary, and keeps it open for a while. Raises HeadwaterError.

        `look`: asks the programs that have the space open.
        """
        self._authenticator = authenticator
        self._channel_of = channel_of
        self._look = look
        self._grant = grant
        self._space = space
        self._branch = BranchId(branch)
        self._actor = grant.actor or ""

    @property
    def right(self) -> Right:
        """The right that the grant has now."""
        return self._authenticator.spaces.right(self._grant, self._space)

    def mark(self) -> str:
        """A mark that differs after each change of the space."""
        return self._with(lambda inspector, _: inspector.mark())

    def answer(self, question: AnyQuestion) -> object:
        """Answer from the store of the server; for owners, with what programs answer about their functions."""
        responses: list[Response] = []
        if isinstance(question, FunctionQuestion | GetPulse) and self.right >= Right.OWN:
            responses = self._look(self._space, InspectScope(branch=self._branch), question, self._actor)
        return self._with(lambda inspector, _: answered_with(inspector, question, responses))

    def carry_out(self, command: AnyCommand) -> object:
        """Carry out, if the grant has the right. Raises AccessError."""
        self._check(_needed(command))
        match command:
            case SendEvent() | RedeliverEvent():
                raise takes_app(command, server=True)
            case SetValue():
                doc, _ = parse_address(command.address)
                return self._with(lambda inspector, may_see: _written(inspector, command, doc, may_see))
            case _:
                return self._with(lambda inspector, _: inspector.carry_out(command))

    def changes(self, question: Callable[[A | None], Question[A]]) -> Iterator[A | None]:
        """Raises UsageError: a page asks again."""
        raise UsageError(f"the answers of a served space are asked for again, not followed: {question(None)!r}")

    def follow(self, kind: str = "") -> Iterator[TraceLine]:  # noqa: ARG002  # as `Inspector` has it
        """Raises UsageError: no function runs at a server."""
        raise UsageError("functions run in the programs that have the space open, not at the server")

    def _check(self, needed: Right) -> None:
        right = self.right
        if right < Right.READ:
            raise AccessError("there is no such space, or it may not be used with this token", space=self._space)
        if right < needed:
            raise AccessError(f"this takes a token with the right to {needed.word} the space", space=self._space)

    def _with(self, work: Callable[[StoredInspector, Callable[[DocKey], bool]], T]) -> T:
        self._check(Right.READ)
        for turn in range(TRIES):
            channel = self._channel_of(self._space)
            try:
                channel.load_rules(self._branch)
                return work(*self._stored(channel))
            except ClosedError:
                if turn == TRIES - 1:
                    raise
        raise AssertionError

    def _stored(self, channel: Channel) -> tuple[StoredInspector, Callable[[DocKey], bool]]:
        right = self.right
        access = Access(right >= Right.WRITE, right >= Right.OWN, frozenset(self._grant.roles), self._actor)
        may_read = partial(channel.rules.may_read, self._branch, access=access)
        may_see = SessionScope(self._actor, _PAGE, may_read).holds
        scope = InspectScope(branch=self._branch)
        inspector = StoredInspector(
            channel.storage, scope, origin="server", may_see=may_see, actor=self._actor, access=access
        )
        return inspector, may_see


def _needed(command: AnyCommand) -> Right:
    """The right that a command takes, as at the page for inspection."""
    match command:
        case SetValue(force=True):
            return Right.OWN
        case SetValue() | SendEvent() | RedeliverEvent() | PublishEvent():
            return Right.WRITE
        case DropEvent():
            return Right.OWN
        case _:
            return Right.OWN


def _written(inspector: StoredInspector, command: SetValue, doc: DocKey, may_see: Callable[[DocKey], bool]) -> object:
    """Write a document, as a session may."""
    if not may_see(doc):
        raise NotFoundError(f"there is no document {command.address}; `headwater ls` lists them", doc=doc)
    if doc.startswith(RECEIPT):
        raise AccessError(f"{command.address} says that an event was handled: it is never changed", doc=doc)
    return inspector.carry_out(command)
