"""Indexes of collections: ls, build, drop."""

from __future__ import annotations

from headwater.cli import output as out
from headwater.cli.app_loading import load_app
from headwater.cli.collection_syntax import BUILT, INDEX
from headwater.cli.declared_collections import (
    check_owns,
    collections_of,
    documents_of,
    opened_without_functions,
    stored_records,
)
from headwater.cli.output import Form
from headwater.cli.target import ServerTarget, Target
from headwater.errors import ConflictError, NotFoundError, RejectedError, UsageError
from headwater.host.plain_opening import PlainOpening
from headwater.inspect.lookup import find_branch
from headwater.store import index_dropping
from headwater.store.collection_record import NamedIndex, kind_of_index
from headwater.store.commit import SetDoc
from headwater.store.engine import Engine
from headwater.values.ids import Seq
from headwater.values.suggestions import did_you_mean


def list_indexes(*, kind: str | None, target: Target, form: Form) -> None:
    """Carry out `collections index ls`."""
    with target.inspector() as inspector:
        records = stored_records(inspector)
    if kind is not None and kind not in records:
        hint = did_you_mean(kind, records) or (f"; there is {', '.join(records)}" if records else "")
        raise NotFoundError(f"there is no collection {kind!r}{hint}", kind=kind)
    found = [
        _index(each, record.kind) for record in records.values() if kind in (None, record.kind) for each in record.named
    ]
    out.show(found, INDEX, form, empty="no collections: no app has declared one here")


def build_indexes(*, name: str, target: Target, form: Form) -> None:
    """Carry out `collections index build`."""
    loaded = load_app(name, "collections index build")
    with opened_without_functions(loaded, target) as opened:
        before = _names(opened, target)
        loaded.declare_in(opened)
    found = [
        {**_index(each, record.kind), "built": each.name not in before}
        for collection in collections_of(loaded)
        for record in [collection.record()]
        for each in record.named
    ]
    out.show(found, BUILT, form, empty=f"{name} declares no collections")


def _names(opened: PlainOpening, target: Target) -> set[str]:
    if target.server is not None:
        with target.inspector() as inspector:
            return {each.name for record in stored_records(inspector).values() for each in record.named}
    branch = opened.branch

    def names(engine: Engine) -> set[str]:
        records = engine.collections.records(branch)
        named = [each.name for record in records.values() for each in record.named]
        return {name for name in named if engine.collections.has_index(branch, name)}

    return opened.local_storage.call(names)


def drop_index(*, name: str, force: bool, target: Target, form: Form) -> None:
    """Carry out `collections index drop`."""
    if target.server is None:
        found, seq = _drop_in_file(name, target, force=force)
    else:
        found, seq = _drop_at_server(name, target, target.server, force=force)
    record = {**_index(found, kind_of_index(found.name)), "seq": seq}
    again = "a program that declares it builds it again when it opens the space"
    sentence = f"{found.name} dropped at {seq}; {again}"
    out.answer(record, sentence=sentence, plain=(found.name, seq), form=form)


def _drop_in_file(name: str, target: Target, *, force: bool) -> tuple[NamedIndex, Seq]:
    with target.open() as storage:
        branch = storage.call(lambda engine: find_branch(engine, target.branch))
        found = storage.call(lambda engine: index_dropping.find_index(engine.collections.records(branch), name))
        _check_droppable(found, force=force)
        storage.commit(lambda engine: index_dropping.drop_index(engine, branch, found.name))
        return found, storage.call(lambda engine: engine.head)


def _drop_at_server(name: str, target: Target, server: ServerTarget, *, force: bool) -> tuple[NamedIndex, Seq]:
    with target.inspector() as inspector:
        found = index_dropping.find_index(stored_records(inspector), name)
    _check_droppable(found, force=force)
    with documents_of(target) as documents:
        assert documents is not None
        check_owns(server, documents, "indexes")
        record = documents.record(kind_of_index(found.name))
        if record is None:
            raise NotFoundError(f"there is no index {name!r}", index=name)
        changed = index_dropping.without_index(record, found)
        refusal = documents.commit([SetDoc(changed.doc, changed.to_value())])
        if refusal is not None:
            raise (ConflictError if refusal.is_conflict else RejectedError)(
                f"cannot drop the index {found.name!r}: {refusal.reason}", index=found.name
            )
        return found, documents.seq


def _check_droppable(found: NamedIndex, *, force: bool) -> None:
    if found.index.unique and not force:
        message = f"{found.name} is unique: without it, equal values are no longer refused; add --force to drop it"
        raise UsageError(message, index=found.name)


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
