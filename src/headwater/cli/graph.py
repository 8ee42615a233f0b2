"""The functions of a space and what they read: graph, why."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from headwater.cli.files import check_free, put_in_place, unfinished
from headwater.cli.options import as_list, on_space
from headwater.cli.output import Form, Record, console, count_text, is_terminal, json_text, note, show, write
from headwater.cli.runtime import View, inquire, of_app, request, utc
from headwater.errors import NotFoundError
from headwater.values.text import inert_lines

if TYPE_CHECKING:
    from rich.text import Text

    from headwater.cli.runtime import Answer
    from headwater.inspect.records import Ask, Why

_WIDE: Final = 1000
"""Columns where nobody's screen is to be filled: nothing is cut."""

_WHYS: Final = 10
"""Instances of one function that are told of in full: whoever wants to know of one names it."""


# --- graph ----------------------------------------------------------------------------------------------------


@click.command
@click.option("--svg", "style", flag_value="svg", help="As a picture.")
@click.option("--mermaid", "style", flag_value="mermaid", help="As a Mermaid diagram, for Markdown.")
@click.option("--json", "style", flag_value="json", help="As one JSON object: nodes, sources, edges.")
@click.option("-o", "--output", metavar="FILE", type=Path, help="Write to a file, whole or not at all.")
@click.option("--force", is_flag=True, help="Replace FILE if it exists.")
@click.option("--live", is_flag=True, help="Draw it anew whenever it changes, until Ctrl-C.")
@of_app
@on_space
def show_graph(
    *,
    style: str | None,
    output: Path | None,
    force: bool,
    live: bool,
    app: str | None,
    url: str | None,
    space: str | None,
) -> None:
    """Draw the functions of an app: what each reads, how often it ran, how it stands.

    Of a space that is open, as it is now; else as it was when it was last closed.
    """
    if live:
        _stay(style, output, app, url, space)
        return
    if output is not None:
        check_free(output, force=force)
    views = inquire(url, space, app, request("snapshot")).views
    if style is None and output is None:
        _print_texts(views)
        return
    view = _only(views)
    text = _drawn(view, style)
    note(view.headline)
    if output is None:
        write((inert_lines(text) if is_terminal() else text).removesuffix("\n"))
        return
    with unfinished(output.parent, private=False) as part:
        part.write_text(text, encoding="utf-8")
        put_in_place(part, output)


def _only(views: list[View]) -> View:
    if len(views) > 1:
        labels = " or ".join(f"--app {view.label}" for view in views)
        raise click.UsageError(f"There are {len(views)} of them; choose with {labels}.")
    return views[0]


def _print_texts(views: list[View]) -> None:
    width = console().width if is_terminal() else _WIDE
    for number, view in enumerate(views):
        write(("\n" if number else "") + _text(view, width).removesuffix("\n"))


def _drawn(view: View, style: str | None) -> str:
    """In one of the ways there are. Everything but JSON comes without anything a terminal would obey."""
    snapshot = view.opening.snapshot
    match style:
        case "json":
            return json_text(_as_json(view)) + "\n"
        case "svg" if snapshot is not None:
            from headwater.draw.svg import svg

            return svg(snapshot)
        case "mermaid" if snapshot is not None:
            from headwater.draw.mermaid import mermaid

            return mermaid(snapshot)
        case _:
            return _text(view, _WIDE)


def _text(view: View, width: int) -> str:
    from headwater.draw.text_tree import text

    snapshot = view.opening.snapshot
    picture = text(snapshot, width) if snapshot is not None else "It changes too fast to be seen; ask again.\n"
    return f"{inert_lines(view.headline)}\n{picture}"


def _as_json(view: View) -> Record:
    """A snapshot, and beside its own fields where it comes from."""
    import msgspec

    opening = view.opening
    fields: dict[str, object] = {} if opening.snapshot is None else msgspec.to_builtins(opening.snapshot)
    more = {"app": opening.app, "branch": opening.branch, "live": bool(view.pid), "at": utc(opening.at_ms)}
    state = {"busy": opening.busy, "running": opening.running, "left_out": opening.left_out}
    return {**fields, **more, **state}


