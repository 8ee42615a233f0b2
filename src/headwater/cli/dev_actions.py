"""Development: dev, which runs an app, starts it again when its sources change, and has the Studio beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import webbrowser
from contextlib import suppress
from types import FrameType
from typing import Final

import click

from headwater.cli.dev_program import CHANGED, run_program
from headwater.cli.exits import Exit
from headwater.cli.output import note
from headwater.cli.target import Target, listen_address
from headwater.client.server_url import is_server
from headwater.errors import HeadwaterError, UsageError
from headwater.host.postgres.database_url import is_database
from headwater.host.space_files import default_url, locate
from headwater.inspect.resolve import socket_place
from headwater.inspect.socket_client import SocketInspector
from headwater.machine import machine
from headwater.studio.limits import LINK_S
from headwater.studio.local_host import FileHost
from headwater.studio.local_server import LocalStudioServer

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)

_LOOK_S: Final = 0.2
"""Seconds between two looks for a program that is being started."""


def dev(
    *,
    name: str,
    concurrency: int | None,
    force: bool,
    ingress: str | None,
    port: int | None,
    read_only: bool,
    no_browser: bool,
    no_studio: bool,
    is_program: bool,
    target: Target,
) -> None:
    """Carry out `dev`."""
    if is_program:
        code = run_program(name=name, concurrency=concurrency, force=force, ingress=ingress, target=target)
        raise click.exceptions.Exit(code)
    if ingress is not None:
        listen_address("--ingress", ingress)
    url = _url(name, target)
    if not is_server(url):
        # Refused here, and not by each start of the program.
        locate(url, target.space)
    # Arguments are seen by everybody on this machine: the program finds a URL that was not among them by itself.
    words = [name] if target.given_url is None and is_database(url) else [name, "--url", url]
    words += [] if target.space is None else ["--space", target.space]
    words += [] if concurrency is None else ["--concurrency", str(concurrency)]
    words += [] if ingress is None else ["--ingress", ingress]
    words += ["--force"] if force else []
    beside = None if no_studio else _StudioBeside(url, target, port=port, read_only=read_only, opens=not no_browser)
    try:
        code = _Supervisor(words).run()
    finally:
        if beside is not None:
            beside.end()
    if code != Exit.DONE:
        raise click.exceptions.Exit(code)


def _url(name: str, target: Target) -> str:
    """The given URL, or the default; where there is no file yet, one named after the module."""
    if target.given_url is not None:
        return target.given_url
    try:
        return default_url()
    except UsageError as error:
        if error.facts.get("found") != ():
            raise
    return f"{name.partition(':')[0].rpartition('.')[2]}.db"


class _StudioBeside:
    """The Studio of the program, from its first start on. Later starts are seen by the same page."""

    def __init__(self, url: str, target: Target, *, port: int | None, read_only: bool, opens: bool) -> None:
        self._url = url
        self._target = target.at(url)
        self._port = port
        self._read_only = read_only
        self._opens = opens
        self._is_ended = machine().event()
        self._server: LocalStudioServer | None = None
        if url == "memory:":
            note("memory: belongs to the program, so there is no Studio beside it")
            return
        self._thread = machine().thread(self._run, name="headwater-dev-studio")
        self._thread.start()

    def _run(self) -> None:
        while not self._is_there():
            if self._is_ended.wait(_LOOK_S):
                return
        try:
            token = None if self._target.server is None else self._target.server.token
            host = FileHost(self._url, self._target.space, token=token, read_only=self._read_only)
            server = self._server = LocalStudioServer(host, port=self._port).start()
        except HeadwaterError as error:
            note(f"there is no Studio: {error.message}")
            return
        link = server.link()
        note(f"the Studio: {link} (the link works once, for {LINK_S:.0f} s)")
        if self._opens:
            # Without a browser the link is enough.
            with suppress(webbrowser.Error, OSError):
                webbrowser.open(link)

    def _is_there(self) -> bool:
        """Whether the program has the space open."""
        if is_server(self._url):
            return True
        place = socket_place(locate(self._url, self._target.space))
        found = None if place is None else SocketInspector.connect(place)
        if found is not None:
            found.close()
        return found is not None

    def end(self) -> None:
        """End it, and release what it has open."""
        self._is_ended.set()
        if self._server is not None:
            self._server.stop()


class _Supervisor:
    """Starts the program, starts it again when it asks for that, and passes signals on to it."""

    def __init__(self, words: list[str]) -> None:
        # Signals of the terminal go to this process alone, which passes them on: so each is heard once.
        self._command = [sys.executable, "-P", "-m", "headwater", "dev", "--program", *words]
        self._program: subprocess.Popen[bytes] | None = None
        self._is_ending = False

    def run(self) -> int:
        """Run until a signal. Returns the exit code."""
        before = {number: signal.signal(number, self._hear) for number in _SIGNALS}
        try:
            while True:
                code = self._once()
                if code != CHANGED or self._is_ending:
                    break
                note("starting again")
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        if code < 0:
            note(f"the program was ended by {signal.Signals(-code).name}")
            return int(Exit.FAILED)
        return int(Exit.DONE) if code == CHANGED else code

    def _once(self) -> int:
        # A changed file of the same size and second would be taken from the cache of compiled files.
        environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
        self._program = subprocess.Popen(  # noqa: S603  # this very command
            self._command, stdin=subprocess.DEVNULL, env=environment, start_new_session=True
        )
        if self._is_ending:
            # The signal came just before.
            self._program.terminate()
        while True:
            # With a timeout: a signal that another thread receives does not interrupt this wait, and its handler is
            # called in this thread only.
            with suppress(subprocess.TimeoutExpired):
                return self._program.wait(_LOOK_S)

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self._is_ending = True
        if self._program is not None:
            self._program.send_signal(number)
