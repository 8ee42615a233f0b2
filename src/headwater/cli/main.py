"""The `headwater` command, and which module declares each of its subcommands.

Importing a declaration loads click and nothing heavier: the store, SQLite and rich come when a command runs.
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
from headwater.cli.shared_syntax import Group
from headwater.host.standard_streams import ReaderGoneError, abandon, finish, set_up

SECTIONS: Final[dict[str, dict[str, str]]] = {
    "Start": {
        "run": "workflow_syntax:run_app",
        "dev": "workflow_syntax:dev",
        "studio": "care_syntax:serve_studio",
    },
    "Data": {
        "ls": "data_syntax:list_documents",
        "get": "data_syntax:get_value",
        "set": "data_syntax:set_value",
        "watch": "data_syntax:watch_value",
        "send": "data_syntax:send_event",
        "history": "data_syntax:show_history",
        "diff": "data_syntax:show_diff",
        "export": "data_syntax:export_space",
        "import": "data_syntax:import_space",
    },
    "Collections": {
        "collections": "collection_syntax:collections",
    },
    "Functions": {
        "graph": "function_syntax:show_graph",
        "why": "function_syntax:explain_node",
        "top": "function_syntax:show_top",
        "trace": "function_syntax:show_trace",
        "stats": "function_syntax:show_stats",
        "events": "function_syntax:events",
        "pieces": "function_syntax:pieces",
    },
    "Workflows": {
        "workflow": "workflow_syntax:workflow",
        "runs": "workflow_syntax:runs",
        "inputs": "workflow_syntax:inputs",
        "publish": "workflow_syntax:publish_event",
        "approve": "workflow_syntax:approve_run",
        "reject": "workflow_syntax:reject_run",
        "reconcile": "workflow_syntax:reconcile_run",
    },
    "Branches": {
        "branches": "data_syntax:list_branches",
        "fork": "data_syntax:fork_branch",
        "merge": "data_syntax:merge_branch",
    },
    "Sharing": {
        "serve": "care_syntax:serve",
        "token": "care_syntax:token",
    },
    "Spaces": {
        "spaces": "space_syntax:spaces",
        "copy": "space_syntax:copy_space",
    },
    "Care": {
        "verify": "care_syntax:verify_spaces",
        "backup": "care_syntax:back_up",
        "restore": "care_syntax:restore_space",
        "compact": "care_syntax:compact_space",
        "doctor": "care_syntax:examine",
        "explain": "care_syntax:explain",
        "version": "care_syntax:show_version",
    },
}
"""The declaration of each command: a module of this package, and a name in it."""

_COMMANDS: Final = {name: where for section in SECTIONS.values() for name, where in section.items()}

_FRAMES_MAX: Final = 4000
"""Frames of Python's stack. A document may have 512 levels, and JSON takes a few frames for each."""

_EPILOG: Final = """
Exit codes: 0 done, 1 failed or findings, 2 usage error, 3 not found,
4 conflict or refused, 5 waits for a person, 6 timed out, 130 interrupted."""


class Headwater(Group):
    """The group of all commands."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(_COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:  # noqa: ARG002  # click's signature
        where = _COMMANDS.get(cmd_name)
        if where is None:
            return None
        module, _, name = where.partition(":")
        command: click.Command = getattr(import_module(f"headwater.cli.{module}"), name)
        return command

    def unknown(self, name: str) -> tuple[str, str]:
        return repr(name), "`headwater --help` lists them."

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
            # The reader of the output has ended, as in `| head`. This is no failure.
            abandon()
            raise click.exceptions.Exit(Exit.DONE) from None
        except BrokenPipeError as error:
            # A connection of the command. Click would take it for a closed output, and end without a message.
            raise ConnectionResetError(errno.ECONNRESET, "the other side has closed the connection") from error
        return result

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "headwater",
        complete_var: str | None = None,
        standalone_mode: bool = True,
        **extra: Any,  # noqa: ANN401  # click's signature
    ) -> Any:  # noqa: ANN401  # click's signature
        """Run a command. An error becomes one line and an exit code."""
        sys.setrecursionlimit(max(sys.getrecursionlimit(), _FRAMES_MAX))
        try:
            code = super().main(args, prog_name, complete_var, standalone_mode=False, **extra) or Exit.DONE
        except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001  # the last line: users see no traceback
            code = report(error)
        if standalone_mode:
            # Flush here: the interpreter would do it later, and exit with 120 after an error.
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
    """Read, change and maintain durable documents.

    A PATH is document/key/key; numbers index lists. A slash inside a key is written ~1, a tilde ~0. Documents of
    one user are user:NAME!document.
    """


def main() -> None:
    """The entry point."""
    set_up()
    cli()
