"""Development: dev, which runs an app, starts it again when its sources change, and has the Studio beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import ExitStack
from types import FrameType
from typing import Final

import click

from headwater.cli.dev_program import CHANGED, run_program
from headwater.cli.exits import Exit
from headwater.cli.output import note
from headwater.cli.target import Target, listen_address
from headwater.errors import UsageError
from headwater.host.space_files import default_url

_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def dev(
    *,
    name: str,
    concurrency: int | None,
    force: bool,
    ingress: str | None,
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
    words = [name, "--url", url]
    words += [] if target.space is None else ["--space", target.space]
    words += [] if concurrency is None else ["--concurrency", str(concurrency)]
    words += [] if ingress is None else ["--ingress", ingress]
    words += ["--force"] if force else []
    with ExitStack():
        code = _Supervisor(words).run()
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
        return self._program.wait()

    def _hear(self, number: int, _frame: FrameType | None) -> None:
        self._is_ending = True
        if self._program is not None:
            self._program.send_signal(number)
