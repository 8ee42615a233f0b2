"""Commands with subcommands: in the order in which they are written, and a name that is close is suggested.

Must never know: which commands there are.
"""

from __future__ import annotations

from typing import Any

import click


class Group(click.Group):
    """The group. `default`: the command that is meant where none is named."""

    def __init__(self, *args: Any, default: str | None = None, **extra: Any) -> None:  # noqa: ANN401  # click's
        super().__init__(*args, **extra)
        self._default = default

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        is_named = bool(args) and (not args[0].startswith("-") or args[0] in ctx.help_option_names)
        if self._default is not None and not is_named:
            args = [self._default, *args]
        return super().parse_args(ctx, args)

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002  # click's signature
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        if args[0] not in self.commands and not args[0].startswith("-"):
            from headwater.cli.spaces import did_you_mean

            close = did_you_mean(args[0], self.commands).removeprefix("; ")
            hint = close.capitalize() or f"There is {', '.join(self.commands)}."
            raise click.UsageError(f"There is no command '{self.name} {args[0]}'. {hint}", ctx)
        return super().resolve_command(ctx, args)
