"""A computed list that is read element by element: the base of `each`, `select` and `flat_each`.

Its node stores one reference for each element: a link, which does not depend on the value of the element. A reader
depends on the references that it has read, and on each element that it has read through them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final, TypeVar, cast, overload
from weakref import WeakKeyDictionary

from headwater.cells.context import CONTEXT, Owner, find
from headwater.cells.elements import ElementEntry, as_linked
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import ReadSource, Traverse, own_link
from headwater.declare.functions.computed import Computed
from headwater.declare.functions.function_options import NO_OPTIONS
from headwater.declare.functions.function_port import FunctionPort
from headwater.errors import NotReadyError, SchemaError
from headwater.scheduler.graph.node import NodeSpec
from headwater.scheduler.scheduler_limits import RUNS_MAX
from headwater.values.address import Depth
from headwater.values.codec import encode
from headwater.values.ids import DocKey
from headwater.values.tree import ABSENT, Array, Maybe, Path, Value, array_of, is_array, is_link, same

R = TypeVar("R")
T = TypeVar("T")
_DEEP: Final = Depth.DEEP
_SHALLOW: Final = Depth.SHALLOW
_ALL: Final = slice(None)


class Roster:
    """The elements of one run of a list."""

    __slots__ = ("_by_token", "entries", "stored")

    def __init__(self, entries: list[ElementEntry | None], stored: Array | None = None) -> None:
        # None: an empty slot.
        self.entries = entries
        if stored is None:
            stored = array_of([None if entry is None else entry.reference() for entry in entries])
        self.stored = stored
        self._by_token: dict[str | bytes, ElementEntry] | None = None

    def has_stored(self, stored: Maybe) -> bool:
        """Whether a stored list is of this run."""
        if stored is not self.stored:
            if not is_array(stored) or not same(stored, self.stored):
                return False
            # An equal one was there before: found at once the next time.
            self.stored = stored
        return True

    def entry_of(self, reference: Value) -> ElementEntry | None:
        """The element with a reference."""
        if self._by_token is None:
            pairs = zip(self.stored, self.entries, strict=True)
            self._by_token = {_token(value): entry for value, entry in pairs if value is not None and entry is not None}
        return None if reference is None else self._by_token.get(_token(reference))

    def take_tokens(self, before: Roster, gone: Iterable[ElementEntry], added: Iterable[ElementEntry]) -> None:
        """Find elements as the roster before did, which is not asked any more."""
        if before._by_token is not None:
            self._by_token, before._by_token = before._by_token, None
            for entry in gone:
                self._by_token.pop(_token(entry.reference()), None)
            for entry in added:
                self._by_token[_token(entry.reference())] = entry


class ComputedList(Computed[[], list[R]]):
    """A list, called to be read: `rows()`. `len(rows)`, `rows[3]` and a loop read no more than they need."""

    def __init__(self, app: Owner, name: str, doc: str, origin: Callable[..., object]) -> None:
        super().__init__(app, self._plain, name, doc, NO_OPTIONS)
        self._origin = origin
        # By open space: the elements of the last run.
        self._rosters: WeakKeyDictionary[FunctionPort, Roster] = WeakKeyDictionary()

    @abstractmethod
    def _plain(self) -> list[R]:
        """The list as plain code makes it: for a transaction with writes that no node has seen."""

    @abstractmethod
    def _roster(self, home: FunctionPort, tx: Transaction, before: Roster | None) -> Roster:
        """Its elements, in the run of its node. If they are the same as before, it is the same roster."""

    @abstractmethod
    def _parts_of_list(self) -> list[Computed[..., Any]]:
        """The functions that are part of it."""

    # -- its node ------------------------------------------------------------------------------------------

    def _resolve(self) -> None:
        self._returned_types = frozenset()

    def to_stored(self, value: object) -> Value:
        assert is_array(value)
        return value

    def register(self, space: FunctionPort) -> None:
        """Register its node in an open space, after those of its parts: a reader may read it at once."""
        if self in space.nodes:
            return
        for part in self._parts_of_list():
            part.register(space)
        self._resolve()
        spec = self._spec(space, self.name, lambda: self._run(space), self._key)
        self._renew(space, space.add_node(self, spec))

    def _spec(self, space: FunctionPort, name: str, fn: Callable[..., object], doc: DocKey) -> NodeSpec:
        spec = super()._spec(space, name, fn, doc)
        spec.origin = self._origin
        # No fingerprint: only a run of the list makes its elements again. Each element has a fingerprint.
        spec.fingerprint = None
        return spec

    def _run(self, home: FunctionPort) -> Array:
        frame = CONTEXT.get()
        assert frame is not None
        assert frame.tx is not None
        roster = self._rosters[home] = self._roster(home, frame.tx, self._rosters.get(home))
        return roster.stored

    # -- reading -------------------------------------------------------------------------------------------

    def entries_in(self, home: FunctionPort, tx: Transaction | None) -> list[ElementEntry | None]:
        """Its elements, for another list. Depends on their identity, not on their values."""
        if self not in home.nodes and isinstance(successor := self._successor(home), ComputedList):
            return successor.entries_in(home, tx)
        self._make_list(home, tx)
        stored, roster = self._stored(home, tx), self._rosters.get(home)
        if roster is None or not is_array(stored):
            return []
        return roster.entries if roster.has_stored(stored) else [roster.entry_of(value) for value in stored]

    def __call__(self) -> list[R]:
        ready = self._ready()
        if isinstance(ready, list):
            return list(ready)
        home, tx = ready
        if tx is not None:
            return self._values_in(home, tx)
        found = self._while_current(home, tx, (), lambda stored: self._values(home, stored))
        if home.runtime.has_work:
            home.catch_up()
        return found

    def _values_in(self, home: FunctionPort, tx: Transaction) -> list[R]:
        """All elements, in a transaction."""
        return self._values(home, self._stored(home, tx))

    def __len__(self) -> int:
        ready = self._ready()
        if isinstance(ready, list):
            return len(ready)
        stored = self._stored(*ready, depth=_SHALLOW)
        return len(stored) if is_array(stored) else 0

    def __iter__(self) -> Iterator[R]:
        index = 0
        while True:
            found = self._at(index)
            if found is _END:
                return
            yield cast("R", found)
            index += 1

    @overload
    def __getitem__(self, index: int) -> R: ...
    @overload
    def __getitem__(self, index: slice) -> list[R]: ...
    def __getitem__(self, index: int | slice) -> R | list[R]:
        if isinstance(index, slice):
            return self._slice(index)
        if type(index) is not int:
            raise TypeError(f"list indices are numbers or slices, not {type(index).__name__}")
        place = index + len(self) if index < 0 else index
        found = self._at(place) if place >= 0 else _END
        if found is _END:
            raise IndexError(f"{self.name} has no element {index}: its length is {len(self)}")
        return cast("R", found)

    def _slice(self, index: slice) -> list[R]:
        ready = self._ready()
        if isinstance(ready, list):
            return ready[index]
        home, tx = ready
        if tx is not None:
            # Depends on these elements, and on the length.
            return read_all(range(*index.indices(len(self))), lambda place: self[place])
        return self._while_current(home, tx, (), lambda stored: self._values(home, stored, index))

    def _at(self, index: int) -> object:
        """One element; _END if there are fewer. Depends on nothing else."""
        ready = self._ready()
        if isinstance(ready, list):
            return ready[index] if index < len(ready) else _END
        home, tx = ready
        return self._while_current(
            home, tx, (index,), lambda stored: _END if stored is ABSENT else self._value(home, stored)
        )

    def _ready(self) -> tuple[FunctionPort, Transaction | None] | list[R]:
        """Space and transaction, with the list current; or the list itself, where its node does not apply."""
        home, tx = find(self._app, self)
        assert isinstance(home, FunctionPort)
        if self not in home.nodes:
            # Replaced by another declaration, as in a notebook, or not declared any more.
            successor = self._successor(home)
            return self._call_without_node(home, tx) if successor is None else cast("list[R]", successor())
        if tx is not None and self in tx.memo:
            return cast("list[R]", tx.memo[self])
        if tx is not None and tx.has_writes:
            # Until the next write.
            found = tx.memo[self] = self._call_plain(home, tx)
            return found
        self._make_list(home, tx)
        return home, tx

    def _make_list(self, home: FunctionPort, tx: Transaction | None) -> None:
        """Make the list current. If its first result is rolled back before it is read, it runs again."""
        for _ in range(RUNS_MAX):
            self.current_in(home, tx)
            node = home.nodes.get(self)
            if node is None or self._is_stored(home, tx, node):
                return

    def _stored(self, home: FunctionPort, tx: Transaction | None, path: Path = (), depth: Depth = _DEEP) -> Maybe:
        """References: the read is recorded, no link is followed."""
        source: ReadSource = home.untracked if tx is None else tx
        doc = self._key
        if is_link(source.document(doc)):
            # Made of values that are scoped to a user, the list is scoped to that user.
            place = Traverse(source, home).resolve(doc, ())
            doc = doc if place is None else place.doc
        return source.read(doc, path, depth)

    def _while_current(self, home: FunctionPort, tx: Transaction | None, path: Path, read: Callable[[Maybe], T]) -> T:
        """Read elements by their references.

        Between two elements, plain code takes in commits of others and rollbacks. An element may be gone after that: if
        the list is another one now, it is read again.
        """
        for _ in range(RUNS_MAX if tx is None else 0):
            version, stored = home.replica.version, self._stored(home, tx, path)
            try:
                found = read(stored)
            except Exception as error:
                # A part of an element that was missing only until its function ran again is in the same list.
                is_missing = isinstance(error, SchemaError) and home.replica.version != version
                if not self._is_another(home, path, stored, version) and not is_missing:
                    raise
            else:
                if not self._is_another(home, path, stored, version):
                    return found
        return read(self._stored(home, tx, path))

    def _is_another(self, home: FunctionPort, path: Path, stored: Maybe, version: int) -> bool:
        if home.replica.version == version:
            return False
        self._make_list(home, None)
        return not same(self._stored(home, None, path), stored)

    def _values(self, home: FunctionPort, stored: Maybe, part: slice = _ALL) -> list[R]:
        return read_all(stored[part] if is_array(stored) else (), lambda value: self._value(home, value))

    def _value(self, home: FunctionPort, stored: Maybe) -> R:
        if stored is None or stored is ABSENT:
            return cast("R", None)
        roster = self._rosters.get(home)
        entry = None if roster is None else roster.entry_of(stored)
        # Not known: of an outdated run, and so is its reader.
        return cast("R", as_linked(home, stored) if entry is None else entry.read())

    def __repr__(self) -> str:
        return f"<{type(self).__qualname__.lower()} {self._doc}>"


_END: Final = object()


def roster_of(entries: list[ElementEntry | None], before: Roster | None) -> Roster:
    """The roster of these elements: the one before, if it has the same."""
    return Roster(entries) if before is None or entries != before.entries else before


def read_all(things: Iterable[T], read: Callable[[T], R]) -> list[R]:
    """Read each of several. Raises the first error; if there is none, the first NotReadyError.

    All are read, whatever fails. If one is in progress, the next would else start only after it. If one failed, a
    reader that stops there would drop the elements behind it, and all would run again when that one is fixed.
    """
    found: list[R] = []
    failed: Exception | None = None
    for thing in things:
        try:
            found.append(read(thing))
        except NotReadyError as error:
            failed = failed or error
        except Exception as error:  # noqa: BLE001  # raised below
            failed = error if failed is None or isinstance(failed, NotReadyError) else failed
    if failed is not None:
        raise failed
    return found


def _token(reference: Value) -> str | bytes:
    """The key of a reference."""
    return own_link(reference) or encode(reference)
