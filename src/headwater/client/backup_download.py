"""A backup of a space of a server, written to a file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Final

from headwater.client.server_pages import OK, page, refusal, space_path
from headwater.client.server_url import ServerUrl
from headwater.errors import UnavailableError

_CHUNK: Final = 1024 * 1024


def download(url: ServerUrl, token: str | None, file: Path, advance: Callable[[int, int], None]) -> int:
    """Write a whole space into a file, as of one moment. Returns its newest sequence number."""
    with page(url, token, space_path(url, "backup")) as response:
        if response.status != OK:
            raise refusal(url, response, f"{url} gives no backup")
        total, done = int(response.headers["content-length"]), 0
        with file.open("wb") as writing:
            while data := response.read(_CHUNK):
                writing.write(data)
                done += len(data)
                advance(done, total)
        if done != total:
            message = f"the backup of {url} was broken off after {done:,} of {total:,} bytes; try again"
            raise UnavailableError(message, url=str(url))
        return int(response.headers["headwater-seq"])
