"""The `headwater` command and where its subcommands are: each is imported when it is asked for.

Importing this package loads click and nothing heavier: the store, SQLite and rich come when a command runs.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Sequence
from importlib import import_module
from typing import Any, Final

import click

from headwater import __version__
from headwater.cli.exits import Exit, report
from headwater.host.standard_streams import ReaderGoneError, abandon, finish, set_up

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
        except ReaderGoneError:
            # The reader of the output has seen enough (`| head`): that is no failure.
            abandon()
            raise click.exceptions.Exit(Exit.DONE) from None
        except BrokenPipeError as error:
            # A connection of the command. Click takes every broken pipe for one of its output, and ends in silence.
            raise ConnectionResetError(errno.ECONNRESET, "the other side has closed the connection") from error
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
            # What is left in a buffer is written here: the interpreter would do so after this, and end with 120.
            sys.exit(int(finish(code)))
        return code


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
    """The entry point."""
    set_up()
    cli()
