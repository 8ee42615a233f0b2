"""The Documents and Query screens: kinds, lists, one document, history, differences, branches, commits."""

from __future__ import annotations

from collections import Counter
from shlex import quote
from typing import Final

import msgspec

from headwater.draw.node_captions import titled
from headwater.errors import HeadwaterError, NotFoundError
from headwater.inspect.document_records import MISSING, DocumentRow, GetHistory, GetValue, ListDocuments
from headwater.inspect.function_records import GetGraph
from headwater.inspect.inspector import Inspector
from headwater.inspect.paging import document_pages
from headwater.inspect.space_records import (
    CompareDocuments,
    DescribeType,
    FindDocuments,
    ListBranches,
    ListCommits,
    ListKinds,
)
from headwater.machine import machine
from headwater.store.collection_record import RECORD_KIND, record_doc, record_of
from headwater.studio import answers, questions
from headwater.studio.limits import DIFFERENCES, PAGE_MAX, QUERY_ROWS, VALUE_BYTES, VALUE_BYTES_MAX
from headwater.studio.value_texts import value_text
from headwater.values.address import address_text, parse_address
from headwater.values.codec import from_json
from headwater.values.tree import freeze

_ROW_BYTES: Final = 2048
"""Bytes of a value in a list: a row shows less."""

_COLUMNS: Final = 8
"""Columns of a table of documents."""

_TITLES: Final = ("title", "name", "label", "customer", "subject")
"""Fields that name a document for people."""

_FIELDS: Final = 200
"""Fields of one document that are listed."""


def _limit(wanted: int) -> int:
    return max(1, min(wanted, PAGE_MAX))


def title_of(value: object) -> str:
    """The text of the field that names the document; else nothing."""
    if isinstance(value, dict):
        for name in _TITLES:
            text = value.get(name)
            if isinstance(text, str) and text.strip():
                return text[:120]
    return ""


# --- lists ----------------------------------------------------------------------------------------------------


def kinds(inspector: Inspector, question: questions.Kinds) -> answers.KindsView:
    """Classes and prefixes with counts."""
    found = inspector.ask(ListKinds(at=question.at))
    rows = tuple(
        answers.KindRow(
            prefix=kind.prefix,
            label=kind.prefix.rstrip(":.!"),
            count=kind.count,
            is_class=kind.declared,
            exact=found.is_complete,
            fields=kind.fields,
        )
        for kind in found.kinds
    )
    return answers.KindsView(kinds=rows, total=sum(kind.count for kind in found.kinds), hidden=found.hidden)


def documents(inspector: Inspector, question: questions.DocumentsQuestion) -> answers.DocumentsAnswer:
    """One page of documents with their values."""
    page = inspector.ask(
        ListDocuments(
            prefix=question.prefix,
            at=question.at,
            deleted=question.deleted,
            values=True,
            every=question.every,
            after=question.after,
            limit=_limit(question.limit),
        )
    )
    return answers.DocumentsAnswer(
        documents=tuple(map(_row, page.documents)), columns=_columns(page.documents), hidden=page.hidden, next=page.next
    )


def _row(row: DocumentRow) -> answers.DocumentLine:
    value = None if row.value is MISSING else value_text(row.value, _ROW_BYTES)
    return answers.DocumentLine(
        address=row.address, title=title_of(row.value), seq=row.seq, deleted=row.deleted, value=value
    )


def _columns(rows: tuple[DocumentRow, ...]) -> tuple[str, ...]:
    """Fields that at least half of the objects have, in the order of their first one."""
    objects = [row.value for row in rows if isinstance(row.value, dict) and "/" not in row.value]
    counts = Counter(name for each in objects for name in each)
    return tuple(name for name, count in counts.items() if count * 2 >= len(objects))[:_COLUMNS]


# --- one document ---------------------------------------------------------------------------------------------


