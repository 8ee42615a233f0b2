"""Posts to a topic: read within limits, checked, written in batches, and answered when on disk.

Posts that arrive while a batch is being written go with the next one: many posts share an fsync.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Mapping
from difflib import get_close_matches
from email.utils import formatdate
from functools import partial
from typing import Any, Final

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from headwater.cells.reading import FIX_ADVICE
from headwater.declare.workflows.topic import Topic
from headwater.declare.workflows.webhook import Webhook, WebhookRefusal
from headwater.errors import (
    ClosedError,
    EventReusedError,
    HeadwaterError,
    NotFoundError,
    SchemaError,
    UnavailableError,
    UsageError,
)
from headwater.machine import machine
from headwater.runtime.error_report import log
from headwater.runtime.workflows.hub import Hosted, Hub
from headwater.runtime.workflows.run_host import RunHost
from headwater.values.author_text import text_of
from headwater.workflow.publication import Publication, publish
from headwater.workflow.tables import WorkflowTables
from headwater.workflow.workflow_transaction import WorkflowTransaction

BODY_MAX: Final = 1024 * 1024
"""Bytes of one payload: an event describes what happened. Larger data is stored elsewhere and referenced."""

LINGER_MAX: Final = 8 * BODY_MAX
"""Bytes of an oversized payload that are read and discarded: a client that is still sending reads no answer."""

HELD_MAX: Final = 64 * BODY_MAX
"""Bytes of payloads being received at the same time. Further posts are asked to try again later."""

BODY_S: Final = 30.0
"""Seconds for a whole payload: a megabyte over a slow line."""

STALL_S: Final = 5.0
"""Seconds between two parts of a payload: a sender that pauses longer is gone, or keeps the connection on purpose."""

TITLE_MAX: Final = 500
"""Characters of the title of an input: one line."""

_KEY: Final = "idempotency-key"
_HOW: Final = "send the payload as JSON with `Content-Type: application/json` and a stable id as `Idempotency-Key`"


# --- what comes in --------------------------------------------------------------------------------------------


class PostedEvent(msgspec.Struct, frozen=True):
    """A post that is parsed, and not checked against its topic yet."""

    key: str
    title: str
    value: object


class TopicIntake:
    """Handles posts: reads, checks, writes and answers them."""

    def __init__(self, space: RunHost) -> None:
        self._space = space
        self._hub = space.flows
        self._inflow = Inflow(self._hub)
        self._intake = Intake()

    async def post(self, request: Request) -> Response:
        """Handle one post."""
        names = request.path_params["workflow"], request.path_params["topic"]
        posted = await self._intake.read(request, self.webhook(*names), self._hub.now())
        is_new = await self._inflow.put(partial(self._checked, *names, posted.value, posted.key, posted.title))
        return taken(posted, is_new=is_new)

    def _checked(self, workflow: str, name: str, given: object, key: str, title: str) -> Publication:
        """Publish the posted event. Not called in the event loop: the space may belong to another one."""
        self._space.check_open()
        hosted, topic = self._find(workflow, name)
        try:
            value = topic.from_json(hosted.space, given)
        except SchemaError as error:
            told = error.message.removesuffix(FIX_ADVICE).replace("cannot read", "cannot publish to", 1)
            raise SchemaError(told, **error.facts) from None
        # A service that sends an id again means the same event (Stripe counts down a field in it); with an
        # Idempotency-Key the sender has promised that the payload is the same.
        return topic.publication(value, key, title, source="http", is_pinned=topic.webhook is None)

    def webhook(self, workflow: str, name: str) -> Webhook | None:
        """The webhook of a topic, if it has one."""
        try:
            return self._find(workflow, name)[1].webhook
        except NotFoundError:
            return None

    def check_secrets(self) -> None:
        """Raise UsageError if a declared secret is missing: at the start, not at the first post."""
        for hosted in self._hub.of(self._space).values():
            for topic in hosted.flow.topics.values():
                if topic.webhook is not None:
                    topic.webhook.secrets()

    def _find(self, workflow: str, name: str) -> tuple[Hosted, Topic[Any]]:
        """Find a topic by the full name of its workflow, or without the name of the app."""
        there = self._hub.of(self._space)
        short = [full for full in there if full.rpartition(".")[2] == workflow]
        full = workflow if workflow in there else short[0] if len(short) == 1 else None
        if full is None:
            raise NotFoundError(f"there is no workflow {workflow!r} here{_meant(workflow, there)}")
        topic = there[full].flow.topics.get(name)
        if topic is None:
            raise NotFoundError(f"workflow {full} has no topic {name!r}{_meant(name, there[full].flow.topics)}")
        return there[full], topic


class Intake:
    """Reads posts, within limits per post and in total."""

    def __init__(self) -> None:
        self._held = 0

    async def read(self, request: Request, webhook: Webhook | None = None, now_ms: int = 0) -> PostedEvent:
        """Read one post as its topic's webhook describes. Raises HTTPException."""
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        title = _text_of(request, "title")[:TITLE_MAX]
        if webhook is not None:
            return await self._read_webhook(request, webhook, kind, title, now_ms)
        if kind != "application/json":
            raise HTTPException(415, f"{kind or 'no type'} is not taken; {_HOW}")
        key = _key_of(request)
        body = await self.body(request)
        try:
            return PostedEvent(key, title, msgspec.json.decode(body))
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise HTTPException(400, f"the payload is not JSON: {error}; {_HOW}") from None

    async def _read_webhook(
        self, request: Request, webhook: Webhook, kind: str, title: str, now_ms: int
    ) -> PostedEvent:
        if not webhook.takes(kind):
            raise HTTPException(415, f"{kind or 'no type'} is not what this topic's webhook takes")
        body = await self.body(request)
        headers = {name: _text_of(request, name) for name in request.headers}
        try:
            # Verified before anything is parsed.
            webhook.verify(headers, body, now_ms / 1000)
            value = webhook.payload(kind, headers, body)
            return PostedEvent(webhook.id_of(headers, value), title, value)
        except WebhookRefusal as refusal:
            raise HTTPException(refusal.status, refusal.message) from None

    async def body(self, request: Request) -> bytes:
        """All of it, within the limits. Raises HTTPException."""
        told = request.headers.get("content-length", "")
        if told.isdigit() and int(told) > (BODY_MAX if "expect" in request.headers else LINGER_MAX):
            # Expect: 100-continue, and bodies without an end.
            raise _too_large()
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_S):
                await self._receive(request, body)
        except TimeoutError:
            message = f"the payload did not arrive: {BODY_S:g} s for all of it, {STALL_S:g} s for the next part"
            raise HTTPException(408, message, headers={"connection": "close"}) from None
        except ClientDisconnect:
            # The client is gone, and nothing was written.
            raise HTTPException(400, "the connection was closed before the payload was complete") from None
        finally:
            self._held -= len(body)
        return bytes(body)

    async def _receive(self, request: Request, body: bytearray) -> None:
        size = 0
        stream = request.stream()
        while (chunk := await asyncio.wait_for(anext(stream, None), STALL_S)) is not None:
            size += len(chunk)
            if size <= BODY_MAX:
                body += chunk
                self._held += len(chunk)
                if self._held > HELD_MAX:
                    raise HTTPException(503, "too much is being received; send it again in a moment")
            elif size > LINGER_MAX:
                break
        if size > BODY_MAX:
            raise _too_large()


