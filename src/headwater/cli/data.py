"""Looking at documents: ls, get, history, diff."""

from __future__ import annotations

import sys
from itertools import islice
from typing import TYPE_CHECKING, Final

import click

from headwater.cli.options import as_list, as_object, at_place, on_branch, on_space
from headwater.cli.output import (
    Column,
    Form,
    Record,
    answer,
    count_text,
    is_terminal,
    note,
    preview,
    show,
    show_value,
    write,
)
from headwater.cli.output import json_text as json
from headwater.cli.remote import on_space_or_server

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path as FilePath

    from headwater.cli.remote import Server
    from headwater.store.browsing import HistoryEntry
    from headwater.store.engine import Engine
    from headwater.values.ids import BranchId, DocKey, Seq
    from headwater.values.tree import Maybe


# --- ls -------------------------------------------------------------------------------------------------------

_DOCUMENT: Final = Column(title="document", text=lambda record: str(record["document"]))
_SEQ: Final = Column(title="seq", text=lambda record: str(record["seq"]), number=True)
_VALUE: Final = Column(
    title="value",
    text=lambda record: json(record["value"]) if "value" in record else "",
    shown=lambda record: preview(record["value"]) if "value" in record else "",
    elastic=True,
)
_STATE: Final = Column(title="state", text=lambda record: "deleted" if record["deleted"] else "live")


@click.command
@click.argument("prefix", required=False, default="")
@click.option("-l", "--long", is_flag=True, help="Show the values, too.")
@click.option("--deleted", is_flag=True, help="List deleted documents, too.")
@click.option("--all", "every", is_flag=True, help="List what is kept of events, too: receipts, failed ones.")
@at_place
@on_branch
@on_space_or_server
@as_list
def list_documents(
    *,
    prefix: str,
    long: bool,
    deleted: bool,
    every: bool,
    at: Seq | None,
    branch: str,
    url: str | None,
    space: str | None,
    token_file: FilePath | None,
    form: Form,
) -> None:
    """List documents, with the sequence number of their last change.

    With PREFIX only those whose address starts with it. What is kept of events, and what apps declare, is listed with
    --all, or if PREFIX says so: `receipt:`, `failed:`, `events:`, `schema:`.
    """
    from headwater.cli.remote import server_of
    from headwater.cli.spaces import find_branch, open_space
    from headwater.inspect.stored_events import SYSTEM
    from headwater.runtime.type_records import PREFIX

    columns = [_DOCUMENT, _SEQ, *([_STATE] if deleted else []), *([_VALUE] if long else [])]
    empty = f"no documents that start with {prefix}" if prefix else "no documents"
    hidden: list[str] | None = None if every or prefix.removeprefix("space!").startswith((*SYSTEM, PREFIX)) else []
    server = server_of(url, space, token_file)
    if server is not None:
        if deleted or at is not None:
            raise click.UsageError("A server lists the documents that there are: --deleted and --at need the file.")
        show(_served(server, prefix, branch, hidden, long=long), columns, form, empty=empty)
        _tell_hidden(hidden)
        return
    with open_space(url, space) as storage:
        storage.call(
            lambda engine: show(
                _documents(engine, find_branch(engine, branch), prefix, at, hidden, long=long, deleted=deleted),
                columns,
                form,
                empty=empty,
            )
        )
    _tell_hidden(hidden)


def _tell_hidden(hidden: list[str] | None) -> None:
    if hidden:
        of_events = count_text(len(hidden), "document of events is", "documents of events are")
        note(f"{of_events} not listed; --all lists them, `headwater events ls` those that failed")


def _served(server: Server, prefix: str, branch: str, hidden: list[str] | None, *, long: bool) -> Iterator[Record]:
    """Those of a server's space."""
    from headwater.cli.remote import documents
    from headwater.inspect.stored_events import is_system
    from headwater.runtime.type_records import PREFIX
    from headwater.values.address import address_text
    from headwater.values.codec import to_json

    found, is_complete = documents(server, prefix, branch)
    for listed in found:
        if hidden is not None and listed.doc.startswith(f"space/{PREFIX}"):
            continue
        if hidden is not None and is_system(listed.doc, lambda listed=listed: listed.value):  # type: ignore[misc]
            hidden.append(listed.doc)
            continue
        record: dict[str, object] = {"document": address_text(listed.doc), "seq": listed.seq, "deleted": False}
        if long:
            record["value"] = to_json(listed.value)
        yield record
    if not is_complete:
        note(f"these are the first {len(found):,}: a server sends no more at once. Name a PREFIX for others")


