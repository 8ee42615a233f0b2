"""Light clients of table `sync`: many connections in one process, over raw sockets, so that servers are measured.

`python -m bench.sync_load ROLE KIND URL NUMBERS...`, started by `bench.sync_programs`: it prints `ready`, waits for a
line, and prints what it has counted as JSON. Frames of clients are masked with zeros, which every server takes and
costs nothing to make.

Must never know: what a server is made of. How to speak to it is said in `bench.sync_speech`.
"""

from __future__ import annotations

import json
import select
import socket
import sys
import time
from collections.abc import Callable, Sequence
from typing import Final
from urllib.parse import urlsplit

from bench.sync_speech import SPEECHES, Speech

BINARY: Final = 0x82
PATIENCE_S: Final = 30.0
"""Without anything to read for so long, a server has lost something."""
NAP_S: Final = 0.002
"""Readers look as rarely as that: then each look finds many frames, and the server has a core for itself."""
READ_BYTES: Final = 262_144


def framed(payload: bytes) -> bytes:
    """As a client sends it."""
    size = len(payload)
    if size < 126:
        return bytes((BINARY, 0x80 | size, 0, 0, 0, 0)) + payload
    if size < 65_536:
        return bytes((BINARY, 0x80 | 126)) + size.to_bytes(2, "big") + bytes(4) + payload
    return bytes((BINARY, 0x80 | 127)) + size.to_bytes(8, "big") + bytes(4) + payload


class Inbox:
    """Bytes from a server, which come as they like, taken apart into messages."""

    __slots__ = ("bytes", "frames", "rest")

    def __init__(self, rest: bytes = b"") -> None:
        self.rest = rest
        self.frames = 0
        self.bytes = 0

    def take(self, chunk: bytes) -> list[bytes]:
        """The messages that are complete by now. Frames of a server are neither masked nor, of these, in parts."""
        data = self.rest + chunk if self.rest else chunk
        place, size, found = 0, len(data), list[bytes]()
        while place + 2 <= size:
            length, start = data[place + 1], place + 2
            if length == 126:
                length, start = int.from_bytes(data[start : start + 2], "big"), start + 2
            elif length == 127:
                length, start = int.from_bytes(data[start : start + 8], "big"), start + 8
            if start + length > size:
                break
            if data[place] & 0x0F in (1, 2):
                found.append(data[start : start + length])
            elif data[place] & 0x0F == 8:
                raise RuntimeError(f"the server says good-bye: {data[start : start + length]!r}")
            place = start + length
        self.rest = data[place:]
        self.frames += len(found)
        self.bytes += place
        return found


class Line:
    """One connection."""

    __slots__ = ("done", "inbox", "sock")

    def __init__(self, url: str, speech: Speech) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        assert parts.port is not None
        self.sock = socket.create_connection((parts.hostname, parts.port))
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.done = 0
        headers = "".join(f"{name}: {value}\r\n" for name, value in speech.headers(url).items())
        request = (
            f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            f"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n{headers}\r\n"
        )
        self.sock.sendall(request.encode())
        answer = b""
        while b"\r\n\r\n" not in answer:
            chunk = self.sock.recv(READ_BYTES)
            if not chunk:
                raise RuntimeError(f"{url} has closed a connection that asked for a WebSocket; it said {answer!r}")
            answer += chunk
        head, _, rest = answer.partition(b"\r\n\r\n")
        if b" 101 " not in head.partition(b"\r\n")[0]:
            raise RuntimeError(f"{url} has refused a WebSocket: {head.decode(errors='replace')}")
        self.inbox = Inbox(rest)

    def say(self, payload: bytes) -> None:
        """Send one message."""
        self.sock.sendall(framed(payload))

    def hear(self) -> list[bytes]:
        """The next messages, at least one unless only a part of one has come. Pings are not answered."""
        if self.inbox.rest and (found := self.inbox.take(b"")):
            return found
        chunk = self.sock.recv(READ_BYTES)
        if not chunk:
            raise RuntimeError(f"the server has closed a connection, after {self.inbox.frames} frames")
        return self.inbox.take(chunk)

    def until(self, wanted: Callable[[bytes], bool]) -> bytes:
        """The next message of that kind; what comes before it is passed over."""
        while True:
            for payload in self.hear():
                if wanted(payload):
                    return payload


class Crowd:
    """Lines that are greeted, and who of them can be read."""

    def __init__(self, url: str, speech: Speech, count: int, *, watch: bool) -> None:
        self.lines = [Line(url, speech) for _ in range(count)]
        for line in self.lines:
            speech.greet(line, url, watch=watch)
            line.inbox = Inbox(line.inbox.rest)
        self._by_fd = {line.sock.fileno(): line for line in self.lines}
        self._poll = select.epoll()
        for descriptor in self._by_fd:
            self._poll.register(descriptor, select.EPOLLIN)

    def ready(self, left: str) -> list[Line]:
        """Those that have something to read."""
        events = self._poll.poll(PATIENCE_S)
        if not events:
            raise RuntimeError(f"nothing has come for {PATIENCE_S:.0f} s; left: {left}")
        return [self._by_fd[descriptor] for descriptor, _ in events]


