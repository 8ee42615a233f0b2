"""The store as one would write it without a care for speed: the oracle of the property tests.

Documents are plain dicts and lists, copied whole for every edit; a commit is checked by folding the log again and
comparing what a read saw with what it would see now. Shares no code with the product but the records of a commit.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple

from headwater.store import commit as store
from headwater.values import patch
from headwater.values.address import Depth

NOTHING: Any = type("Nothing", (), {"__repr__": lambda _self: "NOTHING", "__deepcopy__": lambda self, _memo: self})()


class MisfitError(Exception):
    """A patch that does not fit the document."""


def plain(value: Any) -> Any:
    """A value of the product as built-in containers."""
    if hasattr(value, "keys"):
        return {key: plain(value[key]) for key in value}
    if isinstance(value, list) or hasattr(value, "flat"):
        return [plain(item) for item in value]
    return value if value is None or isinstance(value, bool | int | float | str | bytes) else NOTHING


def exact(value: Any) -> Any:
    """Something whose `==` is type-exact: 1, 1.0 and True differ, and so do 0.0 and -0.0."""
    if isinstance(value, dict):
        return ("map", {key: exact(item) for key, item in value.items()})
    if isinstance(value, list):
        return ("list", [exact(item) for item in value])
    return (type(value).__name__, repr(value))


# --- operations -----------------------------------------------------------------------------------------------


def apply(document: Any, operations: tuple[store.Operation, ...], doc: str) -> Any:
    """The document after a commit's operations on it. Raises MisfitError."""
    for operation in operations:
        if operation.doc != doc:
            continue
        if isinstance(operation, store.SetDoc):
            document = plain(operation.value)
        elif isinstance(operation, store.DeleteDoc):
            document = NOTHING
        else:
            for op in operation.ops:
                document = edit(document, op)
    return document


def edit(root: Any, op: patch.PatchOp) -> Any:  # noqa: C901, PLR0912  # a table of nine operations
    """The document after one patch operation."""
    box = [deepcopy(root)]
    path = op.path
    match op:
        case patch.Replace(value=value):
            _at(box, path)
            _put(box, path, plain(value))
        case patch.Add(value=value):
            _add(box, path, plain(value))
        case patch.Remove():
            _remove(box, path)
        case patch.Splice(index=index, delete=delete, items=items):
            array = _at(box, path)
            if not isinstance(array, list) or index < 0 or delete < 0 or index + delete > len(array):
                raise MisfitError
            array[index : index + delete] = plain(items)
        case patch.Move(source=source):
            value = _at(box, source)
            if path != source:
                if path[: len(source)] == source:
                    raise MisfitError
                _remove(box, source)
                _add(box, path, value)
        case patch.Append(items=items):
            _append(box, path, plain(items))
        case patch.AddUnique(items=items):
            there = _addable(box, path)
            fresh: list[Any] = []
            for item in plain(items):
                if exact(item) not in [exact(old) for old in (there if isinstance(there, list) else []) + fresh]:
                    fresh.append(item)
            _append(box, path, fresh)
        case patch.Increment(by=by):
            old = _addable(box, path)
            if old is NOTHING:
                _add(box, path, by)
            elif type(old) not in (int, float):
                raise MisfitError
            else:
                _put(box, path, old + by)
        case patch.RemoveByValue(items=items):
            array = _addable(box, path)
            if array is not NOTHING:
                if not isinstance(array, list):
                    raise MisfitError
                gone = [exact(item) for item in plain(items)]
                array[:] = [item for item in array if exact(item) not in gone]
    return box[0]


def _child(value: Any, step: Any) -> Any:
    if isinstance(value, dict) and isinstance(step, str):
        return value.get(step, NOTHING)
    if isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value):
        return value[step]
    return NOTHING


def _at(box: list[Any], path: tuple[Any, ...]) -> Any:
    """What stands at a path, which must be something."""
    value = box[0]
    for step in path:
        value = _child(value, step)
    if value is NOTHING:
        raise MisfitError
    return value


def _addable(box: list[Any], path: tuple[Any, ...]) -> Any:
    """What stands at a path; NOTHING if something could be added there."""
    value = box[0]
    for index, step in enumerate(path):
        if value is NOTHING:
            return NOTHING
        fits_list = isinstance(value, list) and isinstance(step, int)
        free = len(value) if fits_list and index == len(path) - 1 else -1
        if not (isinstance(value, dict) and isinstance(step, str)) and step != free and _child(value, step) is NOTHING:
            raise MisfitError
        value = _child(value, step)
    return value


def _put(box: list[Any], path: tuple[Any, ...], value: Any) -> None:
    target: Any = box
    for step in (0, *path)[:-1]:
        target = target[step]
    target[(0, *path)[-1]] = value


def _add(box: list[Any], path: tuple[Any, ...], value: Any) -> None:
    _addable(box, path)
    for length in range(len(path)):
        if _look(box[0], path[:length]) is NOTHING:
            for step in reversed(path[length:]):
                if not isinstance(step, str) and step != 0:
                    raise MisfitError
                value = {step: value} if isinstance(step, str) else [value]
            path = path[:length]
            break
    parent = _look(box[0], path[:-1]) if path else NOTHING
    if isinstance(parent, list):
        parent.insert(path[-1], value)
    else:
        _put(box, path, value)