def _documents(
    engine: Engine,
    branch: BranchId,
    prefix: str,
    at: Seq | None,
    hidden: list[str] | None,
    *,
    long: bool,
    deleted: bool,
) -> Iterator[Record]:
    from headwater.cli.spaces import key_prefixes
    from headwater.inspect.stored_events import is_system
    from headwater.runtime.type_records import PREFIX
    from headwater.store.browsing import listing, read, read_seq
    from headwater.values.address import address_text
    from headwater.values.codec import to_json
    from headwater.values.tree import ABSENT

    through = read_seq(engine, branch, at)
    for key_prefix in key_prefixes(prefix):
        for listed in listing(engine, branch, prefix=key_prefix, at=through, deleted=deleted):
            doc = listed.doc
            if hidden is not None and doc.startswith(f"space/{PREFIX}"):
                continue
            if hidden is not None and is_system(doc, lambda doc=doc: read(engine, doc, branch, through).value):  # type: ignore[misc]
                hidden.append(doc)
                continue
            record: dict[str, object] = {"document": address_text(doc), "seq": listed.seq, "deleted": not listed.live}
            if long and (value := read(engine, doc, branch, through).value) is not ABSENT:
                record["value"] = to_json(value)
            yield record


# --- get ------------------------------------------------------------------------------------------------------


@click.command
@click.argument("path")
@click.option("-r", "--raw", is_flag=True, help="Text without quotes, bytes as they are.")
@at_place
@on_branch
@on_space_or_server
@as_object
def get_value(
    *,
    path: str,
    raw: bool,
    at: Seq | None,
    branch: str,
    url: str | None,
    space: str | None,
    token_file: FilePath | None,
    form: Form,
) -> None:
    """Print a document, or what stands at a PATH in one, as JSON.

    With --json, an object that also says where and since when.
    """
    from headwater.cli import remote
    from headwater.cli.spaces import find_branch, find_place, open_space
    from headwater.values.address import address_text
    from headwater.values.codec import to_json

    if raw and form:
        raise click.UsageError("--raw and --json exclude each other.")
    server = remote.server_of(url, space, token_file)
    if server is not None:
        read_seq = remote.find_place(server, path, branch, at)
    else:
        with open_space(url, space) as storage:
            read_seq = storage.call(lambda engine: find_place(engine, path, find_branch(engine, branch), at))
    if raw and isinstance(read_seq.value, str | bytes):
        _print_raw(read_seq.value)
        return
    value = to_json(read_seq.value)
    if form is None:
        show_value(value)
    else:
        record = {
            "address": address_text(read_seq.doc, read_seq.path),
            "branch": branch,
            "seq": read_seq.seq,
            "value": value,
        }
        answer(record, sentence="", plain="", form=form)


def _print_raw(value: str | bytes) -> None:
    from headwater.values.text import inert_lines

    if isinstance(value, str):
        write(inert_lines(value) if is_terminal() else value)
    elif is_terminal():
        note(f"{len(value)} bytes, which a terminal should not be sent; redirect them to a file")
    else:
        sys.stdout.buffer.write(value)


# --- history --------------------------------------------------------------------------------------------------

_HISTORY: Final = (
    _SEQ,
    Column(title="when", text=lambda record: str(record["at"]), shown=lambda record: _local_time(str(record["at"]))),
    Column(title="change", text=lambda record: str(record["change"]), elastic=True),
)


@click.command
@click.argument("path")
@click.option("--limit", metavar="N", type=click.IntRange(min=1), help="Only the newest N.")
@at_place
@on_branch
@on_space
@as_list
def show_history(
    *, path: str, limit: int | None, at: Seq | None, branch: str, url: str | None, space: str | None, form: Form
) -> None:
    """Tell what happened to a document, newest first.

    With a PATH into it, only what changed there, and the value it changed to.
    """
    from headwater.cli.spaces import find_branch, open_space

    columns = (*_HISTORY, _VALUE) if "/" in path else _HISTORY
    with open_space(url, space) as storage:
        storage.call(
            lambda engine: show(
                islice(_history(engine, path, find_branch(engine, branch), at), limit),
                columns,
                form,
                empty=f"nothing is remembered of {path}: its past was compacted away",
            )
        )


