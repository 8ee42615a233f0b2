"""The stored form of the arguments of a call, for restoring the call in a later session.

Text, numbers, None, lists and dicts of these, tuples of these, documents and cells have a stored form. A document is
stored by its id and restored as the class that the parameter is annotated with; a cell is restored as the app's own. A
run with any other argument has no stored form: it runs again after the next opening.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from inspect import BoundArguments, Signature
from typing import Final, get_type_hints

import msgspec

from headwater.cells.context import Owner
from headwater.cells.document_class import Doc, open_doc
from headwater.cells.document_operations import identity_key
from headwater.cells.reading import Readable
from headwater.cells.space_port import SpacePort
from headwater.declare.functions.instances import key_of
from headwater.errors import HeadwaterError
from headwater.store.observations import Arguments
from headwater.values.address import doc_key
from headwater.values.codec import decode

STORED_MAX: Final = 4_096
"""Characters of the arguments of one call. They are stored with each run that makes the call."""

_SCALARS: Final[Mapping[str, Callable[[str], object]]] = {
    "text": str,
    "int": int,
    "float": float,
    "bool": lambda text: text == "True",
    "NoneType": lambda _: None,
}
_CONTAINERS: Final[Mapping[str, Callable[[bytes], object]]] = {
    "plain": msgspec.msgpack.decode,
    "tuple": lambda body: tuple(msgspec.msgpack.decode(body)),
    # A value read from a cell.
    "frozen": decode,
}
_SPACE_SCOPE: Final = "space!"
"""The beginning of the key of a document that is shared by all users."""


def stored_arguments(fn: Callable[..., object], owner: Owner, bound: BoundArguments) -> Arguments | None:
    """The stored form of arguments; None if one of them has none."""
    key = key_of(bound.arguments)
    if key is None or sum(len(text) for part in key for text in part) > STORED_MAX:
        return None
    found: list[tuple[str, ...]] = []
    for (name, given), part in zip(bound.arguments.items(), key, strict=True):
        kept: tuple[str, ...] | None = None
        if part[0] in _SCALARS:
            kept = part
        elif part[0] == "doc":
            is_everybodys = part[2].startswith(_SPACE_SCOPE)
            kept = part if is_everybodys and _class_of(fn, name) is type(given) else None
        elif part[0] == "cell":
            kept = part if isinstance(given, Readable) and _cell_at(owner, part[1]) is given else None
        else:
            body = bytes.fromhex(part[1])
            how = next((how for how, made in _CONTAINERS.items() if _is_same(_decoded(made, body), given)), None)
            kept = None if how is None else (*part, how)
        if kept is None:
            return None
        found.append(kept)
    return tuple(found)


def restored_arguments(
    fn: Callable[..., object], signature: Signature, owner: Owner, home: SpacePort, stored: Arguments
) -> BoundArguments | None:
    """The arguments of a stored form; None if the function does not take them any more."""
    if len(stored) != len(signature.parameters):
        return None
    found: dict[str, object] = {}
    for name, part in zip(signature.parameters, stored, strict=True):
        try:
            found[name] = _argument(fn, name, owner, home, part)
        except (LookupError, ValueError, TypeError, HeadwaterError, msgspec.MsgspecError):
            # Damaged, or stored by another version of the program.
            return None
    return BoundArguments(signature, found)


def _argument(fn: Callable[..., object], name: str, owner: Owner, home: SpacePort, part: tuple[str, ...]) -> object:
    kind = part[0]
    if kind in _SCALARS:
        return _SCALARS[kind](part[1])
    if kind == "value":
        return _CONTAINERS[part[2]](bytes.fromhex(part[1]))
    if kind == "cell":
        cell = _cell_at(owner, part[1])
        if cell is None:
            raise LookupError(part[1])
        return cell
    cls = _class_of(fn, name)
    if kind != "doc" or cls is None or cls.__name__ != part[1] or not part[2].startswith(_SPACE_SCOPE):
        raise LookupError(part)
    doc = part[2].removeprefix(_SPACE_SCOPE)
    made = open_doc(cls, home, doc, doc_key(doc))
    if identity_key(made) != part[2]:
        raise LookupError(part)
    return made


def _class_of(fn: Callable[..., object], name: str) -> type[Doc] | None:
    """The document class that a parameter is annotated with."""
    try:
        hint = get_type_hints(fn).get(name)
    except (NameError, TypeError, AttributeError):
        return None
    return hint if isinstance(hint, type) and issubclass(hint, Doc) else None


def _cell_at(owner: Owner, address: str) -> Readable | None:
    """The cell with this address, if the app declares it."""
    declared: Mapping[str, object] = getattr(owner, "declared", {})
    found = declared.get(address.partition(".")[2])
    return found if isinstance(found, Readable) and found.address == address else None


def _decoded(how: Callable[[bytes], object], body: bytes) -> object:
    try:
        return how(body)
    except (TypeError, ValueError, msgspec.MsgspecError):
        return None


def _is_same(one: object, other: object) -> bool:
    """Equal, of the same classes, in the same order."""
    if type(one) is not type(other):
        return False
    if isinstance(one, dict) and isinstance(other, dict):
        return list(one) == list(other) and all(_is_same(one[key], other[key]) for key in one)
    if isinstance(one, list | tuple) and isinstance(other, list | tuple):
        return len(one) == len(other) and all(map(_is_same, one, other))
    return one == other
