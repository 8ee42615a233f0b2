"""Checks of writes without the app against the types that apps have declared in a space."""

from __future__ import annotations

from collections.abc import Iterable

from headwater.errors import NotFoundError, RuleError, SchemaError, UsageError
from headwater.runtime.type_records import PREFIX, Declared
from headwater.store.browsing import listing, read
from headwater.store.collection_record import kind_of, scope_prefix
from headwater.store.commit import Operation, PatchDoc, SetDoc
from headwater.store.engine import Engine
from headwater.values.address import address_text
from headwater.values.ids import BranchId, DocKey
from headwater.values.patching import apply_patch
from headwater.values.schema import Schema
from headwater.values.shape import misfit_of
from headwater.values.suggestions import did_you_mean
from headwater.values.tree import ABSENT, Maybe, Path, get, same


def declared_in(engine: Engine, branch: BranchId) -> Declared:
    """The types declared in a file."""
    found = [listed.doc for listed in listing(engine, branch, prefix=f"space/{PREFIX}")]
    return Declared((doc.partition("/")[2], read(engine, doc, branch, None).value) for doc in found)


def check_document(declared: Declared, doc: DocKey, root: Maybe, *, create: bool) -> None:
    """Reject a new undeclared document without `create`, and a write to a record of declared types."""
    name = doc.partition("/")[2]
    if doc.startswith(f"space/{PREFIX}"):
        app = name.removeprefix(PREFIX)
        raise UsageError(f"{name} is written by app {app!r} when it is opened, from what it declares", doc=doc)
    if root is not ABSENT or create or not declared or declared.of(doc) is not None:
        return
    meant = [each for each in declared.names if each.partition(".")[2] == name]
    close = f"; did you mean {' or '.join(meant)}?" if meant else did_you_mean(name, declared.names)
    apps = ", ".join(declared.apps)
    message = f"there is no document {address_text(doc)}, and no app here ({apps}) has declared it{close or ';'}"
    raise NotFoundError(f"{message} --create makes a new one", doc=doc)


def check_write(declared: Declared, operation: Operation, root: Maybe, path: Path) -> None:
    """Reject a value that the declaring app could not read. `path`: the path of the write."""
    schema = declared.of(operation.doc)
    if schema is None:
        return
    after: Maybe
    match operation:
        case SetDoc(_, value):
            after = value
        case PatchDoc(_, ops):
            after = root
            for op in ops:
                after, _ = apply_patch(after, op)
        case _:
            return
    check_value(schema, operation.doc, root, after, path)


def check_value(schema: Schema, doc: DocKey, before: Maybe, after: Maybe, path: Path = ()) -> None:
    """Reject a document that does not fit its type, unless it did not fit before at the same path."""
    part, value = _part(schema, path), get(after, path)
    found = None if part is None or value is ABSENT else misfit_of(part, value)
    if found is not None:
        found = (*path, *found[0]), found[1]
    elif after is not ABSENT:
        found = misfit_of(schema, after)
        if found is not None and before is not ABSENT and misfit_of(schema, before) == found:
            return
    if found is None:
        return
    if path == () and before is not ABSENT and same(before, after):
        return
    steps, reason = found
    app = doc.partition("/")[2].partition(".")[0]
    message = (
        f"cannot write {address_text(doc, steps)}: {reason}. {address_text(doc)} is declared as {schema.expected}; "
        f"app {app!r} could not read it"
    )
    raise SchemaError(message, doc=doc, path=steps, reason=reason)


def _part(schema: Schema, path: Path) -> Schema | None:
    found: Schema | None = schema
    for step in path:
        found = None if found is None else found.child(step)
    return found


def check_all(engine: Engine, branch: BranchId, operations: Iterable[Operation]) -> None:
    """Reject documents, written as a whole, that do not fit the types of their collections or apps.

    What was stored like that before is no news: documents that are the same pass.
    """
    declared, records = declared_in(engine, branch), engine.collections.records(branch)
    for operation in operations:
        if not isinstance(operation, SetDoc):
            continue
        doc, value = operation.doc, operation.value
        record, schema = records.get(kind_of(doc)), declared.of(doc)
        if record is not None and scope_prefix(record, doc) is not None:
            # A collection has types of its own, which the store checks again.
            if record.misfit(ABSENT, value) is None:
                continue
            found = record.misfit(read(engine, doc, branch, None).value, value)
            if found is not None:
                message = (
                    f"{address_text(doc, found[0])}: {found[1]}. Nothing was imported; --force imports it as it is"
                )
                raise RuleError(message, doc=doc, path=found[0], reason=found[1])
        elif schema is not None and misfit_of(schema, value) is not None:
            check_value(schema, doc, read(engine, doc, branch, None).value, value)
