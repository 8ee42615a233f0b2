"""Addresses: scope, document and path of a value, as records and as text, and when two paths overlap.

A document is found by its key, `<scope>/<id>`. The scope instance is part of every key from the first commit on, and
never part of how an id is derived. As text an address is `id/step/step`, with `~1` for a slash and `~0` for a tilde in
a step, `~` for the empty key, and the scope in front, as in `user:ann!id`, unless it is the scope of the space. An
address in another space begins with the id of that space: `hw://SPACEID/id/step`.

A document of another space has a far key: the id of that space, a bar, and its key there. Neither an id nor the text of
a scope contains a bar, so a key is far if and only if a bar comes before its first slash.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from enum import Enum
from types import MappingProxyType
from typing import Final
from urllib.parse import quote, unquote

import msgspec

from headwater.errors import AddressError, NameRefusedError
from headwater.values.ids import DocId, DocKey, SessionId, SpaceId
from headwater.values.intake import step_text
from headwater.values.space_ids import check_space_id
from headwater.values.tree import Maybe, Path, Step, child, is_array
from headwater.values.value_limits import KEY_BYTES_MAX


class Depth(Enum):
    """How deep a read is."""

    DEEP = "deep"
    """The value with everything below."""
    SHALLOW = "shallow"
    """Only the keys or the length."""


def _check_name(what: str, name: str) -> None:
    """Refuse a name that cannot be part of a document's key."""
    if not name:
        raise NameRefusedError(f"{what} is empty", name=name)
    try:
        size = len(name.encode())
    except UnicodeEncodeError:
        raise NameRefusedError(f"{what} {name!r} holds a lone surrogate", name=name) from None
    if size > KEY_BYTES_MAX:
        message = f"{what} of {size:,} bytes; at most {KEY_BYTES_MAX:,} are allowed (it starts {name[:20]!r})"
        raise NameRefusedError(message, name=name)


class Scope(msgspec.Struct, frozen=True):
    """The instance of a document: of the space, of one user, or of one session. From broad to narrow."""

    user: str = ""
    session: str = ""

    def __post_init__(self) -> None:
        if self.session:
            _check_name("a session", self.session)
        if self.user or self.session:
            _check_name("the user of a scope", self.user)

    @property
    def text(self) -> str:
        """Canonical: equal scopes have equal texts. Parts are percent-encoded, so no separator occurs in them."""
        if self.session:
            return f"session:{quote(self.user, safe='')}:{quote(self.session, safe='')}"
        return f"user:{quote(self.user, safe='')}" if self.user else _SPACE


_SPACE: Final = "space"
SPACE_SCOPE: Final = Scope()


def user_scope(user: str) -> Scope:
    """One user's instance, in every session of that user."""
    _check_name("the user of a scope", user)
    return Scope(user=user)


def session_scope(user: str, session: SessionId) -> Scope:
    """One session's instance."""
    _check_name("the session of a scope", session)
    return Scope(user=user, session=session)


def parse_scope(text: str) -> Scope:
    """The inverse of `Scope.text`; refuses every spelling but the canonical one."""
    if text == _SPACE:
        return SPACE_SCOPE
    kind, *parts = text.split(":")
    scope: Scope | None = None
    match kind, [unquote(part) for part in parts]:
        case "user", [user] if user:
            scope = Scope(user=user)
        case "session", [user, session] if user and session:
            scope = Scope(user=user, session=session)
    if scope is None or scope.text != text:
        message = f"{text!r} is not a scope: space, user:NAME or session:NAME:ID is expected"
        raise NameRefusedError(message, scope=text)
    return scope


def doc_key(doc: str, scope: Scope = SPACE_SCOPE) -> DocKey:
    """The key a document is stored, indexed and cached by."""
    if scope is SPACE_SCOPE and type(doc) is str and doc.isascii() and 0 < len(doc) <= KEY_BYTES_MAX:
        # The commonest case, without a check of each byte.
        return DocKey(f"space/{doc}")
    _check_name("a document id", doc)
    return DocKey(f"{scope.text}/{doc}")


def split_key(key: DocKey) -> tuple[Scope, DocId]:
    """The inverse of `doc_key`."""
    scope, _, doc = key.partition("/")
    return parse_scope(scope), DocId(doc)


_BAR: Final = "|"


def far_key(space: str, key: DocKey) -> DocKey:
    """The key of a document of another space, by the id of that space."""
    return DocKey(f"{space}{_BAR}{key}")


