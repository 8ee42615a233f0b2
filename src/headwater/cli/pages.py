"""Pages of a server, for commands: a space as a file, and whether the server is ready."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.client.server_pages import OK, REFUSAL_MAX, page, refusal, space_path
from headwater.errors import UnavailableError

if TYPE_CHECKING:
    from pathlib import Path

    from headwater.cli.output import Progress
    from headwater.cli.remote import Server

_CHUNK: Final = 256 * 1024


def download(server: Server, file: Path, advance: Progress) -> int:
    """A whole space into a file, as of one moment: the number of its newest commit."""
    url = server.url
    with page(url, server.token, space_path(url, "backup")) as response:
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


def readiness(server: Server) -> tuple[bool, str]:
    """Whether it accepts connections now, and its message."""
    with page(server.url, server.token, "/readyz") as response:
        return response.status == OK, response.read(REFUSAL_MAX).decode(errors="replace").strip()
