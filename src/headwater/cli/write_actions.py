"""Changing one value: set."""

from __future__ import annotations

import click

from headwater.cli.json_input import read_json
from headwater.cli.output import Form, answer, note
from headwater.cli.target import Target
from headwater.errors import RejectedError
from headwater.host.whole_files import RefusalError
from headwater.inspect.document_records import MISSING, SetValue
from headwater.values.address import parse_address
from headwater.values.codec import from_json
from headwater.values.tree import freeze


def set_value(
    *, path: str, text: str | None, delete: bool, create: bool | None, force: bool, target: Target, form: Form
) -> None:
    """Carry out `set`."""
    if text is not None and text.startswith("--"):
        raise click.NoSuchOption(text)
    if delete == (text is not None):
        raise click.UsageError("Give either a JSON value or --delete.")
    # Check the arguments before a file is created.
    parse_address(path)
    value: object = MISSING
    if text is not None:
        value = read_json(text)
        freeze(from_json(value), path)
    with target.inspector() as inspector:
        command = SetValue(
            address=path, value=value, create=create is True, make_space=create is not False, force=force
        )
        try:
            done = inspector.do(command)
        except RejectedError as error:
            # Subclasses have a page of their own.
            raise RefusalError(error.message) if type(error) is RejectedError else error from None
    if done.made_space:
        note(f"made the space {done.made_space}")
    verb = ("deleted" if delete else "set") if done.changed else "unchanged"
    record = {"address": path, "branch": target.branch, "seq": done.seq, "changed": done.changed}
    answer(record, sentence=f"{path}: {verb} at {done.seq}", plain=done.seq, form=form)
