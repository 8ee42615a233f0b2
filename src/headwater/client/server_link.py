"""The connection to a server: a thread with an event loop that connects and reconnects.

Length: requests of other threads and the work of its own thread share one state.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from websockets.uri import parse_uri

from headwater._version import __version__
from headwater.access.local_token import find_local
from headwater.cells.pending_commit import Failure
from headwater.client.client_folder import ClientFolder
from headwater.client.client_socket import ClientSocket
from headwater.client.credentials import Credentials, check_audience
from headwater.client.server_url import ServerUrl
from headwater.errors import AccessError, HeadwaterError, OfflineError, RemoteProtocolError, ServerLimitError
from headwater.machine import Future, InvalidStateError, machine
from headwater.store.commit import NewObservation, Submission
from headwater.sync.client_port import Question
from headwater.sync.client_session import Answer, ClientPhase, ClientSession, Item
from headwater.sync.frame_limits import FRAME_BYTES_MAX, OFFLINE_MAX
from headwater.sync.frames import (
    FromClient,
    LookAnswer,
    Open,
    Proof,
    Welcome,
    encode_frame,
)
from headwater.values.author_text import describe
from headwater.values.ids import DocKey, LocalSeq, SessionId

__all__ = ["Credentials", "ServerLink"]

T = TypeVar("T")

log: Final = logging.getLogger("headwater")

CONNECT_S: Final = 10.0
"""Time for one attempt to connect, and for an opening to wait for the first success."""

UNREACHED_S: Final = 2.0
"""How long an opening waits for an address without a listener: as long as a server takes to start."""

BACKOFF_MIN_S: Final = 0.1
BACKOFF_MAX_S: Final = 5.0
"""Backoff between attempts: doubled up to the maximum, half of it random, so that clients do not return together."""

STAYED_S: Final = 1.0
"""A connection that lasted less counts as a failed attempt: the server may be unable to do its work."""

PATIENCE_S: Final = 10.0
"""How long a caller waits for a server that is not reached."""

UNSENT_MAX: Final = 10 * OFFLINE_MAX
"""Commits that may wait for a slow server: code in an event loop cannot block."""

STALL_S: Final = 15.0
"""How long a connected server may leave a waiting caller without an answer. A slow disk takes less."""

LOOK_S: Final = 1.0
"""How often a waiting caller checks the time. Changes notify it."""

CLOSE_S: Final = 2.0
"""How long to wait for the thread to end."""

_REFUSED: Final = range(400, 500)
_NO_TOKEN: Final = 401
_LATER: Final = frozenset({408, 421, 425, 429})
"""Those that may be temporary."""


class ServerLink:
    """The connection of one session. Its thread passes what it receives to `deliver`."""

    def __init__(
        self,
        url: ServerUrl,
        opening: Open,
        credentials: Credentials,
        *,
        deliver: Callable[[list[Item]], None],
        decided: Callable[[LocalSeq], None],
        folder: ClientFolder | None = None,
        pending: Callable[[], int] = lambda: 0,
        changed: Callable[[], None] = lambda: None,
    ) -> None:
        self.url = url
        self._credentials = credentials
        self._deliver = deliver
        self._decided = decided
        # Number of commits on their way, wherever they are.
        self._pending = pending
        self._on_change = changed
        # Where commits are stored before they are sent.
        self._folder = folder
        if folder is not None:
            folder.kept = self._send_kept
            folder.failed = self._fail
        self.session = ClientSession(self, opening, client=f"headwater/{__version__}")
        self._loop = machine().new_loop()
        # Guards the session and the socket: the thread holds it for each step, and a caller that sends by itself.
        self._turn = machine().lock()
        self._socket: ClientSocket | None = None
        self._trying: asyncio.Task[tuple[asyncio.Transport, ClientSocket]] | None = None
        self._queue: deque[Submission] = deque()
        self._woken = False
        self._stop = asyncio.Event()
        # When the last connection was lost, on the loop's clock; see `lost_at`.
        self._lost_at = self._loop.time()
        # Since when connections are accepted and end at once without a decided commit; why; when it was last live.
        self._stuck_at: float | None = None
        self._stuck_why = ""
        self._live_at = 0.0
        # When something was last received, on the same clock.
        self._heard_at = 0.0
        self.heard_bytes = 0
        self.tries = 0
        self.trouble = ""
        # Why this side closed the last connection, if it did.
        self._given_up = ""
        # A server answers, with another protocol.
        self._is_misread = False
        # Called by the thread when the phase has changed.
        self._changed = machine().condition()
        self._thread = machine().thread(self._run, name=f"headwater-link-{url.space}")

    # -- for other threads ---------------------------------------------------------------------------------

    def start(self, *, waits: bool = True) -> None:
        """Connect. Returns when open, or raises the reason; without `waits`, returns also if unreachable."""
        self._thread.start()
        begun = machine().monotonic()

        def is_over() -> bool:
            # A slow listener gets the whole time; without a listener, the server may be about to start.
            waited = machine().monotonic() - begun
            vain = self._socket is None and self.tries > 1 and (waited > UNREACHED_S or not waits or self._is_misread)
            return self.session.phase in (ClientPhase.LIVE, ClientPhase.OVER) or vain or waited > CONNECT_S

        with self._changed:
            while not is_over():
                self._changed.wait(UNREACHED_S / 4)
        if self.session.phase is ClientPhase.LIVE or (not waits and self.session.phase is not ClientPhase.OVER):
            return
        error = self.session.error
        self.stop()
        if error is not None:
            raise error
        if self._is_misread:
            hint = (
                "its certificate is not trusted: give tls=ssl.create_default_context(cafile=...)"
                if "CERTIFICATE" in self.trouble
                else "is it ws:// or wss://?"
            )
            message = f"cannot open {self.url}: the answer is not that of a Headwater server ({self.trouble}); {hint}"
            raise OfflineError(message, url=str(self.url))
        if self.session.was_greeted:
            message = f"cannot open {self.url}: {self.trouble or 'the server gave no answer in time'}"
            raise OfflineError(f"{message}; the server is there, and was asked {self.tries} times", url=str(self.url))
        message = (
            f"cannot open {self.url}: no server answers there ({self.trouble or 'no answer in time'}); is `headwater "
            "serve` running, and is the address right?"
        )
        raise OfflineError(message, url=str(self.url))

    @property
    def phase(self) -> ClientPhase:
        """How it stands."""
        return self.session.phase

    @property
    def lost_at(self) -> float | None:
        """Since when the server is not reached, on the loop's clock; None while the session is live.

        By the phase alone: a session that is live again first sends what was queued, and then notifies its listeners.
        """
        return None if self.phase is ClientPhase.LIVE else self._lost_at

    def submit(self, submission: Submission, *, alone: bool = True) -> None:
        """Send or queue a commit. Raises OfflineError if the queue is full.

        Not `alone`: functions here read what it writes, and their results follow. The link's thread sends them
        together: another runtime that gets the results with the input adopts them.
        """
        waiting = self._pending()
        self.session.check_room(waiting)
        if waiting >= UNSENT_MAX:
            raise self.away("does not keep up")
        if self._folder is not None:
            self._folder.keep(submission)
            return
        if alone and not waiting and self._send_now(submission):
            return
        self._queue.append(submission)
        if not self._woken:
            self._woken = True
            self._soon(self._take)

    def _send_now(self, submission: Submission) -> bool:
        """Send a commit from the thread that made it, if no other one is on its way. False: the commit must be queued.

        No other thread has to wake up for it. Commits that follow before its verdict are queued: the link's thread
        sends many of them with one system call.
        """
        if not self._turn.acquire(blocking=False):
            return False
        try:
            socket = self._socket
            if self._queue or socket is None or self.phase is not ClientPhase.LIVE or not socket.is_idle:
                return False
            try:
                with socket.sending_now():
                    self.session.submit(submission)
            except BaseException:
                # Ctrl-C, perhaps before the frame was written. The next connection sends the outbox again.
                self._soon(lambda: self.give_up("interrupted while sending"))
                raise
            return True
        finally:
            self._turn.release()

    def wait_for_room(self) -> None:
        """Return when the queue has room, or the server is not reached."""
        self.wait_until(lambda: self.phase is not ClientPhase.LIVE or self.has_room(), PATIENCE_S)

    def has_room(self) -> bool:
        """Whether the queue has room for one more commit."""
        return self.session.has_room(self._pending())

    def check_not_over(self) -> None:
        """Raise the error that ended the session, if it has ended."""
        if self.phase is ClientPhase.OVER and self.session.error is not None:
            raise self.session.error

    def ask(self, frame: Question, timeout: float | None = None) -> Answer:
        """Send a question and wait for its answer. Raises OfflineError after the time limit."""
        (found,) = self.ask_many((frame,), timeout)
        if isinstance(found, HeadwaterError):
            raise found
        return found

    def ask_many(self, frames: Sequence[Question], timeout: float | None = None) -> list[Answer | HeadwaterError]:
        """Send questions and wait for the answers. Raises OfflineError after the time limit."""
        timeout = PATIENCE_S if timeout is None else timeout
        self.check_not_over()
        lost_at = self.lost_at
        if lost_at is not None:
            # A server that has been away for long gets less time.
            timeout = max(min(timeout, lost_at + PATIENCE_S - self._loop.time()), 0.0)
        end = self._loop.time() + timeout
        answers = [self._asked(frame) for frame in frames]
        try:
            return [answer.result(max(end - self._loop.time(), 0.0)) for answer in answers]
        except TimeoutError:
            for answer in answers:
                answer.cancel()
            how, since = "was asked and has not answered", self._loop.time() - timeout
            if (lost_at := self.lost_at) is not None:
                how, since = "is not reached", lost_at
            seconds = max(round(self._loop.time() - since), 1)
            message = f"{self.url} {how} for {seconds:,} s ({self.trouble or 'it is slow'})"
            raise OfflineError(f"{message}; loaded documents can still be read", url=str(self.url)) from None

    def _asked(self, frame: Question) -> Future[Answer | HeadwaterError]:
        answer: Future[Answer | HeadwaterError] = machine().future()

        def done(found: Answer | HeadwaterError) -> None:
            # The caller may give up at any moment.
            with suppress(InvalidStateError):
                answer.set_result(found)

        self.ask_soon(frame, done)
        return answer

    def ask_soon(self, frame: Question, done: Callable[[Answer | HeadwaterError], None] | None) -> None:
        """Send a question; the thread calls `done`. Without it, documents are delivered like changes."""
        self._soon(lambda: self.session.ask(frame, done))

    def seen(self, number: int, answer: str) -> None:
        """Send the answer to a look of the server, as long as it is connected. Any thread."""
        self._soon(lambda: self.send(LookAnswer(number, answer)) if self.phase is ClientPhase.LIVE else None)

    def assume(self, doc: DocKey) -> None:
        """Assume that a document does not exist."""
        self._soon(lambda: self.session.assume(doc))

    def note(self, notes: tuple[NewObservation, ...], gone: tuple[DocKey, ...]) -> None:
        """Send observations of runs without writes."""
        self._soon(lambda: self.session.note(notes, gone))

    def wait_until(self, is_so: Callable[[], bool], timeout: float | None) -> bool:
        """Wait for a condition set by the thread, while the server may be away. Raises OfflineError."""
        begun = self._loop.time()
        end = None if timeout is None else begun + timeout
        with self._changed:
            while not is_so():
                if self.phase is ClientPhase.OVER:
                    return is_so()
                now = self._loop.time()
                left = None if end is None else end - now
                if left is not None and left <= 0:
                    return False
                lost_at = self.lost_at
                if lost_at is not None and end is None and now - lost_at > PATIENCE_S:
                    raise self.away(f"is not reached ({self.trouble})")
                if end is None and self._is_stuck(now):
                    raise self.away(f"is reached, and cannot do the work ({self._stuck_why})")
                if lost_at is None and end is None and now - max(begun, self._heard_at) > STALL_S:
                    raise self.away(f"has said nothing for {STALL_S:g} s")
                self._changed.wait(LOOK_S if left is None else min(LOOK_S, left))
            return True

    def _is_stuck(self, now: float) -> bool:
        """Whether the server has accepted and ended connections for too long: its disk may be full."""
        if self._stuck_at is None or (self.lost_at is None and now - self._live_at > STAYED_S):
            return False
        return now - self._stuck_at > PATIENCE_S

    def away(self, how: str) -> OfflineError:
        """The error for a wait that failed."""
        waiting = self._pending()
        fate = (
            "and are lost if the program ends before it is" if self._folder is None else f"kept in {self._folder.path}"
        )
        message = f"{self.url} {how}: {waiting} commits wait for it, {fate}"
        return OfflineError(message, url=str(self.url), waiting=waiting)

    def told(self) -> None:
        """Notify waiting callers."""
        with self._changed:
            self._changed.notify_all()

    def stop(self) -> None:
        """End the thread. Idempotent."""
        if self._thread.is_alive():
            self._soon(self._finish)
            if self._thread is not machine().current_thread():
                self._thread.join(CLOSE_S)

    def soon(self, do: Callable[[], object]) -> None:
        """Run a function in the thread."""
        self._soon(do)

    def _soon(self, do: Callable[[], object]) -> None:
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._step, do)

    def _step(self, do: Callable[[], object]) -> None:
        with self._turn:
            do()

    # -- the thread ----------------------------------------------------------------------------------------

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._connect_again())
        except Exception as error:
            log.exception("the connection to %s has ended", self.url)
            with self._turn:
                self.session.end(RemoteProtocolError(f"the connection to {self.url} has ended: {describe(error)}"))
        finally:
            with self._turn:
                self.session.end()
            self.told()
            self._loop.close()

    async def _connect_again(self) -> None:
        delay = BACKOFF_MIN_S
        while not self._stop.is_set() and self.phase is not ClientPhase.OVER:
            self.tries += 1
            begun = self._loop.time()
            went_well = await self._connect() and self._loop.time() - begun > STAYED_S
            self._note_end(begun, stayed=went_well)
            delay = BACKOFF_MIN_S if went_well else min(delay * 2, BACKOFF_MAX_S)
            if self.session.error is not None and self.session.phase is ClientPhase.OVER:
                break
            with suppress(asyncio.TimeoutError):
                await asyncio.wait_for(self._stop.wait(), delay * (0.5 + machine().random() / 2))  # no secret

    def _note_end(self, begun: float, *, stayed: bool) -> None:
        """Record the end of a connection. If it ended at once, the server may be unable to work."""
        if stayed or self._live_at < begun:
            self._stuck_at = None
        elif self._stuck_at is None:
            self._stuck_at = self._loop.time()
        self._stuck_why = self.trouble

    async def _connect(self) -> bool:
        """One connection from beginning to end. Returns whether it was established."""
        url = self.url
        host, authorization = url.host, self._credentials.authorization
        if self._folder is not None:
            # The server's proof is on disk before it is used: after a kill the client returns with the same.
            await self._aside(self._folder.flush)
        local = None if authorization else await self._aside(lambda: find_local(url.host, url.port))
        if local is not None:
            # For this address only: no other server gets its token.
            host, authorization = local.host, f"Bearer {local.token}"
        uri = parse_uri(f"{url.origin}/")
        tls = (self._credentials.tls or ssl.create_default_context()) if url.secure else None

        def make() -> ClientSocket:
            # Set before the handshake is complete: the server may be faster.
            session = self.session
            self._socket = ClientSocket(
                uri,
                authorization,
                up=session.connected,
                hear=self._hear,
                is_answer_due=lambda: session.is_answer_due,
                turn=self._turn,
            )
            return self._socket

        async def dial() -> tuple[asyncio.Transport, ClientSocket]:
            name = url.host if tls is not None else None
            async with asyncio.timeout(CONNECT_S):
                return await self._loop.create_connection(make, host, url.port, ssl=tls, server_hostname=name)

        try:
            trying = self._trying = self._loop.create_task(dial())
            _, socket = await trying
        except (TimeoutError, OSError, ssl.SSLError, RuntimeError, asyncio.CancelledError) as error:
            # RuntimeError: the program ends, and names are not resolved any more. Cancelled: the link ends, and what
            # an earlier attempt met is the reason.
            if not isinstance(error, asyncio.CancelledError):
                self.trouble = str(error) or type(error).__name__
                self._is_misread = isinstance(error, ssl.SSLError)
            self._socket = None
            with self._turn:
                self._lost(0, "")
            return False
        await socket.done
        self._socket = None
        if socket.refused is not None:
            is_early = (
                not self._credentials.authorization
                and await self._aside(lambda: find_local(url.host, url.port)) != local
            )
            with self._turn:
                self._refused(*socket.refused, is_early=is_early)
            return False
        if not self._stop.is_set():
            silent = f"nothing was heard for {socket.silence_s:.0f} s" if socket.silence_s else ""
            self.trouble = silent or self._given_up or socket.close_reason or "the connection was lost"
            self._given_up = ""
            with self._turn:
                self._lost(socket.close_code, socket.close_reason)
        return self.session.opened is not None

    async def _aside(self, do: Callable[[], T]) -> T:
        """Run a slow function in a thread."""
        try:
            doing = machine().in_pool(self._loop, None, do)
        except RuntimeError:
            # The program is ending: no thread can be started.
            return do()
        return await doing

    def _refused(self, status: int, words: str, *, is_early: bool) -> None:
        """The server refused the upgrade. `is_early`: the local token differs from the sent one.

        A server listens before it writes its token, and accepts connections after that: a client that looked for the
        token too early finds it now, or finds the token of a server that replaced an earlier one.
        """
        self.trouble = f"{status}: {words}"
        is_again = not self._credentials.authorization and self.session.opened is not None
        if status in _REFUSED and status not in _LATER and not (status == _NO_TOKEN and (is_early or is_again)):
            self.session.end(AccessError(f"{self.url} does not let this program in: {words}", status=status))
        else:
            self._lost(0, "")

    def _lost(self, code: int, reason: str) -> None:
        if self.phase is ClientPhase.LIVE:
            self._lost_at = self._loop.time()
        self.session.lost(code, reason)

    def _hear(self, data: bytes) -> None:
        self._heard_at = self._loop.time()
        self.heard_bytes += len(data)
        self._or_end(lambda: self.session.receive(data))

    def _or_end(self, do: Callable[[], None]) -> None:
        """Run a step; an error that cannot be recovered from ends the session."""
        try:
            do()
        except (RemoteProtocolError, ServerLimitError) as error:
            self.session.end(error)
            if self._socket is not None:
                self._socket.abort()

    def _take(self) -> None:
        # Reset before reading the queue: a later append wakes the thread again.
        self._woken = False
        socket = self._socket
        if socket is None or not socket.is_open:
            self._submit_queued()
        else:
            with socket.writing_together():
                self._submit_queued()

    def _submit_queued(self) -> None:
        while self._queue:
            self.session.submit(self._queue.popleft())

    def _send_kept(self, submissions: list[Submission]) -> None:
        """Send commits that are on disk. Called by the writer thread of the folder."""
        self._queue.extend(submissions)
        if not self._woken:
            self._woken = True
            self._soon(self._take)

    def _fail(self, submissions: list[Submission], error: HeadwaterError) -> None:
        """Fail commits that could not be stored; they are not sent. Called by the writer thread."""
        self._soon(lambda: self._deliver([Failure(each.commit, error) for each in submissions]))

    def _finish(self) -> None:
        self._take()
        self._stop.set()
        self.session.end()
        if self._socket is not None:
            self._socket.close()
        if self._trying is not None:
            # A connection that is not established is not waited for.
            self._trying.cancel()

    # -- what the session asks for -------------------------------------------------------------------------

    def send(self, frame: FromClient) -> None:
        """Send a frame if connected; else it is sent again over the next connection."""
        socket = self._socket
        if socket is None or not socket.is_open:
            return
        data = encode_frame(frame)
        if len(data) <= FRAME_BYTES_MAX:
            socket.send(data)
        else:
            # The server would close the connection and get the same frame again. Deferred: the frame is being sent now.
            size, most = len(data), FRAME_BYTES_MAX
            self._soon(lambda: self._or_end(lambda: self.session.too_large(frame, size, most)))

    def deliver(self, items: list[Item]) -> None:
        """Pass items on for integration."""
        self._deliver(items)

    def decided(self, number: LocalSeq) -> None:
        """Remove a decided commit from the folder."""
        self._stuck_at = None
        self._decided(number)

    def give_up(self, why: str) -> None:
        """Close the connection; the next attempt follows after the backoff."""
        self._given_up = why
        if self._socket is not None:
            self._socket.abort()

    def prove(self, welcome: Welcome, session: SessionId) -> Proof | None:
        """The answer to the server's challenge, if a key is used."""
        signer = self._credentials.signer
        if signer is None:
            return None
        check_audience(welcome.audience, self.url)
        return signer.prove(welcome, self.url.space, session)

    def changed(self) -> None:
        """Notify listeners of a new phase."""
        if self.phase is ClientPhase.LIVE:
            self.trouble = ""
            self._live_at = self._heard_at = self._loop.time()
        self.told()
        self._on_change()
