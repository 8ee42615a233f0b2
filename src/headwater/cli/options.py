"""Options that several commands share, worded once.

Must never know: what a command does with them.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

_PLACE = "FILE.db, FOLDER/ or memory:; else $HEADWATER_URL, headwater.toml, or the only *.db here."


def on_space(command: F) -> F:
    """`--url` and `--space`."""
    space_help = "Which space of a folder; main unless named."
    command = click.option("--space", metavar="NAME", callback=_not_empty, help=space_help)(command)
    return click.option("--url", metavar="URL", help=f"Where the data lives: {_PLACE}")(command)


def _not_empty(_ctx: click.Context, _option: click.Parameter, value: str | None) -> str | None:
    if value == "":
        raise click.BadParameter("the name is empty")
    return value


def on_branch(command: F) -> F:
    """`--branch`."""
    return click.option("--branch", metavar="B", default="main", help="The branch; main unless named.")(command)


def at_place(command: F) -> F:
    """`--at`, for reading the past."""
    help_text = "Read as of this sequence number; else the newest."
    return click.option("--at", metavar="SEQ", type=click.IntRange(min=0), help=help_text)(command)


def as_object(command: F) -> F:
    """`--json`, for commands with one answer."""
    return click.option("--json", "form", flag_value="json", default=None, help="One JSON object.")(command)


def as_list(command: F) -> F:
    """`--json` and `--jsonl`, for commands with many answers."""
    command = click.option("--jsonl", "form", flag_value="jsonl", help="JSON objects, one per line.")(command)
    return click.option("--json", "form", flag_value="json", default=None, help="As JSON, in one piece.")(command)
