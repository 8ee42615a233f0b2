"""What the functions of a space have done, in numbers: top, stats."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import click

from headwater.cli.options import as_list, on_space
from headwater.cli.output import Column, Form, Record, is_terminal, note, show, table
from headwater.cli.runtime import Answer, View, inquire, of_app, request, utc
from headwater.values.text import inert

if TYPE_CHECKING:
    from rich.console import Group

    from headwater.inspect.records import Activity, Ask


# --- top ------------------------------------------------------------------------------------------------------

_ORDERS: Final[dict[str, Callable[[Record], object]]] = {
    "total": lambda record: -_number(record["total_ms"]),
    "mean": lambda record: -_number(record["mean_ms"]),
    "runs": lambda record: -_number(record["runs"]),
    "invalidated": lambda record: -_number(record["invalidated"]),
    "name": lambda record: str(record["function"]),
}


def _number(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def _counted(name: str, title: str = "") -> Column:
    return Column(
        title=title or name,
        text=lambda record: str(record[name]),
        shown=lambda record: f"{_number(record[name]):,.0f}",
        number=True,
    )


def _lasted(name: str, title: str) -> Column:
    return Column(
        title=title,
        text=lambda record: str(record[name]),
        shown=lambda record: f"{_number(record[name]):,.2f}",
        number=True,
    )


_APP: Final = Column(title="app", text=lambda record: str(record["app"]))
_TOP: Final = (
    Column(
        title="function",
        text=lambda record: str(record["function"]),
        shown=lambda record: str(record["function"]) + ("(…)" if record["has_arguments"] else ""),
        elastic=True,
    ),
    _counted("nodes"),
    _counted("runs"),
    _counted("invalidated"),
    _lasted("mean_ms", "mean ms"),
    _lasted("total_ms", "total ms"),
    Column(title="status", text=lambda record: str(record["status"])),
)


@click.command
@click.option("--once", is_flag=True, help="Print it once, also on a terminal.")
@click.option("--sort", type=click.Choice(list(_ORDERS)), default="total", show_default=True, help="The first is most.")
@of_app
@on_space
@as_list
def show_top(*, once: bool, sort: str, app: str | None, url: str | None, space: str | None, form: Form) -> None:
    """Show the busiest functions: how often they ran, how long that took, how they stand.

    On a terminal the table stays and follows an open space, until Ctrl-C.
    """
    answer = inquire(url, space, app, request("stats"))
    if form is None and not once and answer.pid and is_terminal():
        _stay_on_top(sort, app, url, space)
        return
    if form is None:
        for view in answer.views:
            note(view.headline)
    columns = (_APP, *_TOP) if len(answer.views) > 1 else _TOP
    show(_busiest(answer.views, sort), columns, form, empty="no functions")


def _busiest(views: list[View], sort: str) -> list[Record]:
    records = [_activity(view, activity) for view in views for activity in view.opening.activities]
    return sorted(records, key=lambda record: (_ORDERS[sort](record), str(record["function"])))


def _activity(view: View, activity: Activity) -> Record:
    return {
        "app": view.label,
        "function": activity.name,
        "kind": activity.kind,
        "has_arguments": activity.has_arguments,
        "nodes": activity.nodes,
        "live": activity.live,
        "running": activity.running,
        "failed": activity.failed,
        "invalid": activity.invalid,
        "never_ran": activity.never_ran,
        "waiting": activity.waiting,
        "restored": activity.restored,
        "runs": activity.runs,
        "invalidated": activity.invalidated,
        "mean_ms": round(activity.total_ms / activity.runs, 3) if activity.runs else 0.0,
        "total_ms": activity.total_ms,
        "last_ms": activity.last_ms,
        "status": _status(activity),
    }


def _status(activity: Activity) -> str:
    """In a few words: of one node what it is, of several how many are what."""
    if activity.kind == "handler":
        return _handler_status(activity)
    dormant = activity.nodes - activity.live
    counts = {
        "running": activity.running,
        "failed": activity.failed,
        "invalid": activity.invalid,
        "never ran": activity.never_ran,
        "dormant": dormant,
    }
    found = {word: count for word, count in counts.items() if count}
    if not found:
        return "clean" if not activity.restored else _restored(activity)
    return ", ".join(_of_all(word, count, activity) for word, count in found.items())


def _restored(activity: Activity) -> str:
    """All are clean, and some of them without a run."""
    return "clean, restored" if activity.restored == activity.nodes else f"clean, {activity.restored:,} restored"


def _handler_status(activity: Activity) -> str:
    waiting = f"{activity.waiting:,} waiting" if activity.waiting else ""
    words = {
        "running": activity.running,
        "failed": activity.failed,
        waiting: activity.waiting,
        "never ran": 0 if activity.waiting else activity.never_ran,
    }
    found = {word: count for word, count in words.items() if count}
    return (
        ", ".join(_of_all(word, count, activity) if word != waiting else word for word, count in found.items())
        or "idle"
    )


def _of_all(word: str, count: int, activity: Activity) -> str:
    """How many, if not all."""
    return word if count >= activity.nodes else f"{count:,} {word}"


def _stay_on_top(sort: str, app: str | None, url: str | None, space: str | None) -> None:
    from headwater.cli.live import stay

    def ask(mark: str) -> Ask:
        return request("stats", unless=mark)

    def draw(answer: Answer, width: int) -> Group:
        from rich.console import Group
        from rich.text import Text

        columns = (_APP, *_TOP) if len(answer.views) > 1 else _TOP
        head = [Text(inert(view.headline), style="dim") for view in answer.views]
        return Group(*head, Text(), table(_busiest(answer.views, sort), columns, width))

    stay(url, space, app, ask, draw)


# --- stats ----------------------------------------------------------------------------------------------------

_MEANINGS: Final = {
    "computations": "nodes that run for their result",
    "effects": "nodes that run for what they do",
    "live": "nodes that run when what they read changes",
    "invalid": "nodes that something they read has changed for",
    "never_ran": "nodes that have not run yet",
    "restored": "nodes that need not run: what an opening before has kept of them is still so",
    "in_flight": "runs that wait for something outside",
    "gated": "nodes that wait for their time",
    "handlers": "functions that are called for events",
    "events_confirmed": "events that were handled",
    "events_refused": "events that were handled before, or whose sender was taken back",
    "events_failed": "events that were not handled, and are kept",
    "events_waiting": "events that wait to be handled",
    "reads": "places that nodes have read",
    "runs": "runs of all nodes",
    "passes": "rounds in which what was due ran",
    "visits": "places that changes were compared with",
    "live_writes": "changes in who looks at whom",
    "invalidated": "times that something changed which a node had read",
    "executed": "of these, led to a run",
    "filtered": "of these, led to no run of their own",
    "seq": "the newest commit taken in",
    "commits": "commits made here",
    "pending": "of these, not decided yet",
    "rejected": "of these, taken back",
    "groups": "writes to the disk, each with many commits",
    "documents": "documents held in memory",
}
_STATS: Final = (
    Column(title="what", text=lambda record: str(record["what"])),
    _counted("count"),
    Column(title="", text=lambda record: _MEANINGS.get(str(record["what"]), ""), elastic=True),
)


@click.command
@click.option("--resume", is_flag=True, help="What was taken over from the opening before, and what not, and why.")
@of_app
@on_space
@as_list
def show_stats(*, resume: bool, app: str | None, url: str | None, space: str | None, form: Form) -> None:
    """Count everything there is to count in an app's opening of a space, since it was opened."""
    if resume:
        from headwater.cli.resume import show_resume

        show_resume(app, url, space, form)
        return
    views = inquire(url, space, app, request("stats")).views
    if form is not None:
        show(map(_stats_record, views), (), form, empty="")
        return
    columns = (_APP, *_STATS) if len(views) > 1 and not is_terminal() else _STATS
    for view in views:
        note(view.headline)
        counts = view.opening.counts
        if not counts:
            note("a pass is going on: counts are known when it is over")
        rows = [{"app": view.label, "what": what, "count": count} for what, count in counts.items()]
        show(rows, columns if is_terminal() else columns[:-1], None, empty="nothing counted")


def _stats_record(view: View) -> Record:
    opening = view.opening
    return {
        "app": view.label,
        "space": opening.space,
        "branch": opening.branch,
        "live": bool(view.pid),
        "pid": view.pid or None,
        "at": utc(opening.at_ms),
        "busy": opening.busy,
        "running": list(opening.running),
        "counts": opening.counts,
    }
