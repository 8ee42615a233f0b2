"""The thread of the local sockets: it opens them, answers requests, and ends when there are none.

It waits for all sockets at once, and never for one peer: a peer that does not read is disconnected. A command may
take long, and may call functions of the author: it runs in a separate thread.
"""

from __future__ import annotations

import selectors
import socket
from collections import deque
from contextlib import suppress
from functools import partial
from select import select
from typing import Final

from headwater.errors import HeadwaterError
from headwater.host import socket_paths
from headwater.host.wake_pipe import WakePipe
from headwater.inspect.envelope import VERSION, ErrorRecord, Response, answered
from headwater.inspect.followers import PULSE, PulseFollower, TraceFollower, line_of
from headwater.inspect.function_records import GetTrace
from headwater.inspect.incoming import AnyCommand, IncomingRequest, read_request
from headwater.inspect.live_inspector import LiveInspector
from headwater.inspect.opening_port import OpeningPort
from headwater.inspect.sockets import LINGER_S, LOOK_S, FileSocket, SocketRegistry, log
from headwater.machine import machine
from headwater.scheduler.trace import TRACE_KINDS
from headwater.values.author_text import describe

PEERS_MAX: Final = 32
"""Connections to all sockets of a process together."""

REQUEST_MAX: Final = 32 * 1024 * 1024
"""Bytes of one request. The largest ones have the payload of an event."""

UNREAD_MAX: Final = 1024 * 1024
"""Unread bytes of a follower. Beyond them, records wait; then some are left out."""

_CHUNK: Final = 256 * 1024

_SOON_S: Final = 0.5
"""Seconds that the end of the program waits for commands: less than it waits for the thread."""


class SocketPeer:
    """One connection to the socket of a file."""

    def __init__(self, connection: socket.socket, file_socket: FileSocket) -> None:
        self.connection = connection
        self.file_socket = file_socket
        self.received = bytearray()
        # No line ends before this position.
        self.searched = 0
        self.unsent = bytearray()
        self.follower: TraceFollower | PulseFollower | None = None
        # A command is being carried out: further requests wait for it.
        self.is_busy = False


