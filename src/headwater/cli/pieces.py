"""Pieces: which there are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

import click

from headwater.cli.delivery import Target, look
from headwater.cli.group import Group
from headwater.cli.options import as_list, on_branch, on_space
from headwater.cli.output import Column, Form, count_text, json_text, note, preview, show
from headwater.errors import NotFoundError

if TYPE_CHECKING:
    from headwater.host.storage import Storage
    from headwater.inspect.records import PieceTold, Reply


@click.group("pieces", cls=Group, default="ls")
def pieces() -> None:
    """Look at the pieces that were started from patterns.

    `headwater get PIECE` prints all that is stored of one.
    """


_PIECES: Final = (
    Column(title="pattern", text=lambda record: str(record["pattern"])),
    Column(title="key", text=lambda record: str(record["key"])),
    Column(title="status", text=lambda record: str(record["status"])),
    Column(title="generation", text=lambda record: str(record["generation"]), number=True),
    Column(
        title="inputs",
        text=lambda record: json_text(record["inputs"]),
        shown=lambda record: _in_short(record["inputs"]),
        elastic=True,
    ),
)
_PIECE: Final = Column(title="piece", text=lambda record: str(record["piece"]))
_APP: Final = Column(title="app", text=lambda record: str(record["app"]))


@pieces.command("ls")
@click.option("--pattern", metavar="NAME", help="Only those of this pattern.")
@click.option("--status", type=click.Choice(["running", "stopped"]), help="Only those that are so.")
@on_branch
@on_space
@as_list
def list_pieces(
    *, pattern: str | None, status: str | None, branch: str, url: str | None, space: str | None, form: Form
) -> None:
    """List pieces: pattern, key, status, generation, and inputs as they are now.

    `running` is what was not stopped. After a restart it is at work when the program has started it again: `at_work`
    in JSON, if a process has the space open.
    """
    from headwater.cli.output import is_terminal

    pieces = _listed(Target(url, space, branch, None), pattern or "")
    found = [_record(piece) for piece in pieces if status in (None, piece.status)]
    columns = (*([_APP] if len({record["app"] for record in found}) > 1 else []), *_PIECES)
    # Whoever looks knows it by its pattern and its key.
    show(found, columns if is_terminal() else (*columns, _PIECE), form, empty="no pieces")


def _listed(target: Target, pattern: str) -> list[PieceTold]:
    """Of the file, or of all openings that a process has of it."""
    from headwater.cli.spaces import find_branch
    from headwater.inspect.stored_pieces import ordered, pieces_in
    from headwater.inspect.stored_pieces import reports as told

    def closed(storage: Storage) -> list[PieceTold]:
        on = storage.call(lambda engine: find_branch(engine, target.branch))
        return storage.call(lambda engine: told(engine, on, pieces_in(engine, on, pattern=pattern)))

    found = look(target, target.ask("pieces", name=pattern), closed)
    return ordered(found if isinstance(found, list) else _of_reply(found, target))


def _of_reply(reply: Reply, target: Target) -> list[PieceTold]:
    found: dict[str, PieceTold] = {}
    for opening in reply.openings:
        if target.space is not None and opening.space != target.space:
            message = f"it holds the space {opening.space!r}, not {target.space!r}; leave out --space"
            raise NotFoundError(message, space=target.space, found=opening.space)
        if opening.branch == target.branch:
            # Two openings of one app tell of the same; either may have it at work.
            found |= {each.piece: each for each in opening.pieces if each.at_work or each.piece not in found}
            if opening.left_out:
                more = count_text(opening.left_out, "piece", "pieces")
                note(f"{more} more of {opening.app} can be listed with --pattern, or when nobody has the space open")
    return list(found.values())


def _record(piece: PieceTold) -> dict[str, object]:
    return {
        "app": piece.app,
        "piece": piece.piece,
        "pattern": piece.pattern,
        "key": piece.key,
        "status": piece.status,
        "at_work": piece.at_work,
        "generation": piece.generation,
        "inputs": json.loads(piece.inputs),
        "by": piece.by,
    }


def _in_short(inputs: object) -> str:
    """As they are written in a call."""
    if not isinstance(inputs, dict):
        return ""
    return ", ".join(f"{name}={_target(value) or preview(value)}" for name, value in inputs.items())


def _target(value: object) -> str:
    """What a link leads to; nothing if it is none."""
    match value:
        case {"/": {"link@1": {"id": str(doc), "path": list(path)}}}:
            return "/".join([doc, *map(str, path)])
        case {"/": {"link@1": {"id": str(doc)}}}:
            return doc
        case _:
            return ""