class Inflow:
    """Publications that wait for the disk. One batch is written at a time; later posts go with the next."""

    def __init__(self, hub: Hub) -> None:
        self._hub = hub
        self._waiting: list[tuple[Callable[[], Publication], asyncio.Future[bool]]] = []
        self._writing: asyncio.Task[None] | None = None

    async def put(self, event: Callable[[], Publication]) -> bool:
        """Write one publication. Returns whether it is new. On disk when this returns. Raises the refusal."""
        decided: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._waiting.append((event, decided))
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await decided

    async def _write_all(self) -> None:
        batch: list[tuple[Callable[[], Publication], asyncio.Future[bool]]] = []
        try:
            while self._waiting:
                batch, self._waiting = self._waiting, []
                found = await machine().to_thread(self._write, [event for event, _ in batch])
                for (_, decided), answer in zip(batch, found, strict=True):
                    # The client may be gone; the event is written nevertheless.
                    if not decided.done():
                        _settle(decided, answer)
        except BaseException:
            for _, decided in [*batch, *self._waiting]:
                decided.cancel()
            raise
        finally:
            self._writing = None

    def _write(self, batch: list[Callable[[], Publication]]) -> list[bool | Exception]:
        """Submit one after the other, wait for all. An error concerns only its own post."""
        found: list[WorkflowTransaction | Exception] = []
        for event in batch:
            try:
                found.append(self._hub.post(partial(_published, event()), soon=False))
            except Exception as error:  # noqa: BLE001  # whatever it is: this one is answered with it
                found.append(error)
        self._hub.wait()
        return [self._answer(each) if isinstance(each, WorkflowTransaction) else each for each in found]

    def _answer(self, transaction: WorkflowTransaction) -> bool | Exception:
        try:
            return bool(self._hub.settled(transaction))
        except HeadwaterError as error:
            return error


