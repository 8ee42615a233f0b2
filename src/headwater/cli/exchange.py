"""A space as lines of JSON: export, import. Nothing is imported before every line has been checked."""

from __future__ import annotations

import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

import click

from headwater.cli.exits import Exit
from headwater.cli.files import check_free, put_in_place, unfinished
from headwater.cli.options import as_object, at_place, on_branch, on_space
from headwater.cli.output import Form, Progress, answer, count_text, is_terminal, note, progress
from headwater.errors import UsageError
from headwater.host.standard_streams import abandon
from headwater.values.text import inert_lines

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from headwater.host.storage import Storage
    from headwater.store.backend import LogRow
    from headwater.store.commit import Operation
    from headwater.store.engine import Engine
    from headwater.store.portable import Header
    from headwater.values.ids import BranchId, Seq

_LINE_BYTES_MAX: Final = 128 * 1024 * 1024
"""The largest commit in base64, and the largest document with every character escaped, are shorter."""


# --- export ---------------------------------------------------------------------------------------------------


@click.command
@click.option("-o", "--output", metavar="FILE", type=Path, help="Write to a file, whole or not at all.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--history", is_flag=True, help="Export the whole log: all branches, and the past.")
@at_place
@on_branch
@on_space
def export_space(
    *,
    output: Path | None,
    force: bool,
    history: bool,
    at: Seq | None,
    branch: str,
    url: str | None,
    space: str | None,
) -> None:
    """Write all documents as lines of JSON, for `headwater import`.

    Without --history one line per document, as of one place; with it the space itself, commit by commit.
    """
    from headwater.cli.spaces import open_space

    if history and (at is not None or branch != "main"):
        raise click.UsageError("--history exports everything; leave out --at and --branch.")
    if output is not None:
        check_free(output, force=force)
    with open_space(url, space) as storage:
        _told_apart(storage)
        if output is None:
            _to_stdout(storage, branch, at, history=history)
            return
        with unfinished(output.parent) as part:
            with part.open("wb") as file, progress("exporting") as advance:
                lines = _exported(storage, branch, at, advance, history=history)
                count = sum(1 for _ in map(file.write, lines)) - 2
            put_in_place(part, output)
    note(f"exported {count_text(count, 'commit' if history else 'document')} to {output}")


def _to_stdout(storage: Storage, branch: str, at: Seq | None, *, history: bool) -> None:
    """Always UTF-8: it is a file that only passes through here."""
    if is_terminal():
        for line in _exported(storage, branch, at, _silent, history=history):
            print(inert_lines(line.decode()), end="")
        return
    try:
        with progress("exporting") as advance:
            for line in _exported(storage, branch, at, advance, history=history):
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        # Unlike a list of which the reader has seen enough, half an export is no use.
        abandon()
        raise click.exceptions.Exit(Exit.FAILED) from None


def _told_apart(storage: Storage) -> None:
    """What is in the file and not among the documents."""
    flows = storage.call(lambda engine: engine.backend.tables.execute("select count(*) from flow")[0][0])
    if flows:
        told = count_text(int(str(flows)), "workflow")
        note(f"{told}: runs, events and states are not exported; use `headwater backup`")


def _exported(storage: Storage, branch: str, at: Seq | None, advance: Progress, *, history: bool) -> Iterator[bytes]:
    from headwater.cli.spaces import find_branch
    from headwater.store.portable import export_documents, export_log

    def lines(engine: Engine) -> Iterator[str]:
        if history:
            return export_log(engine, storage.name)
        return export_documents(engine, storage.name, find_branch(engine, branch), at)

    # One command is the only user of its space: nothing changes while the lines are taken one by one.
    source = storage.call(lines)
    total = storage.call(lambda engine: engine.head) if history else 0
    for number, line in enumerate(source):
        advance(number, total)
        yield line.encode()


def _silent(_done: int, _total: int) -> None:
    """No progress to show."""


# --- import ---------------------------------------------------------------------------------------------------


@click.command
@click.argument("file")
@click.option("--create/--no-create", default=True, help="Whether to make the space if it is missing. It is made.")
@on_branch
@on_space
@as_object
def import_space(*, file: str, create: bool, branch: str, url: str | None, space: str | None, form: Form) -> None:
    """Read what `headwater export` wrote, from a FILE or from standard input (-).

    All lines are checked first: if one is wrong, it is named and nothing is imported. Documents that are the same
    already are left alone, so importing twice does no harm. An export with --history makes a new space, or
    continues one that has the same past.

    An export that was altered is refused: its last line has a digest of the others. Documents that were edited on
    purpose are imported once "digest" is removed from that line.
    """
    from headwater.cli.rebuild import rebuild_space

    with _source(file) as source:
        header, count = _check(source)
        if header.headwater == "log":
            if branch != "main":
                raise click.UsageError("This export holds a whole space; leave out --branch.")
            seq, changed = rebuild_space(header, lambda: _rows(source, header), url, space, create=create)
            what = "commit"
        else:
            seq, changed = _import_documents(source, count, url, space, branch, create=create)
            what = "document"
    record = {f"{what}s": count, "changed": changed, "branch": branch, "seq": seq}
    sentence = f"{count_text(count, what)} read, {changed:,} new or changed, at {seq}"
    answer(record, sentence=sentence, plain=(count, changed, seq), form=form)


