"""Deploying collections: their records in a space become what an app declares."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from headwater.app import App
from headwater.cells.query_source import DeclaredCollection
from headwater.cells.rejection import rejection
from headwater.cli.app_loading import load_app
from headwater.cli.collection_syntax import DEPLOYED
from headwater.cli.output import Form, note, show
from headwater.cli.target import Target
from headwater.client.credentials import Credentials
from headwater.client.remote_storage import RemoteStorage
from headwater.declare.collections.collection import Collection
from headwater.errors import AccessError, UsageError
from headwater.runtime.attached_replica import AttachedReplica
from headwater.runtime.collection_records import changes_of_record, deployed, first
from headwater.store.collection_record import CollectionRecord, record_of
from headwater.store.commit import Committed, SetDoc
from headwater.store.features import COLLECTIONS
from headwater.values.ids import Seq
from headwater.values.tree import ABSENT


def deploy_collections(*, name: str, dry_run: bool, target: Target, form: Form) -> None:
    """Carry out `collections deploy`."""
    app = load_app(name, "MODULE:APP")
    declared = _declared(app)
    if not declared:
        raise UsageError(f"{name} declares no collection; there is nothing to deploy", app=name)
    rows: list[dict[str, object]] = []
    with _replica(target, dry_run=dry_run) as replica:
        for each in declared:
            record = each.record
            stored = replica.read(record.doc)
            known = None if stored is ABSENT else record_of(record.doc, stored)
            wanted = first(each) if known is None else deployed(known, each)
            changes = changes_of_record(known, wanted)
            seq = _written(replica, wanted) if changes and not dry_run else None
            rows.append({"collection": record.kind, "changes": changes, "seq": seq})
    changed = [row for row in rows if row["changes"]]
    show(changed, DEPLOYED, form, empty="everything is deployed already")
    if dry_run and changed:
        note("Nothing was changed (--dry-run).")


def _declared(app: App) -> list[DeclaredCollection]:
    return [each.declaration() for each in app.declared.values() if isinstance(each, Collection)]


@contextmanager
def _replica(target: Target, *, dry_run: bool) -> Iterator[AttachedReplica]:
    """A replica of the space, at a server or in its file."""
    if target.server is not None:
        url, token = target.server
        remote = RemoteStorage(url, Credentials(token=token), create=not dry_run)
        try:
            replica = remote.attach(branch=target.branch)
            if remote.connection().can != "own" and not dry_run:
                message = f"collections of space {url.space!r} are deployed by an owner; use a token that can own it"
                raise AccessError(message, space=url.space)
            yield replica
        finally:
            remote.close()
        return
    with target.open(create=not dry_run) as storage:
        if not dry_run:
            storage.call(lambda engine: engine.require(COLLECTIONS))
        attached = storage.attach(branch=target.branch)
        try:
            yield attached
        finally:
            attached.detach()


def _written(replica: AttachedReplica, record: CollectionRecord) -> Seq:
    """Write a record by a commit of its own. Returns its sequence number. Raises what rejects it."""
    pending = replica.commit([SetDoc(record.doc, record.to_value())])
    replica.sync()
    if not isinstance(pending.verdict, Committed):
        raise rejection(pending.verdict, pending.error, record.kind)
    return pending.verdict.seq
