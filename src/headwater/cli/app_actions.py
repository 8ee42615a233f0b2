"""The process that runs an app: run."""

from __future__ import annotations

from headwater.cli.app_loading import load_app
from headwater.cli.exits import Exit
from headwater.cli.hosted_app import HostedApp
from headwater.cli.output import note
from headwater.cli.target import Target, listen_address
from headwater.host.standard_streams import last
from headwater.host.termination import Termination
from headwater.runtime.options import Options
from headwater.workflow.workflow_limits import CONCURRENCY


def run_app(
    *, name: str, concurrency: int | None, force: bool, ingress: str | None, quiet: bool, target: Target
) -> None:
    """Carry out `run`."""
    address = None if ingress is None else listen_address("--ingress", ingress)
    app = load_app(name, "run")
    # Flush each line. The app continues if the reader of its output ends.
    last()
    hosted = HostedApp(app, Options(space=target.space, force=force), concurrency or CONCURRENCY, address, quiet=quiet)
    with Termination(Exit.INTERRUPTED) as signals:
        ended = hosted.run(target.given_url, signals)
    if not quiet:
        left = "" if ended else "; some runs did not stop in time, and are taken up by the next start"
        note(f"{app.name} has ended{left}")
