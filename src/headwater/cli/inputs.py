"""What came in: inputs ls, skip, retry."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import click

from headwater.cli.asking import Place, Source, done, inputs_in_pages, looking
from headwater.cli.group import Group
from headwater.cli.options import as_list, as_object, on_space
from headwater.cli.output import Column, Form, Record, count_text, is_terminal, show
from headwater.cli.telling import ago, clock, record_of
from headwater.cli.workflow import told_done

if TYPE_CHECKING:
    from headwater.inspect.records import FlowAct
    from headwater.workflow.wording.views import InputView

_STATUSES: Final = ("pending", "done", "parked", "skipped")


@click.group("inputs", cls=Group, default="ls")
def inputs() -> None:
    """Look at what came in and what was done because of it, skip it, try it again.

    INPUT is a number as `inputs ls` shows it.
    """


@inputs.command("ls")
@click.option("--workflow", "name", metavar="NAME", help="Only those of this workflow.")
@click.option("--status", type=click.Choice(_STATUSES), help="Only those that are so.")
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="So many at most.")
@on_space
@as_list
def list_inputs(
    *, name: str | None, status: str | None, limit: int, url: str | None, space: str | None, form: Form
) -> None:
    """List what came in, newest first, and what was done because of it."""
    place = Place(url, space)

    def ask(source: Source) -> tuple[int, list[InputView]]:
        found = list(inputs_in_pages(source, place, limit, workflow=name or "", status=status or ""))
        return max((page.at for page, _ in found), default=0), [each for _, each in found]

    now, views = looking(place, ask)
    empty = f"no input is {status}" if status is not None else "nothing has come in yet"
    show(map(record_of, views), _columns(views, now), form, empty=empty)


def _columns(views: list[InputView], now: int) -> tuple[Column, ...]:
    by_id = {view.id: view for view in views}

    def view(record: Record) -> InputView:
        return by_id[int(str(record["id"]))]

    columns = [
        Column(title="input", text=lambda record: str(record["id"]), number=True),
        Column(
            title="came in",
            text=lambda record: str(record["created_at"]),
            shown=lambda record: clock(view(record).created_at, now),
        ),
        Column(title="workflow", text=lambda record: str(record["workflow"])),
        Column(
            title="status", text=lambda record: str(record["status"]), shown=lambda record: _state(view(record), now)
        ),
        Column(title="what", text=lambda record: str(record["title"]), elastic=True),
        Column(title="done because of it", text=lambda record: ", ".join(view(record).outputs), elastic=True),
    ]
    if is_terminal() and len({view.workflow for view in views}) == 1:
        # The same in each line: room for the rest.
        del columns[2]
    return tuple(columns)


def _state(view: InputView, now: int) -> str:
    """In words."""
    if view.stale:
        return f"waits since {ago(view.created_at, now).removesuffix(' ago')}"
    return {"pending": "waits", "parked": "put aside"}.get(view.status, view.status)


# --- doing ----------------------------------------------------------------------------------------------------


def _act(act: FlowAct, place: Place, number: int, form: Form, *, sentence: str, events: tuple[str, str]) -> None:
    found = done(place, act, number=number)
    view = found.input
    assert view is not None
    record = {**record_of(view), "act": act, "count": found.count, "then": found.then}
    text = sentence.format(title=view.title, events=count_text(found.count, *events))
    plain = (view.id, view.status, found.count, found.then)
    told_done(place, found, form, sentence=f"{text}. {found.then}", record=record, plain=plain)


@inputs.command("skip")
@click.argument("number", metavar="INPUT", type=click.IntRange(min=1))
@on_space
@as_object
def skip_input(*, number: int, url: str | None, space: str | None, form: Form) -> None:
    """Do nothing about an input: what waits because of it is done with.

    A plan that waits for an approval and is about it is made anew, without it. What a run holds is finished by that.
    """
    sentence, events = "{title} is skipped: {events} not handled any more", ("event of it is", "events of it are")
    _act("skip_input", Place(url, space), number, form, sentence=sentence, events=events)


@inputs.command("retry")
@click.argument("number", metavar="INPUT", type=click.IntRange(min=1))
@on_space
@as_object
def retry_input(*, number: int, url: str | None, space: str | None, form: Form) -> None:
    """Try an input again that was put aside because of failures."""
    events = "event of it, which had", "events of it, which had"
    sentence = "{title} waits again: {events} been put aside"
    _act("retry_input", Place(url, space), number, form, sentence=sentence, events=events)