def _history(engine: Engine, text: str, branch: BranchId, at: Seq | None) -> Iterator[Record]:
    from headwater.cli.spaces import missing_document
    from headwater.store.browsing import history, read
    from headwater.values.address import parse_address

    doc, steps = parse_address(text)
    if not read(engine, doc, branch, at).seq:
        raise missing_document(engine, doc, branch, at)
    events = history(engine, doc, branch, at)
    return _changes_at(engine, doc, steps, branch, events) if steps else map(_event, events)


def _event(event: HistoryEntry) -> dict[str, object]:
    return {
        "seq": event.seq,
        "at": _utc_time(event.at),
        "branch": event.branch,
        "session": event.session,
        "change": event.summary,
    }


def _changes_at(
    engine: Engine, doc: DocKey, steps: tuple[str, ...], branch: BranchId, events: Iterator[HistoryEntry]
) -> Iterator[Record]:
    """Of the commits that touched a document those that changed the value at a path, and what it became."""
    from headwater.store.browsing import read
    from headwater.values.address import settle_path
    from headwater.values.codec import to_json
    from headwater.values.ids import Seq
    from headwater.values.tree import ABSENT, get, same

    def value_at(seq: int) -> Maybe:
        root = read(engine, doc, branch, Seq(seq)).value
        return get(root, settle_path(root, steps))

    for event in events:
        after = value_at(event.seq)
        if same(value_at(event.seq - 1), after):
            continue
        record = _event(event)
        if after is not ABSENT:
            record["value"] = to_json(after)
        yield record


def _utc_time(millis: int) -> str:
    from datetime import UTC, datetime

    return datetime.fromtimestamp(millis / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _local_time(text: str) -> str:
    from datetime import datetime

    return datetime.fromisoformat(text).astimezone().strftime("%Y-%m-%d %H:%M:%S")


# --- diff -----------------------------------------------------------------------------------------------------

_SIGNS: Final = {"added": "+", "removed": "-", "changed": "~"}
_DIFF: Final = (
    Column(title="", text=lambda record: _SIGNS[str(record["change"])]),
    Column(title="place", text=lambda record: str(record["address"])),
    *(
        Column(
            title=side,
            text=lambda record, side=side: json(record[side]) if side in record else "",  # type: ignore[misc]
            shown=lambda record, side=side: preview(record[side]) if side in record else "",  # type: ignore[misc]
            elastic=True,
        )
        for side in ("before", "after")
    ),
)


@click.command
@click.argument("before", metavar="SEQ", type=click.IntRange(min=0))
@click.argument("after", metavar="SEQ", type=click.IntRange(min=0))
@click.argument("prefix", required=False, default="")
@on_branch
@on_space
@as_list
def show_diff(
    *, before: Seq, after: Seq, prefix: str, branch: str, url: str | None, space: str | None, form: Form
) -> None:
    """Show what differs between two sequence numbers.

    With PREFIX only in documents whose address starts with it.
    """
    from headwater.cli.spaces import find_branch, key_prefixes, open_space
    from headwater.store.browsing import diff
    from headwater.values.address import address_text
    from headwater.values.codec import to_json
    from headwater.values.tree import ABSENT

    wanted = key_prefixes(prefix)

    def changes(engine: Engine) -> Iterator[Record]:
        for change in diff(engine, before, after, find_branch(engine, branch)):
            if not change.doc.startswith(wanted):
                continue
            record: dict[str, object] = {"address": address_text(change.doc, change.path), "change": "changed"}
            if change.before is ABSENT:
                record["change"] = "added"
            else:
                record["before"] = to_json(change.before)
            if change.after is ABSENT:
                record["change"] = "removed"
            else:
                record["after"] = to_json(change.after)
            yield record

    empty = f"nothing differs between {before} and {after}"
    with open_space(url, space) as storage:
        storage.call(lambda engine: show(changes(engine), _DIFF, form, empty=empty))