def _stay(style: str | None, output: Path | None, app: str | None, url: str | None, space: str | None) -> None:
    from headwater.cli.live import each_change, stay

    def ask(mark: str) -> Ask:
        return request("snapshot", unless=mark)

    def tell(answer: Answer) -> None:
        write(json_text(_as_json(_only(answer.views))))
        sys.stdout.flush()

    def draw(answer: Answer, width: int) -> Text:
        from rich.text import Text

        return Text("\n".join(_text(view, width) for view in answer.views).rstrip("\n"))

    if style not in (None, "json") or output is not None or (style is None and not is_terminal()):
        raise click.UsageError("--live draws on a terminal, or with --json writes a line for each change.")
    if style == "json":
        each_change(url, space, app, ask, tell)
    else:
        stay(url, space, app, ask, draw)


# --- why ------------------------------------------------------------------------------------------------------


@click.command
@click.argument("node")
@of_app
@on_space
@as_list
def explain_node(*, node: str, app: str | None, url: str | None, space: str | None, form: Form) -> None:
    """Tell in words why a function last ran, why it does not run now, and what would wake it.

    NODE is a function, APP.FUNCTION, or one of several by its arguments: `row(3)`; in `row(…)` the dots stand for
    anything. One of a piece is `label of timer eggs`; `label of timer` are those of all pieces of the pattern.
    """
    views = inquire(url, space, app, request("why", node=node)).views
    found = [(view, why) for view in views for why in _meant(view, node)]
    if not found:
        raise _missing(node, views)
    if form is not None:
        show((_why_record(view, why) for view, why in found), (), form, empty="")
        return
    for view in views:
        whys = [why for of, why in found if of is view]
        if whys:
            note(view.headline)
            _print_whys(whys, len(whys) + (view.opening.left_out if view.pid else 0))


def _meant(view: View, node: str) -> list[Why]:
    """What a live space has chosen already."""
    from headwater.inspect.records import is_called

    opening = view.opening
    return [why for why in opening.whys if view.pid or is_called(why.id, why.name, node, opening.app, why.piece)]


def _print_whys(whys: list[Why], count: int) -> None:
    for number, why in enumerate(whys[:_WHYS]):
        write(("\n" if number else "") + inert_lines(why.words))
    if count > _WHYS:
        left = count_text(count - _WHYS, "more of them", "more of them")
        write(f"\nThere are {left}: name one, such as {inert_lines(_titled(whys[_WHYS]))}")


def _why_record(view: View, why: Why) -> Record:
    return {
        "app": view.opening.app,
        "node": why.name,
        "id": why.id,
        **({"piece": why.piece} if why.piece else {}),
        "words": why.words.split("\n"),
        "live": bool(view.pid),
        "at": utc(view.opening.at_ms),
    }


def _titled(why: Why) -> str:
    """As it is named to be told of."""
    return f"{why.name} of {why.piece}" if why.piece else why.name


def _missing(node: str, views: list[View]) -> NotFoundError:
    from headwater.cli.spaces import did_you_mean
    from headwater.inspect.records import function_of

    names: dict[str, None] = {}
    for view in views:
        called = view.opening.names or [_titled(why) for why in view.opening.whys]
        for name in called:
            prefix = f"{view.opening.app}." if node.startswith(f"{view.opening.app}.") else ""
            names |= {f"{prefix}{function_of(name)}": None, f"{prefix}{name}": None}
    hint = did_you_mean(node, names) or "; `headwater graph` shows them"
    left_out = sum(view.opening.left_out for view in views)
    more = f" ({left_out:,} nodes were left out when it was closed)" if left_out else ""
    return NotFoundError(f"there is no function {node}{more}{hint}", node=node)
