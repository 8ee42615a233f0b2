"""The body of an answer: read piece by piece, unpacked, and never more of it than is allowed.

httpx would unpack whatever came in one piece, whatever comes of it: a thousand times as much. So it is done here.

Must never know: what the body means.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import AsyncIterator
from typing import Final

import msgspec

from headwater.errors import HeadwaterError, HttpAnswerError
from headwater.http.http_limits import PACKED_ROOM
from headwater.values.tree import Value, freeze

GZIP: Final = 31
"""For zlib: gzip, and nothing else."""

_CHARSETS: Final = re.compile(
    r"utf-?(8|16|32)([-_]?[bl]e)?|(us-)?ascii|iso-?8859-\d+|latin-?\d+|windows-\d+|cp\d+|koi8-[ru]|shift_jis"
    r"|euc-(jp|kr)|gb(2312|k|18030)|big5",
    re.ASCII,
)
"""Of those that Python knows, the ones that pages are written in: the others do strange things."""


class ResponseBody:
    """What has come of a body so far."""

    def __init__(self, encoding: str, bytes_max: int, shown: str) -> None:
        self._shown = shown
        self._bytes_max = bytes_max
        self._parts: list[bytes] = []
        self.size: int = 0
        self._packed = 0
        named = encoding.strip().lower()
        if named not in ("", "identity", "gzip", "x-gzip"):
            message = f"{shown} answered packed as {named[:40]!r}, which it was not asked for; gzip is expected"
            raise HttpAnswerError(message, url=shown)
        self._is_packed = named.endswith("gzip")
        self._unpacking = zlib.decompressobj(GZIP) if self._is_packed else None
        self._is_begun = False

    def expect(self, length: str) -> None:
        """What the server says will come: who announces too much is not listened to."""
        if not self._is_packed and length.isascii() and length.isdigit() and int(length[:20]) > self._bytes_max:
            raise self._too_large()

    def take(self, chunk: bytes) -> None:
        """One more piece. Raises HttpAnswerError if it is too much, or cannot be unpacked."""
        if not self._is_packed:
            self._add(chunk)
            return
        self._packed += len(chunk)
        # What unpacks to nothing, for ever, is too much as well.
        if self._packed > self._bytes_max + self._bytes_max // 64 + PACKED_ROOM:
            raise self._too_large()
        try:
            self._unpack(chunk)
        except zlib.error as error:
            raise HttpAnswerError(f"{self._shown} answered gzip that is broken: {error}", url=self._shown) from None

    def _unpack(self, chunk: bytes) -> None:
        data = chunk
        while data:
            if self._unpacking is None:
                # Behind the end of a part there may be another; and zeros, as tapes are filled up.
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._unpacking = zlib.decompressobj(GZIP)
            self._is_begun = True
            # One more than there is room for, to see that it is too much; no more, to not be filled up by it.
            self._add(self._unpacking.decompress(data, self._bytes_max - self.size + 1))
            if self._unpacking.eof:
                data = self._unpacking.unused_data
                self._unpacking = None
            else:
                data = self._unpacking.unconsumed_tail

    def _add(self, part: bytes) -> None:
        self.size += len(part)
        self._parts.append(part)
        if self.size > self._bytes_max:
            raise self._too_large()

    def _too_large(self) -> HttpAnswerError:
        message = f"{self._shown} answered more than {self._bytes_max:,} bytes"
        hint = "ask for less of it, or with hw.http.Client(max_bytes=...)"
        return HttpAnswerError(f"{message}; {hint}", url=self._shown, bytes_max=self._bytes_max)

    def end(self) -> bytes:
        """All of it. Raises HttpAnswerError if it broke off."""
        if self._is_begun and self._unpacking is not None:
            raise HttpAnswerError(f"{self._shown} answered gzip that breaks off", url=self._shown)
        return self.so_far()

    def so_far(self) -> bytes:
        """As much as there is, within the limit."""
        return b"".join(self._parts)[: self._bytes_max]


async def start_of(body: ResponseBody, chunks: AsyncIterator[bytes]) -> bytes:
    """The start of a body that is only shown: as far as it goes."""
    try:
        async for chunk in chunks:
            body.take(chunk)
    except HttpAnswerError:
        pass
    return body.so_far()


# --- what it means --------------------------------------------------------------------------------------------


def as_text(body: bytes, charset: str) -> str:
    """Text in the charset that the server names, or UTF-8; what cannot be read becomes U+FFFD."""
    named = charset.strip("\"' ").lower()
    chosen = named if _CHARSETS.fullmatch(named) else "utf-8"
    try:
        text = body.decode(chosen, "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    return text.removeprefix("\ufeff")


def as_json(body: bytes, shown: str) -> Value:
    """A value that can be kept. Raises HttpAnswerError."""
    try:
        return freeze(msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf")))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = "nothing" if not body else f"{as_text(body[:60], '')!r}"
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        message = f"{shown} answered {what}, which is no JSON: {reason}; hw.http.text takes any text"
        raise HttpAnswerError(message, url=shown) from None
    except HeadwaterError as error:
        raise HttpAnswerError(f"{shown} answered JSON that cannot be kept: {error.message}", url=shown) from None
