"""The commands of `headwater` under the names that users type, for the page of the command line.

`headwater.cli.main` maps these names to declarations; a declaration by itself has the name of its function.
"""

from __future__ import annotations

import copy as _copies  # not under a name of a command

import click

from headwater.cli.main import cli


def __getattr__(name: str) -> click.Command:
    command = cli.get_command(click.Context(cli), name)
    if command is None:
        raise AttributeError(f"headwater has no command {name!r}")
    named = _copies.copy(command)
    named.name = name
    return named
