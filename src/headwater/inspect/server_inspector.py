"""Inspection of a space of a server.

Documents and events are read and written by a session, as a program does. Everything else is asked at the page
`/spaces/{space}/inspect`, which answers from the store of the server.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Any, Final, TypeVar

import msgspec

from headwater.cells.rejection import rejection
from headwater.client.credentials import Credentials
from headwater.client.remote_storage import RemoteStorage
from headwater.client.server_link import ServerLink
from headwater.client.server_pages import OK, page, refusal, space_path
from headwater.client.server_url import ServerUrl
from headwater.client.space_link import linked
from headwater.errors import (
    HeadwaterError,
    HistoryError,
    NotFoundError,
    UnavailableError,
    UsageError,
)
from headwater.inspect import stored_events
from headwater.inspect.document_records import (
    DocumentsPage,
    GetHistory,
    GetValue,
    ListDocuments,
    SetValue,
    ValueView,
    WriteReport,
)
from headwater.inspect.documents import page_of, write_through
from headwater.inspect.envelope import POLL_S, REST, Request, Response, TraceLine, polled
from headwater.inspect.event_records import DropEvent, EventReport, ListEvents, RedeliverEvent, SendEvent, ShowEvent
from headwater.inspect.incoming import AnyCommand, AnyQuestion
from headwater.inspect.inspector import AnsweringInspector
from headwater.inspect.lookup import key_prefixes, missing_value
from headwater.inspect.names import InspectScope
from headwater.inspect.request import Question
from headwater.inspect.stored_inspector import takes_app
from headwater.runtime.type_records import PREFIX, Declared
from headwater.scheduler.events.failed_events import FAILED, record_of
from headwater.scheduler.events.outbox import OUTBOX
from headwater.sync.frames import Docs, Pull
from headwater.values.address import address_text, parse_address, parse_scope, settle_path, split_key, user_scope
from headwater.values.codec import to_json
from headwater.values.ids import DocKey, Seq
from headwater.values.tree import ABSENT, Maybe, get

A = TypeVar("A")

ANSWER_MAX: Final = 64 * 1024 * 1024
"""Bytes of one answer that are read."""

_SILENT_S: Final = 60.0
_NO_PAGE: Final = (": Not Found", ": Method Not Allowed")
"""The message of a server without such a page. A space without the right to read has another message."""

_response: Final = msgspec.json.Decoder(Response)


class ServerInspector(AnsweringInspector):
    """The inspector of one space of a server. Every question has its own session or request."""

    def __init__(
        self, url: ServerUrl, token: str | None = None, scope: InspectScope | None = None, *, live: bool = False
    ) -> None:
        """`live`: for a page that asks again and again; programs that have the space open answer, too."""
        self._live = live
        self._url = url
        self._token = token
        self._scope = scope or InspectScope()

    def answer(self, question: AnyQuestion) -> object:
        """Use a session or the page. Raises OfflineError, AccessError."""
        match question:
            case ListDocuments() if question.at is None and not question.deleted:
                return self._documents(question)
            case GetValue():
                return self._value(question)
            case ListEvents():
                with self._documents_of_events() as (read, _):
                    if question.outgoing:
                        return tuple(stored_events.leaving(read))
                    return tuple(stored_events.waiting(read) if question.waiting else stored_events.failed(read))
            case ShowEvent():
                with self._documents_of_events() as (read, space_id):
                    return stored_events.shown(read, question.event, space_id)
            case ListDocuments() | GetHistory():
                text = question.prefix if isinstance(question, ListDocuments) else question.address
                request = Request(scope=self._scope, ask=question, actor=_actor_in(text), live=self._live)
            case _:
                request = Request(scope=self._scope, ask=question, live=self._live)
        return self._post(request).read(question, self._whose())

    def carry_out(self, command: AnyCommand) -> object:
        """Use a session or the page. Raises OfflineError, AccessError."""
        match command:
            case SetValue():
                return self._write(command)
            case DropEvent():
                return self._drop(command)
            case SendEvent() | RedeliverEvent():
                raise takes_app(command, server=True)
            case _:
                request = Request(scope=self._scope, do=command)
                return self._post(request).read(command, self._whose())

    def changes(self, question: Callable[[A | None], Question[A]]) -> Iterator[A | None]:
        """As long as the server answers."""
        return polled(self._post, self._scope, question, self._whose(), POLL_S * REST)

    def follow(self, kind: str = "") -> Iterator[TraceLine]:  # noqa: ARG002  # as `Inspector` has it
        """Raises UsageError: no function runs at a server."""
        message = f"functions run in the programs that have {self._url} open, not at the server"
        raise UsageError(f"{message}: follow a space in a file, on the machine where its program runs")

    # -- the page ------------------------------------------------------------------------------------------

    def _whose(self) -> str:
        return f"the server of {self._url}"

    def _post(self, request: Request) -> Response:
        path = space_path(self._url, "inspect")
        with page(self._url, self._token, path, msgspec.json.encode(request), silent_s=_SILENT_S) as response:
            if response.status != OK:
                error = refusal(self._url, response, f"{self._url} does not answer")
                if error.message.endswith(_NO_PAGE):
                    message = f"{self._url} has no page for this: the server runs an older version of Headwater"
                    raise UnavailableError(message, url=str(self._url))
                raise error
            body = response.read(ANSWER_MAX + 1)
        if len(body) > ANSWER_MAX:
            raise UnavailableError(f"the answer of {self._url} is larger than {ANSWER_MAX:,} bytes")
        try:
            return _response.decode(body)
        except msgspec.MsgspecError as error:
            raise UnavailableError(f"{self._whose()} answers in a way that is not understood: {error}") from None

    # -- sessions ------------------------------------------------------------------------------------------

    def _linked(self, actor: str = "") -> AbstractContextManager[ServerLink]:
        return linked(self._url, self._token, self._scope.branch, actor)

    def _value(self, question: GetValue) -> ValueView:
        doc, steps = parse_address(question.address)
        at = question.at
        with self._linked(_actor_of(doc)) as link:
            if at is not None:
                _check_place(link, at)
            found = next(iter(_pulled(link, (doc,), at=at).docs), None)
        root: Maybe = ABSENT if found is None else found.content
        if found is not None and at is not None and found.seq > at:
            message = f"the past of {address_text(doc)} at {at} was compacted away; without --at it is told now"
            raise HistoryError(message)
        if root is ABSENT or found is None:
            then = "" if at is None else f" at {at}"
            message = f"there is no document {address_text(doc)} in {self._url}{then}; `headwater ls` lists them"
            raise NotFoundError(message, doc=doc, branch=self._scope.branch)
        path = settle_path(root, steps)
        value = get(root, path)
        if value is ABSENT:
            raise missing_value(doc, path, root)
        return ValueView(
            address=address_text(doc, path), branch=self._scope.branch, seq=found.seq, value=to_json(value)
        )

    def _documents(self, question: ListDocuments) -> DocumentsPage:
        found, is_complete = self._listed(question.prefix)
        return msgspec.structs.replace(page_of(found, question), is_complete=is_complete)

    def _listed(self, prefix: str) -> tuple[list[tuple[DocKey, Seq, Maybe]], bool]:
        """Documents with this prefix, in order, and whether these are all."""
        actor = _actor_in(prefix)
        own = ("space/", *((f"{user_scope(actor).text}/",) if actor else ()))
        wanted = (each for each in key_prefixes(prefix) if not each or each.startswith(own))
        prefixes = tuple(dict.fromkeys(each or "space/" for each in wanted))
        if not prefixes:
            return [], True
        with self._linked(actor) as link:
            found = _pulled(link, prefixes=prefixes)
        rows = [(each.doc, each.seq, each.content) for each in found.docs if each.content is not ABSENT]
        return sorted(rows, key=lambda row: row[0]), found.complete

    @contextmanager
    def _documents_of_events(self) -> Iterator[tuple[stored_events.Reader, str]]:
        """A reader and the id of the space. The documents that nearly all questions need come in one answer."""
        with self._linked() as link:
            known = {each.doc: each.content for each in _pulled(link, (OUTBOX, FAILED), (record_of(""),)).docs}

            def read(doc: DocKey) -> Maybe:
                if doc not in known:
                    known[doc] = next((each.content for each in _pulled(link, (doc,)).docs if each.doc == doc), ABSENT)
                return known[doc]

            opened = link.session.opened
            yield read, "" if opened is None else opened.id

    def _opened(self, actor: str, *, create: bool) -> closing[RemoteStorage]:
        return closing(RemoteStorage(self._url, Credentials(token=self._token), actor=actor, create=create))

    def _write(self, command: SetValue) -> WriteReport:
        doc, _ = parse_address(command.address)
        create = command.make_space and not command.deletes
        with self._opened(_actor_of(doc), create=create) as storage:
            replica = storage.attach(branch=self._scope.branch)
            is_new = not replica.seq
            types, _ = self._listed(PREFIX)
            declared = Declared((each.partition("/")[2], value) for each, _, value in types)
            seq, changed = write_through(replica, command, declared)
        return WriteReport(seq=seq, changed=changed, made_space=self._url.space if is_new else "")

    def _drop(self, command: DropEvent) -> EventReport:
        """Drop a failed event. A program that has the space open may be about to handle a waiting event."""
        event = stored_events.droppable(self.ask(ShowEvent(event=command.event)))
        if event.state != "failed":
            message = f"{event.event} waits, and a program that has {self._url} open may be about to handle it"
            raise UsageError(f"{message}: only what failed can be dropped there", event=event.event)
        with self._opened("", create=False) as storage:
            replica = storage.attach(branch=self._scope.branch)
            lost: list[HeadwaterError] = []
            replica.on_rejected = lambda _, verdict, error: lost.append(
                error or rejection(verdict, None, str(self._url))
            )
            stored_events.drop(replica, event.event)
            replica.sync()
            for error in lost:
                raise error
        return event


def _pulled(
    link: ServerLink, docs: tuple[DocKey, ...] = (), prefixes: tuple[str, ...] = (), at: int | None = None
) -> Docs:
    """Documents now, or at a sequence number."""
    found: Any = link.ask(Pull(0, docs, prefixes, at))
    assert isinstance(found, Docs)
    return found


def _check_place(link: ServerLink, at: int) -> None:
    head = link.session.opened
    assert head is not None
    if at > head.seq:
        raise HistoryError(f"there is nothing at {at} yet; the newest is {head.seq}", at=at, head=head.seq)


def _actor_of(doc: DocKey) -> str:
    """The user who owns a document."""
    scope, _ = split_key(doc)
    return scope.user


def _actor_in(text: str) -> str:
    """The user in an address, or in a prefix of one."""
    scope, mark, _ = text.partition("!")
    return parse_scope(scope).user if mark and scope.startswith("user:") else ""
