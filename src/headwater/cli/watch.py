"""Following a value of a server's space: watch."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Final

import click

from headwater.cli.options import on_branch
from headwater.cli.output import is_terminal, json_text, note, write
from headwater.cli.remote import on_space_or_server
from headwater.errors import HeadwaterError, UsageError
from headwater.machine import Empty, ThreadQueue, machine

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from headwater.cli.remote import Server
    from headwater.client.server_link import ServerLink
    from headwater.sync.client_session import Item
    from headwater.values.ids import DocKey
    from headwater.values.tree import Maybe

_LOOK_S: Final = 0.5
"""How often it is looked whether the connection has ended for good, while nothing comes."""


@click.command("watch")
@click.argument("path")
@click.option("--jsonl", is_flag=True, help="An object for each: seq, and value; without a value while there is none.")
@click.option(
    "--count", metavar="N", type=click.IntRange(min=1), help="End after so many lines, the first one included."
)
@on_branch
@on_space_or_server
def watch_value(
    *,
    path: str,
    jsonl: bool,
    count: int | None,
    branch: str,
    url: str | None,
    space: str | None,
    token_file: Path | None,
) -> None:
    """Print a value of a server's space, and again whenever it changes, until Ctrl-C.

    \b
    headwater watch notes/title --url ws://localhost:8400/home
    headwater watch notes --url ws://localhost:8400/home --jsonl | jq .value

    PATH is a document, or a place in one. While nothing stands there, nothing is printed and it is waited for, so
    `--count 1` waits for the first value; with --jsonl that is a line, too. If the connection is lost it is made
    again; what was missed is then told as one change.
    """  # noqa: D301  # a real backspace: click's mark for lines that stay as they are
    from headwater.cli.remote import server_of
    from headwater.values.codec import to_json
    from headwater.values.tree import ABSENT

    server = server_of(url, space, token_file)
    if server is None:
        message = (
            "only a server tells of changes (--url ws://HOST:PORT/SPACE): a file belongs to one process at a time, so "
            "while this command had it open nothing would change"
        )
        raise UsageError(message)
    told = 0
    for seq, value in _values(server, path, branch):
        if jsonl:
            write(json_text({"seq": seq} | ({} if value is ABSENT else {"value": to_json(value)})))
        elif value is not ABSENT:
            write(json_text(to_json(value)))
        else:
            if is_terminal():
                note(f"{path}: nothing stands there")
            continue
        # Each as it comes, also in a pipe.
        sys.stdout.flush()
        told += 1
        if count == told:
            return


def _values(server: Server, text: str, branch: str) -> Iterator[tuple[int, Maybe]]:
    """What stands at an address now, and then each other value."""
    from headwater.cli.remote import actor_of, linked
    from headwater.sync.frames import Docs, Watch
    from headwater.values.address import parse_address, settle_path
    from headwater.values.tree import ABSENT, get, same

    doc, steps = parse_address(text)
    heard: ThreadQueue[Item] = machine().queue()

    def deliver(items: list[Item]) -> None:
        for item in items:
            heard.put(item)

    with linked(server, branch=branch, actor=actor_of(doc), deliver=deliver) as link:
        answer = link.ask(Watch(0, ((doc, _NOTHING),)))
        assert isinstance(answer, Docs)
        root: Maybe = ABSENT
        seq = 0
        for found in answer.docs:
            root, seq = found.content, found.seq
        last = get(root, settle_path(root, steps))
        yield seq, last
        for at, then in _roots(link, heard, doc, root, seq):
            value = get(then, settle_path(then, steps))
            if not same(value, last):
                last = value
                yield at, value


_NOTHING: Final = 2**62
"""No place of the log: the document is sent, whatever it is."""


def _roots(
    link: ServerLink, heard: ThreadQueue[Item], doc: DocKey, root: Maybe, seq: int
) -> Iterator[tuple[int, Maybe]]:
    """The document after each commit that has to do with it."""
    from headwater.cells.pending_commit import Pulled
    from headwater.store.commit import CommitOutcome, Committed
    from headwater.store.document import apply_operation
    from headwater.sync.client_session import ClientPhase

    while True:
        try:
            item = heard.get(timeout=_LOOK_S)
        except Empty:
            if link.phase is ClientPhase.OVER:
                error = link.session.error
                raise error if error is not None else HeadwaterError("the connection has ended") from None
            continue
        if isinstance(item, Pulled) and item.doc == doc and item.found.seq > seq:
            root, seq = item.found.value, item.found.seq
            yield seq, root
        elif isinstance(item, CommitOutcome) and isinstance(item.verdict, Committed) and item.verdict.seq > seq:
            mine = [each for each in item.commit.operations if each.doc == doc]
            for operation in mine:
                root, _ = apply_operation(root, operation)
            if mine:
                seq = item.verdict.seq
                yield seq, root
