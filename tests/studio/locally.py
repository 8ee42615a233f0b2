"""A local Studio in this process, and one tab of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from click.testing import CliRunner

from headwater.cli.main import cli
from headwater.studio.local_host import FileHost, LocalHost
from headwater.studio.local_server import LocalStudioServer
from tests.studio.pages import PageClient, page_of


@contextmanager
def studio_of(place: str | LocalHost, *, read_only: bool = False) -> Iterator[LocalStudioServer]:
    """The Studio of a file or folder, on any free port."""
    host = FileHost(place, read_only=read_only) if isinstance(place, str) else place
    with LocalStudioServer(host, port=0) as server:
        yield server


@contextmanager
def local_page(place: str | LocalHost, *, read_only: bool = False) -> Iterator[PageClient]:
    """A tab of such a Studio that has entered with its link."""
    with studio_of(place, read_only=read_only) as server, entered(server) as page:
        yield page


@contextmanager
def entered(server: LocalStudioServer) -> Iterator[PageClient]:
    """Another tab."""
    with page_of(server.address, code=server.link().partition("#c=")[2]) as page:
        yield page


def command(*words: object) -> Any:
    """What a command prints with --json."""
    result = CliRunner().invoke(cli, [*map(str, words), "--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)
