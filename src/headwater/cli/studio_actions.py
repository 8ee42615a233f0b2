"""The local Studio: studio."""

from __future__ import annotations

import signal
import webbrowser
from contextlib import suppress

import click

from headwater.cli.output import note, write
from headwater.cli.target import Target
from headwater.host.standard_streams import last
from headwater.studio.local_host import FileHost
from headwater.studio.local_server import LocalStudioServer


def serve_studio(*, place: str | None, read_only: bool, no_browser: bool, port: int | None, target: Target) -> None:
    """Carry out `studio`."""
    if place is not None:
        if target.given_url is not None:
            raise click.UsageError("Name the space once: as an argument, or with --url.")
        target = target.at(place)
    last()
    token = None if target.server is None else target.server.token
    host = FileHost(target.url, target.space, token=token, read_only=read_only)
    server = LocalStudioServer(host, port=port)
    with server:
        link = server.link()
        kind = ", read-only" if read_only else ""
        note(f"the Studio of {host.title}{kind}; the link works once, for 60 s, and Ctrl-C ends it")
        write(link)
        if not no_browser:
            # Without a browser the link is enough.
            with suppress(webbrowser.Error, OSError):
                webbrowser.open(link)
        signal.signal(signal.SIGTERM, _interrupt)
        with suppress(KeyboardInterrupt):
            server.wait()


def _interrupt(*_frame: object) -> None:
    raise KeyboardInterrupt