def _check(source: BinaryIO) -> tuple[Header, int]:
    """Read everything once. What is announced in the first line, and how many lines follow."""
    from headwater.store.portable import read_header, unaltered

    with progress("checking") as advance:
        lines = _lines(_rewound(source), advance)
        first = next(lines, "")
        if not first.strip():
            raise UsageError("there is nothing to import: the input is empty, or starts with an empty line", line=1)
        header = read_header(first)
        return header, sum(1 for _ in _entries(unaltered(first, lines, header), header))


def _entries(lines: Iterator[str], header: Header) -> Iterable[object]:
    from headwater.store.log_rebuild import check_log
    from headwater.store.portable import parse_documents

    return check_log(lines, header.seq) if header.headwater == "log" else parse_documents(lines, ends=header.ends)


def _rows(source: BinaryIO, header: Header) -> Iterator[LogRow]:
    from headwater.store.log_rebuild import check_log

    lines = _lines(_rewound(source), _silent)
    next(lines)
    return check_log(lines, header.seq)


def _import_documents(
    source: BinaryIO, total: int, url: str | None, space: str | None, branch: str, *, create: bool
) -> tuple[Seq, int]:
    """Where the space is afterwards, and how many documents were not the same before."""
    from headwater.cli.declared import check_all, declared_in
    from headwater.cli.spaces import find_branch, open_space
    from headwater.store.portable import batches, parse_documents

    changed = done = 0
    with open_space(url, space, create=create) as storage, progress("importing") as advance:
        on = storage.call(lambda engine: find_branch(engine, branch))
        declared = storage.call(lambda engine: declared_in(engine, on))
        if declared:
            # All of them, before the first is written.
            lines = _lines(_rewound(source), _silent)
            next(lines)
            check_all(declared, parse_documents(lines))
        lines = _lines(_rewound(source), _silent)
        next(lines)
        for batch in batches(parse_documents(lines)):
            changed += _commit_changed(storage, on, batch)
            done += len(batch)
            advance(done, total)
        return storage.call(lambda engine: engine.head), changed


def _commit_changed(storage: Storage, branch: BranchId, batch: Iterable[Operation]) -> int:
    """Commit those operations that change something. How many that were."""
    from headwater.cli.change import accepted
    from headwater.store.commit import SetDoc
    from headwater.values.tree import same

    # A replica keeps what it has read; one for each batch keeps memory bounded.
    replica = storage.attach(branch=branch)
    wanted = [one for one in batch if isinstance(one, SetDoc) and not same(replica.read(one.doc), one.value)]
    if wanted:
        pending = replica.commit(wanted)
        replica.sync()
        accepted(pending)
    replica.detach()
    return len(wanted)


# --- reading lines twice --------------------------------------------------------------------------------------


@contextmanager
def _source(name: str) -> Iterator[BinaryIO]:
    """The input, as a file that can be read again."""
    if name == "-":
        with _spooled(sys.stdin.buffer) as source:
            yield source
        return
    path = Path(name)
    with path.open("rb") as file:
        if file.seekable():
            yield file
        else:
            with _spooled(file) as source:
                yield source


@contextmanager
def _spooled(stream: BinaryIO) -> Iterator[BinaryIO]:
    from shutil import copyfileobj
    from tempfile import TemporaryFile

    with TemporaryFile("w+b") as copy:
        copyfileobj(stream, copy)
        yield copy


def _rewound(source: BinaryIO) -> BinaryIO:
    source.seek(0)
    return source


def _lines(source: BinaryIO, advance: Progress) -> Iterator[str]:
    """Line by line, as text; progress is counted in bytes."""
    position = source.tell()
    total = source.seek(0, 2)
    source.seek(position)
    number = 0
    while raw := source.readline(_LINE_BYTES_MAX + 1):
        number += 1
        if len(raw) > _LINE_BYTES_MAX:
            raise UsageError(f"line {number} is longer than {_LINE_BYTES_MAX:,} bytes", line=number)
        try:
            yield raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            message = f"line {number} is not UTF-8: its byte {error.start} is {raw[error.start]:#04x}"
            raise UsageError(message, line=number) from None
        position += len(raw)
        advance(position, total)
