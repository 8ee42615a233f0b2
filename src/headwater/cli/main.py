"""The `headwater` command and where its subcommands are: each is imported when it is asked for.

Importing this package loads click and nothing heavier: the store, SQLite and rich come when a command runs.
"""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module
from typing import Any, Final

import click

from headwater import __version__
from headwater.cli.exits import Exit, report

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Start": {
        "run": "hosting:run_app",
    },
    "Data": {
        "ls": "data:list_documents",
        "get": "data:get_value",
        "set": "change:set_value",
        "watch": "watch:watch_value",
        "send": "send:send_event",
        "history": "data:show_history",
        "diff": "data:show_diff",
        "export": "exchange:export_space",
        "import": "exchange:import_space",
    },
    "Functions": {
        "graph": "graph:show_graph",
        "why": "graph:explain_node",
        "top": "activity:show_top",
        "trace": "trace:show_trace",
        "stats": "activity:show_stats",
        "events": "events:events",
        "pieces": "pieces:pieces",
    },
    "Workflows": {
        "workflow": "workflow:workflow",
        "runs": "runs:runs",
        "inputs": "inputs:inputs",
        "publish": "publish:publish_event",
        "approve": "deciding:approve_run",
        "reject": "deciding:reject_run",
        "reconcile": "deciding:reconcile_run",
    },
    "Branches": {
        "branches": "branches:list_branches",
        "fork": "branches:fork_branch",
        "merge": "branches:merge_branch",
    },
    "Sharing": {
        "serve": "serve:serve",
        "token": "token:token",
    },
    "Care": {
        "verify": "care:verify_spaces",
        "backup": "copies:back_up",
        "restore": "copies:restore_space",
        "compact": "care:compact_space",
        "doctor": "doctor:examine",
        "explain": "about:explain",
        "version": "about:show_version",
    },
}
"""Where each command is: a module of this package, and a name in it."""

_COMMANDS: Final = {name: where for section in SECTIONS.values() for name, where in section.items()}

_FRAMES_MAX: Final = 4000
"""Of Python's stack. A document may be 512 levels deep, and writing it as JSON takes a few frames for each."""

_EPILOG: Final = """
Exit codes: 0 done, 1 failed or findings, 2 used wrongly, 3 not found,
4 conflict or refused, 5 waits for a person, 6 timed out, 130 interrupted."""


class Headwater(click.Group):
    """The group of all commands, found by the table above."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # likewise
        where = _COMMANDS.get(cmd_name)
        if where is None:
            return None
        module, _, name = where.partition(":")
        command: click.Command = getattr(import_module(f"headwater.cli.{module}"), name)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0]
        if name not in _COMMANDS and not name.startswith("-"):
            from difflib import get_close_matches

            close = get_close_matches(name, _COMMANDS, n=3, cutoff=0.65)
            hint = f"Did you mean {' or '.join(close)}?" if close else "`headwater --help` lists them."
            raise click.UsageError(f"There is no command {name!r}. {hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        for title, commands in SECTIONS.items():
            found = [(name, self.get_command(ctx, name)) for name in commands]
            rows = [(name, command.get_short_help_str(limit=90)) for name, command in found if command is not None]
            with formatter.section(title):
                formatter.write_dl(rows)

    def invoke(self, ctx: click.Context) -> Any:  # noqa: ANN401  # click's signature
        try:
            result = super().invoke(ctx)
            if sys.stdout is not None:
                sys.stdout.flush()
        except BrokenPipeError:
            # Whoever read the output has seen enough (`| head`): that is their decision, not a failure.
            abandon_stdout()
            raise click.exceptions.Exit(Exit.DONE) from None
        return result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "headwater",
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,  # noqa: ANN401  # click's signature
    ) -> Any:  # noqa: ANN401  # likewise
        """Run a command; whatever goes wrong becomes one line and an exit code."""
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES_MAX))
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra) or Exit.DONE
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the last line: users see no traceback
            code = report(error)
        if standalone_mode:
            sys.exit(int(code))
        return code


def abandon_stdout() -> None:
    """Nobody reads any more: what is left in the buffer goes nowhere, silently."""
    with suppress(OSError, ValueError, AttributeError):
        descriptor = os.open(os.devnull, os.O_WRONLY)
        os.dup2(descriptor, sys.stdout.fileno())
        os.close(descriptor)


@click.group(
    "headwater",
    cls=Headwater,
    epilog=_EPILOG,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(__version__, "-V", "--version", message="headwater %(version)s")
def cli() -> None:
    """Durable documents: look at them, change them, take care of them.

    A PATH is document/key/key; numbers index lists. A slash inside a key is written ~1, a tilde ~0. Documents of
    one user are user:NAME!document.
    """


def main() -> None:
    """The entry point. Output that the terminal's encoding does not have is escaped rather than fatal."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    cli()