def taken(posted: PostedEvent, *, is_new: bool) -> Response:
    """The answer to a stored post."""
    return JSONResponse({"id": posted.key, "new": is_new}, 202, _plain_headers())


def _settle(decided: asyncio.Future[bool], answer: bool | Exception) -> None:  # noqa: FBT001  # what it came to
    if isinstance(answer, Exception):
        decided.set_exception(answer)
    else:
        decided.set_result(answer)


def _published(event: Publication, tables: WorkflowTables) -> bool:
    return publish(tables, event)


def _key_of(request: Request) -> str:
    """The id of the event, with quotes as in the draft standard, or without as most clients send it."""
    given = request.headers.getlist(_KEY)
    if len(given) != 1:
        found = "there is none" if not given else f"there are {len(given)}"
        message = (
            f"one header `Idempotency-Key` is expected, and {found}: send the id that the event has where it comes "
            "from, the same one whenever it is sent again; a service that names its events otherwise needs a topic "
            "with webhook=hw.Webhook(...)"
        )
        raise HTTPException(400, message)
    key = _text_of(request, _KEY).strip()
    return key[1:-1] if len(key) > 1 and key[0] == key[-1] == '"' else key


def _text_of(request: Request, name: str) -> str:
    """A header as UTF-8 text."""
    given = request.headers.get(name, "").encode("latin-1")
    try:
        return given.decode()
    except UnicodeDecodeError:
        raise HTTPException(400, f"the header {name.title()} is not UTF-8") from None


def _meant(word: str, names: Collection[str]) -> str:
    every = {each: full for full in names for each in (full, full.rpartition(".")[2])}
    close = list(dict.fromkeys(every[each] for each in get_close_matches(word, every, n=3, cutoff=0.6)))
    if close:
        return f"; did you mean {' or '.join(close)}?"
    return f"; there is {', '.join(sorted(names)) or 'none'}"


# --- answers --------------------------------------------------------------------------------------------------


def _too_large() -> HTTPException:
    message = f"the payload has more than {BODY_MAX} bytes; keep it elsewhere, and post where it is"
    # The rest of the body is not read.
    return HTTPException(413, message, headers={"connection": "close"})


def _plain_headers(more: Mapping[str, str] | None = None) -> dict[str, str]:
    return {"date": formatdate(usegmt=True), "cache-control": "no-store", **(more or {})}


def answer(status: int, message: str, code: str = "", headers: Mapping[str, str] | None = None) -> Response:
    """An error response with one sentence."""
    body = {"error": message, **({"code": code} if code else {})}
    return JSONResponse(body, status, _plain_headers(headers))


async def told(_request: Request, error: Exception) -> Response:
    """The response for an HTTPException."""
    assert isinstance(error, HTTPException)
    return answer(error.status_code, error.detail, headers=error.headers)


async def refused(_request: Request, error: Exception) -> Response:
    """The response for an error of Headwater."""
    assert isinstance(error, HeadwaterError)
    match error:
        case EventReusedError():
            return answer(422, error.message, error.code)
        case NotFoundError():
            return answer(404, error.message, error.code)
        case ClosedError() | UnavailableError():
            return answer(503, error.message, error.code, {"retry-after": "1"})
        case UsageError():
            return answer(400, error.message, error.code)
        case _:
            log.error("what was posted could not be written: %s", text_of(error))  # logged, not sent
            return answer(500, "it could not be written; the log of the host says why", error.code)
