"""Collections: check, migrate."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import click

from headwater.cli import output as out
from headwater.cli.app_loading import load_app
from headwater.cli.collection_syntax import CHECK, MIGRATION
from headwater.cli.declared_collections import (
    check_owns,
    collections_of,
    documents_of,
    opened_without_functions,
    stored_records,
)
from headwater.cli.exits import Exit
from headwater.cli.output import Column, Form, note, progress
from headwater.cli.target import Target
from headwater.client.server_documents import ServerDocuments
from headwater.declare.collections.collection import Collection
from headwater.host.plain_opening import PlainOpening
from headwater.runtime.migration import Findings, MigratedCollection, orphans
from headwater.store.collection_record import CollectionRecord
from headwater.values.text import count_text


def check_collections(*, name: str, target: Target, form: Form) -> None:
    """Carry out `collections check`."""
    app = load_app(name, "collections check")
    members = collections_of(app)
    declared = [each.record().kind for each in members]
    with (
        documents_of(target) as documents,
        opened_without_functions(app, target) as opened,
        progress("checking", "documents") as advance,
    ):
        others: Mapping[str, int | None]
        if documents is None:
            branch = opened.branch
            others = opened.local_storage.call(lambda engine: orphans(engine, branch, declared))
        else:
            known = _records_at_server(target)
            _check_rights(target, documents, known, declared)
            members = _declared_there(members, known)
            others = _others_at_server(documents, known, declared)
        found = _each(members, opened, documents, advance, migrates=False)
    records = [_finding(each) for each in found]
    records += [_orphan(kind, count) for kind, count in sorted(others.items())]
    _show(records, CHECK, form, name)
    if any(each.misfits for each in found):
        raise click.exceptions.Exit(Exit.FAILED)


def migrate_collections(*, name: str, dry_run: bool, target: Target, form: Form) -> None:
    """Carry out `collections migrate`."""
    app = load_app(name, "collections migrate")
    members = collections_of(app)
    with (
        documents_of(target) as documents,
        opened_without_functions(app, target) as opened,
        progress("migrating", "documents") as advance,
    ):
        if target.server is not None and documents is not None:
            if not dry_run:
                check_owns(target.server, documents, "migrations")
            else:
                known = _records_at_server(target)
                _check_rights(target, documents, known, [each.record().kind for each in members])
                members = _declared_there(members, known)
        if not dry_run:
            app.declare_in(opened)
        found = _each(members, opened, documents, advance, migrates=not dry_run)
    _show([_finding(each) for each in found], MIGRATION, form, name)
    if any(each.misfits for each in found):
        raise click.exceptions.Exit(Exit.FAILED)


def _each(
    collections: Sequence[Collection[Any]],
    opened: PlainOpening,
    documents: ServerDocuments | None,
    advance: out.Progress,
    *,
    migrates: bool,
) -> list[Findings]:
    members = [MigratedCollection(opened, each, documents) for each in collections]
    docs = [each.keys() for each in members]
    total, done = sum(map(len, docs)), 0

    def count(more: int) -> None:
        nonlocal done
        done += more
        advance(done, total)

    def expect(more: int) -> None:
        nonlocal total
        total += more

    found: list[Findings] = []
    for each, keys in zip(members, docs, strict=True):
        findings = each.migrate(keys, count) if migrates else each.check(keys, count)
        found.append(findings)
        is_done = migrates and not findings.old and not findings.misfits
        if is_done and not each.narrow(findings, count, expect):
            note(
                f"{each.kind}: former names and types stay in its record: there are documents that this cannot reach, "
                "or programs that write in the former form; migrate again where the file is, or when they have ended"
            )
    return found


# --- at a server ----------------------------------------------------------------------------------------------


def _records_at_server(target: Target) -> Mapping[str, CollectionRecord]:
    with target.inspector() as inspector:
        return stored_records(inspector)


def _check_rights(
    target: Target, documents: ServerDocuments, known: Mapping[str, CollectionRecord], kinds: Sequence[str]
) -> None:
    """Documents that a token may not read are as if they did not exist: they would be missing in the counts."""
    ruled = [kind for kind in kinds if kind in known and known[kind].rules.rules]
    if ruled and target.server is not None:
        check_owns(target.server, documents, f"documents of collections with rules ({', '.join(ruled)})")


def _declared_there(members: Sequence[Collection[Any]], known: Mapping[str, CollectionRecord]) -> list[Collection[Any]]:
    for each in members:
        kind, scope = each.record().kind, each.record().scope
        if kind not in known:
            note(f"{kind}: the space at the server has no such collection yet; `collections deploy` declares it")
        elif scope == "user":
            note(f"{kind}: only documents of the user of this token are counted: no token reaches those of others")
    return [each for each in members if each.record().kind in known]


def _others_at_server(
    documents: ServerDocuments, known: Mapping[str, CollectionRecord], declared: Sequence[str]
) -> dict[str, int | None]:
    """Collections that the app does not declare. None: not all of their documents can be counted."""
    found: dict[str, int | None] = {}
    for kind, record in known.items():
        if kind not in declared:
            is_seen = record.scope == "space" and (documents.owns or not record.rules.rules)
            found[kind] = len(documents.keys(kind, record.scope)) if is_seen else None
    return found


# --- showing --------------------------------------------------------------------------------------------------


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


def _orphan(kind: str, count: int | None) -> dict[str, object]:
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