def document(inspector: Inspector, question: questions.DocumentQuestion) -> answers.DocumentView:
    """One document, also a missing or deleted document."""
    doc, steps = parse_address(question.address)
    name = address_text(doc)
    writer, readers = _functions_of(inspector, name)
    limit = VALUE_BYTES_MAX if question.whole else VALUE_BYTES
    try:
        found = inspector.ask(GetValue(address=question.address, at=question.at))
    except NotFoundError as error:
        return _missing(question.address, error.message, writer)
    changed = inspector.ask(GetHistory(address=name, at=question.at, limit=1)).changes
    types = inspector.ask(DescribeType(address=question.address))
    fields = found.value if isinstance(found.value, dict) and "/" not in found.value else {}
    writer_id, writer_name = writer
    why_not = f"written by {writer_name}" if writer_id else ""
    if question.at is not None:
        why_not = f"this is the past, at commit {question.at}"
    return answers.DocumentView(
        address=found.address,
        title="" if steps else title_of(found.value),
        exists=True,
        seq=found.seq,
        at_ms=changed[0].at_ms if changed else 0,
        value=value_text(found.value, limit),
        fields=tuple(_field(key, each, types.fields.get(key, "")) for key, each in list(fields.items())[:_FIELDS]),
        type=types.type,
        writer=writer_id,
        writer_name=writer_name,
        readers=readers,
        may_edit=not why_not,
        why_not=why_not,
    )


def _missing(address: str, message: str, writer: tuple[str, str]) -> answers.DocumentView:
    return answers.DocumentView(
        address=address,
        title="",
        exists=False,
        seq=0,
        at_ms=0,
        value=None,
        fields=(),
        type="",
        writer=writer[0],
        writer_name=writer[1],
        readers=(),
        may_edit=False,
        why_not=message,
    )


def _field(name: str, value: object, declared: str) -> answers.Field:
    link = ""
    if isinstance(value, dict) and set(value) == {"/"} and isinstance(value["/"], dict):
        target = value["/"].get("link")
        link = target if isinstance(target, str) else ""
    return answers.Field(name=name, type=declared or _type_word(value), value=value_text(value, _ROW_BYTES), link=link)


def _type_word(value: object) -> str:  # noqa: PLR0911  # one for each
    """The type of a stored value, in a word."""
    match value:
        case bool():
            return "true or false"
        case int():
            return "whole number"
        case float():
            return "number"
        case str():
            return "text"
        case None:
            return "nothing"
        case list():
            return "list"
        case {"/": dict()}:
            return "link"
        case _:
            return "object"


def _functions_of(inspector: Inspector, address: str) -> tuple[tuple[str, str], tuple[answers.Part, ...]]:
    """The function that writes a document, and those that read it."""
    try:
        views = inspector.ask(GetGraph())
    except HeadwaterError:
        return ("", ""), ()
    several = len(views) > 1
    writer = ("", "")
    readers = []
    for view in views:
        for node in () if view.snapshot is None else view.snapshot.nodes:
            node_id = f"{view.label}/{node.id}" if several else node.id
            if address in node.outputs:
                writer = node_id, titled(node)
            if any(_is_in(each, address) for each in node.reads):
                readers.append(answers.Part(text=titled(node), kind="function", target=node_id))
    return writer, tuple(readers[:_FIELDS])


def _is_in(read: str, address: str) -> bool:
    return read == address or read.startswith(f"{address}/")


# --- the past -------------------------------------------------------------------------------------------------


def history(inspector: Inspector, question: questions.History) -> answers.HistoryAnswer:
    """One page of changes with the values after them."""
    limit = _limit(question.limit)
    page = inspector.ask(GetHistory(address=question.address, before=question.before, limit=limit))
    rows = tuple(
        answers.ChangeRow(
            seq=change.seq,
            at_ms=change.at_ms,
            branch=change.branch,
            session=change.session,
            change=change.change,
            value=None if change.value is MISSING else value_text(change.value, _ROW_BYTES),
        )
        for change in page.changes
    )
    return answers.HistoryAnswer(changes=rows, next=page.next)


def difference(inspector: Inspector, question: questions.DifferenceQuestion) -> answers.DifferenceView:
    """Differences between two commits or two branches."""
    found = inspector.ask(
        CompareDocuments(
            address=question.address,
            older=question.older,
            newer=question.newer,
            against=question.against,
            limit=DIFFERENCES,
        )
    )
    lines = []
    for each in found.differences:
        older = None if each.older is MISSING else value_text(each.older, _ROW_BYTES)
        newer = None if each.newer is MISSING else value_text(each.newer, _ROW_BYTES)
        lines.append(
            answers.DifferenceLine(
                address=each.document,
                path=each.address[len(each.document) :].lstrip("/"),
                op="added" if older is None else "removed" if newer is None else "changed",
                older=older,
                newer=newer,
            )
        )
    return answers.DifferenceView(lines=tuple(lines), cut=not found.is_complete, older=found.older, newer=found.newer)


