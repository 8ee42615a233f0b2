"""Collections: ls."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, cast

import click

from headwater.cli import output as out
from headwater.cli.collection_syntax import KIND, MEMBER
from headwater.cli.declared_collections import stored_records
from headwater.cli.output import Column, Form, Record, note
from headwater.cli.target import Target
from headwater.errors import NotFoundError, UsageError
from headwater.inspect import paging
from headwater.inspect.document_records import MISSING, DocumentRow, ListDocuments
from headwater.inspect.inspector import Inspector
from headwater.store.collection_record import FIELDS, CollectionRecord, kind_of
from headwater.values.address import parse_address
from headwater.values.codec import from_json
from headwater.values.link import parse_link
from headwater.values.suggestions import did_you_mean
from headwater.values.text import count_text
from headwater.values.tree import freeze, is_map

# --- ls -------------------------------------------------------------------------------------------------------


class _Wanted(NamedTuple):
    """Which documents are listed: by the values of fields, as text and as JSON; and how many."""

    conditions: Sequence[tuple[str, str, object]]
    limit: int | None


def list_collections(
    *, kind: str | None, conditions: tuple[str, ...], limit: int | None, target: Target, form: Form
) -> None:
    """Carry out `collections ls`."""
    wanted = [_condition(text) for text in conditions]
    if kind is None and (wanted or limit is not None):
        raise click.UsageError("--where and --limit are for the documents of one KIND.")
    with target.inspector() as inspector:
        records = stored_records(inspector)
        if kind is None:
            out.show(_kinds(inspector, records), KIND, form, empty="no collections: no app has declared one here")
        else:
            _list_members(inspector, kind, records, _Wanted(wanted, limit), form)


def _kinds(inspector: Inspector, records: Mapping[str, CollectionRecord]) -> Iterator[Record]:
    for kind, record in records.items():
        count, is_complete = 0, True
        for rows, complete in _members(inspector, kind, record, values=False):
            count += len(rows)
            is_complete = is_complete and complete
        yield {
            "kind": kind,
            "scope": record.scope,
            "documents": count if is_complete else None,
            "indexes": [each.name for each in record.named[1:]],
        }


def _members(
    inspector: Inspector, kind: str, record: CollectionRecord | None, *, values: bool
) -> Iterator[tuple[list[DocumentRow], bool]]:
    """The documents of a kind, page by page, and whether these are all."""
    is_shared = record is None or record.scope == "space"
    question = ListDocuments(prefix=f"{kind}:" if is_shared else "user:", values=values)
    for page in paging.document_pages(inspector, question):
        rows = [row for row in page.documents if kind_of(parse_address(row.address)[0]) == kind]
        yield rows, page.is_complete


def _list_members(
    inspector: Inspector,
    kind: str,
    records: Mapping[str, CollectionRecord],
    asked: _Wanted,
    form: Form,
) -> None:
    wanted, limit = asked
    record = records.get(kind)
    fields = _fields(record)
    for name, _, _ in wanted:
        if fields and name not in fields:
            hint = did_you_mean(name, fields) or f"; its fields are {', '.join(fields)}"
            raise UsageError(f"--where {name}: the collection {kind!r} has no field {name!r}{hint}", field=name)
    first = next(found := _matching(inspector, kind, record, wanted), None)
    if first is None and record is None:
        hint = did_you_mean(kind, records) or (f"; there is {', '.join(records)}" if records else "")
        raise NotFoundError(f"there is no collection {kind!r}, and no document of that kind{hint}", kind=kind)

    def rows() -> Iterator[Record]:
        if first is not None:
            yield first
            yield from found

    columns = MEMBER if form is not None or not fields else _columns(fields)
    out.show(islice(rows(), limit), columns, form, empty=f"no documents of kind {kind} like that")


def _fields(record: CollectionRecord | None) -> list[str]:
    fields = None if record is None else dict(record.rest).get(FIELDS)
    return list(fields) if is_map(fields) else []


def _columns(fields: Sequence[str]) -> tuple[Column, ...]:
    """A column for the id, and one for each field."""
    return (Column("document"), *(_column(name) for name in fields))


def _column(name: str) -> Column:
    def text(record: Record) -> str:
        value = cast("Mapping[str, object]", record["value"]) if isinstance(record["value"], dict) else {}
        return _field_text(value[name]) if name in value else ""

    return Column(name, text=text, elastic=True)


def _field_text(value: object) -> str:
    link = parse_link(freeze(from_json(value))) if isinstance(value, dict) else None
    if link is not None and link.doc is not None:
        return link.doc
    return value if isinstance(value, str) else out.preview(value)


def _matching(
    inspector: Inspector,
    kind: str,
    record: CollectionRecord | None,
    wanted: Sequence[tuple[str, str, object]],
) -> Iterator[Record]:
    for rows, is_complete in _members(inspector, kind, record, values=True):
        for row in rows:
            value = None if row.value is MISSING else row.value
            if all(_has(value, each) for each in wanted):
                yield {"document": row.address, "seq": row.seq, "value": value}
        if not is_complete:
            note(f"these are among the first {count_text(len(rows), 'document')}: a server sends no more at once")


def _condition(text: str) -> tuple[str, str, object]:
    name, mark, value = text.partition("=")
    if not mark or not name:
        raise click.UsageError(f"--where {text}: FIELD=VALUE is expected, such as state=open.")
    try:
        parsed: object = json.loads(value)
    except ValueError:
        parsed = value
    return name, value, parsed


def _has(value: object, condition: tuple[str, str, object]) -> bool:
    name, text, parsed = condition
    if not isinstance(value, dict) or name not in value:
        return False
    there = value[name]
    if isinstance(there, str):
        return there in (text, parsed)
    if isinstance(there, dict) and _field_text(there) == text:
        return True
    return type(there) is type(parsed) and there == parsed
