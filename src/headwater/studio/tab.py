"""One tab: the frames of one WebSocket.

A watched question has at most one delta on its way: the next waits until the page has painted it. Changes meanwhile
are one change, since only the newest answer is sent. So a slow tab holds nothing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Container
from contextlib import suppress
from hashlib import sha256
from typing import Any, Final, Protocol

import msgspec

from headwater.errors import AccessError, RemoteProtocolError, UsageError
from headwater.studio import answers, page_frames
from headwater.studio.deeds import Acted
from headwater.studio.feed import Answered, SpaceFeed
from headwater.studio.host import Login, StudioHost
from headwater.studio.limits import ANSWERS, ASKED, DELTA_MS, FEEDS, WATCHES
from headwater.studio.logins import Logins, StudioSession
from headwater.studio.questions import QUESTIONS, IntentQuestion, StudioQuestion
from headwater.studio.tab_frames import answer_frame, graph_delta, trouble_frame
from headwater.values.author_text import describe

log: Final = logging.getLogger("headwater.studio")

_HELD_S: Final = 0.1
"""Seconds between two checks that the session holds: a revoked token ends its tabs so soon."""

_PAINT_S: Final = 10.0
"""Seconds after which a delta counts as painted: a tab that was suspended must not stay behind for ever."""

_AGAIN_S: Final = 0.25
"""Seconds after which a watched question that failed is asked again: most often a program was opening the file."""

_AGAIN_MAX_S: Final = 30.0
"""The same after many failures without a change."""

NOT_ADMITTED: Final = 4401
"""The close code for a login that is not valid (any more)."""

BAD_FRAME: Final = 4400
TOO_MANY: Final = 4429


class GoneError(Exception):
    """The connection ends with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class FeedsPort(Protocol):
    """The feeds of a Studio."""

    host: StudioHost
    logins: Logins
    version: str

    def feed(self, login: Login, space: str, branch: str) -> SpaceFeed:
        """The feed of a space for a login."""
        ...

    def release(self, feed: SpaceFeed) -> None:
        """The tab does not use it any more."""
        ...


class _Watch:
    """One watched question."""

    def __init__(self, question: StudioQuestion, mark: str) -> None:
        self.question = question
        self.mark = mark
        # What was sent last: only a digest of it, since it may be large; the view of a graph.
        self.shown: bytes | None = None
        self.view: answers.GraphAnswer | None = None
        self.state: tuple[str, str] = ("", "")
        self.failure = ""
        self.pause_s = _AGAIN_S
        self.feed: SpaceFeed | None = None
        self.changed = asyncio.Event()
        self.painted = asyncio.Event()
        self.task: asyncio.Task[None] | None = None