class SocketService:
    """All sockets of a process and the connections to them."""

    def __init__(self, registry: SocketRegistry, waker: WakePipe) -> None:
        self._registry = registry
        self._waker = waker
        self._listeners: dict[FileSocket, socket.socket] = {}
        self._peers: list[SocketPeer] = []
        # Appended to by the threads of commands.
        self._done: deque[tuple[SocketPeer, Response]] = deque()
        # Unlike epoll, not shared with a forked child.
        self._selector = selectors.PollSelector()
        self._selector.register(waker.reader, selectors.EVENT_READ, None)
        self._pid = machine().process_id()
        registry.drop = self._drop

    def run(self) -> None:
        """Serve until there is nothing to do."""
        registry = self._registry
        quiet_since = machine().monotonic()
        while True:
            due = registry.next_due()
            if registry.ended or (registry.polls and machine().monotonic() - quiet_since >= LINGER_S):
                if registry.retire():
                    break
            elif not registry.polls:
                quiet_since = machine().monotonic()
            wait = LOOK_S if registry.polls else None if due is None else max(due - machine().monotonic(), 0.0)
            for key, events in self._selector.select(wait):
                self._serve(key.data, events)
            self._maintain()
        self._finish()
        self._drop()

    def _finish(self) -> None:
        """At the end of the program, wait a short time for commands and send their responses."""
        end = machine().monotonic() + _SOON_S
        while any(peer.is_busy for peer in self._peers) and (left := end - machine().monotonic()) > 0:
            if self._done:
                self._finish_command(*self._done.popleft())
            elif select([self._waker.reader], [], [], left)[0]:
                self._waker.clear()

    def _maintain(self) -> None:
        """Open the sockets that are due, close others, send records to followers."""
        with self._registry.lock:
            due = [
                file_socket
                for file_socket in self._registry.sockets.values()
                if not file_socket.tried.is_set() and file_socket.due <= machine().monotonic()
            ]
        while self._done:
            self._finish_command(*self._done.popleft())
        for file_socket in due:
            self._make(file_socket)
        for file_socket in [file_socket for file_socket in self._listeners if file_socket.closed]:
            self._unmake(file_socket)
        for peer in list(self._peers):
            if peer.follower is not None:
                self._tell(peer, peer.follower)

    def _make(self, file_socket: FileSocket) -> None:
        with self._registry.lock:
            if not file_socket.closed:
                try:
                    file_socket.listening = socket_paths.make(file_socket.file)
                    self._listeners[file_socket] = file_socket.listening.listener
                    self._selector.register(file_socket.listening.listener, selectors.EVENT_READ, file_socket)
                except (OSError, AttributeError) as error:
                    # Some systems have no such sockets.
                    log.debug("%s has no socket: %s", file_socket.file, error)
            file_socket.tried.set()

    def _unmake(self, file_socket: FileSocket) -> None:
        with self._registry.lock:
            listener = self._listeners.pop(file_socket)
            self._selector.unregister(listener)
            listener.close()
        for peer in [peer for peer in self._peers if peer.file_socket is file_socket]:
            if peer.follower is not None:
                self._tell(peer, peer.follower)
            if not peer.is_busy:
                # Otherwise after its command.
                self._disconnect(peer)

    # -- peers ---------------------------------------------------------------------------------------------

    def _serve(self, what: FileSocket | SocketPeer | None, events: int) -> None:
        if what is None:
            self._waker.clear()
        elif isinstance(what, FileSocket):
            self._accept(what)
        elif what in self._peers:
            try:
                if events & selectors.EVENT_READ:
                    self._receive(what)
                if events & selectors.EVENT_WRITE and what in self._peers:
                    self._send(what)
            except OSError:
                self._disconnect(what)

    def _accept(self, file_socket: FileSocket) -> None:
        # Under the lock: a forked child must be able to close it.
        with self._registry.lock:
            try:
                connection, _ = self._listeners[file_socket].accept()
            except (OSError, KeyError):
                return  # gone again
            if len(self._peers) >= PEERS_MAX:
                connection.close()
                return
            connection.setblocking(False)
            peer = SocketPeer(connection, file_socket)
            self._peers.append(peer)
            self._selector.register(connection, selectors.EVENT_READ, peer)

    def _receive(self, peer: SocketPeer) -> None:
        with suppress(BlockingIOError):
            chunk = peer.connection.recv(_CHUNK)
            if not chunk:
                self._disconnect(peer)
                return
            peer.received += chunk
        self._answer_all(peer)
        if len(peer.received) > REQUEST_MAX:
            self._disconnect(peer)
            return
        self._send(peer)

    def _answer_all(self, peer: SocketPeer) -> None:
        while not peer.is_busy and (end := peer.received.find(b"\n", peer.searched)) >= 0:
            line = bytes(peer.received[:end])
            del peer.received[: end + 1]
            peer.searched = 0
            response = self._answer(peer, line)
            if response is not None:
                peer.unsent += line_of(response)
        if not peer.is_busy:
            peer.searched = len(peer.received)

    def _answer(self, peer: SocketPeer, line: bytes) -> Response | None:
        """The response; None if it follows after a command."""
        request = read_request(line)
        if isinstance(request, str):
            return self._refused(request)
        with self._registry.lock:
            openings = list(peer.file_socket.openings)
        if request.do is not None:
            command = request.do
            verb = str(command.__struct_config__.tag)
            work = partial(self._do, peer, LiveInspector(openings, request.scope, apart=True), command)
            machine().thread(work, name=f"headwater-{verb}").start()
            peer.is_busy = True
            return None
        if request.follow is not None:
            return self._follow(peer, openings, request.follow)
        try:
            return self._asked(LiveInspector(openings, request.scope, wait_ms=request.wait_ms), request)
        except HeadwaterError as error:
            return Response(v=VERSION, pid=self._pid, failure=ErrorRecord.of(error))
        except Exception as bug:  # noqa: BLE001  # of ours: it must not end the thread, nor harm the program
            log.debug("a question about %s could not be answered", peer.file_socket.file, exc_info=True)
            return self._refused(describe(bug))

    def _asked(self, inspector: LiveInspector, request: IncomingRequest) -> Response:
        question = request.ask
        if question is None:
            return Response(v=VERSION, pid=self._pid)
        if isinstance(question, GetTrace) and question.kind and question.kind not in TRACE_KINDS:
            return self._unknown(question.kind)
        # Before the answer: a change meanwhile is reported twice rather than never.
        mark = inspector.mark(question)
        if request.unless and request.unless == mark:
            return Response(v=VERSION, pid=self._pid, mark=mark)
        return answered(inspector.ask(question), pid=self._pid, mark=mark)

    def _follow(self, peer: SocketPeer, openings: list[OpeningPort], kind: str) -> Response:
        if kind and kind not in TRACE_KINDS and kind != PULSE:
            return self._unknown(kind)
        if peer.follower is not None:
            peer.follower.stop()
        if kind == PULSE:
            peer.follower = PulseFollower(self._waker)
            peer.follower.listen_to(openings)
            return Response(v=VERSION, pid=self._pid)
        peer.follower = TraceFollower(kind, self._waker)
        peer.follower.listen_to(openings)
        return Response(v=VERSION, pid=self._pid)

    def _do(self, peer: SocketPeer, inspector: LiveInspector, command: AnyCommand) -> None:
        """Carry out a command in a separate thread, and queue its response."""
        try:
            response = answered(inspector.do(command), pid=self._pid)
        except HeadwaterError as error:
            response = Response(v=VERSION, pid=self._pid, failure=ErrorRecord.of(error))
        except BaseException as bug:  # noqa: BLE001  # of ours, or what no handler may raise: a client waits for it
            log.debug("a command was not carried out in %s", peer.file_socket.file, exc_info=True)
            response = self._refused(describe(bug))
        self._done.append((peer, response))
        self._waker.wake()

    def _finish_command(self, peer: SocketPeer, response: Response) -> None:
        if peer not in self._peers:
            return
        peer.is_busy = False
        peer.unsent += line_of(response)
        try:
            self._answer_all(peer)
            self._send(peer)
        except OSError:
            self._disconnect(peer)
        if peer.file_socket.closed and not peer.is_busy:
            self._disconnect(peer)

    def _refused(self, why: str) -> Response:
        return Response(v=VERSION, pid=self._pid, refused=why)

    def _unknown(self, kind: str) -> Response:
        return self._refused(f"{kind!r} is no kind of trace; there are {', '.join(TRACE_KINDS)}")

    def _tell(self, peer: SocketPeer, follower: TraceFollower | PulseFollower) -> None:
        """Send new records, also of new openings."""
        with self._registry.lock:
            openings = list(peer.file_socket.openings)
        follower.listen_to(openings)
        for line in follower.lines(UNREAD_MAX - len(peer.unsent)):
            peer.unsent += line
        try:
            self._send(peer)
        except OSError:
            self._disconnect(peer)

    def _send(self, peer: SocketPeer) -> None:
        """Send as much as the peer accepts. The rest follows when there is room."""
        with suppress(BlockingIOError):
            while peer.unsent:
                del peer.unsent[: peer.connection.send(peer.unsent[:_CHUNK])]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if peer.unsent else 0)
        self._selector.modify(peer.connection, events, peer)

    def _disconnect(self, peer: SocketPeer) -> None:
        if peer not in self._peers:
            return
        if peer.follower is not None:
            peer.follower.stop()
        with self._registry.lock:
            self._peers.remove(peer)
            self._selector.unregister(peer.connection)
            peer.connection.close()

    def _drop(self) -> None:
        """Close everything, when the thread ends or in a forked child."""
        for peer in self._peers:
            if peer.follower is not None:
                peer.follower.stop()
            peer.connection.close()
        for listener in self._listeners.values():
            listener.close()
        self._peers, self._listeners = [], {}
