"""Inspection of a store without an app: the file of a closed space, or the store of a server.

Functions run where the app is open. Here their state is as of the last closing.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import msgspec

from headwater.errors import NotFoundError, UsageError
from headwater.host.storage import Storage
from headwater.host.system_clock import SystemClock
from headwater.inspect import documents, stored_events, stored_pieces, workflow_commands, workflow_queries
from headwater.inspect import function_records as records
from headwater.inspect.declared_records import DeclaredQuestion, RefetchResource
from headwater.inspect.document_records import DocumentQuestion, SetValue
from headwater.inspect.envelope import TraceLine
from headwater.inspect.event_records import (
    DropEvent,
    EventReport,
    ListEvents,
    ListPieces,
    PiecesPage,
    RedeliverEvent,
    SendEvent,
    ShowEvent,
)
from headwater.inspect.function_records import FunctionQuestion, OpeningState, OpeningView, Origin, TakenOver
from headwater.inspect.incoming import AnyCommand, AnyQuestion
from headwater.inspect.inspector import AnsweringInspector
from headwater.inspect.live_events import PIECES_MAX
from headwater.inspect.lookup import find_branch
from headwater.inspect.names import InspectScope, check_space, is_called, labelled
from headwater.inspect.observed_functions import observed_openings
from headwater.inspect.request import Question
from headwater.inspect.snapshot import StoredOpening, stored_openings
from headwater.inspect.space_reading import change_branch
from headwater.inspect.space_records import ChangeBranch, GetPulse, Pulse, SpaceQuestion
from headwater.inspect.workflow_records import WorkflowQuestion
from headwater.runtime.workflows.hub import Hub, hub_of
from headwater.scheduler.inspect.smaller_snapshots import fewer
from headwater.store.collection_rules import Access
from headwater.store.engine import Engine
from headwater.store.resumption import observations_size
from headwater.store.space_identity import identity_of
from headwater.values.address import doc_key
from headwater.values.ids import BranchId, DocKey

A = TypeVar("A")


class StoredInspector(AnsweringInspector):
    """The inspector of one open store. It closes the store of a file."""

    def __init__(
        self,
        storage: Storage,
        scope: InspectScope | None = None,
        *,
        origin: Origin = "file",
        may_see: Callable[[DocKey], bool] | None = None,
        actor: str | None = None,
        access: Access | None = None,
    ) -> None:
        """`may_see`: the documents that exist for the asker; None: all. `actor`: the asker; None: any user.

        `access`: what the asker may write; None: everything.
        """
        self._storage = storage
        self._scope = scope or InspectScope()
        self._origin: Origin = origin
        self._may_see = may_see
        self._actor = actor
        self._access = access
        check_space(storage.name, self._scope.space)

    def changes(self, question: Callable[[A | None], Question[A]]) -> Iterator[A | None]:
        """Raises NotFoundError: nothing changes in a closed space."""
        if isinstance(question(None), WorkflowQuestion):
            message = (
                "no process has this space open, so there is nothing to follow; `headwater run MODULE:APP` runs it"
            )
            raise NotFoundError(message)
        raise nothing_to_follow(self._storage.name)

    def follow(self, kind: str = "") -> Iterator[TraceLine]:  # noqa: ARG002  # as `Inspector` has it
        """Raises NotFoundError: no function runs in a closed space."""
        raise nothing_to_follow(self._storage.name)

    def mark(self) -> str:
        """A mark that differs after each change of the store."""
        head = self._storage.call(lambda engine: engine.head)
        return f"{head}.{workflow_queries.mark_of(self._hub())}"

    def close(self) -> None:
        """Release the file of a closed space."""
        if self._origin == "file":
            self._storage.close()

    def _hub(self) -> Hub:
        return hub_of(self._storage, SystemClock().now_ms)

    # -- questions -----------------------------------------------------------------------------------------

    def answer(self, question: AnyQuestion) -> object:  # noqa: PLR0911  # one for each kind of questions
        """Answer from the store."""
        call = self._storage.call
        if isinstance(question, FunctionQuestion):
            return self._functions(question)
        if isinstance(question, DocumentQuestion | SpaceQuestion):
            return documents.answer(self._storage, self._scope.branch, question, self._may_see)
        if isinstance(question, DeclaredQuestion):
            # They are known where the app is open.
            return ()
        match question:
            case GetPulse():
                return Pulse(
                    space=self._storage.name,
                    mark=self.mark(),
                    seq=call(lambda engine: engine.head),
                    at_ms=SystemClock().now_ms(),
                )
            case ListEvents():
                listing = stored_events.waiting if question.waiting else stored_events.failed
                listing = stored_events.leaving if question.outgoing else listing
                return tuple(call(lambda engine: listing(self._reader(engine))))
            case ShowEvent():
                return call(lambda engine: self._event(engine, question.event))
            case ListPieces():
                return call(lambda engine: self._pieces(engine, question.pattern))
            case _:
                return workflow_queries.answer(self._hub(), question)

    def _reader(self, engine: Engine) -> stored_events.Reader:
        return stored_events.reader(engine, find_branch(engine, self._scope.branch))

    def _event(self, engine: Engine, name: str) -> EventReport:
        return stored_events.shown(self._reader(engine), name, identity_of(engine.backend).id)

    def _pieces(self, engine: Engine, pattern: str) -> PiecesPage:
        on = find_branch(engine, self._scope.branch)
        docs = stored_pieces.pieces_in(engine, on, pattern=pattern)
        shown = docs if self._origin == "file" else docs[:PIECES_MAX]
        found = stored_pieces.ordered(stored_pieces.reports(engine, on, shown))
        return PiecesPage(
            pieces=tuple(found), left_out={"all apps": len(docs) - len(shown)} if len(docs) > len(shown) else {}
        )

    def _functions(self, question: FunctionQuestion) -> tuple[OpeningView, ...]:
        # The opening of a user names documents of that user.
        seen = None if self._actor is None else ("", self._actor)
        openings = [each for each in self._storage.call(stored_openings) if seen is None or each.actor in seen]
        observed = self._observed(openings) if self._origin == "server" else []
        openings = [each for each in openings if each.app not in {one.app for one in observed}] + observed
        if not openings:
            raise nothing_known(self._storage.name)
        chosen = labelled(openings, [opening.app for opening in openings], self._scope.app)
        return tuple(self._view(opening, label, question, is_observed=opening in observed) for label, opening in chosen)

    def _observed(self, openings: list[StoredOpening]) -> list[StoredOpening]:
        """The apps whose functions have run since their state was stored, in programs that use the server."""
        branch, may_see = self._scope.branch, self._may_see or (lambda _doc: True)
        found = self._storage.call(
            lambda engine: observed_openings(engine, self._storage.name, find_branch(engine, branch), may_see)
        )
        stored = {
            each.app: each.snapshot.seq for each in openings if each.snapshot is not None and each.branch == branch
        }
        return [each for each, newest in found if newest > stored.get(each.app, -1)]

    def _view(  # noqa: PLR0911  # one for each question
        self, opening: StoredOpening, label: str, question: FunctionQuestion, *, is_observed: bool
    ) -> OpeningView:
        known = {name: getattr(opening, name) for name in OpeningState.__struct_fields__}
        observed = opening.counts.get("seq", 0) if is_observed else 0
        fields: dict[str, Any] = known | {"label": label, "origin": self._origin, "observed": observed}
        match question:
            case records.GetGraph():
                snapshot = None if opening.snapshot is None else fewer(opening.snapshot, question.limit)
                return records.GraphView(**fields, snapshot=snapshot)
            case records.GetChanges():
                # Nothing changes while no program has it open.
                return records.ChangesView(**fields)
            case records.ExplainNode():
                whys = [
                    why for why in opening.whys if is_called(why.id, why.name, question.node, opening.app, why.piece)
                ]
                names = () if whys else tuple(dict.fromkeys(why.title for why in opening.whys))
                return records.WhyView(**fields, whys=tuple(whys), names=names)
            case records.GetActivity():
                return records.ActivityView(**fields, activities=opening.activities)
            case records.GetCounts():
                return records.CountsView(**fields, counts=opening.counts)
            case records.GetTrace():
                wanted = question.kind
                trace = tuple(record for record in opening.trace if not wanted or record.get("type") == wanted)
                return records.TraceView(**fields, trace=trace)
            case records.GetResume():
                return records.ResumeView(**fields, taken=self._taken(opening))

    def _taken(self, opening: StoredOpening) -> TakenOver:
        """The restored functions, with the current number of observations for the next opening."""
        branch, prefix = BranchId(opening.branch), doc_key(f"{opening.app}.")
        rows, size = self._storage.call(lambda engine: observations_size(engine, branch, prefix))
        return msgspec.structs.replace(opening.taken or TakenOver(), rows=rows, size=size)

    # -- commands ------------------------------------------------------------------------------------------

    def carry_out(self, command: AnyCommand) -> object:
        """Carry out in the store."""
        match command:
            case SetValue():
                return documents.write(self._storage, self._scope.branch, command, self._access)
            case RefetchResource():
                raise UsageError("no program has the space open, so nothing can be requested")
            case ChangeBranch():
                return change_branch(self._storage, self._scope.branch, command)
            case DropEvent():
                return self._drop(command.event)
            case SendEvent() | RedeliverEvent():
                raise takes_app(command)
            case _:
                return workflow_commands.carry_out(self._hub(), command)

    def _drop(self, name: str) -> EventReport:
        event = stored_events.droppable(self._storage.call(lambda engine: self._event(engine, name)))
        replica = self._storage.attach(branch=self._scope.branch)
        if self._access is not None:
            replica.act_with(self._access)
        try:
            stored_events.drop(replica, event.event)
            replica.sync()
        finally:
            replica.detach()
        return event


# --- what cannot be answered ------------------------------------------------------------------------------------


def nothing_known(space: str) -> NotFoundError:
    """The error for a question about functions that never ran where the store is."""
    message = (
        f"nothing is known of functions in space {space!r}: no app that has any was closed there yet; "
        "ask while one has it open, or after it was closed"
    )
    return NotFoundError(message, space=space)


def nothing_to_follow(space: str) -> NotFoundError:
    """The error for following a closed space."""
    return NotFoundError(f"no process has space {space!r} open, so there is nothing to follow", space=space)


def takes_app(command: SendEvent | RedeliverEvent, *, server: bool = False) -> UsageError:
    """The error for a command that only an open app can carry out."""
    verb = "sending an event" if isinstance(command, SendEvent) else "delivering an event"
    if server:
        return UsageError(
            f"at a server, {verb} takes the app: name it with --app MODULE:APP, and it is opened for this"
        )
    message = f"no process has this space open, and {verb} takes the app: start the program that opens it, "
    return UsageError(f"{message}or name the app with --app MODULE:APP, which is opened for this")
