"""The functions of a space and what they read: graph, why."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import click
import msgspec

from headwater.cli import output as out
from headwater.cli.function_syntax import EXPLANATION
from headwater.cli.output import Form, Line, Record
from headwater.cli.target import Target
from headwater.draw.mermaid import mermaid
from headwater.draw.svg import svg
from headwater.draw.text_tree import text as text_tree
from headwater.errors import NotFoundError
from headwater.host.whole_files import check_free, put_in_place, unfinished
from headwater.inspect.function_records import ExplainNode, Explanation, GetGraph, GraphView, WhyView
from headwater.inspect.inspector import Inspector
from headwater.inspect.names import function_of
from headwater.values.suggestions import did_you_mean
from headwater.values.text import count_text, inert_lines

_WIDE: Final = 1000
"""Columns without a terminal: nothing is cut."""

_EXPLAINED: Final = 10
"""Instances of one function that are explained in full."""


# --- graph ----------------------------------------------------------------------------------------------------


def show_graph(*, style: str | None, output: Path | None, force: bool, live: bool, target: Target) -> None:
    """Carry out `graph`."""
    if live:
        if style not in (None, "json") or output is not None or (style is None and not out.is_terminal()):
            raise click.UsageError("--live draws on a terminal, or with --json writes a line for each change.")
        with target.inspector() as inspector:
            _follow(inspector, as_json=style == "json")
        return
    if output is not None:
        check_free(output, force=force)
    with target.inspector() as inspector:
        views = inspector.ask(GetGraph())
    if style is None and output is None:
        columns = out.width() if out.is_terminal() else _WIDE
        for number, view in enumerate(views):
            out.write(("\n" if number else "") + _text(view, columns).removesuffix("\n"))
        return
    view = _only(views)
    text = _drawn(view, style)
    out.note(view.headline)
    if output is None:
        out.write((inert_lines(text) if out.is_terminal() else text).removesuffix("\n"))
        return
    with unfinished(output.parent, private=False) as part:
        part.write_text(text, encoding="utf-8")
        put_in_place(part, output)


def _follow(inspector: Inspector, *, as_json: bool) -> None:
    changes = inspector.changes(lambda _last: GetGraph())
    if not as_json:
        out.stay(None if views is None else [Line(_text(view, out.width())) for view in views] for views in changes)
        return
    for views in changes:
        if views is not None:
            out.write(out.json_text(_as_json(_only(views))))
            sys.stdout.flush()


def _only(views: Sequence[GraphView]) -> GraphView:
    if len(views) > 1:
        labels = " or ".join(f"--app {view.label}" for view in views)
        raise click.UsageError(f"There are {len(views)} of them; choose with {labels}.")
    return views[0]


def _drawn(view: GraphView, style: str | None) -> str:
    """The graph in one of the styles. All but JSON have no control characters."""
    snapshot = view.snapshot
    match style:
        case "json":
            return out.json_text(_as_json(view)) + "\n"
        case "svg" if snapshot is not None:
            return svg(snapshot)
        case "mermaid" if snapshot is not None:
            return mermaid(snapshot)
        case _:
            return _text(view, _WIDE)


def _text(view: GraphView, columns: int) -> str:
    snapshot = view.snapshot
    picture = "It changes too fast to be seen; ask again.\n" if snapshot is None else text_tree(snapshot, columns)
    return f"{inert_lines(view.headline)}\n{picture}"


def _as_json(view: GraphView) -> Record:
    """The fields of the snapshot, and its origin."""
    fields: dict[str, object] = {} if view.snapshot is None else msgspec.to_builtins(view.snapshot)
    more = {"app": view.app, "branch": view.branch, "live": view.is_live, "at": out.utc(view.at_ms)}
    return {**fields, **more, "busy": view.busy, "running": view.running, "left_out": view.left_out}


# --- why ------------------------------------------------------------------------------------------------------


def explain_node(*, node: str, target: Target, form: Form) -> None:
    """Carry out `why`."""
    with target.inspector() as inspector:
        views = inspector.ask(ExplainNode(node=node))
    if not any(view.whys for view in views):
        raise _missing(node, views)
    if form is not None:
        out.show(_records(views), EXPLANATION, form, empty="")
        return
    for view in views:
        if view.whys:
            out.note(view.headline)
            _print(view.whys, len(view.whys) + (view.left_out if view.is_live else 0))


def _print(whys: Sequence[Explanation], count: int) -> None:
    for number, why in enumerate(whys[:_EXPLAINED]):
        out.write(("\n" if number else "") + inert_lines(why.words))
    if count > _EXPLAINED:
        left = count_text(count - _EXPLAINED, "more of them", "more of them")
        out.write(f"\nThere are {left}: name one, such as {inert_lines(whys[_EXPLAINED].title)}")


def _records(views: Sequence[WhyView]) -> Iterator[Record]:
    for view in views:
        for why in view.whys:
            piece = {"piece": why.piece} if why.piece else {}
            known = {"words": why.words.split("\n"), "live": view.is_live, "at": out.utc(view.at_ms)}
            yield {"app": view.app, "node": why.name, "id": why.id, **piece, **known}


def _missing(node: str, views: Sequence[WhyView]) -> NotFoundError:
    names: dict[str, None] = {}
    for view in views:
        prefix = f"{view.app}." if node.startswith(f"{view.app}.") else ""
        for name in view.names:
            names |= {f"{prefix}{function_of(name)}": None, f"{prefix}{name}": None}
    hint = did_you_mean(node, names) or "; `headwater graph` shows them"
    left_out = sum(view.left_out for view in views)
    more = f" ({left_out:,} nodes were left out when it was closed)" if left_out else ""
    return NotFoundError(f"there is no function {node}{more}{hint}", node=node)
