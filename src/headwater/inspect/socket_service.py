"""The thread behind the doors: makes them, answers at them, and goes when there are none.

It waits for all of them at once, and never for one who asks: whoever does not read what is sent is left behind. What
somebody wants done takes its time, and may call functions of the author's: that has a thread of its own.

Must never know: what an answer says.
"""

from __future__ import annotations

import os
import selectors
import socket
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from select import select
from typing import Final

import msgspec

from headwater.errors import HeadwaterError
from headwater.inspect import socket_paths
from headwater.inspect.answers import TraceLine
from headwater.inspect.commands import AnyCommand
from headwater.inspect.envelope import VERSION, Failure, Request, Response, answered, read_request
from headwater.inspect.live_functions import since_1970
from headwater.inspect.live_inspector import LiveInspector
from headwater.inspect.questions import GetTrace
from headwater.inspect.sockets import LINGER_S, LOOK_S, Bell, Door, Doors, log
from headwater.inspect.view import Window
from headwater.machine import machine
from headwater.scheduler.inspect.trace import TRACE_KINDS, TraceRecord
from headwater.values.author_text import describe

CALLERS_MAX: Final = 32
"""At all doors of a process together: a handful of people look at it, and no more."""

REQUEST_MAX: Final = 32 * 1024 * 1024
"""Bytes of one request: a name, mostly; or what an event carries."""

UNREAD_MAX: Final = 1024 * 1024
"""Bytes that somebody who follows may leave unread. Then records wait, and in the end some are left out."""

RECORDS_MAX: Final = 10_000
"""Records that wait for one who follows."""

_CHUNK: Final = 256 * 1024

_SOON_S: Final = 0.5
"""How long the end of the program waits for what is being done. Less than it waits for the thread."""


class Followed:
    """What happens in the spaces of one door, until it is sent to one who follows."""

    def __init__(self, kind: str, bell: Bell) -> None:
        self._kind = TRACE_KINDS.get(kind)
        self._bell = bell
        self._records: deque[tuple[Window, TraceRecord]] = deque(maxlen=RECORDS_MAX)
        self._heard = 0
        self._told = 0
        self._ends: dict[Window, Callable[[], None]] = {}

    def attend(self, windows: list[Window]) -> None:
        """Listen at all of these, and at no other."""
        for window in windows:
            if window not in self._ends:
                self._ends[window] = window.space.scheduler.on_trace(partial(self._hear, window))
        for window in [window for window in self._ends if window not in windows]:
            self._ends.pop(window)()

    def _hear(self, window: Window, record: TraceRecord) -> None:
        """In the middle of a pass: nothing here waits, and nothing raises."""
        if self._kind is None or type(record) is self._kind:
            self._records.append((window, record))
            self._heard += 1
            self._bell.ring()

    def lines(self, room: int) -> Iterator[bytes]:
        """What there is, as far as there is room."""
        while self._records and room > 0:
            window, record = self._records.popleft()
            self._told += 1
            missed = self._heard - self._told - len(self._records)
            if missed > 0:
                self._told += missed
                yield _line(TraceLine(app=window.app, missed=missed))
            line = _line(TraceLine(app=window.app, record=since_1970(window, record)))
            room -= len(line)
            yield line


class Call:
    """One who came to a door."""

    def __init__(self, connection: socket.socket, door: Door) -> None:
        self.connection = connection
        self.door = door
        self.heard = bytearray()
        # There is no end of a line before this place.
        self.sought = 0
        self.unsent = bytearray()
        self.followed: Followed | None = None
        # Something is being done for them: what else they ask waits for that.
        self.is_busy = False


