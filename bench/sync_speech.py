"""How the light clients of table `sync` speak to each kind of server: greetings, messages, and what counts as one.

Must never know: how bytes get to a socket.
"""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Callable, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Final, Protocol
from urllib.parse import urlsplit

from headwater.access.local_token import find_local_token
from headwater.store.commit import Committed, PatchDoc, SetDoc
from headwater.sync.frames import (
    SUBPROTOCOL,
    VERSION,
    CommitFailed,
    Docs,
    ErrorFrame,
    FromServer,
    Hello,
    Judged,
    New,
    News,
    Open,
    SpaceOpened,
    Transact,
    Watch,
    Welcome,
    Written,
    encode_frame,
    read_server,
)
from headwater.values.address import doc_key
from headwater.values.patch import Replace
from headwater.values.tree import freeze

UPDATES: Final = "HEADWATER_BENCH_UPDATES"
"""The file of what writers of Yjs send: one line for each writer."""
BOARD: Final = doc_key("board")
WRITERS_MAX: Final = 16


class Connection(Protocol):
    """As much of a line as is needed to greet."""

    def say(self, payload: bytes) -> None:
        """Send one message."""
        ...

    def until(self, wanted: Callable[[bytes], bool]) -> bytes:
        """The next message of that kind."""
        ...


class Speech(Protocol):
    """Of one kind of server."""

    def headers(self, url: str, /) -> Mapping[str, str]:
        """What a handshake needs besides."""
        ...

    def greet(self, line: Connection, url: str, *, watch: bool) -> None:
        """Whatever must be said before messages count. `watch`: be told what is written."""
        ...

    def prepare(self, line: Connection, /) -> None:
        """Make what there has to be before anybody writes to it."""
        ...

    def messages(self, writer: int, count: int) -> list[bytes]:
        """What one writer sends: each sets its own key of one document to another value."""
        ...

    def count(self, payload: bytes, /) -> int:
        """How many messages of a writer this tells of."""
        ...

    def answer(self, payload: bytes, message: bytes, /) -> bool | None:
        """Whether this says that a message was taken, or refused; None if it says neither."""
        ...


class RelaySpeech:
    """Everything comes back as it was sent."""

    def headers(self, _url: str, /) -> Mapping[str, str]:
        return {}

    def greet(self, line: Connection, url: str, *, watch: bool) -> None:
        """It is enough to be connected."""

    def prepare(self, line: Connection, /) -> None:
        """Nothing is kept."""

    def messages(self, writer: int, count: int) -> list[bytes]:
        return [json.dumps({"doc": "board", "key": f"w{writer}", "value": each}).encode() for each in range(count)]

    def count(self, _payload: bytes, /) -> int:
        return 1

    def answer(self, payload: bytes, message: bytes, /) -> bool | None:
        return True if payload == message else None


class YSpeech(RelaySpeech):
    """Updates come back as they were sent; the server says some other things besides."""

    def messages(self, writer: int, count: int) -> list[bytes]:
        lines = Path(os.environ[UPDATES]).read_text().splitlines()
        found = [base64.b64decode(each) for each in json.loads(lines[writer])]
        assert len(found) >= count, f"{len(found)} updates were made, {count} are needed"
        return found[:count]

    def count(self, payload: bytes, /) -> int:
        return payload[:2] == b"\x00\x02"


class HeadwaterSpeech:
    """Frames of `headwater.sync`. Those who watch the same are sent the same bytes, so each is taken apart once."""

    def __init__(self) -> None:
        self._news = lru_cache(maxsize=4096)(_news)
        self._token: str | None = None

    def headers(self, url: str, /) -> Mapping[str, str]:
        if self._token is None:
            parts = urlsplit(url)
            self._token = find_local_token(parts.hostname or "", parts.port or 0)
        return {"Sec-WebSocket-Protocol": SUBPROTOCOL, "Authorization": f"Bearer {self._token}"}

    def greet(self, line: Connection, url: str, *, watch: bool) -> None:
        line.say(encode_frame(Hello((VERSION,), "bench")))
        _expected(line, Welcome)
        line.say(encode_frame(Open(urlsplit(url).path.strip("/"))))
        _expected(line, SpaceOpened)
        if watch:
            line.say(encode_frame(Watch(1, ((BOARD, 0),))))
            _expected(line, Docs)

    def prepare(self, line: Connection, /) -> None:
        """Make the document, with a key for each writer."""
        keys = {f"w{writer}": -1 for writer in range(WRITERS_MAX)}
        line.say(encode_frame(Transact(1, (SetDoc(BOARD, freeze(keys)),))))
        _expected(line, News)

    def messages(self, writer: int, count: int) -> list[bytes]:
        return [
            encode_frame(Transact(each + 1, (PatchDoc(BOARD, (Replace((f"w{writer}",), each),)),)))
            for each in range(count)
        ]

    def count(self, payload: bytes, /) -> int:
        return len(self._news(payload))

    def answer(self, payload: bytes, _message: bytes, /) -> bool | None:
        for new in self._news(payload):
            match new:
                case Judged(_, verdict):
                    return isinstance(verdict, Committed)
                case CommitFailed(number, _, message):
                    raise RuntimeError(f"commit {number} failed: {message}")
                case Written():
                    pass
        return None


def _news(payload: bytes) -> tuple[New, ...]:
    match read_server(payload):
        case News(_, news):
            return news
        case ErrorFrame(code, message):
            raise RuntimeError(f"the server says {code}: {message}")
        case _:
            return ()


def _expected(line: Connection, kind: type[FromServer]) -> None:
    frame = read_server(line.until(lambda _: True))
    assert isinstance(frame, kind), f"{kind.__name__} was expected; {frame} came"


SPEECHES: Final[dict[str, Callable[[], Speech]]] = {
    "relay": RelaySpeech,
    "y-websocket": YSpeech,
    "headwater": HeadwaterSpeech,
}
