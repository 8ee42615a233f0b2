"""stats --resume: what an opening took over from the one before, what not, and why; and what is kept for the next."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from headwater.cli.output import Column, Form, Record, is_terminal, note, show
from headwater.cli.runtime import View, inquire, request, utc

if TYPE_CHECKING:
    from headwater.inspect.records import TakenOver

_MEANINGS: Final = {
    "restored": "functions that need not run: nothing they read has changed",
    "dirty": "functions that run if somebody looks: something they read has changed since",
    "fresh": "functions of which nothing is kept that is good",
    "rows": "functions of which something is kept for the next opening",
    "bytes": "what that takes in the file, besides its row",
}
_COUNTS: Final = (
    Column(title="what", text=lambda record: str(record["what"])),
    Column(
        title="count",
        text=lambda record: str(record["count"]),
        shown=lambda record: f"{record['count']:,}",
        number=True,
    ),
    Column(title="", text=lambda record: _MEANINGS[str(record["what"])], elastic=True),
)
_MISSED: Final = (
    Column(title="function", text=lambda record: str(record["function"])),
    Column(title="outcome", text=lambda record: str(record["outcome"])),
    Column(title="why", text=lambda record: str(record["why"]), elastic=True),
)


def show_resume(app: str | None, url: str | None, space: str | None, form: Form) -> None:
    """Of every opening of the space, or of one app's; of a closed space as of the last."""
    answer = inquire(url, space, app, request("stats", resume=True))
    views = answer.views
    found = [_known(view) for view in views] if answer.pid else _of_file(views, url, space)
    if form is not None:
        show((_record(view, taken) for view, taken in zip(views, found, strict=True)), (), form, empty="")
        return
    for view, taken in zip(views, found, strict=True):
        note(view.headline)
        counts = [{"what": what, "count": count} for what, count in _counts(taken).items()]
        show(counts, _COUNTS if is_terminal() else _COUNTS[:-1], None, empty="")
        if taken.missed:
            show(_missed(taken), _MISSED, None, empty="")
        if taken.left_out:
            note(f"{taken.left_out:,} more are left out")


def _known(view: View) -> TakenOver:
    from headwater.inspect.records import TakenOver

    return view.opening.taken or TakenOver()


def _of_file(views: list[View], url: str | None, space: str | None) -> list[TakenOver]:
    """With what the file says of what is kept: it may have been changed since."""
    import msgspec

    from headwater.cli.spaces import open_space
    from headwater.store.resumption import observations_size
    from headwater.values.address import doc_key
    from headwater.values.ids import BranchId

    found: list[TakenOver] = []
    with open_space(url, space) as storage:
        for view in views:
            branch, prefix = BranchId(view.opening.branch), doc_key(f"{view.opening.app}.")
            rows, size = storage.call(
                lambda engine, branch=branch, prefix=prefix: observations_size(engine, branch, prefix)  # type: ignore[misc]
            )
            found.append(msgspec.structs.replace(_known(view), rows=rows, size=size))
    return found


def _counts(taken: TakenOver) -> dict[str, int]:
    return {
        "restored": taken.restored,
        "dirty": taken.dirty,
        "fresh": taken.fresh,
        "rows": taken.rows,
        "bytes": taken.size,
    }


def _missed(taken: TakenOver) -> list[Record]:
    return [{"function": each.name, "outcome": each.outcome, "why": each.reason} for each in taken.missed]


def _record(view: View, taken: TakenOver) -> Record:
    opening = view.opening
    return {
        "app": view.label,
        "space": opening.space,
        "branch": opening.branch,
        "live": bool(view.pid),
        "pid": view.pid or None,
        "at": utc(opening.at_ms),
        **_counts(taken),
        "missed": _missed(taken),
        "left_out": taken.left_out,
    }