class Service:
    """All doors and everybody at them."""

    def __init__(self, doors: Doors, bell: Bell) -> None:
        self._doors = doors
        self._bell = bell
        self._made: dict[Door, socket.socket] = {}
        self._calls: list[Call] = []
        # Appended to by the threads that did something.
        self._done: deque[tuple[Call, Response]] = deque()
        # Not the kind that is shared with a forked child.
        self._selector = selectors.PollSelector()
        self._selector.register(bell.reader, selectors.EVENT_READ, None)
        self._pid = os.getpid()
        doors.drop = self._drop

    def run(self) -> None:
        """Until there is nothing to do."""
        doors = self._doors
        quiet_since = machine().monotonic()
        while True:
            due = doors.next_due()
            if doors.ended or (doors.looks and machine().monotonic() - quiet_since >= LINGER_S):
                if doors.retire():
                    break
            elif not doors.looks:
                quiet_since = machine().monotonic()
            wait = LOOK_S if doors.looks else None if due is None else max(due - machine().monotonic(), 0.0)
            for key, events in self._selector.select(wait):
                self._attend(key.data, events)
            self._look_after()
        self._finish()
        self._drop()

    def _finish(self) -> None:
        """The program ends: whoever waits for something that is being done is told, if it is soon."""
        end = machine().monotonic() + _SOON_S
        while any(call.is_busy for call in self._calls) and (left := end - machine().monotonic()) > 0:
            if self._done:
                self._tell_done(*self._done.popleft())
            elif select([self._bell.reader], [], [], left)[0]:
                self._bell.hear()

    def _look_after(self) -> None:
        """Make the doors whose time has come, close others, tell those who follow."""
        with self._doors.lock:
            due = [
                door
                for door in self._doors.open.values()
                if not door.tried.is_set() and door.due <= machine().monotonic()
            ]
        while self._done:
            self._tell_done(*self._done.popleft())
        for door in due:
            self._make(door)
        for door in [door for door in self._made if door.closed]:
            self._unmake(door)
        for call in list(self._calls):
            if call.followed is not None:
                self._tell(call, call.followed)

    def _make(self, door: Door) -> None:
        with self._doors.lock:
            if not door.closed:
                try:
                    door.way = socket_paths.make(door.file)
                    self._made[door] = door.way.listener
                    self._selector.register(door.way.listener, selectors.EVENT_READ, door)
                except (OSError, AttributeError) as error:
                    # Nor is there such a socket on every system.
                    log.debug("%s has no door: %s", door.file, error)
            door.tried.set()

    def _unmake(self, door: Door) -> None:
        with self._doors.lock:
            listener = self._made.pop(door)
            self._selector.unregister(listener)
            listener.close()
        for call in [call for call in self._calls if call.door is door]:
            if call.followed is not None:
                self._tell(call, call.followed)
            if not call.is_busy:
                # Else when that is done, which is soon: it is told that the space is closed.
                self._leave(call)

    # -- callers -------------------------------------------------------------------------------------------

    def _attend(self, what: Door | Call | None, events: int) -> None:
        if what is None:
            self._bell.hear()
        elif isinstance(what, Door):
            self._let_in(what)
        elif what in self._calls:
            try:
                if events & selectors.EVENT_READ:
                    self._hear(what)
                if events & selectors.EVENT_WRITE and what in self._calls:
                    self._send(what)
            except OSError:
                self._leave(what)

    def _let_in(self, door: Door) -> None:
        # Noted before anybody can fork: a child must not keep it open.
        with self._doors.lock:
            try:
                connection, _ = self._made[door].accept()
            except (OSError, KeyError):
                return  # gone again
            if len(self._calls) >= CALLERS_MAX:
                connection.close()
                return
            connection.setblocking(False)
            call = Call(connection, door)
            self._calls.append(call)
            self._selector.register(connection, selectors.EVENT_READ, call)

    def _hear(self, call: Call) -> None:
        with suppress(BlockingIOError):
            chunk = call.connection.recv(_CHUNK)
            if not chunk:
                self._leave(call)
                return
            call.heard += chunk
        self._answer_all(call)
        if len(call.heard) > REQUEST_MAX:
            self._leave(call)
            return
        self._send(call)

    def _answer_all(self, call: Call) -> None:
        while not call.is_busy and (end := call.heard.find(b"\n", call.sought)) >= 0:
            line = bytes(call.heard[:end])
            del call.heard[: end + 1]
            call.sought = 0
            reply = self._answer(call, line)
            if reply is not None:
                call.unsent += _line(reply)
        if not call.is_busy:
            call.sought = len(call.heard)

    def _answer(self, call: Call, line: bytes) -> Response | None:
        """The response; None if it comes when a command is carried out."""
        request = read_request(line)
        if isinstance(request, str):
            return self._refused(request)
        with self._doors.lock:
            windows = list(call.door.windows)
        if request.do is not None:
            command = request.do
            verb = str(command.__struct_config__.tag)
            work = partial(self._do, call, LiveInspector(windows, request.scope, apart=True), command)
            machine().thread(work, name=f"headwater-{verb}").start()
            call.is_busy = True
            return None
        if request.follow is not None:
            return self._follow(call, windows, request.follow)
        try:
            return self._asked(LiveInspector(windows, request.scope, wait_ms=request.wait_ms), request)
        except HeadwaterError as error:
            return Response(v=VERSION, pid=self._pid, failure=Failure.of(error))
        except Exception as bug:  # noqa: BLE001  # of ours: it must not end the thread, nor harm the program
            log.debug("a question about %s could not be answered", call.door.file, exc_info=True)
            return self._refused(describe(bug))

    def _asked(self, inspector: LiveInspector, request: Request) -> Response:
        question = request.ask
        if question is None:
            return Response(v=VERSION, pid=self._pid)
        if isinstance(question, GetTrace) and question.kind and question.kind not in TRACE_KINDS:
            return self._refused(f"{question.kind!r} is no kind of trace; there are {', '.join(TRACE_KINDS)}")
        # Before the answer: what happens meanwhile is answered once more, rather than never.
        mark = inspector.mark(question)
        if request.unless and request.unless == mark:
            return Response(v=VERSION, pid=self._pid, mark=mark)
        return answered(inspector.ask(question), pid=self._pid, mark=mark)

    def _follow(self, call: Call, windows: list[Window], kind: str) -> Response:
        if kind and kind not in TRACE_KINDS:
            return self._refused(f"{kind!r} is no kind of trace; there are {', '.join(TRACE_KINDS)}")
        if call.followed is not None:
            call.followed.attend([])
        call.followed = Followed(kind, self._bell)
        call.followed.attend(windows)
        return Response(v=VERSION, pid=self._pid)

    def _do(self, call: Call, inspector: LiveInspector, command: AnyCommand) -> None:
        """In a thread of its own, so that others are answered meanwhile."""
        try:
            response = answered(inspector.do(command), pid=self._pid)
        except HeadwaterError as error:
            response = Response(v=VERSION, pid=self._pid, failure=Failure.of(error))
        except BaseException as bug:  # noqa: BLE001  # of ours, or what no handler may raise: a client waits for it
            log.debug("a command was not carried out in %s", call.door.file, exc_info=True)
            response = self._refused(describe(bug))
        self._done.append((call, response))
        self._bell.ring()

    def _tell_done(self, call: Call, reply: Response) -> None:
        if call not in self._calls:
            return
        call.is_busy = False
        call.unsent += _line(reply)
        try:
            self._answer_all(call)
            self._send(call)
        except OSError:
            self._leave(call)
        if call.door.closed and not call.is_busy:
            self._leave(call)

    def _refused(self, why: str) -> Response:
        return Response(v=VERSION, pid=self._pid, refused=why)

    def _tell(self, call: Call, followed: Followed) -> None:
        """What has happened since, to one who follows; of spaces that were opened since, too."""
        with self._doors.lock:
            windows = list(call.door.windows)
        followed.attend(windows)
        for line in followed.lines(UNREAD_MAX - len(call.unsent)):
            call.unsent += line
        try:
            self._send(call)
        except OSError:
            self._leave(call)

    def _send(self, call: Call) -> None:
        """As much as is taken; the rest when there is room."""
        with suppress(BlockingIOError):
            while call.unsent:
                del call.unsent[: call.connection.send(call.unsent[:_CHUNK])]
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if call.unsent else 0)
        self._selector.modify(call.connection, events, call)

    def _leave(self, call: Call) -> None:
        if call not in self._calls:
            return
        if call.followed is not None:
            call.followed.attend([])
        with self._doors.lock:
            self._calls.remove(call)
            self._selector.unregister(call.connection)
            call.connection.close()

    def _drop(self) -> None:
        """Let go of everything: the thread ends, or this is a child that was forked."""
        for call in self._calls:
            if call.followed is not None:
                call.followed.attend([])
            call.connection.close()
        for listener in self._made.values():
            listener.close()
        self._calls, self._made = [], {}


class _Versioned(msgspec.Struct):
    v: int


def _line(told: Response | TraceLine) -> bytes:
    return msgspec.json.encode(told) + b"\n"
