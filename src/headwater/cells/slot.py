"""A typed address that can be written: through links, with defaults filled in, inside or outside a transaction.

Length: each way of writing depends on the others; a former name of a field is moved by all of them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, cast

from headwater.cells.binding import WRITE_SPACE, with_own_values
from headwater.cells.context import CONTEXT, UNTRACKED, find
from headwater.cells.cross_space import WRITTEN, crossing_error
from headwater.cells.journal import IGNORED_FOR_CONFLICT, IGNORED_FOR_SCHEDULING, Flags
from headwater.cells.linked_spaces import LinkedSpace
from headwater.cells.reading import HANDLES, MISSING, Readable
from headwater.cells.space_port import SpacePort
from headwater.cells.transaction import Transaction
from headwater.cells.traverse import ReadSource, ResolvedAddress, Traverse, holds_link, own_link
from headwater.errors import AddressError, SchemaError
from headwater.store.commit import PatchDoc, SetDoc
from headwater.values.address import Depth, address_text, is_far, is_prefix, split_far
from headwater.values.frozen import FrozenDict
from headwater.values.hints import UNMEASURED, freeze_with, measure
from headwater.values.ids import DocKey, SpaceId
from headwater.values.intake import RefusedError
from headwater.values.patch import Add, Append, PatchOp, Remove, Replace, Splice
from headwater.values.patching import apply_patch
from headwater.values.schema import Schema, short
from headwater.values.tree import (
    ABSENT,
    LINK_TAG,
    Array,
    Maybe,
    Path,
    Step,
    Value,
    array_of,
    child,
    get,
    is_array,
    is_link,
)

_SHALLOW: Final = Depth.SHALLOW
_PARTS_MAX: Final = 64
"""Cached parts of a slot. The fields of a record fit; caching the keys of a large dict would only take memory."""
_ANYWHERE: Final = 2**31
"""An index that lists have and tuples of a fixed length do not: only lists can grow."""


_DEEP: Final = Depth.DEEP


class WritePreview:
    """A transaction as it would be after one more write, for rules that are checked before the write.

    Reads are recorded in the transaction; one document is read with its future value.
    """

    __slots__ = ("_after", "_doc", "_tx")

    def __init__(self, tx: Transaction, doc: DocKey, after: Maybe) -> None:
        self._tx = tx
        self._doc = doc
        self._after = after

    def read(self, doc: DocKey, path: Path = (), depth: Depth = _DEEP, flags: Flags = 0) -> Maybe:
        """The value at the address after the write."""
        found = self._tx.read(doc, path, depth, flags)
        return get(self._after, path) if doc == self._doc else found

    def document(self, doc: DocKey) -> Maybe:
        """The document after the write."""
        return self._after if doc == self._doc else self._tx.document(doc)

    def record(self, doc: DocKey, path: Path, depth: Depth, flags: Flags = 0) -> None:
        """Record a read."""
        self._tx.record(doc, path, depth, flags)


class Slot(Readable):
    """A typed address that can be written. It holds no value: each use finds its space and transaction."""

    __slots__ = ()

    # -- parts ---------------------------------------------------------------------------------------------

    def _part(self, step: Step) -> Slot:
        if type(step) is str:
            # Keys are few and reused; indexes are not.
            parts = self._parts
            if parts is None:
                parts = self._parts = {}
            part = parts.get(step)
            if part is None:
                part = self._make(step)
                if len(parts) < _PARTS_MAX:
                    parts[step] = part
            return part
        if type(step) is not int or step < 0:
            message = f"{step!r} is not a step into {self.address}: a key (text) or an index (a number) is expected"
            if type(step) is int:
                message = f"{step} is not a step into {self.address}: elements are counted from the front, from 0 on"
            raise AddressError(message, step=step)
        return self._make(step)

    def _make(self, step: Step) -> Slot:
        schema = self._schema.child(step)
        if self._change is not None and self._change.retype is not None:
            # Below a value of the former type there is nothing of the new one.
            message = (
                f"{self.address} is being retyped: read and write it as a whole until `changes` no longer names it"
            )
            raise SchemaError(message, step=step)
        if schema is None:
            message = f"{self.address} has no part {step!r}: it is declared as {self._schema.expected}"
            raise SchemaError(message, step=step, expected=self._schema.expected)
        return self._sibling((*self._path, step), schema, self._schema.field_default(step), self)

    def _sibling(self, path: Path, schema: Schema, default: Maybe, parent: Slot | None) -> Slot:
        """Another slot of the same kind in the same document."""
        doc, scope = self._scope
        return Slot(self._owner, doc, path, schema=schema, default=default, scope=scope, key=self._doc, parent=parent)

    # -- writing -------------------------------------------------------------------------------------------

    def _write(self, new: object) -> None:
        tree = self._stored(self._schema, new)
        if self._parent is not None and self._rule_root() is not None:
            self._put(*find(self._owner, self, WRITTEN), tree)
            return
        frame = CONTEXT.get()
        if frame is not None and frame.space is self._owner and not frame.space.needs_check:
            # The same as `find`, at half the cost.
            space, tx = frame.space, frame.tx
        else:
            space, tx = find(self._owner, self, WRITTEN)
        doc = self._doc or space.key(*self._scope)
        path = self._path
        if tx is None and path and space.gate is not None:
            # The effect of writing a part depends on the document; a whole document is overwritten.
            space.gate(doc)
        there = space.replica.read(doc) if tx is None else tx.document(doc)
        for step in path:
            # The commonest step, without a call; an index is never found.
            if type(there) is FrozenDict and LINK_TAG not in there:
                there = there.get(step, ABSENT)  # type: ignore[arg-type]
            else:
                there = child(there, step)
        if self._change is not None or (self._linking == HANDLES and own_link(tree) is None and holds_link(tree)):
            # A former name is removed; a link may lead to the value that is overwritten.
            self._put(space, tx, tree)
        elif (path and there is ABSENT) or (type(there) is FrozenDict and is_link(there)):
            # Links on the path, or defaults to be stored first.
            self._put(space, tx, tree)
        elif tx is not None:
            tx.set(doc, path, tree)
        else:
            space.replica.commit((PatchDoc(doc, (Replace(path, tree),)) if path else SetDoc(doc, tree),))
            if space.runtime.has_work or space.inbox:
                space.runtime.catch_up()

    def _stored(self, schema: Schema, new: object) -> Value:
        """An author's value as a tree. Raises SchemaError, AddressError or LimitError, naming this address."""
        if self._linking and WRITE_SPACE.get() is None:
            # Documents and cells in the value are checked to belong to this space.
            token = WRITE_SPACE.set(find(self._owner, self, UNTRACKED)[0])
            try:
                return self._stored(schema, new)
            finally:
                WRITE_SPACE.reset(token)
        try:
            tree = schema.store(new)
            if type(tree) not in UNMEASURED:
                measure(tree)
        except RefusedError:
            # Again, for the full message: the address is computed only for errors.
            return freeze_with(schema, new, self.address)
        return tree

    def _put(self, space: SpacePort, tx: Transaction | None, tree: Value) -> None:
        if tx is None:
            with space.transaction() as own:
                self._put(space, own, tree)
            return
        if self._parent is not None:
            self._parent._materialize(space, tx)
        if self._change is not None:
            self._move(tx, self._target(space, tx, only_redirects=True))
        resolved = self._target(space, tx, only_redirects=True)
        if self._linking == HANDLES:
            there = get(tx.document(resolved.doc), resolved.path)
            stored = with_own_values(tree, resolved.doc, resolved.path, self._default if there is ABSENT else there)
            if stored is ABSENT:
                return
            tree = stored
        try:
            guard = self._rule_root()
            if guard is not None:
                there = get(tx.document(resolved.doc), resolved.path)
                self._check_rules(
                    guard, space, tx, resolved.doc, (Add if there is ABSENT else Replace)(resolved.path, tree)
                )
            tx.set(resolved.doc, resolved.path, tree)
        except AddressError as error:
            raise self._misfit(error) from None

    # -- rules ---------------------------------------------------------------------------------------------

    def _rule_root(self, *, edited: bool = False, removed: bool = False) -> Slot | None:
        """The outermost containing value whose rules a write here may break; None if there is none.

        A value that is written as a whole is checked by its own type. The result of an edit is not, nor what is left
        when it is `removed`.
        """
        if self._guard is MISSING:
            self._guard = self._find_guard()
        found = cast("Slot | None", self._guard)
        if found is None and edited:
            schema = self._schema
            if schema.has_rules() or (schema.is_leaf and not schema.plain):
                return self
        if found is None and removed and self._parent is not None and self._parent._schema.needs(self._path[-1]):
            return self._parent
        return found

    def _find_guard(self) -> Slot | None:
        found: Slot | None = None
        slot: Slot = self
        while slot._parent is not None:
            parent, schema = slot._parent, slot._parent._schema
            below = schema.child(slot._path[-1])
            if below is None or below.as_handle(linked=False) is not None:
                # A handle: its container holds the handle, whatever is written to it.
                break
            if schema.has_rules():
                found = parent
            slot = parent
        return found

    def _check_rules(self, guard: Slot, space: SpacePort, tx: Transaction, doc: DocKey, op: PatchOp) -> None:
        """Refuse an operation after which the containing value could not be read. Reads of the rules are recorded."""
        after, _ = apply_patch(tx.document(doc), op)
        source = WritePreview(tx, doc, after)
        traverse = Traverse(source, space, IGNORED_FOR_SCHEDULING)
        key = guard._key(space)
        resolved = traverse.resolve(key, guard._path)
        if resolved is None or get(traverse.document(resolved.doc), resolved.path) is ABSENT:
            return
        read = source.read(key, guard._path, Depth.DEEP, IGNORED_FOR_SCHEDULING)
        try:
            guard._load(space, traverse, key, read)
        except SchemaError as error:
            reason = error.facts.get("reason", error.message)
            whole = "" if guard is self else f", or write {guard.address} as a whole"
            message = f"cannot write {self.address}: {reason}. Nothing was written; write what fits{whole}"
            raise SchemaError(message, doc=doc, path=self._path, reason=reason, whole=guard.address) from None

    def _patch(self, space: SpacePort, tx: Transaction, doc: DocKey, op: PatchOp, guard: Slot | None) -> None:
        if guard is not None:
            self._check_rules(guard, space, tx, doc, op)
        tx.patch(doc, op)

    def _target(self, space: SpacePort, tx: Transaction, *, only_redirects: bool = False) -> ResolvedAddress:
        """The address that a write changes: links above are followed; a link here is replaced, unless it redirects."""
        doc = self._key(space)
        traverse = Traverse(tx, space, IGNORED_FOR_SCHEDULING)
        resolved = traverse.resolve(doc, self._path, only_redirects=only_redirects, only_near=True)
        if resolved is None:
            message = f"cannot write {self.address}: the links on its path form a cycle or leave its scope"
            raise AddressError(message, doc=doc, path=self._path)
        if is_far(resolved.doc):
            # Through a redirect: no commit covers two spaces.
            far, own = split_far(resolved.doc)
            there = LinkedSpace(SpaceId(far), space).sole_space(self)
            raise crossing_error(tx, space, there, address_text(own, resolved.path), WRITTEN)
        return resolved

    def _materialize(self, space: SpacePort, tx: Transaction) -> None:
        """Store the defaults that a write below, or an edit here, builds on."""
        if self._parent is not None:
            self._parent._materialize(space, tx)
        resolved = self._target(space, tx)
        if self._change is not None:
            self._move(tx, resolved)
            self._convert(space, tx, resolved)
        if get(tx.document(resolved.doc), resolved.path) is not ABSENT:
            return
        if self._default is ABSENT or not self._default:
            return
        # Checked for conflicts: of two concurrent writes, the second runs again on the result of the first.
        tx.read(resolved.doc, resolved.path, _SHALLOW, IGNORED_FOR_SCHEDULING)
        _fill_in(tx, resolved.doc, resolved.path, self._default)

    def _move(self, tx: Transaction, resolved: ResolvedAddress) -> None:
        """Store the value under its name of today, if it is under a former one."""
        assert self._change is not None
        above = resolved.path[:-1]
        document = get(tx.document(resolved.doc), above)
        name = self._change.name_in(document)
        if name != self._change.name:
            value = child(document, name)
            assert value is not ABSENT
            # Checked for conflicts, as in `_materialize`.
            tx.read(resolved.doc, (*above, name), _DEEP, IGNORED_FOR_SCHEDULING)
            tx.set(resolved.doc, resolved.path, value)
            tx.patch(resolved.doc, Remove((*above, name)))

    def _convert(self, space: SpacePort, tx: Transaction, resolved: ResolvedAddress) -> None:
        """Store the value in the type of today, if it is of a former one: an edit builds on it."""
        assert self._change is not None
        value = get(tx.document(resolved.doc), resolved.path)
        if value is not ABSENT and self._change.is_old(value):
            tx.read(resolved.doc, resolved.path, _DEEP, IGNORED_FOR_SCHEDULING)
            made = self._change.made(value, address_text(resolved.doc, resolved.path), space, space)
            tx.set(resolved.doc, resolved.path, made)

    def _edit(self, make: Callable[[Path], PatchOp]) -> None:
        """Edit the value by one operation, without reading it: concurrent edits merge."""
        space, tx = find(self._owner, self, WRITTEN)
        doc = self._key(space)
        there = get(space.replica.read(doc) if tx is None else tx.document(doc), self._path)
        guard = self._rule_root(edited=True)
        is_blind = tx is None and not self._path and not self._default and space.replica.is_missing(doc)
        try:
            if (
                guard is not None
                or (there is ABSENT and not is_blind)
                or is_link(there)
                or (self._change is not None and self._change.retype is not None)
            ):
                # Rules above, links on the path, or defaults to be stored first.
                self._edit_in(space, tx, make, guard)
            elif tx is not None:
                tx.patch(doc, make(self._path))
            else:
                space.commit_one(PatchDoc(doc, (make(self._path),)))
        except AddressError as error:
            raise self._misfit(error) from None

    def _misfit(self, error: AddressError) -> AddressError:
        """The error of an operation, which knows only its path, with the address of this slot."""
        if "place" in error.facts:
            return error
        return AddressError(f"{self.address} cannot be written: {error.message}", **error.facts, place=self.address)

    def _edit_in(
        self, space: SpacePort, tx: Transaction | None, make: Callable[[Path], PatchOp], guard: Slot | None
    ) -> None:
        if tx is None:
            with space.transaction() as own:
                self._edit_in(space, own, make, guard)
            return
        self._materialize(space, tx)
        resolved = self._target(space, tx)
        self._patch(space, tx, resolved.doc, make(resolved.path), guard)

    def _current(self) -> Maybe:
        """The current value or default, not recorded: for writes that need an index or a length."""
        space, tx = find(self._owner, self, WRITTEN)
        source: ReadSource = space.untracked if tx is None else tx
        traverse = Traverse(source, space, IGNORED_FOR_SCHEDULING | IGNORED_FOR_CONFLICT)
        doc = self._key(space)
        resolved = traverse.resolve(doc, self._path)
        value = ABSENT if resolved is None else get(traverse.document(resolved.doc), resolved.path)
        return self._effective_default(traverse, doc) if value is ABSENT else value

    def _insert(self, index: int, items: Array) -> None:
        """Insert items before an element, as `list.insert`; an insertion at the end is an append, which merges."""
        there = self._current()
        length = len(there) if is_array(there) else 0
        at = max(0, length + index) if index < 0 else index
        if items:
            self._edit(lambda path: Splice(path, at, 0, items) if at < length else Append(path, items))

    def _remove(self) -> None:
        """Remove the stored value, if any."""
        space, tx = find(self._owner, self, WRITTEN)
        if tx is None:
            with space.transaction():
                self._remove()
            return
        resolved = self._target(space, tx, only_redirects=True)
        if self._change is not None:
            self._move(tx, resolved)
        if not resolved.path:
            tx.delete(resolved.doc)
        elif get(tx.document(resolved.doc), resolved.path) is not ABSENT:
            self._patch(space, tx, resolved.doc, Remove(resolved.path), self._rule_root(removed=True))

    def _items(self, items: Iterable[object], *, ruled: bool = True) -> Array:
        """Items for the list at this address, checked; only by their type if they are not `ruled`."""
        schema = self._schema.child(_ANYWHERE)
        if schema is not None and not ruled:
            schema = schema.bare
        given: object = items
        if schema is None or isinstance(given, str | bytes) or not isinstance(given, Iterable):
            found = f"it is declared as {self._schema.expected}" if schema is None else f"{short(given)} was given"
            message = f"cannot add to {self.address}: a list, and items for it, are expected, and {found}"
            raise SchemaError(message, expected=self._schema.expected)
        return array_of([self._stored(schema, item) for item in items])


def _fill_in(tx: Transaction, doc: DocKey, path: Path, value: Value) -> None:
    """Store the default of an address. Allowed if writing below it is allowed, because no read changes."""
    read_only = tx.read_only
    if read_only and any(doc == at and is_prefix(path, allowed) for at, allowed in tx.surface):
        tx.read_only = ""
    try:
        tx.set(doc, path, value)
    finally:
        tx.read_only = read_only
