"""A space as lines of JSON: export, import. Nothing is imported before every line has been checked."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path
from typing import BinaryIO

import click

from headwater.cli.branch_actions import verdict_seq
from headwater.cli.exits import Exit
from headwater.cli.output import Form, Progress, answer, is_terminal, note, progress
from headwater.cli.target import Target
from headwater.errors import NotFoundError, UsageError
from headwater.host.postgres.database_url import is_database, parse_database_url
from headwater.host.space_copies import replace_space
from headwater.host.space_rebuild import build_space, compare_past
from headwater.host.standard_streams import abandon
from headwater.host.storage import Storage
from headwater.host.text_source import lines_of, reread
from headwater.host.whole_files import check_free, put_in_place, unfinished
from headwater.inspect.lookup import find_branch
from headwater.runtime.type_checks import check_all
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
from headwater.values.ids import NEVER, BranchId, Seq
from headwater.values.text import count_text, inert_lines
from headwater.values.tree import same

# --- export ---------------------------------------------------------------------------------------------------


def export_space(*, output: Path | None, force: bool, history: bool, at: Seq | None, target: Target) -> None:
    """Carry out `export`."""
    if history and (at is not None or target.branch != "main"):
        raise click.UsageError("--history exports everything; leave out --at and --branch.")
    if output is not None:
        check_free(output, force=force)
    with target.open(only_reads=True) as storage:
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
    """Write UTF-8, whatever the encoding of the terminal is: it is the content of a file."""
    if is_terminal():
        for line in _exported(storage, branch, at, lambda _done, _total: None, history=history):
            print(inert_lines(line.decode()), end="")
        return
    try:
        with progress("exporting") as advance:
            for line in _exported(storage, branch, at, advance, history=history):
                sys.stdout.buffer.write(line)
            sys.stdout.buffer.flush()
    except BrokenPipeError:
        # A cut list is useful, a cut export is not.
        abandon()
        raise click.exceptions.Exit(Exit.FAILED) from None


def _note_workflows(storage: Storage) -> None:
    """Note that an export has no workflows: they are tables, not documents."""
    flows = storage.call(lambda engine: engine.backend.tables.execute("select count(*) from flow")[0][0])
    if flows:
        workflows = count_text(int(str(flows)), "workflow")
        note(f"{workflows}: runs, events and states are not exported; use `headwater backup`")


def _exported(storage: Storage, branch: str, at: Seq | None, advance: Progress, *, history: bool) -> Iterator[bytes]:
    def lines(engine: Engine) -> Iterator[str]:
        if history:
            return export_log(engine, storage.name)
        return export_documents(engine, storage.name, find_branch(engine, branch), at)

    # No other process has the file: nothing changes while the lines are read.
    source = storage.call(lines)
    total = storage.call(lambda engine: engine.head) if history else 0
    for number, line in enumerate(source):
        advance(number, total)
        yield line.encode()


# --- import ---------------------------------------------------------------------------------------------------


def import_space(*, file: str, create: bool, force: bool, target: Target, form: Form) -> None:
    """Carry out `import`."""
    if is_database(file):
        shown = parse_database_url(file).shown
        raise UsageError(f"{shown} is a database, and `import` reads a file: name an export; --url says where it goes")
    with reread(file) as source:
        header, count = _check(source)
        if header.headwater == "log":
            if target.branch != "main":
                raise click.UsageError("This export holds a whole space; leave out --branch.")
            seq, changed = _import_log(source, header, target, create=create)
            what = "commit"
        else:
            seq, changed = _import_documents(source, count, target, create=create, force=force)
            what = "document"
    record = {f"{what}s": count, "changed": changed, "branch": target.branch, "seq": seq}
    sentence = f"{count_text(count, what)} read, {changed:,} new or changed, at {seq}"
    answer(record, sentence=sentence, plain=(count, changed, seq), form=form)


def _check(source: BinaryIO) -> tuple[Header, int]:
    """Read everything once. Returns the header in the first line, and how many lines follow."""
    with progress("checking") as advance:
        lines = lines_of(source, advance)
        first = next(lines, "")
        if not first.strip():
            raise UsageError("there is nothing to import: the input is empty, or starts with an empty line", line=1)
        header = read_header(first)
        return header, sum(1 for _ in _entries(unaltered(first, lines, header), header))


def _entries(lines: Iterator[str], header: Header) -> Iterable[object]:
    return check_log(lines, header.seq) if header.headwater == "log" else parse_documents(lines, ends=header.ends)


def _import_log(source: BinaryIO, header: Header, target: Target, *, create: bool) -> tuple[Seq, int]:
    """The head of the space afterwards, and how many commits of the log it did not have before."""

    def rows() -> Iterator[LogRow]:
        return check_log(islice(lines_of(source), 1, None), header.seq)

    place = target.file_for(header.space)
    path, head, space_id = place.path, NEVER, header.id
    if path.exists():
        head, space_id = compare_past(path, rows, header.seq)
    elif not create:
        raise NotFoundError(f"there is no space at {path}, and --no-create says not to make one", path=str(path))
    if head < header.seq or not path.exists():
        with unfinished(target.make_folder()) as part:
            build_space(part, place.space, rows, header, progress, space_id=space_id)
            replace_space(part, path)
    return max(header.seq, head), max(header.seq - head, 0)


def _import_documents(source: BinaryIO, total: int, target: Target, *, create: bool, force: bool) -> tuple[Seq, int]:
    """The head of the space afterwards, and how many documents were not the same before."""

    def documents() -> Iterator[SetDoc]:
        return parse_documents(islice(lines_of(source), 1, None))

    changed = done = 0
    with target.open(create=create) as storage, progress("importing", "documents") as advance:
        on = storage.call(lambda engine: find_branch(engine, target.branch))
        if not force:
            # Check all documents before the first write.
            storage.call(lambda engine: check_all(engine, on, documents()))
        for batch in batches(documents()):
            changed += _commit_changed(storage, on, batch)
            done += len(batch)
            advance(done, total)
        return storage.call(lambda engine: engine.head), changed


def _commit_changed(storage: Storage, branch: BranchId, batch: Iterable[Operation]) -> int:
    """Commit the operations that change a document. Returns their number."""
    # A replica caches what it has read; one for each batch bounds memory.
    replica = storage.attach(branch=branch)
    # All of them are checked, by the types of the space. Those that come with the import are not for its documents.
    replica.force()
    wanted = [one for one in batch if isinstance(one, SetDoc) and not same(replica.read(one.doc), one.value)]
    if wanted:
        pending = replica.commit(wanted)
        replica.sync()
        if pending.error is not None:
            raise pending.error
        verdict_seq(pending.verdict)
    replica.detach()
    return len(wanted)
