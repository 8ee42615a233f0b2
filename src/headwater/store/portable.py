"""Export and import of a space as lines of JSON: lossless, one line at a time.

The first line is a header. Then comes either one line per document (`doc`, `value`), as of one sequence number, or,
with history, one line per entry of the log (`seq`, `body` in base64), from which the same space is rebuilt, with the
same hash chain. The last line has their count, and a digest of all lines before it, the first included.

Format 1 had no digest, and no last line for a log.
"""

from __future__ import annotations

import json
from binascii import a2b_base64, b2a_base64
from collections.abc import Iterable, Iterator
from hashlib import sha256
from typing import Final

import msgspec

from headwater.errors import AddressError, HeadwaterError, UsageError
from headwater.store.backend import GENESIS, LogRow
from headwater.store.browsing import listing, read, read_seq
from headwater.store.commit import Entry, SetDoc
from headwater.store.document import read_entry
from headwater.store.engine import Engine
from headwater.store.features import check_known
from headwater.store.space_identity import identity_of
from headwater.values.address import address_text, parse_address
from headwater.values.codec import encode, flatten, from_json, to_json
from headwater.values.ids import MAIN, NEVER, BranchId, Seq
from headwater.values.space_ids import is_space_id
from headwater.values.tree import ABSENT, freeze

FORMAT: Final = 2
_DIGEST_FROM: Final = 2
"""The first format with a digest in its last line."""

_BATCH_BYTES: Final = 4 * 1024 * 1024
"""Documents are imported in commits of about this size: large enough to be quick, far below a commit's limit."""

_BATCH_DOCS: Final = 1000


class Header(msgspec.Struct):
    """The first line."""

    headwater: str
    format: int
    space: str
    seq: Seq
    branch: BranchId = MAIN
    ends: bool = False
    """There is a last line with the number of lines before it: without it the export is truncated."""
    features: tuple[str, ...] = ()
    """The features of the space, as in the file: `name=first version that knows it`."""
    id: str = ""
    """The id of the space, with its whole log: importing it puts the same space back."""

    @property
    def is_digested(self) -> bool:
        """Whether the last line has a digest."""
        return self.format >= _DIGEST_FROM


def export_documents(engine: Engine, name: str, branch: BranchId = MAIN, at: Seq | None = None) -> Iterator[str]:
    """Every live document as of one sequence number, as lines."""
    through = read_seq(engine, branch, at)
    header = Header("documents", FORMAT, name, through, branch, ends=True, features=_features(engine))
    return _closed(header, _document_lines(engine, branch, through))


def _document_lines(engine: Engine, branch: BranchId, through: Seq) -> Iterator[str]:
    for listed in listing(engine, branch, at=through):
        value = read(engine, listed.doc, branch, through).value
        if value is not ABSENT:
            yield _line({"doc": address_text(listed.doc), "value": to_json(value)})


def _features(engine: Engine) -> tuple[str, ...]:
    return tuple(engine.backend.features().split())


def _closed(header: Header, lines: Iterable[str]) -> Iterator[str]:
    """The header, the lines, and the closing line."""
    fields = msgspec.to_builtins(header)
    if not header.id:
        del fields["id"]
    first = _line(fields)
    yield first
    digest, count = _Digest(first), 0
    for line in lines:
        digest.add(line)
        count += 1
        yield line
    yield _line({"end": count, "digest": digest.text})


class _Digest:
    """A digest of lines, independent of their line ends."""

    def __init__(self, first: str) -> None:
        self._sum = sha256()
        self.add(first)

    def add(self, line: str) -> None:
        """Add a line; empty lines are ignored."""
        if line.strip():
            self._sum.update(line.rstrip("\r\n").encode(errors="surrogatepass") + b"\n")

    @property
    def text(self) -> str:
        """The digest of the lines so far."""
        return self._sum.hexdigest()


def export_log(engine: Engine, name: str) -> Iterator[str]:
    """The whole log, as lines."""
    if engine.documents.horizon.seq:
        message = (
            f"cannot export the past of {name!r}: commits up to {engine.documents.horizon.seq} were compacted away"
        )
        raise UsageError(message, first=engine.documents.horizon.seq)
    made = identity_of(engine.backend).id
    header = Header("log", FORMAT, name, engine.head, ends=True, features=_features(engine), id=made)
    rows = engine.backend.log(NEVER, engine.head)
    lines = (_line({"seq": row.seq, "body": b2a_base64(row.body, newline=False).decode()}) for row in rows)
    return _closed(header, lines)


def read_header(line: str) -> Header:
    """Parse the header."""
    try:
        header = msgspec.json.decode(line, type=Header)
    except msgspec.MsgspecError as error:
        message = f"line 1 is not the first line of a Headwater export: {error}"
        raise UsageError(message, line=1) from None
    if header.format > FORMAT or header.headwater not in ("documents", "log"):
        message = (
            f"line 1 announces {header.headwater} in format {header.format}; this Headwater reads up to format {FORMAT}"
        )
        raise UsageError(message, line=1)
    check_known(" ".join(header.features), "the export")
    if header.id and not is_space_id(header.id):
        raise UsageError(f"line 1 names the space {header.id[:40]!r}, which is not a space id", line=1)
    return header


