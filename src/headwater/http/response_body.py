"""The body of a response: read and decompressed in chunks, within a limit.

httpx decompresses a chunk as a whole, up to a thousand times its size. So decompression is done here.
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
"""zlib window bits for gzip only."""

_CHARSETS: Final = re.compile(
    r"utf-?(8|16|32)([-_]?[bl]e)?|(us-)?ascii|iso-?8859-\d+|latin-?\d+|windows-\d+|cp\d+|koi8-[ru]|shift_jis"
    r"|euc-(jp|kr)|gb(2312|k|18030)|big5",
    re.ASCII,
)
"""Charsets of web pages. Other codecs of Python do unexpected things."""


class ResponseBody:
    """The part of a body received so far."""

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
        """Check the announced length: too large a body is not read."""
        if not self._is_packed and length.isascii() and length.isdigit() and int(length[:20]) > self._bytes_max:
            raise self._too_large()

    def take(self, chunk: bytes) -> None:
        """Add a chunk. Raises HttpAnswerError if the body is too large, or cannot be decompressed."""
        if not self._is_packed:
            self._add(chunk)
            return
        self._packed += len(chunk)
        # Endless input that decompresses to nothing is too large as well.
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
                # After the end of a gzip member there may be another one, or zero padding.
                data = data.lstrip(b"\0")
                if not data:
                    return
                self._unpacking = zlib.decompressobj(GZIP)
            self._is_begun = True
            # One byte above the limit detects an oversized body without storing it.
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
        """The whole body. Raises HttpAnswerError if it was cut off."""
        if self._is_begun and self._unpacking is not None:
            raise HttpAnswerError(f"{self._shown} answered gzip that breaks off", url=self._shown)
        return self.so_far()

    def so_far(self) -> bytes:
        """What was received, within the limit."""
        return b"".join(self._parts)[: self._bytes_max]


async def start_of(body: ResponseBody, chunks: AsyncIterator[bytes]) -> bytes:
    """The beginning of a body, for a message."""
    try:
        async for chunk in chunks:
            body.take(chunk)
    except HttpAnswerError:
        pass
    return body.so_far()


# --- what it means --------------------------------------------------------------------------------------------


def as_text(body: bytes, charset: str) -> str:
    """Decode with the server's charset, or UTF-8; invalid bytes become U+FFFD."""
    named = charset.strip("\"' ").lower()
    chosen = named if _CHARSETS.fullmatch(named) else "utf-8"
    try:
        text = body.decode(chosen, "replace")
    except LookupError:
        text = body.decode("utf-8", "replace")
    return text.removeprefix("\ufeff")


def as_json(body: bytes, shown: str) -> Value:
    """Parse JSON into a storable value. Raises HttpAnswerError."""
    try:
        return freeze(msgspec.json.decode(body.removeprefix(b"\xef\xbb\xbf")))
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        what = "nothing" if not body else f"{as_text(body[:60], '')!r}"
        reason = "it is nested too deep" if isinstance(error, RecursionError) else str(error)
        message = f"{shown} answered {what}, which is no JSON: {reason}; hw.http.text takes any text"
        raise HttpAnswerError(message, url=shown) from None
    except HeadwaterError as error:
        raise HttpAnswerError(f"{shown} answered JSON that cannot be kept: {error.message}", url=shown) from None
