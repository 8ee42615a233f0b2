"""The branch, the document or the value that a text names; a similar name is suggested."""

from __future__ import annotations

from difflib import get_close_matches
from itertools import islice
from typing import Final, NamedTuple

from headwater.errors import NotFoundError
from headwater.store.browsing import keys, read
from headwater.store.engine import Engine
from headwater.values.address import address_text, parse_address, settle_path
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.suggestions import CLOSE, did_you_mean
from headwater.values.tree import ABSENT, Maybe, Path, Value, child, get, is_array, is_link, is_map

_NAMES_MAX: Final = 20_000
"""Documents that are compared with a mistyped name. This takes a tenth of a second at most."""

_SCOPES: Final = ("session:", "user:")


def find_branch(engine: Engine, name: str) -> BranchId:
    """A branch that exists."""
    branches = engine.documents.branches
    if name not in branches:
        hint = did_you_mean(name, branches) or f"; the branches are: {', '.join(islice(branches, 20))}"
        raise NotFoundError(f"there is no branch {name!r}{hint}", branch=name)
    return BranchId(name)


class FoundValue(NamedTuple):
    """The value at an address."""

    doc: DocKey
    path: Path
    value: Value
    seq: Seq


def find_value(engine: Engine, text: str, branch: BranchId, at: Seq | None) -> FoundValue:
    """The value at an address, now or then. Raises NotFoundError."""
    doc, steps = parse_address(text)
    found = read(engine, doc, branch, at)
    if found.value is ABSENT:
        raise missing_document(engine, doc, branch, at)
    path = settle_path(found.value, steps)
    value = get(found.value, path)
    if value is ABSENT:
        raise missing_value(doc, path, found.value)
    return FoundValue(doc, path, value, found.seq)


def missing_document(engine: Engine, doc: DocKey, branch: BranchId, at: Seq | None) -> NotFoundError:
    """The error for a document that was never written, was deleted, or did not exist yet; with a suggestion."""
    name = address_text(doc)
    on_branch = "" if branch == "main" else f" on branch {branch!r}"
    if read(engine, doc, branch, at).seq:
        message = f"the document {name} was deleted{on_branch}; `headwater history {name}` tells when"
        return NotFoundError(message, doc=doc, branch=branch)
    if at is not None and read(engine, doc, branch).seq:
        message = f"there was no document {name}{on_branch} at {at} yet; `headwater history {name}` tells since when"
        return NotFoundError(message, doc=doc, branch=branch, at=at)
    scope, _, own = doc.partition("/")
    ids = (key.partition("/")[2] for key in islice(keys(engine, branch, f"{scope}/"), _NAMES_MAX))
    close = (DocKey(f"{scope}/{one}") for one in get_close_matches(own, ids, n=3, cutoff=CLOSE))
    live = [address_text(key) for key in close if read(engine, key, branch, at).value is not ABSENT]
    hint = f"; did you mean {' or '.join(live)}?" if live else "; `headwater ls` lists them"
    return NotFoundError(f"there is no document {name}{on_branch}{hint}", doc=doc, branch=branch)


def missing_value(doc: DocKey, path: Path, root: Maybe) -> NotFoundError:
    """The error for a path that an existing document does not have."""
    value, depth = root, 0
    while (below := child(value, path[depth])) is not ABSENT:
        value, depth = below, depth + 1
    message = f"{address_text(doc, path[:depth])} {_contents(value, str(path[depth]))}"
    return NotFoundError(message, doc=doc, path=path)


def _contents(value: Maybe, wanted: str) -> str:
    """The content of a value, for the message about a missing step."""
    if is_link(value):
        return "is a link; nothing stands below it"
    if is_map(value):
        return f"has no key {wanted!r}{did_you_mean(wanted, islice(value, _NAMES_MAX))}"
    if is_array(value):
        count = len(value)
        return f"is a list with {count} elements (0 to {count - 1}), not {wanted!r}" if count else "is an empty list"
    return f"is a single value, with nothing below it to be called {wanted!r}"


def key_prefixes(text: str) -> tuple[str, ...]:
    """The beginnings of the keys of documents whose address starts with `text`; a slash needs no escape."""
    scope, mark, name = text.partition("!")
    if mark and (scope == "space" or scope.startswith(_SCOPES)):
        return (f"{scope}/{_unescaped(name)}",)
    if not text:
        return ("",)
    # `user:a` is the beginning of a scope as well as of a name.
    scopes = [kind if kind.startswith(text) else text for kind in _SCOPES if kind.startswith(text[: len(kind)])]
    return tuple(sorted([f"space/{_unescaped(text)}", *scopes]))


def _unescaped(name: str) -> str:
    return name.replace("~1", "/").replace("~0", "~")
