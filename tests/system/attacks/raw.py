"""A client that may say anything: HTTP and WebSocket frames by hand, on a plain socket."""

from __future__ import annotations

import socket
import struct
from base64 import b64encode
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Self, TypeVar

from headwater.sync.frames import (
    SUBPROTOCOL,
    VERSION,
    ErrorFrame,
    FromClient,
    FromServer,
    Hello,
    News,
    Open,
    Proof,
    SpaceOpened,
    Transact,
    Welcome,
    encode_frame,
    read_server,
)
from headwater.values.ids import BranchId, SessionId

TEXT, BINARY, CLOSE, PING, PONG = 1, 2, 8, 9, 10
WAIT_S = 120.0
"""For an answer: only reached if there is none."""

F = TypeVar("F", bound=FromServer)


@dataclass(frozen=True)
class Answer:
    """What was answered over HTTP."""

    status: int
    headers: dict[str, str]
    body: bytes


class ClosedError(Exception):
    """The server has ended the connection; what it said last is in `troubles`."""

    def __init__(self, code: int, reason: str, troubles: list[ErrorFrame]) -> None:
        super().__init__(code, reason, troubles)
        self.code = code
        self.reason = reason
        self.troubles = troubles


def connect(port: int) -> socket.socket:
    """A connection, and nothing said yet."""
    return socket.create_connection(("127.0.0.1", port), timeout=WAIT_S)


def ask(port: int, lines: Iterable[str], body: bytes = b"") -> Answer:
    """One request, as it stands; the first answer."""
    said = "\r\n".join([*lines, "", ""]).encode("latin-1") + body
    with connect(port) as line:
        line.sendall(said)
        return read_answer(line, has_body=not said.startswith(b"HEAD"))


def read_answer(line: socket.socket, *, has_body: bool = True) -> Answer:
    """What is answered next. Status 0: nothing, and the connection is gone."""
    data = b""
    while b"\r\n\r\n" not in data:
        try:
            more = line.recv(65536)
        except ConnectionResetError:
            more = b""
        if not more:
            return Answer(0, {}, data)
        data += more
    head, _, body = data.partition(b"\r\n\r\n")
    first, *rest = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (each.partition(":") for each in rest)}
    length = int(headers.get("content-length", 0)) if has_body else 0
    while len(body) < length and (more := line.recv(65536)):
        body += more
    return Answer(int(first.split()[1]), headers, body)


def upgrade_lines(
    port: int,
    *,
    token: str | None = None,
    path: str = "/",
    host: str | None = None,
    origin: str | None = None,
    scheme: str = "Bearer",
    more: Iterable[str] = (),
) -> list[str]:
    """A request for a WebSocket."""
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: {host or f'127.0.0.1:{port}'}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        f"Sec-WebSocket-Key: {b64encode(bytes(16)).decode()}",
        "Sec-WebSocket-Version: 13",
        f"Sec-WebSocket-Protocol: {SUBPROTOCOL}",
    ]
    if token is not None:
        lines.append(f"Authorization: {scheme} {token}".rstrip())
    if origin is not None:
        lines.append(f"Origin: {origin}")
    return [*lines, *more]


def knock(port: int, token: str | None = None, **how: Any) -> int:
    """With which status an upgrade is answered."""
    with Raw.upgrade(port, token, **how) as raw:
        return raw.answer.status


