"""Run counts and counters of the functions of a space: top, stats."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from headwater.cli import output as out
from headwater.cli.function_syntax import ACTIVITY, COUNT, COUNTS, ORDERS
from headwater.cli.output import Column, Form, Line, Picture, Record, Table
from headwater.cli.target import Target
from headwater.inspect.function_records import (
    Activity,
    ActivityView,
    GetActivity,
    GetCounts,
    GetResume,
    OpeningView,
    ResumeView,
    TakenOver,
)
from headwater.values.text import inert

# --- top ------------------------------------------------------------------------------------------------------


def show_top(*, once: bool, sort: str, target: Target, form: Form) -> None:
    """Carry out `top`."""
    with target.inspector() as inspector:
        views = inspector.ask(GetActivity())
        if form is None and not once and inspector.is_live and out.is_terminal():
            changes = inspector.changes(lambda _last: GetActivity())
            out.stay(None if found is None else _picture(found, sort) for found in changes)
            return
    if form is None:
        for view in views:
            out.note(view.headline)
    without = ["app"] if len(views) == 1 else []
    out.show(_busiest(views, sort), ACTIVITY, form, empty="no functions", without=without)


def _picture(views: Sequence[ActivityView], sort: str) -> list[Picture]:
    columns = out.columns_of(ACTIVITY, ["app"] if len(views) == 1 else [])
    head = [Line(inert(view.headline), "dim") for view in views]
    return [*head, Line(), Table(_busiest(views, sort), columns)]


def _busiest(views: Sequence[ActivityView], sort: str) -> list[Record]:
    records = [_activity(view, activity) for view in views for activity in view.activities]
    return sorted(records, key=lambda record: (ORDERS[sort](record), str(record["function"])))


def _activity(view: ActivityView, activity: Activity) -> Record:
    counts = "nodes live running failed invalid never_ran waiting restored runs invalidated"
    mean = round(activity.total_ms / activity.runs, 3) if activity.runs else 0.0
    named = {"app": view.label, "function": activity.name, **out.picked(activity, f"kind has_arguments {counts}")}
    return named | {"mean_ms": mean, **out.picked(activity, "total_ms last_ms", status=_status(activity))}


def _status(activity: Activity) -> str:
    """The status in a few words: of one node its status, of several nodes the number with each status."""
    if activity.kind == "handler":
        return _handler_status(activity)
    counts = {
        "running": activity.running,
        "failed": activity.failed,
        "invalid": activity.invalid,
        "never ran": activity.never_ran,
        "dormant": activity.nodes - activity.live,
    }
    found = [_of_all(word, count, activity) for word, count in counts.items() if count]
    if found or not activity.restored:
        return ", ".join(found) or "clean"
    # All are clean, and some have a restored result.
    return "clean, restored" if activity.restored == activity.nodes else f"clean, {activity.restored:,} restored"


def _handler_status(activity: Activity) -> str:
    waiting = f"{activity.waiting:,} waiting" if activity.waiting else ""
    counts = {"running": activity.running, "failed": activity.failed, waiting: activity.waiting}
    counts["never ran"] = 0 if activity.waiting else activity.never_ran
    found = [(word, count) for word, count in counts.items() if count]
    return ", ".join(word if word == waiting else _of_all(word, count, activity) for word, count in found) or "idle"


def _of_all(word: str, count: int, activity: Activity) -> str:
    """The word, with the number of nodes unless it is all of them."""
    return word if count >= activity.nodes else f"{count:,} {word}"


# --- stats ----------------------------------------------------------------------------------------------------

_MEANINGS: Final = {
    "computations": "nodes that run for their result",
    "effects": "nodes that run for what they do",
    "live": "nodes that run when what they read changes",
    "invalid": "nodes that something they read has changed for",
    "never_ran": "nodes that have not run yet",
    "restored": "nodes that need not run: the stored result of an earlier opening is still valid",
    "in_flight": "runs that wait for something outside",
    "gated": "nodes that wait for their time",
    "handlers": "functions that are called for events",
    "events_confirmed": "events that were handled",
    "events_refused": "events that were handled before, or whose sender was rolled back",
    "events_failed": "events that were not handled, and are stored",
    "events_waiting": "events that wait to be handled",
    "reads": "addresses that nodes have read",
    "runs": "runs of all nodes",
    "passes": "rounds in which what was due ran",
    "visits": "addresses that changes were compared with",
    "live_writes": "changes in who observes whom",
    "invalidated": "times that something changed which a node had read",
    "executed": "of these, led to a run",
    "filtered": "of these, led to no run of their own",
    "seq": "the newest commit received",
    "commits": "commits made here",
    "pending": "of these, not decided yet",
    "rejected": "of these, rejected",
    "groups": "writes to the disk, each with many commits",
    "documents": "documents in memory",
}
_RESUME_MEANINGS: Final = {
    "restored": "functions that need not run: nothing they read has changed",
    "dirty": "functions that run when observed: something they read has changed since",
    "fresh": "functions without a valid stored observation",
    "rows": "functions with an observation stored for the next opening",
    "bytes": "the size of these observations in the file",
}
_MISSED: Final = (Column("function"), Column("outcome"), Column("why", elastic=True))


def show_stats(*, resume: bool, target: Target, form: Form) -> None:
    """Carry out `stats`."""
    if resume:
        _show_resume(target, form)
        return
    with target.inspector() as inspector:
        views = inspector.ask(GetCounts())
    if form is not None:
        records = (_opening(view) | out.picked(view, "busy running counts") for view in views)
        out.show(records, COUNTS, form, empty="")
        return
    for view in views:
        out.note(view.headline)
        if not view.counts:
            out.note("a pass is going on: counts are known when it is over")
        _show_counts(view, view.counts, _MEANINGS, with_app=len(views) > 1)


def _show_counts(view: OpeningView, counts: dict[str, int], meanings: dict[str, str], *, with_app: bool) -> None:
    """A terminal shows the meaning of each counter; a pipe gets the app, if there are several."""
    rows = [
        {"app": view.label, "what": what, "count": count, "meaning": meanings.get(what, "")}
        for what, count in counts.items()
    ]
    without = ["app"] if out.is_terminal() else ["meaning", *([] if with_app else ["app"])]
    out.show(rows, COUNT, None, empty="nothing counted", without=without)


def _opening(view: OpeningView) -> dict[str, object]:
    known = out.picked(view, "space branch", live=view.is_live, pid=view.pid or None, at=out.utc(view.at_ms))
    return {"app": view.label, **known}


# --- stats --resume -------------------------------------------------------------------------------------------


def _show_resume(target: Target, form: Form) -> None:
    """Show what each opening restored from earlier ones. Of a closed space: the last opening."""
    with target.inspector() as inspector:
        views = inspector.ask(GetResume())
    if form is not None:
        out.show(map(_resume_record, views), (), form, empty="")
        return
    for view in views:
        out.note(view.headline)
        _show_counts(view, _resume_counts(view.taken), _RESUME_MEANINGS, with_app=False)
        if view.taken.missed:
            out.show(_missed(view.taken), _MISSED, None, empty="")
        if view.taken.left_out:
            out.note(f"{view.taken.left_out:,} more are left out")


def _resume_counts(taken: TakenOver) -> dict[str, int]:
    found = (taken.restored, taken.dirty, taken.fresh, taken.rows, taken.size)
    return dict(zip(("restored", "dirty", "fresh", "rows", "bytes"), found, strict=True))


def _missed(taken: TakenOver) -> list[Record]:
    return [{"function": each.name, "outcome": each.outcome, "why": each.reason} for each in taken.missed]


def _resume_record(view: ResumeView) -> Record:
    missed = {"missed": _missed(view.taken), "left_out": view.taken.left_out}
    return {**_opening(view), **_resume_counts(view.taken), **missed}
