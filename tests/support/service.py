"""An outside service to act on: a real server on a real socket, which remembers what was done to it.

It lives in the process of the test: whatever is killed, its record stays. It does not look at idempotency keys: a call
that comes twice has its effect twice, and is counted. Each `Account` of it is a world of its own.

    POST /ACCOUNT/effects         {"key": ..., "events": [...]}  ->  {"receipt": 3}
    GET  /ACCOUNT/effects/KEY                                    ->  {"state": "applied", "receipt": 3}, absent, pending

Must never know: who calls it, and why.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable
from enum import StrEnum
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

SAFETY_S = 120.0
"""No test waits this long unless it fails."""

CALLER = "X-Process"
"""The header in which a caller says which process it is, so that it can be killed in the middle of its call."""


class Way(StrEnum):
    """What becomes of a call."""

    OK = "applied and answered"
    DROPPED = "applied, and the connection is cut"
    FAILED_AFTER = "applied, and answered with 500"
    FAILED_BEFORE = "not applied, and answered with 500"
    HELD_BEFORE = "applied and answered when it is let go"
    HELD_AFTER = "applied, and answered when it is let go"
    SIGNED_OUT = "refused with 401"
    FORBIDDEN = "refused with 403"
    BUSY = "refused with 429"
    KILLED_BEFORE = "the caller is killed, and it is not applied"
    KILLED_AFTER = "applied, and the caller is killed before it is told"


REFUSED = {Way.SIGNED_OUT: 401, Way.FORBIDDEN: 403, Way.BUSY: 429, Way.FAILED_BEFORE: 500}


class Account:
    """What was done in one world, and what is done with the calls to come."""

    def __init__(self, name: str, url: str) -> None:
        self.name = name
        self.url = url
        self._changed = threading.Condition()
        self._ways: deque[Way] = deque()
        self._otherwise = Way.OK
        self._is_held = True
        self._asked_max = 0
        # Keys of the calls that arrived, in order; those that had their effect; those that may yet have it.
        self.called: list[str] = []
        self.applied: list[str] = []
        self.pending: Counter[str] = Counter()
        self.asked = 0
        self._events: dict[str, list[int]] = {}

    # -- for tests -----------------------------------------------------------------------------------------

    def behave(self, *ways: Way, otherwise: Way = Way.OK, asked_max: int = 0) -> None:
        """So the next calls end, one after the other; and so all after them.

        With `asked_max`, calls that are held are let go of when somebody has asked about them so often.
        """
        with self._changed:
            self._ways = deque(ways)
            self._otherwise = otherwise
            self._is_held = True
            self._asked_max = asked_max

    def let_go(self) -> None:
        """Of the calls that are held, and of all that would be."""
        with self._changed:
            self._is_held = False
            self._changed.notify_all()

    @property
    def per_event(self) -> dict[str, int]:
        """How often something was done about each event."""
        with self._changed:
            return {event: len(receipts) for event, receipts in self._events.items()}

    @property
    def per_key(self) -> dict[str, int]:
        """How often something was done under each idempotency key."""
        with self._changed:
            return dict(Counter(self.applied))

    @property
    def receipts(self) -> dict[str, int]:
        """The number of the last effect about each event: its place among all."""
        with self._changed:
            return {event: receipts[-1] for event, receipts in self._events.items()}

    def receipt(self, key: str) -> int | None:
        """The number of an effect, by its key."""
        with self._changed:
            return self.applied.index(key) + 1 if key in self.applied else None

    def wait_until(self, claim: Callable[[Self], bool], seconds: float = SAFETY_S) -> None:
        """Until the record shows it."""
        end = time.monotonic() + seconds
        with self._changed:
            while not claim(self):
                left = end - time.monotonic()
                assert left > 0, f"not within {seconds} s: called {self.called}, applied {self.applied}"
                self._changed.wait(left)

    # -- for the server ------------------------------------------------------------------------------------

    def arrives(self, key: str) -> Way:
        """A call is here, and nobody has answered it."""
        with self._changed:
            self.called.append(key)
            self.pending[key] += 1
            self._changed.notify_all()
            return self._ways.popleft() if self._ways else self._otherwise

    def apply(self, key: str, events: Iterable[str]) -> int:
        """Do it, however often it was done."""
        with self._changed:
            self.applied.append(key)
            for event in events:
                self._events.setdefault(event, []).append(len(self.applied))
            self._changed.notify_all()
            return len(self.applied)

    def wait_for_release(self) -> None:
        """Hold a call up."""
        with self._changed:
            while self._is_held:
                self._changed.wait()

    def settles(self, key: str) -> None:
        """A call that was here can have no effect any more, other than the one it had."""
        with self._changed:
            self.pending[key] -= 1
            self._changed.notify_all()

    def look(self, key: str) -> dict[str, object]:
        """What is known of a call."""
        with self._changed:
            self.asked += 1
            if self.asked == self._asked_max:
                self._is_held = False
            self._changed.notify_all()
            while self._asked_max and not self._is_held and self.pending[key]:
                # It happens at last: whoever asks now is told so.
                self._changed.wait()
            if key in self.applied:
                return {"state": "applied", "receipt": self.applied.index(key) + 1}
            return {"state": "pending" if self.pending[key] else "absent"}


class _Server(ThreadingHTTPServer):
    """Connections are numbered as they come: who asks what became of a call waits for those that came before.

    A caller that was killed may have left its call in a socket that nobody has read yet. To say that it did not happen,
    and to find it a moment later, would be the service's mistake.
    """

    daemon_threads = True
    request_queue_size = 128

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.accounts: dict[str, Account] = {}
        self.reading = threading.Condition()
        self._came = 0
        self._numbers: dict[int, int] = {}
        self.unread: set[int] = set()

    def process_request(self, request: Any, client_address: Any) -> None:
        with self.reading:
            self._came += 1
            self._numbers[id(request)] = self._came
            self.unread.add(self._came)
        super().process_request(request, client_address)

    def number_of(self, request: socket.socket) -> int:
        with self.reading:
            return self._numbers.pop(id(request))

    def was_read(self, number: int) -> None:
        with self.reading:
            self.unread.discard(number)
            self.reading.notify_all()

    def wait_for_earlier(self, number: int) -> None:
        with self.reading:
            while any(other < number for other in self.unread):
                self.reading.wait()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A caller that is gone when it is answered: it was killed, or has given up."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def setup(self) -> None:
        super().setup()
        self.number = self.server.number_of(self.request)

    def finish(self) -> None:
        self.server.was_read(self.number)
        super().finish()

    def log_message(self, format: str, *args: Any) -> None:  # noqa: A002  # as it is called there
        pass

    def do_GET(self) -> None:
        self.server.was_read(self.number)
        _, name, _, key = self.path.split("/")
        self.server.wait_for_earlier(self.number)
        self._answer(200, self.server.accounts[name].look(key))

    def do_POST(self) -> None:
        size = int(self.headers["Content-Length"])
        body = self.rfile.read(size)
        if len(body) < size:
            # Its caller has ended in the middle of the sentence.
            return
        _, name, _ = self.path.split("/")
        account = self.server.accounts[name]
        call = json.loads(body)
        way = account.arrives(call["key"])
        self.server.was_read(self.number)
        try:
            receipt = self._act(account, way, call["key"], call["events"])
        finally:
            account.settles(call["key"])
        self._tell(account, way, receipt)

    def _act(self, account: Account, way: Way, key: str, events: list[str]) -> int:
        if way is Way.HELD_BEFORE:
            account.wait_for_release()
        if way is Way.KILLED_BEFORE:
            self._kill_caller()
        return 0 if way in REFUSED or way is Way.KILLED_BEFORE else account.apply(key, events)

    def _tell(self, account: Account, way: Way, receipt: int) -> None:
        if way in REFUSED:
            self._answer(REFUSED[way], {"error": way.value})
        elif way is Way.FAILED_AFTER:
            self._answer(500, {"error": way.value})
        elif way is Way.KILLED_AFTER:
            self._kill_caller()
        elif way not in (Way.DROPPED, Way.KILLED_BEFORE):
            if way is Way.HELD_AFTER:
                account.wait_for_release()
            self._answer(200, {"receipt": receipt})

    def _kill_caller(self) -> None:
        os.kill(int(self.headers[CALLER]), signal.SIGKILL)

    def _answer(self, status: int, body: dict[str, object]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


class Service:
    """The server, while a test needs it."""

    def __init__(self) -> None:
        self._server = _Server()
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        for account in self._server.accounts.values():
            account.let_go()
        self._server.shutdown()
        self._thread.join(SAFETY_S)
        self._server.server_close()

    def account(self, name: str | None = None) -> Account:
        """A new world."""
        accounts = self._server.accounts
        chosen = name or f"a{len(accounts)}"
        made = accounts[chosen] = Account(chosen, f"http://127.0.0.1:{self._server.server_port}/{chosen}")
        return made