def branches(inspector: Inspector, _question: questions.Branches) -> answers.BranchesView:
    """All branches."""
    rows = (
        answers.BranchLine(name=row.branch, parent=row.parent or "", at=row.at or 0, merged=row.merged)
        for row in inspector.ask(ListBranches())
    )
    return answers.BranchesView(branches=tuple(rows))


def commits(inspector: Inspector, question: questions.Commits) -> answers.CommitsPage:
    """One page of commits."""
    found = inspector.ask(ListCommits(before=question.before, limit=_limit(question.limit)))
    rows = (
        answers.CommitRow(seq=row.seq, at_ms=row.at_ms, session=row.session, documents=row.documents, more=row.more)
        for row in found.commits
    )
    return answers.CommitsPage(commits=tuple(rows), head=found.head, oldest=found.oldest, next=found.next)


# --- queries --------------------------------------------------------------------------------------------------


def query(inspector: Inspector, question: questions.QueryQuestion, place: str) -> answers.QueryPage:
    """One page of what satisfies the conditions."""
    begin = machine().monotonic()
    limit = _limit(question.limit)
    found = inspector.ask(
        FindDocuments(
            prefix=question.prefix,
            where=question.where,
            sort=question.sort,
            descending=question.descending,
            at=question.at,
            after=question.after,
            limit=limit,
            documents_max=QUERY_ROWS,
        )
    )
    columns = question.columns or _columns(found.documents)
    rows = tuple(
        answers.QueryRow(address=row.address, seq=row.seq, cells=tuple(_cell(row.value, name) for name in columns))
        for row in found.documents
    )
    end = max(question.after, 0) + len(rows)
    command = ["headwater", "ls", "--long", "--url", place]
    command += [question.prefix] if question.prefix else []
    return answers.QueryPage(
        columns=columns,
        rows=rows,
        found=found.found,
        scanned=found.scanned,
        complete=found.is_complete,
        took_ms=round((machine().monotonic() - begin) * 1000, 1),
        next=end if end < found.found else 0,
        command=" ".join(map(quote, command)),
    )


def _cell(value: object, path: str) -> answers.ValueText | None:
    found: object = value
    for step in path.replace(".", "/").split("/"):
        if isinstance(found, dict) and step in found:
            found = found[step]
        elif isinstance(found, list) and step.isdecimal() and int(step) < len(found):
            found = found[int(step)]
        else:
            return None
    return value_text(found, _ROW_BYTES)


# --- collections ----------------------------------------------------------------------------------------------


def collections(inspector: Inspector, _question: questions.CollectionsQuestion) -> answers.CollectionsView:
    """Declared collections with their indexes and rules."""
    counts = {kind.prefix: kind.count for kind in inspector.ask(ListKinds()).kinds}
    rows = []
    for page in document_pages(inspector, ListDocuments(prefix=f"{RECORD_KIND}:", values=True, every=True)):
        for row in page.documents:
            doc = parse_address(row.address)[0]
            kind = doc.partition(":")[2]
            if doc != record_doc(kind) or row.value is MISSING:
                continue
            record = record_of(doc, freeze(from_json(row.value)))
            rows.append(
                answers.CollectionRow(
                    kind=kind,
                    documents=counts.get(f"{kind}:", 0),
                    type=record.scope,
                    indexes=tuple(
                        answers.IndexLine(
                            name=named.name,
                            fields=tuple(each.name for each in named.index.fields),
                            unique=named.index.unique,
                            state="total" if named.index.total is not None else "index",
                        )
                        for named in record.named
                    ),
                    rights=_rights(row.value),
                    state="ready",
                )
            )
    return answers.CollectionsView(collections=tuple(rows))


def _rights(value: object) -> tuple[str, ...]:
    """The rules of a collection, each as it is stored."""
    rules = value.get("rules") if isinstance(value, dict) else None
    if not rules:
        return ("everybody with a right to the space",)
    pairs = rules.items() if isinstance(rules, dict) else enumerate(rules)
    return tuple(f"{name}: {msgspec.json.encode(rule).decode()}" for name, rule in pairs)
