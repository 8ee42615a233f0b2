"""Branches: list, fork, merge."""

from __future__ import annotations

from headwater.cli.data_syntax import BRANCH
from headwater.cli.output import Form, answer, show
from headwater.cli.target import Target
from headwater.errors import InvariantError
from headwater.host.whole_files import RefusalError
from headwater.inspect.lookup import find_branch
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
    with target.open() as storage:
        rows = storage.call(lambda engine: list(engine.documents.branches.values()))
    records = [
        {
            "branch": row.name,
            "from": row.parent,
            "at": None if row.parent is None else row.fork_seq,
            "merged": list(dict.fromkeys(source for source, _, _ in row.merges)),
        }
        for row in rows
    ]
    show(records, BRANCH, form, empty="no branches")


def fork_branch(*, name: str, parent: str, at: Seq | None, target: Target, form: Form) -> None:
    """Carry out `fork`."""
    with target.open() as storage:
        start = storage.call(lambda engine: engine.head) if at is None else at
        on = storage.call(lambda engine: find_branch(engine, parent))
        seq = storage.fork(name, on, start)
    record = {"branch": name, "from": parent, "at": start, "seq": seq}
    answer(record, sentence=f"branch {name} starts from {parent} at {start}", plain=seq, form=form)


def merge_branch(*, source: str, into: str, target: Target, form: Form) -> None:
    """Carry out `merge`."""
    with target.open() as storage:
        on, to = storage.call(lambda engine: (find_branch(engine, source), find_branch(engine, into)))
        outcome = storage.merge(on, to)
    seq, count = verdict_seq(outcome.verdict), len(outcome.commit.operations)
    record = {"source": source, "into": into, "seq": seq, "documents": count}
    sentence = f"{source} merged into {into} at {seq}: {count_text(count, 'document')} changed"
    answer(record, sentence=sentence, plain=seq, form=form)
