"""Spaces of a server, for commands: by a session that lives for one command, without an app.

Must never know: how the answer looks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

import click

from headwater.errors import HistoryError, NotFoundError, UsageError

if TYPE_CHECKING:
    from headwater.cli.spaces import Place
    from headwater.client.remote_storage import RemoteStorage
    from headwater.client.server_link import Credentials, ServerLink
    from headwater.client.server_url import ServerUrl
    from headwater.sync.client_session import Item
    from headwater.sync.frames import Docs
    from headwater.values.ids import DocKey, Seq
    from headwater.values.tree import Maybe, Value

F = TypeVar("F", bound=Callable[..., Any])

_TOKEN_BYTES_MAX: Final = 4096
_PLACE: Final = "FILE.db, FOLDER/ or ws://HOST:PORT/SPACE; else $HEADWATER_URL, headwater.toml, or the only *.db here."


def on_space_or_server(command: F) -> F:
    """`--url`, `--space` and `--token-file`."""
    token_help = "For a server: a file with the token; else $HEADWATER_TOKEN, or that of this user's own server."  # noqa: S105
    path = click.Path(path_type=Path, dir_okay=False)
    command = click.option("--token-file", type=path, metavar="FILE", help=token_help)(command)
    command = click.option("--space", metavar="NAME", help="Which space of a folder; main unless named.")(command)
    return click.option("--url", metavar="URL", help=f"Where the data lives: {_PLACE}")(command)


class Server(NamedTuple):
    """Where a space is, and what is shown there."""

    url: ServerUrl
    token: str | None


def server_of(url: str | None, space: str | None, token_file: Path | None) -> Server | None:
    """The server that a command is about; None if it is about a file. Raises UsageError."""
    from headwater.client.server_url import is_server, parse_server
    from headwater.host.space_files import default_url, locate

    if space == "":
        raise click.BadParameter("the name is empty", param_hint="--space")
    if url is None:
        try:
            url = default_url()
        except UsageError:
            if token_file is not None:
                raise
            # Whoever opens a file asks again, and is told.
            return None
    if not is_server(url):
        if token_file is not None:
            raise UsageError(f"--token-file is for servers (ws://HOST:PORT/SPACE); {url} is none")
        return None
    place = parse_server(url, space)
    locate("memory:", place.space)  # refuses what is no name
    return Server(place, _token(token_file))


def _token(file: Path | None) -> str | None:
    from headwater.client.remote_opening import ENV_TOKEN

    if file is None:
        return os.environ.get(ENV_TOKEN) or None
    with file.open("rb") as reading:
        text = reading.read(_TOKEN_BYTES_MAX).decode("ascii", errors="replace").strip()
    if not text or len(text.split()) != 1 or not text.isprintable() or not text.isascii():
        raise UsageError(f"{file} does not hold a token: one word is expected, as `headwater token create` prints it")
    return text


def showing(server: Server) -> Credentials:
    """What is shown at the door."""
    from headwater.client.server_link import Credentials

    return Credentials(token=server.token)


def actor_of(doc: DocKey) -> str:
    """Who has to ask for a document: whose it is."""
    from headwater.values.address import split_key

    scope, _ = split_key(doc)
    return scope.user


# --- sessions -------------------------------------------------------------------------------------------------


@contextmanager
def linked(
    server: Server, *, branch: str = "main", actor: str = "", deliver: Callable[[list[Item]], None] | None = None
) -> Iterator[ServerLink]:
    """A connection to a space that is there. Raises OfflineError, AccessError."""
    from headwater.client.server_link import ServerLink
    from headwater.sync.frames import Open
    from headwater.values.ids import BranchId

    opening = Open(server.url.space, BranchId(branch), actor, create=False)
    link = ServerLink(
        server.url, opening, showing(server), deliver=deliver or (lambda _items: None), decided=lambda _number: None
    )
    link.start()
    try:
        yield link
    finally:
        link.stop()


@contextmanager
def opened(server: Server, *, actor: str, create: bool) -> Iterator[RemoteStorage]:
    """For writing: a space of a server as any other."""
    from headwater.client.remote_storage import RemoteStorage

    storage = RemoteStorage(server.url, showing(server), actor=actor, create=create)
    try:
        yield storage
    finally:
        storage.close()


def pulled(
    link: ServerLink, docs: tuple[DocKey, ...] = (), prefixes: tuple[str, ...] = (), at: int | None = None
) -> Docs:
    """Documents as they are, or were."""
    from headwater.sync.frames import Docs, Pull

    found = link.ask(Pull(0, docs, prefixes, at))
    assert isinstance(found, Docs)
    return found


# --- looking --------------------------------------------------------------------------------------------------


def find_place(server: Server, text: str, branch: str, at: int | None) -> Place:
    """What stands at an address of a server's space, now or then."""
    from headwater.cli.spaces import Place, missing_value
    from headwater.values.address import address_text, parse_address, settle_path
    from headwater.values.tree import ABSENT, get

    doc, steps = parse_address(text)
    with linked(server, branch=branch, actor=actor_of(doc)) as link:
        if at is not None:
            _check_place(link, at)
        found = next(iter(pulled(link, (doc,), at=at).docs), None)
    root: Maybe = ABSENT if found is None else found.content
    if found is not None and at is not None and found.seq > at:
        raise HistoryError(f"the past of {address_text(doc)} at {at} was compacted away; without --at it is told now")
    if root is ABSENT or found is None:
        then = "" if at is None else f" at {at}"
        message = f"there is no document {address_text(doc)} in {server.url}{then}; `headwater ls` lists them"
        raise NotFoundError(message, doc=doc, branch=branch)
    path = settle_path(root, steps)
    value = get(root, path)
    if value is ABSENT:
        raise missing_value(doc, path, root)
    return Place(doc, path, value, found.seq)


def _check_place(link: ServerLink, at: int) -> None:
    head = link.session.opened
    assert head is not None
    if at > head.seq:
        raise HistoryError(f"there is nothing at {at} yet; the newest is {head.seq}", at=at, head=head.seq)


class Listed(NamedTuple):
    """One document of a list."""

    doc: DocKey
    seq: Seq
    value: Value


def documents(server: Server, prefix: str, branch: str) -> tuple[list[Listed], bool]:
    """Those whose address starts so, in order; and whether these are all."""
    from headwater.cli.spaces import key_prefixes
    from headwater.values.address import user_scope
    from headwater.values.tree import ABSENT

    actor = _actor_in(prefix)
    own = ("space/", *((f"{user_scope(actor).text}/",) if actor else ()))
    prefixes = tuple(
        dict.fromkeys(each or "space/" for each in key_prefixes(prefix) if not each or each.startswith(own))
    )
    if not prefixes:
        return [], True
    with linked(server, branch=branch, actor=actor) as link:
        found = pulled(link, prefixes=prefixes)
    held = ((each, each.content) for each in found.docs)
    listed = [Listed(each.doc, each.seq, content) for each, content in held if content is not ABSENT]
    return sorted(listed, key=lambda each: each.doc), found.complete


def _actor_in(prefix: str) -> str:
    from headwater.values.address import parse_scope

    scope, mark, _ = prefix.partition("!")
    return parse_scope(scope).user if mark and scope.startswith("user:") else ""