@dataclass
class Raw:
    """A WebSocket."""

    line: socket.socket
    answer: Answer
    data: bytearray = field(default_factory=bytearray)
    welcome: Welcome | None = None
    opened: SpaceOpened | None = None
    # What came while something else was waited for.
    heard: list[FromServer] = field(default_factory=list)

    @classmethod
    def upgrade(cls, port: int, token: str | None = None, **how: Any) -> Self:
        """Ask for one. Whether it was granted is in `answer`."""
        line = connect(port)
        line.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        line.sendall("\r\n".join([*upgrade_lines(port, token=token, **how), "", ""]).encode("latin-1"))
        # Byte by byte: what follows is a frame.
        head = bytearray()
        while not head.endswith(b"\r\n\r\n"):
            more = line.recv(1)
            if not more:
                return cls(line, Answer(0, {}, bytes(head)))
            head += more
        status = int(head.split(b" ", 2)[1])
        body = b"" if status == 101 else line.recv(65536)
        return cls(line, Answer(status, {}, bytes(head) + body))

    @classmethod
    def into(cls, port: int, token: str, space: str, **how: Any) -> Self:
        """In a space."""
        raw = cls.upgrade(port, token)
        try:
            assert raw.answer.status == 101, raw.answer
            raw.greet()
            raw.open(space, **how)
        except BaseException:
            raw.line.close()
            raise
        return raw

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self.line.close()

    def quit(self) -> Self:
        """Hang up, without a word."""
        self.line.close()
        return self

    # -- saying --------------------------------------------------------------------------------------------

    def frame(self, opcode: int, data: bytes = b"", *, fin: bool = True, size: int | None = None, rsv: int = 0) -> None:
        """A frame of WebSocket, of which the head may say another size than it has."""
        self.line.sendall(ws_frame(opcode, data, fin=fin, size=size, rsv=rsv))

    def say(self, frame: FromClient | bytes) -> None:
        """A frame of ours, or bytes in its place."""
        self.frame(BINARY, frame if isinstance(frame, bytes) else encode_frame(frame))

    # -- hearing -------------------------------------------------------------------------------------------

    def _exactly(self, size: int) -> bytes:
        while len(self.data) < size:
            try:
                more = self.line.recv(1 << 18)
            except (ConnectionResetError, BrokenPipeError):
                more = b""
            if not more:
                raise ClosedError(0, "", [each for each in self.heard if isinstance(each, ErrorFrame)])
            self.data += more
        found = bytes(self.data[:size])
        del self.data[:size]
        return found

    def next_frame(self) -> tuple[int, bytes]:
        """Of WebSocket."""
        first, second = self._exactly(2)
        size = second & 0x7F
        if size >= 126:
            size = int.from_bytes(self._exactly(2 if size == 126 else 8), "big")
        return first & 0x0F, self._exactly(size)

    def hear(self) -> FromServer:
        """The next frame of ours. Raises ClosedError."""
        while True:
            opcode, data = self.next_frame()
            if opcode == BINARY:
                found = read_server(data)
                self.heard.append(found)
                return found
            if opcode == CLOSE:
                code = int.from_bytes(data[:2], "big")
                troubles = [each for each in self.heard if isinstance(each, ErrorFrame)]
                raise ClosedError(code, data[2:].decode(), troubles)

    def expect(self, kind: type[F]) -> F:
        """The next of its kind."""
        while True:
            found = self.hear()
            if isinstance(found, kind):
                return found

    def closed(self) -> ClosedError:
        """How it ends, whatever is said before."""
        try:
            while True:
                self.hear()
        except ClosedError as closed:
            return closed

    # -- the usual -----------------------------------------------------------------------------------------

    def greet(self) -> Welcome:
        """Say hello."""
        self.say(Hello((VERSION,)))
        self.welcome = self.expect(Welcome)
        return self.welcome

    def open(
        self,
        space: str,
        *,
        actor: str = "",
        session: str = "",
        resume: bytes = b"",
        proof: Proof | None = None,
        branch: str = "main",
    ) -> SpaceOpened:
        """Open a space. Raises ClosedError."""
        self.say(Open(space, BranchId(branch), actor, SessionId(session), resume, proof=proof))
        self.opened = self.expect(SpaceOpened)
        return self.opened

    def write(self, number: int, *operations: Any, **fields: Any) -> Any:
        """Commit, and what becomes of it."""
        self.say(Transact(number, operations, **fields))
        return self.verdict(number)

    def verdict(self, number: int) -> Any:
        """What became of a commit: its verdict, or what is said instead."""
        while True:
            found = self.hear()
            if isinstance(found, ErrorFrame) and found.number == number:
                return found
            if isinstance(found, News):
                for new in found.news:
                    if not hasattr(new, "operations") and new.number == number:
                        return getattr(new, "verdict", new)


def ws_frame(opcode: int, data: bytes = b"", *, fin: bool = True, size: int | None = None, rsv: int = 0) -> bytes:
    """Masked with zeros, which is a mask like any other."""
    told = len(data) if size is None else size
    first = (0x80 if fin else 0) | rsv << 4 | opcode
    if told < 126:
        head = struct.pack("!BB", first, 0x80 | told)
    elif told < 1 << 16:
        head = struct.pack("!BBH", first, 0x80 | 126, told)
    else:
        head = struct.pack("!BBQ", first, 0x80 | 127, told)
    return head + bytes(4) + data
