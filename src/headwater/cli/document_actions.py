"""Documents: ls, get, history, diff."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import islice

import click

from headwater.cli import output as out
from headwater.cli.data_syntax import CHANGE, DIFFERENCE, DOCUMENT
from headwater.cli.output import Form, Record
from headwater.cli.target import Target
from headwater.inspect import paging
from headwater.inspect.document_records import MISSING, ChangeView, DocumentRow, GetHistory, GetValue, ListDocuments
from headwater.inspect.lookup import find_branch, key_prefixes
from headwater.store.browsing import diff
from headwater.store.engine import Engine
from headwater.values.address import address_text
from headwater.values.codec import from_json, to_json
from headwater.values.ids import Seq
from headwater.values.text import count_text, inert_lines
from headwater.values.tree import ABSENT

# --- ls, get --------------------------------------------------------------------------------------------------


def list_documents(
    *, prefix: str, long: bool, deleted: bool, every: bool, at: Seq | None, target: Target, form: Form
) -> None:
    """Carry out `ls`."""
    hidden = 0

    def rows() -> Iterator[Record]:
        nonlocal hidden
        question = ListDocuments(prefix=prefix, at=at, deleted=deleted, values=long, every=every)
        for page in paging.document_pages(inspector, question):
            hidden += page.hidden
            yield from map(_document, page.documents)
            if not page.is_complete:
                count = len(page.documents)
                out.note(f"these are the first {count:,}: a server sends no more at once. Name a PREFIX for others")

    without = [*([] if deleted else ["deleted"]), *([] if long else ["value"])]
    empty = f"no documents that start with {prefix}" if prefix else "no documents"
    with target.inspector() as inspector:
        out.show(rows(), DOCUMENT, form, empty=empty, without=without)
    if hidden:
        of_events = count_text(hidden, "document of events is", "documents of events are")
        out.note(f"{of_events} not listed; --all lists them, `headwater events ls` those that failed")


def _document(row: DocumentRow) -> Record:
    value = {} if row.value is MISSING else {"value": row.value}
    return {"document": row.address, "seq": row.seq, "deleted": row.deleted, **value}


def get_value(*, path: str, raw: bool, at: Seq | None, target: Target, form: Form) -> None:
    """Carry out `get`."""
    if raw and form:
        raise click.UsageError("--raw and --json exclude each other.")
    with target.inspector() as inspector:
        found = inspector.ask(GetValue(address=path, at=at))
    value = from_json(found.value) if raw else None
    if isinstance(value, str | bytes):
        _print_raw(value)
    elif form is None:
        out.show_value(found.value)
    else:
        record = {"address": found.address, "branch": found.branch, "seq": found.seq, "value": found.value}
        out.answer(record, sentence="", plain="", form=form)


def _print_raw(value: str | bytes) -> None:
    if isinstance(value, str):
        out.write(inert_lines(value) if out.is_terminal() else value)
    elif out.is_terminal():
        out.note(f"{len(value)} bytes, which a terminal should not be sent; redirect them to a file")
    else:
        sys.stdout.buffer.write(value)


# --- history, diff --------------------------------------------------------------------------------------------


def show_history(*, path: str, limit: int | None, at: Seq | None, target: Target, form: Form) -> None:
    """Carry out `history`."""
    with target.inspector() as inspector:
        changes = islice(paging.changes(inspector, GetHistory(address=path, at=at), limit), limit)
        empty = f"nothing is remembered of {path}: its past was compacted away"
        out.show(map(_change, changes), CHANGE, form, empty=empty, without=[] if "/" in path else ["value"])


def _change(change: ChangeView) -> Record:
    value = {} if change.value is MISSING else {"value": change.value}
    return {"seq": change.seq, "at": out.utc(change.at_ms), **out.picked(change, "branch session change"), **value}


def show_diff(*, before: Seq, after: Seq, prefix: str, target: Target, form: Form) -> None:
    """Carry out `diff`."""
    wanted = key_prefixes(prefix)

    def changes(engine: Engine) -> Iterator[Record]:
        for change in diff(engine, before, after, find_branch(engine, target.branch)):
            if change.doc.startswith(wanted):
                sides = {
                    side: to_json(value)
                    for side, value in (("before", change.before), ("after", change.after))
                    if value is not ABSENT
                }
                kind = "added" if change.before is ABSENT else "removed" if change.after is ABSENT else "changed"
                yield {"address": address_text(change.doc, change.path), "change": kind, **sides}

    empty = f"nothing differs between {before} and {after}"
    with target.open() as storage:
        storage.call(lambda engine: out.show(changes(engine), DIFFERENCE, form, empty=empty))