def is_far(key: DocKey) -> bool:
    """Whether it is the key of a document of another space."""
    return _BAR in key and _BAR in key.partition("/")[0]


def split_far(key: DocKey) -> tuple[str, DocKey]:
    """The inverse of `far_key`: the id of the space, and the key there."""
    space, _, own = key.partition(_BAR)
    return space, DocKey(own)


class Address(msgspec.Struct, frozen=True):
    """An address. Without a space: in the space at hand."""

    doc: DocKey
    path: Path = ()
    space: SpaceId = SpaceId("")

    def __str__(self) -> str:
        text = address_text(self.doc, self.path)
        return f"{SCHEME}{self.space}/{text}" if self.space else text


# --- as text --------------------------------------------------------------------------------------------------

SCHEME: Final = "hw://"
"""How an address begins that names its space. No address within a space does: an empty step is refused."""

NO_NAMES: Final[Mapping[str, str]] = MappingProxyType({})

_BAD_ESCAPE: Final = re.compile(r"~(?![01])")


def path_text(path: Path) -> str:
    """A path as people write it: `items/3/title`. Empty for the root, and for nothing else."""
    return "/".join(map(step_text, path))


def address_text(doc: DocKey, path: Path = (), names: Mapping[str, str] = NO_NAMES) -> str:
    """An address as people write it; the scope of the space is left out where possible.

    Of a far key, the space comes first: its name, if `names` has it by its id, or its id.
    """
    scope, _, name = doc.partition("/")
    if _BAR in scope:
        space, own = split_far(doc)
        return f"{names.get(space, space)}:{address_text(own, path)}"
    shown = step_text(name)
    if scope != _SPACE or "!" in name:
        shown = f"{scope}!{shown}"
    return "/".join((shown, *map(step_text, path)))


def parse_address(text: str) -> tuple[DocKey, tuple[str, ...]]:
    """Document key and path steps, all as text: `settle_path` decides which of them are indexes."""
    head, *steps = text.split("/")
    scope, mark, name = head.partition("!")
    if mark and scope in ("user", "session"):
        message = f"{text!r} does not say whose: {scope}:NAME!... is expected, as in user:ann!{name}"
        raise NameRefusedError(message, text=text)
    if not mark or not (scope == _SPACE or scope.startswith(("user:", "session:"))):
        scope, name = _SPACE, head
    return doc_key(_parse_step(name, text), parse_scope(scope)), tuple(_parse_step(step, text) for step in steps)


def parse_far_address(text: str) -> tuple[SpaceId, DocKey, tuple[str, ...]]:
    """Space, document key and path steps of an address. The space is empty if the text does not name one.

    Raises AddressError, with the reason.
    """
    space = SpaceId("")
    rest = text
    try:
        if text.startswith(SCHEME):
            named, slash, rest = text[len(SCHEME) :].partition("/")
            space = check_space_id(named)
            if not slash or not rest:
                raise NameRefusedError("the document after the space is missing", text=text)
        doc, steps = parse_address(rest)
    except NameRefusedError as refused:
        message = f"{text[:200]!r} is not an address: {refused.message}; hw://SPACEID/document/key is expected"
        raise AddressError(message, text=text) from refused
    return space, doc, steps


def _parse_step(step: str, text: str) -> str:
    if step == "~":
        return ""
    if not step or _BAD_ESCAPE.search(step):
        message = (
            f"{text!r} is not an address: document/key/key is expected, "
            f"with ~1 for a slash and ~0 for a tilde inside a key, and ~ for an empty one"
        )
        raise NameRefusedError(message, text=text)
    return step.replace("~1", "/").replace("~0", "~")


_INDEX: Final = re.compile(r"0|[1-9][0-9]{0,17}")


def settle_path(value: Maybe, steps: tuple[str, ...]) -> Path:
    """The path of steps given as text, resolved against a value: in an array, digits are an index."""
    path: list[Step] = []
    for text in steps:
        step: Step = int(text) if is_array(value) and _INDEX.fullmatch(text) else text
        path.append(step)
        value = child(value, step)
    return tuple(path)


# --- overlap --------------------------------------------------------------------------------------------------


def is_prefix(short: Path, long: Path) -> bool:
    """Whether `short` is at or above `long`."""
    return long[: len(short)] == short


def overlaps(a: Path, b: Path) -> bool:
    """Whether one path is at or above the other, so that a change of either may affect the other."""
    return a[: len(b)] == b[: len(a)]
