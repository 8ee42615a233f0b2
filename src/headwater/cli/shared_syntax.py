"""What the declarations of commands share: options, groups, and the link from a command to its action.

The `*_syntax` modules say what can be typed, the `*_actions` modules what is done then. A module of actions imports all
it needs and is imported when its command runs, so that `--help` stays quick.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import update_wrapper
from importlib import import_module
from pathlib import Path
from typing import Any, Final, TypeAlias, TypeVar

import click

from headwater.cli.output import Column
from headwater.values.suggestions import CLOSE

F = TypeVar("F", bound=Callable[..., Any])
Decorator: TypeAlias = Callable[[Callable[..., Any]], Callable[..., Any]]

_FILES: Final = "FILE.db, FOLDER/ or memory:"
_SERVERS: Final = "FILE.db, FOLDER/ or ws://HOST:PORT/SPACE"
_ELSE: Final = "Default: $HEADWATER_URL, headwater.toml, or the only *.db here."


# --- commands -------------------------------------------------------------------------------------------------


def action(module: str, *options: Decorator, **fixed: object) -> Decorator:
    """Link a command to the function of the same name in a module of actions.

    `options`: the options that several commands have, in the order of the help text. Options that name a space arrive
    as one `target`. `fixed`: arguments that are not options.
    """

    def link(declared: Callable[..., Any]) -> Callable[..., Any]:
        def run(**given: Any) -> None:  # noqa: ANN401  # click's signature
            found = getattr(import_module(f"headwater.cli.{module}"), declared.__name__)
            if "url" in given:
                target = import_module("headwater.cli.target").Target
                names = [name for name in ("url", "space", "branch", "app", "token_file") if name in given]
                given["target"] = target(**{name: given.pop(name) for name in names})
            found(**given, **fixed)

        linked: Callable[..., Any] = update_wrapper(run, declared)
        for option in reversed(options):
            linked = option(linked)
        return linked

    return link


class Group(click.Group):
    """Commands with subcommands, in the order of their declaration. `default`: the command without a name."""

    def __init__(self, *args: Any, default: str | None = None, **extra: Any) -> None:  # noqa: ANN401  # click's signature
        super().__init__(*args, **extra)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        if self._default is not None and not is_named:
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(self.commands)

    def unknown(self, name: str) -> tuple[str, str]:
        """The full name of an unknown command, and the hint if there is no similar name."""
        return f"'{self.name} {name}'", f"There is {', '.join(self.commands)}."

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        known = self.list_commands(ctx)
        if args[0] not in known and not args[0].startswith("-"):
            name, hint = self.unknown(args[0])
            close = get_close_matches(args[0], known, n=3, cutoff=CLOSE)
            hint = f"Did you mean {' or '.join(close)}?" if close else hint
            raise click.UsageError(f"There is no command {name}. {hint}", ctx)
        return super().resolve_command(ctx, args)


# --- which space ----------------------------------------------------------------------------------------------


def _not_empty(_ctx: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("the name is empty")
    return value


def on_space(command: F) -> F:
    """`--url` and `--space`."""
    space_help = "Choose a space of a folder. Default: main."
    command = click.option("--space", metavar="NAME", callback=_not_empty, help=space_help)(command)
    return click.option("--url", metavar="URL", help=f"Use the data at this URL: {_FILES}. {_ELSE}")(command)


def on_server(command: F) -> F:
    """`--url`, `--space` and `--token-file`."""
    token_help = "Read the token for a server from a file. Default: $HEADWATER_TOKEN, or the token of your own server."  # noqa: S105
    path = click.Path(path_type=Path, dir_okay=False)
    command = click.option("--token-file", type=path, metavar="FILE", help=token_help)(command)
    space_help = "Choose a space of a folder. Default: main."
    command = click.option("--space", metavar="NAME", callback=_not_empty, help=space_help)(command)
    return click.option("--url", metavar="URL", help=f"Use the data at this URL: {_SERVERS}. {_ELSE}")(command)


def on_branch(command: F) -> F:
    """`--branch`."""
    return click.option("--branch", metavar="B", default="main", help="Use this branch. Default: main.")(command)


def of_app(command: F) -> F:
    """`--app`: an app that has the space open."""
    return click.option("--app", metavar="NAME", help="Choose an app, if several have the space open.")(command)


def with_app(command: F) -> F:
    """`--app`: also an app that the command opens."""
    text = "Use this app. MODULE:APP is imported, and opened if no process has the space open; NAME has it open."
    return click.option("--app", metavar="APP", help=text)(command)


# --- which part, and how --------------------------------------------------------------------------------------


def at_seq(command: F) -> F:
    """`--at`, for reading the past."""
    help_text = "Read as of this sequence number. Default: the newest."
    return click.option("--at", metavar="SEQ", type=click.IntRange(min=0), help=help_text)(command)


def wait_options(command: F) -> F:
    """`--timeout` and `--no-wait`."""
    command = click.option("--no-wait", is_flag=True, help="Do not wait for the result.")(command)
    text = "Wait at most this long for the result."
    return click.option("--timeout", metavar="DURATION", default="10s", show_default=True, help=text)(command)


def to_file(command: F) -> F:
    """`--output` and `--force`."""
    command = click.option("--force", is_flag=True, help="Replace FILE if it exists.")(command)
    text = "Write to a file, whole or not at all."
    return click.option("-o", "--output", metavar="FILE", type=Path, help=text)(command)


def numbered(name: str) -> Decorator:
    """An argument: a number that another command lists."""
    return click.argument("number", metavar=name, type=click.IntRange(min=1))


# --- output ---------------------------------------------------------------------------------------------------


def _fields(record: Iterable[Column | str]) -> str:
    names = dict.fromkeys(each if isinstance(each, str) else each.name for each in record)
    return f" Fields: {', '.join(names)}." if names else ""


def as_object(*record: Column | str) -> Decorator:
    """`--json`, for commands with one answer. `record`: its fields."""
    return click.option(
        "--json", "form", flag_value="json", default=None, help=f"Print one JSON object.{_fields(record)}"
    )


def as_list(*record: Column | str) -> Decorator:
    """`--json` and `--jsonl`, for commands with many answers."""

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        command = click.option("--jsonl", "form", flag_value="jsonl", help="Print JSON objects, one per line.")(command)
        text = f"Print JSON in one piece.{_fields(record)}"
        return click.option("--json", "form", flag_value="json", default=None, help=text)(command)

    return decorate
