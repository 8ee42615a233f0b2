"""About Headwater itself: version, explain."""

from __future__ import annotations

import re
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from headwater import __version__, errors
from headwater.cli.exits import exit_of
from headwater.cli.options import as_list, as_object
from headwater.cli.output import Column, Form, answer, is_terminal, show, write

if TYPE_CHECKING:
    from collections.abc import Iterator

LIBRARIES: Final = ("apsw", "msgspec", "click", "rich")


@click.command
@as_object
def show_version(*, form: Form) -> None:
    """Print the version; with --json also those of Python and the libraries."""
    record: dict[str, object] = {"headwater": __version__}
    if form is not None:
        record |= {"python": sys.version.split()[0], **library_versions(), "platform": sys.platform}
    answer(record, sentence=f"headwater {__version__}", plain=f"headwater {__version__}", form=form)


def library_versions() -> dict[str, str | None]:
    """What is installed of what Headwater needs."""
    from importlib import metadata

    found: dict[str, str | None] = {}
    for name in LIBRARIES:
        try:
            found[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            found[name] = None
    return found


# --- explain --------------------------------------------------------------------------------------------------

_COLUMNS: Final = (
    Column(title="code", text=lambda record: str(record["code"])),
    Column(title="error", text=lambda record: str(record["error"])),
    Column(title="", text=lambda record: str(record["summary"]), elastic=True),
)


@click.command
@click.argument("code", required=False)
@as_list
def explain(*, code: str | None, form: Form) -> None:
    """Explain an error by its code; without one, list them all."""
    known = {kind.code: kind for kind in _kinds(errors.HeadwaterError)}
    if code is None:
        show(map(_describe, known.values()), _COLUMNS, form, empty="no errors")
        return
    kind = known.get(_canonical(code))
    if kind is None:
        raise errors.NotFoundError(f"there is no error {code}{_suggestion(code, known)}", code=code)
    record = _describe(kind)
    answer(record, sentence=_text(record), plain=_text(record), form=form) if form else _print(kind, record)


def _print(kind: type[errors.HeadwaterError], record: dict[str, object]) -> None:
    page = _page(kind.code)
    if page is None:
        write(_text(record))
    elif is_terminal():
        from rich.markdown import Markdown

        from headwater.cli.output import console

        console().print(Markdown(page))
    else:
        write(page.rstrip())
