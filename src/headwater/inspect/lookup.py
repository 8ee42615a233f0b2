"""Opening a space by its URL, and finding the branch or document that a text names; a similar name is suggested."""

from __future__ import annotations

import os
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path as FilePath
from typing import Final, NamedTuple

from headwater.errors import HeadwaterError, NotFoundError
from headwater.host import space_files
from headwater.host.storage import Storage
from headwater.machine import machine
from headwater.store.browsing import keys, read
from headwater.store.engine import Engine
from headwater.values.address import address_text, parse_address, settle_path
from headwater.values.ids import BranchId, DocKey, Seq
from headwater.values.suggestions import CLOSE, did_you_mean
from headwater.values.tree import ABSENT, Maybe, Path, Value, child, get, is_array, is_link, is_map

_NAMES_MAX: Final = 20_000
"""Documents that are compared with a mistyped name: a tenth of a second at most."""

_SCOPES: Final = ("session:", "user:")

_SPACES_MAX: Final = 20
"""Spaces of a folder that are opened to learn their names for a suggestion."""


# --- spaces ---------------------------------------------------------------------------------------------------


def open_space(url: str | None, space: str | None, *, create: bool = False) -> Storage:
    """Open the space of a command. Creates nothing unless `create` says so."""
    url = url if url is not None else space_files.default_url()
    try:
        storage = space_files.open_space(url, space, create=create)
    except NotFoundError as error:
        raise NotFoundError(error.message + _suggest_space(url, space), **error.facts) from None
    if space is not None and storage.name != space:
        storage.close()
        message = f"{url} holds the space {storage.name!r}, not {space!r}; leave out --space, or name the folder"
        raise NotFoundError(message, url=url, space=space, found=storage.name)
    return storage


def is_folder(url: str) -> bool:
    """Whether the URL means many spaces."""
    return url != "memory:" and (url.endswith(("/", os.sep)) or machine().files.is_dir(url))


def _suggest_space(url: str, space: str | None) -> str:
    """The end of a message that a space does not exist: a similar name, or those that exist."""
    path, files = FilePath(url), machine().files
    if files.is_file(path):
        return ""
    if not is_folder(url):
        beside = [str(other) for other in space_files.spaces_in(path.parent)] if files.is_dir(path.parent) else []
        return did_you_mean(url, beside)
    if not files.is_dir(path):
        return ""
    names: list[str] = []
    for file in space_files.spaces_in(path)[:_SPACES_MAX]:
        with suppress(HeadwaterError), space_files.open_space(str(file), create=False) as storage:
            names.append(storage.name)
    if space is not None and (close := did_you_mean(space, names)):
        return close
    return f"; the spaces there are: {', '.join(names)} (choose with --space)" if names else ""


# --- branches -------------------------------------------------------------------------------------------------


def find_branch(engine: Engine, name: str) -> BranchId:
    """A branch that exists."""
    branches = engine.documents.branches
    if name not in branches:
        hint = did_you_mean(name, branches) or f"; the branches are: {', '.join(islice(branches, 20))}"
        raise NotFoundError(f"there is no branch {name!r}{hint}", branch=name)
    return BranchId(name)


# --- documents ------------------------------------------------------------------------------------------------


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
    """The error for a path that does not exist in a document that does."""
    value, depth = root, 0
    while (below := child(value, path[depth])) is not ABSENT:
        value, depth = below, depth + 1
    message = f"{address_text(doc, path[:depth])} {_contents(value, str(path[depth]))}"
    return NotFoundError(message, doc=doc, path=path)


def _contents(value: Maybe, wanted: str) -> str:
    """What a value has in the place of a step that does not exist."""
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
