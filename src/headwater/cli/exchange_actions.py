"""A space as lines of JSON: export, import. Nothing is imported before every line has been checked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shutil import copyfileobj
from tempfile import TemporaryFile
from typing import BinaryIO, Final

import click

from headwater.cli.branch_actions import verdict_seq
from headwater.cli.exits import Exit
from headwater.cli.log_import import rebuild_space
from headwater.cli.output import Form, Progress, answer, count_text, is_terminal, note, progress
from headwater.cli.target import Target
from headwater.cli.whole_files import check_free, put_in_place, unfinished
from headwater.errors import UsageError
from headwater.host.standard_streams import abandon
from headwater.host.storage import Storage
from headwater.inspect.declared_types import check_all, declared_in
from headwater.inspect.lookup import find_branch
from headwater.store.backend import LogRow
from headwater.store.commit import Operation, SetDoc
from headwater.store.engine import Engine
from headwater.store.log_rebuild import check_log
from headwater.store.portable import (
    Header,
    batches,
    export_documents,
    export_log,
    parse_documents,
    read_header,
    unaltered,
)
from headwater.values.ids import BranchId, Seq
from headwater.values.text import inert_lines
from headwater.values.tree import same

_LINE_BYTES_MAX: Final = 128 * 1024 * 1024
"""The largest commit in base64, and the largest document with every character escaped, are shorter."""


# --- export ---------------------------------------------------------------------------------------------------


def export_space(*, output: Path | None, force: bool, history: bool, at: Seq | None, target: Target) -> None:
    """Carry out `export`."""
    if history and (at is not None or target.branch != "main"):
        raise click.UsageError("--history exports everything; leave out --at and --branch.")
    if output is not None:
        check_free(output, force=force)
    with target.open() as storage:
        _note_workflows(storage)
        if output is None:
            _to_stdout(storage, target.branch, at, history=history)
            return
        with unfinished(output.parent) as part:
            with part.open("wb") as file, progress("exporting") as advance:
                lines = _exported(storage, target.branch, at, advance, history=history)
                count = sum(1 for _ in map(file.write, lines)) - 2
            put_in_place(part, output)
    note(f"exported {count_text(count, 'commit' if history else 'document')} to {output}")


def _to_stdout(storage: Storage, branch: str, at: Seq | None, *, history: bool) -> None:
    """Always UTF-8, whatever the terminal has: it is the content of a file."""
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


def _note_workflows(storage: Storage) -> None:
    """The file has them, but not among its documents."""
    flows = storage.call(lambda engine: engine.backend.tables.execute("select count(*) from flow")[0][0])
    if flows:
        workflows = count_text(int(str(flows)), "workflow")
        note(f"{workflows}: runs, events and states are not exported; use `headwater backup`")


def _exported(storage: Storage, branch: str, at: Seq | None, advance: Progress, *, history: bool) -> Iterator[bytes]:
    def lines(engine: Engine) -> Iterator[str]:
        if history:
            return export_log(engine, storage.name)
        return export_documents(engine, storage.name, find_branch(engine, branch), at)

    # This process is the only user of the file: nothing changes while the lines are read one by one.
    source = storage.call(lines)
    total = storage.call(lambda engine: engine.head) if history else 0
    for number, line in enumerate(source):
        advance(number, total)
        yield line.encode()


def _silent(_done: int, _total: int) -> None:
    """No progress to show."""


# --- import ---------------------------------------------------------------------------------------------------


def import_space(*, file: str, create: bool, target: Target, form: Form) -> None:
    """Carry out `import`."""
    with _source(file) as source:
        header, count = _check(source)
        if header.headwater == "log":
            if target.branch != "main":
                raise click.UsageError("This export holds a whole space; leave out --branch.")
            seq, changed = rebuild_space(header, lambda: _rows(source, header), target, create=create)
            what = "commit"
        else:
            seq, changed = _import_documents(source, count, target, create=create)
            what = "document"
    record = {f"{what}s": count, "changed": changed, "branch": target.branch, "seq": seq}
    sentence = f"{count_text(count, what)} read, {changed:,} new or changed, at {seq}"
    answer(record, sentence=sentence, plain=(count, changed, seq), form=form)


def _check(source: BinaryIO) -> tuple[Header, int]:
    """Read everything once. Returns the header in the first line, and how many lines follow."""
    with progress("checking") as advance:
        lines = _lines(_rewound(source), advance)
        first = next(lines, "")
        if not first.strip():
            raise UsageError("there is nothing to import: the input is empty, or starts with an empty line", line=1)
        header = read_header(first)
        return header, sum(1 for _ in _entries(unaltered(first, lines, header), header))


def _entries(lines: Iterator[str], header: Header) -> Iterable[object]:
    return check_log(lines, header.seq) if header.headwater == "log" else parse_documents(lines, ends=header.ends)


def _rows(source: BinaryIO, header: Header) -> Iterator[LogRow]:
    lines = _lines(_rewound(source), _silent)
    next(lines)
    return check_log(lines, header.seq)


def _import_documents(source: BinaryIO, total: int, target: Target, *, create: bool) -> tuple[Seq, int]:
    """The head of the space afterwards, and how many documents were not the same before."""
    changed = done = 0
    with target.open(create=create) as storage, progress("importing") as advance:
        on = storage.call(lambda engine: find_branch(engine, target.branch))
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
    """Commit those operations that change something. Returns how many."""
    # A replica caches what it has read; one for each batch bounds memory.
    replica = storage.attach(branch=branch)
    wanted = [one for one in batch if isinstance(one, SetDoc) and not same(replica.read(one.doc), one.value)]
    if wanted:
        pending = replica.commit(wanted)
        replica.sync()
        if pending.error is not None:
            raise pending.error
        verdict_seq(pending.verdict)
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