class Tab:
    """See the module. `send` writes one text frame."""

    def __init__(self, feeds: FeedsPort, session: StudioSession, send: Callable[[str], Awaitable[None]]) -> None:
        self._feeds = feeds
        self._session = session
        self._send = send
        self._loop = asyncio.get_running_loop()
        self._watches: dict[int, _Watch] = {}
        self._used: dict[tuple[str, str], tuple[SpaceFeed, Callable[[], None]]] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._deeds: set[int] = set()
        self._hidden = False
        self._room = asyncio.Semaphore(ANSWERS)

    # -- frames --------------------------------------------------------------------------------------------

    def welcome(self, secret: str) -> page_frames.WelcomeFrame:
        """The answer to `hello`."""
        host, login = self._feeds.host, self._session.login
        spaces = host.spaces(login)
        own = {"server", "audit"}
        can = [tag for tag in QUESTIONS if tag not in own or tag in host.questions]
        return page_frames.WelcomeFrame(
            session=secret,
            actor=login.actor,
            rights=login.rights,
            read_only=host.read_only or not login.may_write,
            title=host.title,
            place=host.place,
            spaces=spaces,
            can=(*can, *host.deeds),
            cannot=host.cannot(login, spaces[0]) if spaces else {},
            version=self._feeds.version,
        )

    async def receive(self, text: str | bytes) -> None:  # noqa: C901  # one case for each frame
        """One frame of the page. Raises GoneError."""
        if not self._feeds.logins.holds(self._session):
            raise GoneError(NOT_ADMITTED, "the session has ended")
        try:
            frame = page_frames.read_page_frame(text)
        except RemoteProtocolError as error:
            await self._write(page_frames.trouble_of(error))
            raise GoneError(BAD_FRAME, "a frame is not understood") from None
        match frame:
            case page_frames.AskFrame():
                self._begin(self._ask(frame))
            case page_frames.WatchFrame():
                await self._watch(frame)
            case page_frames.UnwatchFrame():
                self._unwatch(frame.n)
            case page_frames.DoFrame():
                await self._do_once(frame)
            case page_frames.OkFrame():
                if (watch := self._watches.get(frame.n)) is not None:
                    watch.painted.set()
            case page_frames.HideFrame():
                self._hide()
            case page_frames.ShowFrame():
                self._show()
            case page_frames.HelloFrame():
                raise GoneError(BAD_FRAME, "hello came twice")

    async def hold(self) -> None:
        """Return when the session does not hold any more."""
        while self._feeds.logins.holds(self._session):  # noqa: ASYNC110  # a grant is revoked elsewhere, without an event
            await asyncio.sleep(_HELD_S)

    def close(self) -> None:
        """End the watches, and release the feeds."""
        for task in (*self._tasks, *(each.task for each in self._watches.values() if each.task is not None)):
            task.cancel()
        self._watches.clear()
        for feed, end in self._used.values():
            end()
            self._feeds.release(feed)
        self._used.clear()

    async def _write(self, frame: page_frames.ServerFrame) -> None:
        await self._send(page_frames.frame_text(frame))

    def _begin(self, work: Any) -> None:  # noqa: ANN401  # a coroutine
        if len(self._tasks) >= ASKED:
            work.close()
            raise GoneError(TOO_MANY, "too many questions wait for their answer")
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # -- questions -----------------------------------------------------------------------------------------

    def _feed(self, asked: StudioQuestion | Acted) -> SpaceFeed:
        login = self._session.login
        spaces = self._feeds.host.spaces(login)
        space = asked.space or (spaces[0] if spaces else "")
        if space not in spaces and spaces:
            raise AccessError(f"there is no space {space!r} here, or no right to it", space=space)
        key = space, asked.branch
        found = self._used.pop(key, None)
        if found is None:
            self._release_idle()
            found = self._feeds.feed(login, space, asked.branch), _nothing
        # The newest is the last.
        self._used[key] = found
        return found[0]

    def _release_idle(self) -> None:
        """Make room for a feed: each has a thread, and a page may name any branch."""
        for key, (feed, end) in list(self._used.items()):
            if len(self._used) < FEEDS:
                return
            if end is _nothing:
                del self._used[key]
                # What was asked already is answered first.
                self._feeds.release(feed)

    def _listen(self, watch: _Watch) -> None:
        """From now on the feed looks for changes."""
        feed = watch.feed = self._feed(watch.question)
        for key, (each, end) in list(self._used.items()):
            if each is feed and end is _nothing:
                self._used[key] = feed, feed.listen(lambda: self._ring(feed))

    def _ring(self, feed: SpaceFeed) -> None:
        """Called in the thread of the feed. The loop may have ended."""
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._changed, feed)

    def _changed(self, feed: SpaceFeed) -> None:
        for watch in self._watches.values():
            if watch.feed is feed:
                watch.changed.set()

    async def _answered(self, question: StudioQuestion, mark: str, *, rung: bool = False) -> Answered:
        if isinstance(question, IntentQuestion):
            # What the deed is about says where.
            question = msgspec.structs.replace(question, space=question.deed.space, branch=question.deed.branch)
        return await asyncio.wrap_future(self._feed(question).ask(question, mark, rung=rung))

    async def _ask(self, frame: page_frames.AskFrame) -> None:
        async with self._room:
            try:
                found = await self._answered(frame.q, frame.mark)
            except Exception as error:  # noqa: BLE001  # a question must not end the tab
                await self._write(trouble_frame(error, frame.n))
                return
            await self._write(answer_frame(frame.n, found))

    async def _watch(self, frame: page_frames.WatchFrame) -> None:
        if frame.n in self._watches:
            raise GoneError(BAD_FRAME, "the number of a question was used twice")
        if len(self._watches) >= WATCHES:
            error = UsageError(f"a tab watches at most {WATCHES} questions at once")
            await self._write(page_frames.trouble_of(error, frame.n))
            return
        watch = self._watches[frame.n] = _Watch(frame.q, frame.mark)
        watch.task = self._loop.create_task(self._keep(frame.n, watch))

    def _unwatch(self, number: int) -> None:
        watch = self._watches.pop(number, None)
        if watch is not None and watch.task is not None:
            watch.task.cancel()
        self._quiet(but={each.feed for each in self._watches.values()})

    def _quiet(self, but: Container[SpaceFeed | None] = ()) -> None:
        """Feeds of which nothing is watched do not look for this tab."""
        for key, (feed, end) in list(self._used.items()):
            if feed not in but:
                end()
                self._used[key] = feed, _nothing

    def _hide(self) -> None:
        self._hidden = True
        for watch in self._watches.values():
            if watch.task is not None:
                watch.task.cancel()
                watch.task = None
        self._quiet()

    def _show(self) -> None:
        if not self._hidden:
            return
        self._hidden = False
        for number, watch in self._watches.items():
            if watch.task is None:
                watch.task = self._loop.create_task(self._keep(number, watch))

    async def _keep(self, number: int, watch: _Watch) -> None:
        """Answer a watched question, again after each change; after an error, too."""
        while True:
            try:
                await self._follow(number, watch)
            except Exception as error:  # noqa: BLE001  # a question must not end the tab
                await self._fail(number, watch, error)

    async def _follow(self, number: int, watch: _Watch) -> None:
        self._listen(watch)
        rung = False
        while True:
            async with self._room:
                rest_s, is_delta = await self._tell(number, watch, rung=rung)
            if is_delta:
                await self._painted(watch, self._loop.time())
            await asyncio.sleep(rest_s)
            await watch.changed.wait()
            watch.changed.clear()
            rung = True

    async def _tell(self, number: int, watch: _Watch, *, rung: bool) -> tuple[float, bool]:
        """Ask, and send what has changed. Returns the pause after it, and whether a delta was sent. Keeps no answer."""
        first = watch.shown is None and not rung
        found = await self._answered(watch.question, watch.mark if first else "", rung=rung)
        if not first:
            return found.rest_s, await self._delta(number, watch, found)
        await self._write(answer_frame(number, found))
        self._sent(watch, found, _digest(found.record))
        return found.rest_s, False

    async def _fail(self, number: int, watch: _Watch, error: Exception) -> None:
        """Say why there is no answer, once, and wait for a change or a while: it may be a moment's."""
        failure = describe(error)
        if failure != watch.failure:
            watch.failure = failure
            # The page shows the error instead: the next answer is whole.
            watch.mark, watch.shown, watch.view = "", None, None
            await self._write(trouble_frame(error, number))
        await asyncio.sleep(_AGAIN_S)
        with suppress(TimeoutError):
            async with asyncio.timeout(watch.pause_s):
                await watch.changed.wait()
        watch.changed.clear()
        watch.pause_s = min(watch.pause_s * 2, _AGAIN_MAX_S)

    def _sent(self, watch: _Watch, found: Answered, digest: bytes | None) -> None:
        watch.mark, watch.state = found.mark, (found.live, found.busy)
        watch.failure, watch.pause_s = "", _AGAIN_S
        if digest is not None:
            watch.shown = digest
            watch.view = found.view if isinstance(found.view, answers.GraphAnswer) else None

    async def _delta(self, number: int, watch: _Watch, found: Answered) -> bool:
        """Send what has changed. Returns whether anything has."""
        digest = _digest(found.record)
        same = digest is None or digest == watch.shown
        if same and (found.live, found.busy) == watch.state:
            watch.mark = found.mark
            return False
        record: bytes | None = None if same else found.record
        partial = False
        if not same and isinstance(found.view, answers.GraphAnswer) and watch.view is not None:
            change = graph_delta(watch.view, found.view)
            if change is not None:
                record, partial = msgspec.json.encode(change), True
        self._sent(watch, found, digest)
        watch.painted.clear()
        await self._write(
            page_frames.DeltaFrame(
                n=number,
                mark=found.mark,
                seq=found.seq,
                at_ms=found.at_ms,
                live=found.live,
                busy=found.busy,
                partial=partial,
                record=msgspec.UNSET if record is None else msgspec.Raw(record),
            )
        )
        return True

    async def _painted(self, watch: _Watch, begin: float) -> None:
        """Wait until the page has painted what was sent."""
        try:
            async with asyncio.timeout(_PAINT_S):
                await watch.painted.wait()
        except TimeoutError:
            log.debug("a tab does not say that it has painted")
        await asyncio.sleep(max(0.0, DELTA_MS / 1000 - (self._loop.time() - begin)))

    # -- deeds ---------------------------------------------------------------------------------------------

    async def _do_once(self, frame: page_frames.DoFrame) -> None:
        if frame.n in self._deeds:
            raise GoneError(BAD_FRAME, "the number of a deed was used twice")
        self._deeds.add(frame.n)
        self._begin(self._do(frame))

    async def _do(self, frame: page_frames.DoFrame) -> None:
        try:
            report = await asyncio.wrap_future(self._feed(frame.deed).do(frame.deed))
        except Exception as error:  # noqa: BLE001  # a deed must not end the tab
            await self._write(trouble_frame(error, frame.n))
            return
        await self._write(page_frames.DoneFrame(n=frame.n, record=page_frames.raw(report)))


def _nothing() -> None:
    """There is nothing to end."""


def _digest(record: bytes | None) -> bytes | None:
    return None if record is None else sha256(record).digest()
