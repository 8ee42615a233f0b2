"""Branches: list, fork, merge."""

from __future__ import annotations

from pathlib import Path

from headwater.cli.copied_space import copied_to
from headwater.cli.data_syntax import BRANCH
from headwater.cli.output import Form, answer, show
from headwater.cli.target import Target
from headwater.errors import InvariantError
from headwater.host.space_copies import make_new_space, replace_space
from headwater.host.space_files import open_space
from headwater.host.storage import Storage
from headwater.host.whole_files import RefusalError, check_free, unfinished
from headwater.inspect.lookup import find_branch
from headwater.inspect.space_records import ListBranches
from headwater.store.commit import Committed, Conflict, Refused, Verdict
from headwater.values.ids import Seq
from headwater.values.text import count_text


def verdict_seq(verdict: Verdict | None) -> Seq:
    """The sequence number of a commit. Raises RefusalError if it was rejected."""
    match verdict:
        case Committed(seq):
            return seq
        case Conflict(reason) | Refused(reason):
            raise RefusalError(reason)
        case None:
            raise InvariantError("a commit that was waited for has no verdict")


def list_branches(*, target: Target, form: Form) -> None:
    """Carry out `branches`."""
    with target.inspector() as inspector:
        rows = inspector.ask(ListBranches())
    records = [{"branch": row.branch, "from": row.parent, "at": row.at, "merged": list(row.merged)} for row in rows]
    show(records, BRANCH, form, empty="no branches")


def fork_branch(*, name: str, parent: str, at: Seq | None, to: Path | None, target: Target, form: Form) -> None:
    """Carry out `fork`."""
    if to is None:
        with target.open() as storage:
            start, seq = _fork(storage, name, parent, at)
            made = storage.identity.id
    else:
        check_free(to, force=False)
        with unfinished(to.parent) as part:
            copied_to(part, target)
            with open_space(str(part), create=False) as storage:
                start, seq = _fork(storage, name, parent, at)
                made = make_new_space(storage)[0].id
            replace_space(part, to)
    record = {"branch": name, "from": parent, "at": start, "seq": seq, "id": made}
    where = "" if to is None else f", in {to}, a new space with the id {made}"
    answer(record, sentence=f"branch {name} starts from {parent} at {start}{where}", plain=seq, form=form)


def _fork(storage: Storage, name: str, parent: str, at: Seq | None) -> tuple[Seq, Seq]:
    start = storage.call(lambda engine: engine.head) if at is None else at
    on = storage.call(lambda engine: find_branch(engine, parent))
    return start, storage.fork(name, on, start)


def merge_branch(*, source: str, into: str, target: Target, form: Form) -> None:
    """Carry out `merge`."""
    with target.open() as storage:
        on, to = storage.call(lambda engine: (find_branch(engine, source), find_branch(engine, into)))
        outcome = storage.merge(on, to)
    seq, count = verdict_seq(outcome.verdict), len(outcome.commit.operations)
    record = {"source": source, "into": into, "seq": seq, "documents": count}
    sentence = f"{source} merged into {into} at {seq}: {count_text(count, 'document')} changed"
    answer(record, sentence=sentence, plain=seq, form=form)
