"""Collections: ls, check, migrate, index."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import islice
from typing import Any, Final, NamedTuple, cast

import click

from headwater.app import App
from headwater.cli import output as out
from headwater.cli.app_loading import load_app, quiet
from headwater.cli.collection_syntax import BUILT, CHECK, INDEX, KIND, MEMBER, MIGRATION
from headwater.cli.exits import Exit
from headwater.cli.output import Column, Form, Record, note, progress
from headwater.cli.target import Target
from headwater.declare.collections.collection import Collection
from headwater.errors import NotFoundError, UsageError
from headwater.host.plain_opening import PlainOpening
from headwater.host.plain_space import Space
from headwater.inspect import paging
from headwater.inspect.document_records import MISSING, DocumentRow, ListDocuments
from headwater.inspect.inspector import Inspector
from headwater.inspect.lookup import find_branch
from headwater.runtime.migration import Findings, MigratedCollection, orphans
from headwater.runtime.options import Options
from headwater.store import index_dropping
from headwater.store.collection_record import (
    FIELDS,
    RECORD_KIND,
    CollectionRecord,
    NamedIndex,
    kind_of,
    record_doc,
    record_of,
)
from headwater.store.engine import Engine
from headwater.values.address import parse_address
from headwater.values.codec import from_json
from headwater.values.link import parse_link
from headwater.values.suggestions import did_you_mean
from headwater.values.text import count_text
from headwater.values.tree import freeze, is_map

_RECORDS: Final = f"{RECORD_KIND}:"

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
        records = _records(inspector)
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


def _records(inspector: Inspector) -> dict[str, CollectionRecord]:
    """The records of the collections of the space, by kind."""
    found: dict[str, CollectionRecord] = {}
    question = ListDocuments(prefix=_RECORDS, values=True, every=True)
    for page in paging.document_pages(inspector, question):
        for row in page.documents:
            doc = parse_address(row.address)[0]
            kind = doc.partition(":")[2]
            if doc == record_doc(kind):
                found[kind] = record_of(doc, freeze(from_json(row.value)))
    return found


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


# --- check, migrate -------------------------------------------------------------------------------------------


def check_collections(*, name: str, target: Target, form: Form) -> None:
    """Carry out `collections check`."""
    loaded = _app(name, target, "check")
    with _opened(loaded, target) as opened, progress("checking", "documents") as advance:
        found = _each(loaded, opened, advance, migrates=False)
        declared = [each.kind for each in found]
        branch = opened.branch
        others = opened.local_storage.call(lambda engine: orphans(engine, branch, declared))
    records = [_finding(each) for each in found]
    records += [_orphan(kind, count) for kind, count in sorted(others.items())]
    _show(records, CHECK, form, name)
    if any(each.misfits for each in found):
        raise click.exceptions.Exit(Exit.FAILED)


def migrate_collections(*, name: str, dry_run: bool, target: Target, form: Form) -> None:
    """Carry out `collections migrate`."""
    loaded = _app(name, target, "migrate")
    with _opened(loaded, target) as opened, progress("migrating", "documents") as advance:
        if not dry_run:
            loaded.declare_in(opened)
        found = _each(loaded, opened, advance, migrates=not dry_run)
    _show([_finding(each) for each in found], MIGRATION, form, name)
    if any(each.misfits for each in found):
        raise click.exceptions.Exit(Exit.FAILED)


def _each(app: App, opened: PlainOpening, advance: out.Progress, *, migrates: bool) -> list[Findings]:
    members = [MigratedCollection(opened, each) for each in _collections(app)]
    docs = [each.keys() for each in members]
    total, done = sum(map(len, docs)), 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        advance(done, total)

    found: list[Findings] = []
    for each, keys in zip(members, docs, strict=True):
        findings = each.migrate(keys, count) if migrates else each.check(keys, count)
        if migrates and not findings.old and not findings.misfits:
            each.narrow()
        found.append(findings)
    return found


def _finding(findings: Findings) -> dict[str, object]:
    return {
        "kind": findings.kind,
        "class": findings.name,
        "documents": findings.documents,
        "fit": findings.fit,
        "old": findings.old,
        "migrated": findings.migrated,
        "misfits": findings.misfits,
        "unknown": dict(sorted(findings.unknown.items())),
        "places": [{"address": address, "reason": reason} for address, reason in findings.places],
    }


def _orphan(kind: str, count: int) -> dict[str, object]:
    empty: dict[str, object] = {
        "fit": None,
        "old": None,
        "migrated": None,
        "misfits": None,
        "unknown": {},
        "places": [],
    }
    return {"kind": kind, "class": None, "documents": count} | empty


def _show(records: Sequence[dict[str, object]], columns: Sequence[Column | str], form: Form, app: str) -> None:
    names = {each if isinstance(each, str) else each.name for each in columns}
    shown = [{name: value for name, value in record.items() if name in names} for record in records]
    out.show(shown, columns, form, empty=f"{app} declares no collections")
    if form is not None:
        return
    for record in records:
        places = cast("list[dict[str, str]]", record["places"])
        for place in places:
            note(f"{place['address']}: {place['reason']}")
        more = cast("int", record["misfits"] or 0) - len(places)
        if more > 0:
            note(f"{record['kind']}: {count_text(more, 'more document')} that {'does' if more == 1 else 'do'} not fit")


# --- index ----------------------------------------------------------------------------------------------------


def list_indexes(*, kind: str | None, target: Target, form: Form) -> None:
    """Carry out `collections index ls`."""
    with target.inspector() as inspector:
        records = _records(inspector)
    if kind is not None and kind not in records:
        hint = did_you_mean(kind, records) or (f"; there is {', '.join(records)}" if records else "")
        raise NotFoundError(f"there is no collection {kind!r}{hint}", kind=kind)
    found = [
        _index(each, record.kind) for record in records.values() if kind in (None, record.kind) for each in record.named
    ]
    out.show(found, INDEX, form, empty="no collections: no app has declared one here")


def build_indexes(*, name: str, target: Target, form: Form) -> None:
    """Carry out `collections index build`."""
    loaded = _app(name, target, "index build")
    with _opened(loaded, target) as opened:
        before = _names(opened)
        loaded.declare_in(opened)
    found = [
        {**_index(each, record.kind), "built": each.name not in before}
        for collection in _collections(loaded)
        for record in [collection.record()]
        for each in record.named
    ]
    out.show(found, BUILT, form, empty=f"{name} declares no collections")


def _names(opened: PlainOpening) -> set[str]:
    branch = opened.branch

    def names(engine: Engine) -> set[str]:
        records = engine.collections.records(branch)
        named = [each.name for record in records.values() for each in record.named]
        return {name for name in named if engine.collections.has_index(branch, name)}

    return opened.local_storage.call(names)


def drop_index(*, name: str, force: bool, target: Target, form: Form) -> None:
    """Carry out `collections index drop`."""
    _check_file(target, "index drop")
    with target.open() as storage:
        branch = storage.call(lambda engine: find_branch(engine, target.branch))
        found = storage.call(lambda engine: index_dropping.find_index(engine, branch, name))
        name = found.name
        if found.index.unique and not force:
            message = f"{name} is unique: without it, equal values are no longer refused; add --force to drop it"
            raise UsageError(message, index=name)
        storage.commit(lambda engine: index_dropping.drop_index(engine, branch, name))
        seq = storage.call(lambda engine: engine.head)
    record = {**_index(found, found.name.partition("#")[0]), "seq": seq}
    again = "a program that declares it builds it again when it opens the space"
    out.answer(record, sentence=f"{name} dropped at {seq}; {again}", plain=(name, seq), form=form)


def _index(named: NamedIndex, kind: str) -> dict[str, object]:
    fields = [each.name for each in named.index.fields]
    index = named.index
    return {
        "index": named.name,
        "kind": kind,
        "fields": fields,
        "unique": index.unique,
        "total": index.total is not None,
    }


def _collections(app: App) -> list[Collection[Any]]:
    return [each for each in app.declared.values() if isinstance(each, Collection)]


# --- opening --------------------------------------------------------------------------------------------------


def _app(text: str, target: Target, command: str) -> App:
    """The app that a command names. The file exists, and is not at a server."""
    _check_file(target, command)
    return load_app(text, f"collections {command}")


def _check_file(target: Target, command: str) -> None:
    if target.server is not None:
        message = (
            f"`headwater collections {command}` works on the file of a space, and {target.shown} is at a server; run "
            "it where the file is, while the server is stopped"
        )
        raise UsageError(message, url=target.shown)


@contextmanager
def _opened(app: App, target: Target) -> Iterator[PlainOpening]:
    """The file with an app of which nothing runs."""
    options = Options(space=target.space, branch=target.branch, create=False)
    with quiet():
        opening = app.made_opening(target.url, options, alone=True)
        with Space(opening):
            yield opening
