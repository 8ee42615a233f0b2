"""Checks of this machine, of a server, or of a database: doctor."""

from __future__ import annotations

from pathlib import Path

import click

from headwater.cli.care_syntax import CHECK
from headwater.cli.exits import Exit
from headwater.cli.output import Form, is_terminal, json_text, show, write
from headwater.cli.target import Target
from headwater.client.server_checks import check_server
from headwater.errors import NotFoundError, UsageError
from headwater.host.machine_checks import Check, check_libraries, check_machine
from headwater.host.postgres.database_checks import check_database
from headwater.values.text import count_text


def examine(*, target: Target, form: Form) -> None:
    """Carry out `doctor`."""
    database = target.database
    if database is not None:
        checks = [*check_libraries(), *(Check(*each) for each in check_database(database))]  # type: ignore[arg-type]
    elif target.server is None:
        checks = list(check_machine(_path(target)))
    else:
        checks = [*check_libraries(), *(Check(*each) for each in check_server(target.server.url, target.server.token))]
    records = [dict(zip(("check", "state", "found"), check, strict=True)) for check in checks]
    failed = sum(check.state == "failed" for check in checks)
    warned = sum(check.state == "warning" for check in checks)
    if form is not None:
        write(json_text({"ok": not failed, "failed": failed, "warnings": warned, "checks": records}))
    else:
        show(records, CHECK, None, empty="")
        if is_terminal():
            verdict = f"{count_text(failed, 'check')} failed" if failed else "all well"
            write(f"\n{verdict}{', ' + count_text(warned, 'warning') if warned else ''}")
    if failed:
        raise click.exceptions.Exit(Exit.FAILED)


def _path(target: Target) -> Path | None:
    """The file or folder to check; None for memory. A named file must exist."""
    try:
        url = target.url
    except UsageError:
        return Path.cwd()
    if target.path is None:
        return None
    named = Path(url)
    if not named.exists():
        raise NotFoundError(f"there is no {'folder' if url.endswith('/') else 'file'} {url}", url=url)
    return named.resolve()
