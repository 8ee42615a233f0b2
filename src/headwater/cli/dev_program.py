"""The process of `headwater dev` that runs the app. It ends when a source has changed, and is started again."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from headwater.cli.app_loading import load_app
from headwater.cli.exits import Exit, report
from headwater.cli.hosted_app import HostedApp
from headwater.cli.output import note
from headwater.cli.source_watch import POLL_S, SourceWatch, own_sources, sources_of_failure
from headwater.cli.target import Target, listen_address
from headwater.errors import SpaceHeldError
from headwater.host.standard_streams import last
from headwater.host.termination import Termination
from headwater.machine import machine
from headwater.runtime.options import Options
from headwater.workflow.workflow_limits import CONCURRENCY

CHANGED: Final = 75
"""The exit code that asks for another start. Python, shells and signals use none that is near it."""

READ_S: Final = 5.0
"""Seconds to wait for the Studio, which may read a closed file."""


def run_program(*, name: str, concurrency: int | None, force: bool, ingress: str | None, target: Target) -> int:
    """Run the app until a signal, a change of its sources, or the end of `headwater dev`. Returns the exit code."""
    last()
    address = None if ingress is None else listen_address("--ingress", ingress)
    module = name.partition(":")[0]
    watch = SourceWatch()
    with Termination(Exit.INTERRUPTED) as signals:
        changes = _Changes(watch, module.partition(".")[0], signals)
        try:
            app = load_app(name, "dev")
            changes.follow()
            options = Options(space=target.space, force=force)
            hosted = HostedApp(app, options, concurrency or CONCURRENCY, address, quiet=False)
            _patiently(lambda: hosted.run(target.given_url, signals))
        except Exception as error:  # noqa: BLE001  # whatever the author's code raises is reported
            code = report(error)
            watch.add(sources_of_failure(module, error))
            watch.add_folder(Path.cwd())
            changes.follow()
            if not signals.is_near:
                note("it does not run; it is started again when a source file changes (Ctrl-C ends this)")
            while signals.wait(None):
                pass
            return int(code) if changes.found is None else CHANGED
    return int(Exit.DONE) if changes.found is None else CHANGED


def _patiently(run: Callable[[], object]) -> None:
    """Try again while the Studio of this command reads the file: it takes the time of an answer."""
    end = machine().monotonic() + READ_S
    while True:
        try:
            run()
        except SpaceHeldError as error:
            if error.facts.get("pid") != os.getppid() or machine().monotonic() > end:
                raise
        else:
            return
        machine().sleep(POLL_S / 5)


class _Changes:
    """Looks for changes in a thread, and ends the process when it finds one, or when its parent has ended."""

    def __init__(self, watch: SourceWatch, package: str, signals: Termination) -> None:
        self._watch = watch
        self._package = package
        self._signals = signals
        self._parent = os.getppid()
        self._is_begun = False
        self.found: Path | None = None

    def follow(self) -> None:
        """Begin to look, or look at further files from now on."""
        self._watch.add(own_sources(self._package))
        if not self._is_begun:
            self._is_begun = True
            machine().thread(self._look, name="headwater-sources").start()

    def _look(self) -> None:
        while not self._signals.is_near:
            # What a function imports when it runs counts from then on.
            self._watch.add(own_sources(self._package))
            self.found = self._watch.changed()
            if self.found is not None:
                note(f"{_shown(self.found)} has changed")
                self._signals.request()
            elif os.getppid() != self._parent:
                self._signals.request()
            else:
                machine().sleep(POLL_S)


def _shown(file: Path) -> str:
    here = Path.cwd()
    return str(file.relative_to(here)) if file.is_relative_to(here) else str(file)