def _go() -> float:
    print("ready", flush=True)
    sys.stdin.readline()
    return time.monotonic()


def readers(url: str, speech: Speech, numbers: Sequence[int]) -> dict[str, float]:
    """LINES DELIVERIES: until each line has got as many."""
    count, deliveries = numbers
    crowd = Crowd(url, speech, count, watch=True)
    begun, have, want = _go(), 0, count * deliveries
    while have < want:
        time.sleep(NAP_S)
        for line in crowd.ready(f"{want - have} of {want} deliveries"):
            have += sum(map(speech.count, line.hear()))
    ended = time.monotonic()
    frames, size = (
        sum(each) for each in zip(*((line.inbox.frames, line.inbox.bytes) for line in crowd.lines), strict=True)
    )
    return {"begun": begun, "ended": ended, "frames": frames, "bytes": size, "deliveries": have}


def writer(url: str, speech: Speech, numbers: Sequence[int]) -> dict[str, float]:
    """MESSAGES WINDOW: one connection that sends, with so many under way."""
    count, window = numbers
    [line] = Crowd(url, speech, 1, watch=False).lines
    messages = [framed(each) for each in speech.messages(0, count)]
    begun, sent = _go(), 0
    while line.done < count:
        most = min(count, line.done + window)
        if most > sent:
            line.sock.sendall(b"".join(messages[sent:most]))
            sent = most
        line.done += sum(map(speech.count, line.hear()))
    return {"begun": begun, "ended": time.monotonic()}


def writers(url: str, speech: Speech, numbers: Sequence[int]) -> dict[str, float]:
    """FIRST LINES MESSAGES: each on its own key, the next one when the last one is answered; all hear of all."""
    first, count, each = numbers
    crowd = Crowd(url, speech, count, watch=True)
    messages = {line: speech.messages(first + place, each) for place, line in enumerate(crowd.lines)}
    begun, left, conflicts, told = _go(), count, 0, 0
    for line in crowd.lines:
        line.say(messages[line][0])
    while left:
        for line in crowd.ready(f"{left} of {count} writers"):
            for payload in line.hear():
                told += speech.count(payload)
                if line.done < each and (verdict := speech.answer(payload, messages[line][line.done])) is not None:
                    conflicts += not verdict
                    line.done += 1
                    if line.done < each:
                        line.say(messages[line][line.done])
                    else:
                        left -= 1
    ended, frames = time.monotonic(), sum(line.inbox.frames for line in crowd.lines)
    ops = count * each
    return {"begun": begun, "ended": ended, "ops": ops, "conflicts": conflicts, "frames": frames, "told": told}


def idle(url: str, speech: Speech, numbers: Sequence[int]) -> dict[str, float]:
    """LINES: they are there, and say nothing."""
    [count] = numbers
    crowd = Crowd(url, speech, count, watch=True)
    _go()
    return {"lines": len(crowd.lines)}


def prepare(url: str, speech: Speech, _numbers: Sequence[int]) -> dict[str, float]:
    """Make what there has to be before anybody writes to it."""
    [line] = Crowd(url, speech, 1, watch=False).lines
    _go()
    speech.prepare(line)
    return {}


def stamps(url: str, speech: Speech, numbers: Sequence[int]) -> dict[str, list[float]]:
    """COUNT: how many milliseconds ago each message was sent that says when."""
    [count] = numbers
    [line] = Crowd(url, speech, 1, watch=True).lines
    _go()
    times: list[float] = []
    while len(times) < count:
        heard = line.hear()
        now = time.monotonic()
        times += [(now - float(payload)) * 1e3 for payload in heard]
    return {"times": times}


def stamping(url: str, speech: Speech, numbers: Sequence[int]) -> dict[str, float]:
    """COUNT GAP_MS: messages that say when they were sent."""
    count, gap_ms = numbers
    [line] = Crowd(url, speech, 1, watch=False).lines
    _go()
    for _ in range(count):
        line.say(repr(time.monotonic()).encode())
        time.sleep(gap_ms / 1e3)
    return {}


ROLES: Final[dict[str, Callable[[str, Speech, Sequence[int]], object]]] = {
    each.__name__: each for each in (readers, writer, writers, idle, prepare, stamps, stamping)
}


def main() -> None:
    """One role, once."""
    role, kind, url, *numbers = sys.argv[1:]
    print(json.dumps(ROLES[role](url, SPEECHES[kind](), [int(each) for each in numbers])), flush=True)


if __name__ == "__main__":
    main()
