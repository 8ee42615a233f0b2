"""Commands with subcommands: in the order in which they are written, and a name that is close is suggested.

Must never know: which commands there are.
"""

from __future__ import annotations

import click


class Group(click.Group):
    """The group."""

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