def _look(value: Any, path: tuple[Any, ...]) -> Any:
    for step in path:
        value = _child(value, step)
    return value


def _remove(box: list[Any], path: tuple[Any, ...]) -> None:
    _at(box, path)
    if not path:
        raise MisfitError
    del _look(box[0], path[:-1])[path[-1]]


def _append(box: list[Any], path: tuple[Any, ...], items: list[Any]) -> None:
    array = _addable(box, path)
    if array is NOTHING:
        _add(box, path, items)
    elif not isinstance(array, list):
        raise MisfitError
    else:
        array.extend(items)


# --- reads ----------------------------------------------------------------------------------------------------


def differs(path: tuple[Any, ...], depth: Depth, before: Any, after: Any) -> bool:
    """Would a read of this path and depth tell the two documents apart? By the exact rules of reach."""
    (old, old_steps), (new, new_steps) = _walk(before, path), _walk(after, path)
    if old_steps < len(path) or new_steps < len(path):
        return old_steps != new_steps
    return bool(exact(old) != exact(new) if depth is Depth.DEEP else _shape(old) != _shape(new))


def _walk(value: Any, path: tuple[Any, ...]) -> tuple[Any, int]:
    for taken, step in enumerate(path):
        if not isinstance(value, dict | list):
            return NOTHING, taken
        value = _child(value, step)
    return value, len(path)


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return ("map", sorted(value))
    return ("list", len(value)) if isinstance(value, list) else exact(value)


# --- the log --------------------------------------------------------------------------------------------------


class Accepted(NamedTuple):
    """A commit in the log."""

    seq: int
    branch: str
    session: str
    local_seq: int
    operations: tuple[store.Operation, ...]


Documents = dict[str, tuple[Any, int]]
"""Value and newest revision, by key."""


class NaiveSpace:
    """A log, folded from its beginning whenever somebody asks."""

    def __init__(self) -> None:
        self.log: list[Accepted] = []
        self.head = 0
        self.forks: dict[str, tuple[str, int]] = {}
        self._folds: dict[tuple[str, int], Documents] = {}

    def fold(self, branch: str, through: int) -> Documents:
        """All documents of a branch as of a place of the log."""
        through = min(through, self.head)
        known = self._folds.get((branch, through))
        if known is not None:
            return known
        parent, start = self.forks.get(branch, ("", 0))
        if not parent and through == 0:
            return {}
        before = self.fold(parent, through) if parent and through <= start else self.fold(branch, through - 1)
        documents = dict(before)
        for entry in self.log[through - 1 : through] if not parent or through > start else ():
            if entry.branch == branch:
                for doc in {operation.doc for operation in entry.operations}:
                    value = apply(documents.get(doc, (NOTHING, 0))[0], entry.operations, doc)
                    documents[doc] = (value, entry.seq)
        self._folds[branch, through] = documents
        return documents

    def value(self, doc: str, branch: str = "main", through: int | None = None) -> Any:
        """One document."""
        return self.fold(branch, self.head if through is None else through).get(doc, (NOTHING, 0))[0]

    def revision(self, doc: str, branch: str = "main", through: int | None = None) -> int:
        """The newest commit that wrote a document, 0 if none did."""
        return self.fold(branch, self.head if through is None else through).get(doc, (NOTHING, 0))[1]

    def append(self, commit: store.Commit) -> int:
        """Take a commit into the log. Raises MisfitError if it does not fit the documents."""
        for doc in {operation.doc for operation in commit.operations}:
            apply(self.value(doc, commit.branch), commit.operations, doc)
        self.head += 1
        entry = Accepted(self.head, commit.branch, commit.session, commit.local_seq, commit.operations)
        self.log.append(entry)
        return self.head

    def fork(self, name: str, parent: str, at: int) -> int:
        """A branch takes a place of the log, too."""
        self.head += 1
        self.log.append(Accepted(self.head, "", "", 0, ()))
        self.forks[name] = (parent, at)
        return self.head

    def seq_of(self, session: str, local_seq: int) -> int | None:
        """Where a session's commit is."""
        return next((e.seq for e in self.log if (e.session, e.local_seq) == (session, local_seq)), None)

    def coherent(self, commit: store.Commit) -> bool:
        """Is everything the commit has read still so? The truth that an engine may only be stricter than (INV-2)."""
        for read in commit.reads:
            before = self.value(read.doc, commit.branch, read.seq)
            if differs(read.path, read.depth, before, self.value(read.doc, commit.branch)):
                return False
        return all(self._holds(commit, read) for read in commit.pending_reads)

    def _holds(self, commit: store.Commit, read: store.PendingRead) -> bool:
        """A read through own layers: what was seen is the basis with exactly the named layers on top."""
        named = [number for first, last in read.layers for number in range(first, last + 1)]
        if any(self.seq_of(commit.session, number) is None for number in named):
            return False
        view = self.value(read.doc, commit.branch, read.basis)
        for entry in self.log[read.basis :]:
            if entry.branch == commit.branch and entry.session == commit.session and entry.local_seq in named:
                try:
                    view = apply(view, entry.operations, read.doc)
                except MisfitError:
                    continue
        return not differs(read.path, read.depth, view, self.value(read.doc, commit.branch))