def unaltered(first: str, lines: Iterable[str], header: Header) -> Iterator[str]:
    """The lines after the header, checked to be those that were exported.

    Documents may be edited on purpose: without the digest in their last line they are taken as they are.
    """
    digest = _Digest(first)
    is_closed = not header.is_digested
    count = 0
    for number, line in enumerate(lines, start=2):
        if header.is_digested and is_closed and line.strip():
            raise UsageError(f"line {number} comes after the line that says the export is over", line=number)
        record = _closing(line) if header.is_digested else None
        if record is not None:
            is_closed = True
            expected = record.get("digest", None if header.headwater == "log" else digest.text)
            if expected != digest.text:
                message = (
                    f"the export was altered after it was written: the digest in line {number} is not that of the "
                    "lines before it. Export it again"
                )
                if header.headwater == "documents":
                    message += '; or, if it was changed on purpose, remove "digest" from that line'
                raise UsageError(message, line=number)
        digest.add(line)
        yield line
        count += bool(line.strip())
    if not is_closed:
        if header.headwater == "log" and count < header.seq:
            message = f"it ends with commit {count}, its first line announces {header.seq}"
        else:
            message = (
                f"after {count} {'commits' if header.headwater == 'log' else 'documents'} its last line is missing"
            )
        raise UsageError(f"the export is cut off: {message}", count=count)


def _closing(line: str) -> dict[str, object] | None:
    """The record of a closing line; None for any other line."""
    if not line.startswith('{"end"'):
        return None
    try:
        record = json.loads(line)
    except ValueError:
        return None
    return record if isinstance(record, dict) else None


def parse_documents(lines: Iterable[str], *, ends: bool = False) -> Iterator[SetDoc]:
    """One operation per line after the header. Errors name the number of the line."""
    count = 0
    ended = False
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        if ended:
            raise UsageError(f"line {number} comes after the line that says the export is over", line=number)
        record = _parse_line(line, number)
        if "end" in record and "doc" not in record:
            if record["end"] != count:
                message = f"line {number} says that {record['end']} documents came before it; there were {count}"
                raise UsageError(message, line=number)
            ended = True
            continue
        yield _parse_document(record, number)
        count += 1
    if ends and not ended:
        raise UsageError(f"the export is cut off: after {count} documents its last line is missing", count=count)


def _parse_line(line: str, number: int) -> dict[str, object]:
    try:
        record = json.loads(line, parse_constant=_no_constant)
        if not isinstance(record, dict):
            raise TypeError("it is not an object")  # caught right below
    except (ValueError, TypeError, RecursionError) as error:
        raise UsageError(f"{_no_document(number)} ({error})", line=number) from None
    return record


def _parse_document(record: dict[str, object], number: int) -> SetDoc:
    try:
        name = record["doc"]
        if not isinstance(name, str):
            raise TypeError("its doc is not text")
        doc, steps = parse_address(name)
        if steps:
            raise ValueError(f"{name!r} is a path into a document")
        return SetDoc(doc, freeze(from_json(record["value"]), name))
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UsageError(f"{_no_document(number)} ({error})", line=number) from None
    except HeadwaterError as error:
        raise AddressError(f"line {number}: {error.message}", line=number) from None


def _no_document(number: int) -> str:
    return f'line {number} is not a document: {{"doc": ..., "value": ...}} is expected'


def batches(operations: Iterable[SetDoc]) -> Iterator[tuple[SetDoc, ...]]:
    """Operations in groups of one commit each."""
    batch: list[SetDoc] = []
    size = 0
    for operation in operations:
        batch.append(operation)
        size += len(encode(operation.value))
        if size >= _BATCH_BYTES or len(batch) >= _BATCH_DOCS:
            yield tuple(batch)
            batch, size = [], 0
    if batch:
        yield tuple(batch)


def parse_log(lines: Iterable[str]) -> Iterator[LogRow]:
    """The rows of a log, with a new hash chain."""
    chain = GENESIS
    for number, line in enumerate(lines, start=2):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
            if "end" in record and "body" not in record:
                continue
            body = a2b_base64(record["body"], strict_mode=True)
            chain = sha256(chain + body).digest()
            row = LogRow(Seq(int(record["seq"])), body, chain)
            _check_canonical(read_entry(row))
        except (ValueError, KeyError, TypeError, HeadwaterError) as error:
            message = f'line {number} is not an entry of a log: {{"seq": ..., "body": ...}} is expected ({error})'
            raise UsageError(message, line=number) from None
        yield row


def _check_canonical(entry: Entry) -> None:
    """Refuse maps with unsorted keys: other programs may have encoded them, and nothing detects that later."""
    carried: list[object] = [msgspec.to_builtins(entry, enc_hook=flatten, builtin_types=(bytes,))]
    while carried:
        value = carried.pop()
        if isinstance(value, dict):
            if any(type(key) is not str for key in value) or list(value) != sorted(value):
                raise ValueError("its values are not in the one form that equal values have")
            carried += value.values()
        elif isinstance(value, list | tuple):
            carried += value


def _line(record: object) -> str:
    return json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n"


def _no_constant(name: str) -> object:
    message = f"{name} is not JSON"
    raise ValueError(message)
