"""Changing one value: set. A commit like any other, by a replica that lives for one command."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Final, NamedTuple

import click

from headwater.cli.exits import RefusalError
from headwater.cli.options import as_object, on_branch
from headwater.cli.output import Form, answer, is_terminal, note
from headwater.cli.remote import on_space_or_server
from headwater.errors import AddressError, InvariantError, NotFoundError, UsageError

if TYPE_CHECKING:
    from pathlib import Path as FilePath

    from headwater.cells.pending_commit import PendingCommit
    from headwater.host.storage import Storage
    from headwater.runtime.attached_replica import AttachedReplica
    from headwater.runtime.type_records import Declared
    from headwater.store.commit import Operation, Verdict
    from headwater.values.ids import DocKey, Seq
    from headwater.values.tree import Maybe, Path, Value

_INPUT_BYTES_MAX: Final = 128 * 1024 * 1024
"""Of a value on standard input. The largest document, written with as many escapes as JSON allows, is smaller."""


@click.command(context_settings={"ignore_unknown_options": True})  # or -5 would be taken for an option
@click.argument("path")
@click.argument("text", metavar="JSON", required=False)
@click.option("--delete", is_flag=True, help="Delete the document, or take away what stands at PATH in it.")
@click.option(
    "--create/--no-create",
    default=None,
    help="--create: also a document that no app here has declared. --no-create: no space where there is none.",
)
@on_branch
@on_space_or_server
@as_object
def set_value(
    *,
    path: str,
    text: str | None,
    delete: bool,
    create: bool | None,
    branch: str,
    url: str | None,
    space: str | None,
    token_file: FilePath | None,
    form: Form,
) -> None:
    """Write a JSON value at a PATH and print the commit's sequence number.

    \b
    headwater set notes '{"title": "milk"}'      the whole document
    headwater set notes/title '"tea"'            one value in it; text needs its own quotes
    headwater set notes/items/0 -                from standard input
    headwater set notes/title --delete

    Missing maps on the way are made. In a list, the number after the last adds an element. A value that does not fit
    what an app has declared is refused; a document that no app has declared needs --create, where there are apps.
    """  # noqa: D301  # a real backspace: click's mark for lines that stay as they are
    from headwater.cli import remote
    from headwater.cli.declared import declared_at
    from headwater.cli.spaces import open_space
    from headwater.values.address import parse_address

    if text is not None and text.startswith("--"):
        raise click.NoSuchOption(text)
    if delete == (text is not None):
        raise click.UsageError("Give either a JSON value or --delete.")
    # Everything that can be wrong with the arguments is found before a file is made.
    doc, steps = parse_address(path)
    value = None if text is None else read_value(text, path)
    server = remote.server_of(url, space, token_file)
    may_make = create is not False
    if server is not None:
        with remote.opened(server, actor=remote.actor_of(doc), create=may_make and not delete) as served:
            replica = served.attach(branch=branch)
            is_new = not replica.seq
            write = _Write(doc, steps, value, delete, create is True)
            seq, changed = _write_through(replica, write, declared_at(server, branch))
    else:
        with open_space(url, space, create=may_make and not delete) as storage:
            is_new = not storage.call(lambda engine: engine.head)
            seq, changed = _commit(storage, branch, _Write(doc, steps, value, delete, create is True))
            space = storage.name
    if is_new:
        note(f"made the space {space if server is None else server.url.space}")
    verb = ("deleted" if delete else "set") if changed else "unchanged"
    record = {"address": path, "branch": branch, "seq": seq, "changed": changed}
    answer(record, sentence=f"{path}: {verb} at {seq}", plain=seq, form=form)


class _Write(NamedTuple):
    """What is asked for."""

    doc: DocKey
    steps: tuple[str, ...]
    value: Value
    delete: bool
    create: bool


def _commit(storage: Storage, branch: str, write: _Write) -> tuple[Seq, bool]:
    """One commit, decided and on disk. Where it is in the log, and whether it changed anything."""
    from headwater.cli.declared import declared_in
    from headwater.cli.spaces import find_branch, missing_document
    from headwater.values.tree import ABSENT

    on = storage.call(lambda engine: find_branch(engine, branch))
    replica = storage.attach(branch=on)
    if write.delete and replica.read(write.doc) is ABSENT:
        raise storage.call(lambda engine: missing_document(engine, write.doc, on, None))
    return _write_through(replica, write, storage.call(lambda engine: declared_in(engine, on)))


def _write_through(replica: AttachedReplica, write: _Write, declared: Declared) -> tuple[Seq, bool]:
    from headwater.cli.declared import check_document, check_write
    from headwater.cli.spaces import missing_value
    from headwater.values.address import address_text, settle_path
    from headwater.values.tree import ABSENT, get

    doc, delete = write.doc, write.delete
    root = replica.read(doc)
    path = settle_path(root, write.steps)
    if delete and root is ABSENT:
        raise NotFoundError(f"there is no document {address_text(doc)}; `headwater ls` lists them", doc=doc)
    if delete and get(root, path) is ABSENT:
        raise missing_value(doc, path, root)
    if not delete:
        check_document(declared, doc, root, create=write.create)
    operation = _removal(doc, path) if delete else _write(doc, path, root, write.value)
    try:
        check_write(declared, operation, root, path)
        pending = replica.commit([operation])
    except AddressError as error:
        raise _with_document(error, doc) from None
    replica.sync()
    return accepted(pending), any(effect.touches for effect in pending.effects)


def _removal(doc: DocKey, path: Path) -> Operation:
    from headwater.store.commit import DeleteDoc, PatchDoc
    from headwater.values.patch import Remove

    return PatchDoc(doc, (Remove(path),)) if path else DeleteDoc(doc)


def _write(doc: DocKey, path: Path, root: Maybe, value: Value) -> Operation:
    from headwater.store.commit import PatchDoc, SetDoc
    from headwater.values.patch import Add, Replace
    from headwater.values.tree import ABSENT, get

    if not path:
        return SetDoc(doc, value)
    return PatchDoc(doc, (Add(path, value) if get(root, path) is ABSENT else Replace(path, value),))


def _with_document(error: AddressError, doc: DocKey) -> AddressError:
    from headwater.values.address import address_text

    return AddressError(f"in document {address_text(doc)}: {error.message}", **error.facts)


def accepted(pending: PendingCommit) -> Seq:
    """Where a commit is in the log; what stood against it is raised."""
    if pending.error is not None:
        raise pending.error
    return verdict_seq(pending.verdict)


def verdict_seq(verdict: Verdict | None) -> Seq:
    """Likewise, for a verdict."""
    from headwater.store.commit import Committed, Conflict, Refused

    match verdict:
        case Committed(seq):
            return seq
        case Conflict(reason) | Refused(reason):
            raise RefusalError(reason)
        case None:
            raise InvariantError("a commit that was waited for has no verdict")


# --- the value ------------------------------------------------------------------------------------------------


def read_value(text: str, at: str) -> Value:
    """A value from the command line, or from standard input for `-`."""
    from headwater.values.codec import from_json
    from headwater.values.tree import freeze

    return freeze(from_json(read_json(text)), at)


def read_json(text: str) -> object:
    """JSON from the command line, or from standard input for `-`."""
    return parse_json(_read_input() if text == "-" else text)


def _read_input() -> str:
    if is_terminal(sys.stdin):
        note("reading JSON from the terminal; end with Ctrl-D")
    data = sys.stdin.buffer.read(_INPUT_BYTES_MAX + 1)
    if len(data) > _INPUT_BYTES_MAX:
        raise RefusalError(f"the input is larger than {_INPUT_BYTES_MAX:,} bytes; no document may be")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UsageError(f"the input is not UTF-8: its byte {error.start} is {data[error.start]:#04x}") from None


def parse_json(text: str) -> object:
    """Strictly: no constants that JSON does not have, no key twice. Raises UsageError."""
    try:
        return json.loads(text, parse_constant=_no_constant, object_pairs_hook=_pairs)
    except json.JSONDecodeError as error:
        raise UsageError(_explain(text, error)) from None
    except RecursionError:
        raise UsageError("this JSON is nested too deep") from None
    except ValueError as error:
        raise UsageError(f"this is not JSON: {error}") from None


def _explain(text: str, error: json.JSONDecodeError) -> str:
    if not text.strip():
        return "there is no JSON here: the value is empty"
    where = f"line {error.lineno}, column {error.colno}" if "\n" in text else f"character {error.colno}"
    near = text[max(error.pos - 20, 0) : error.pos + 20]
    what = f"this is not JSON: {error.msg[0].lower()}{error.msg[1:]} at {where}, near {near!r}"
    first = text.strip()[0]
    if first not in '{["' and "\n" not in text:
        # Most likely a word whose quotes the shell has taken.
        return f"""{what}; text needs its own quotes: '{json.dumps(text, ensure_ascii=False)}'"""
    if first in "{[" and '"' not in text:
        return f"""{what}; put the whole value in single quotes, so that the shell leaves its "quotes" alone"""
    return what


def _no_constant(name: str) -> object:
    raise ValueError(f"{name} is not a number that JSON has")


def _pairs(pairs: list[tuple[str, object]]) -> dict[str, object]:
    found = dict(pairs)
    if len(found) < len(pairs):
        seen: set[str] = set()
        twice = next(key for key, _ in pairs if key in seen or seen.add(key))  # type: ignore[func-returns-value]
        raise ValueError(f"the key {twice!r} stands in a map twice")
    return found
