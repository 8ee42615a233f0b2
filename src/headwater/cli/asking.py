"""Asking about workflows, and having something done with them: by the process that has the space open, or in the file.

Must never know: how the answer looks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from shlex import quote
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar

from headwater.cli.delivery import checked
from headwater.cli.runtime import POLL_S, reach, request
from headwater.errors import ClosedError, EventTimeoutError, NotFoundError, UnavailableError
from headwater.machine import machine

if TYPE_CHECKING:
    from headwater.host.storage import Storage
    from headwater.inspect.legacy import Caller
    from headwater.inspect.records import Ask, Deed, FlowAct, Question
    from headwater.inspect.workflow_answers import ControlReport, InputsPage, RunsPage, WorkflowAnswer
    from headwater.workflow.wording.views import InputView, RunView

T = TypeVar("T", bound="WorkflowAnswer")
R = TypeVar("R")

_TRIES: Final = 3
"""Times that a space may be closed while it is asked."""

_REST: Final = 4
"""Times as long as it took to be answered: a program that is slow to answer is left alone for longer."""


class Place(NamedTuple):
    """Which space is meant."""

    url: str | None
    space: str | None

    def ask(self, question: Question | Deed, **more: Any) -> Ask:  # noqa: ANN401  # the fields of the record
        """A request that says where."""
        return request(question, space=self.space or "", **more)

    def command(self, *words: object) -> str:
        """What to type to do something there."""
        where: list[object] = [] if self.url is None else ["--url", self.url]
        where += [] if self.space is None else ["--space", self.space]
        return " ".join(["headwater", *(quote(str(word)) for word in (*words, *where))])


class Source:
    """Who answers: the process that has the space open, or this one."""

    def __init__(self, found: Caller | Storage) -> None:
        self._found = found

    @property
    def is_live(self) -> bool:
        """Somebody else has it open."""
        from headwater.inspect.legacy import Caller

        return isinstance(self._found, Caller)

    def hear(self, ask: Ask) -> tuple[str, str | None]:
        """The mark, and the answer as JSON; none if all is as it was at the mark in the request."""
        from headwater.inspect.legacy import Caller, hub_answer

        found = self._found
        if isinstance(found, Caller):
            reply = checked(found.ask(ask))
            return reply.mark, reply.told
        from headwater.host.system_clock import SystemClock
        from headwater.runtime.workflows.hub import hub_of

        hub = hub_of(found, SystemClock().now_ms)
        return "", hub_answer(hub, ask)

    def told(self, kind: type[T], ask: Ask) -> T:
        """The answer to one question."""
        import msgspec

        _, text = self.hear(ask)
        if text is None:
            raise ConnectionResetError("it is being closed")
        return msgspec.json.decode(text, type=kind)


@contextmanager
def reached(place: Place) -> Iterator[Source]:
    """For as long as it is asked."""
    from headwater.cli.spaces import open_space

    found = reach(place.url, place.space, lambda: open_space(place.url, place.space))
    with found:
        yield Source(found)


# --- looking --------------------------------------------------------------------------------------------------


def told(place: Place, kind: type[T], question: Question, **more: Any) -> T:  # noqa: ANN401  # the fields of the record
    """The answer to one question."""
    return looking(place, lambda source: source.told(kind, place.ask(question, **more)))


def looking(place: Place, work: Callable[[Source], R]) -> R:
    """Ask whatever there is to be asked. If the space is closed or opened meanwhile, then once more."""
    for _ in range(_TRIES):
        try:
            with reached(place) as source:
                return work(source)
        except (ConnectionError, ClosedError):
            continue
    raise ConnectionResetError("it is opened and closed all the time; ask again")


def runs_in_pages(source: Source, place: Place, limit: int, **more: Any) -> Iterator[tuple[RunsPage, RunView]]:  # noqa: ANN401
    """The newest first, so many at most; nobody is kept from the file for longer than a page takes."""
    from headwater.inspect.workflow_answers import RunsPage

    before = 0
    while limit > 0:
        page = source.told(RunsPage, place.ask("runs", limit=limit, before=before, **more))
        if not page.runs:
            return
        yield from ((page, run) for run in page.runs)
        before, limit = page.runs[-1].id, limit - len(page.runs)


def inputs_in_pages(source: Source, place: Place, limit: int, **more: Any) -> Iterator[tuple[InputsPage, InputView]]:  # noqa: ANN401
    """The same of inputs."""
    from headwater.inspect.workflow_answers import InputsPage

    before = 0
    while limit > 0:
        page = source.told(InputsPage, place.ask("inputs", limit=limit, before=before, **more))
        if not page.inputs:
            return
        yield from ((page, each) for each in page.inputs)
        before, limit = page.inputs[-1].id, limit - len(page.inputs)


def changes(place: Place, kind: type[T], ask: Callable[[T | None], Ask]) -> Iterator[T | None]:
    """What is different, as it happens; None if nothing is. Ends when the space is closed.

    `ask` is given the answer before.
    """
    import msgspec

    with reached(place) as source:
        if not source.is_live:
            message = "nobody has this space open, so there is nothing to follow; `headwater run MODULE:APP` runs it"
            raise NotFoundError(message)
        mark, last = "", None
        while True:
            begin = machine().monotonic()
            try:
                mark, text = source.hear(msgspec.structs.replace(ask(last), unless=mark))
            except (ConnectionError, ClosedError):
                return
            took = machine().monotonic() - begin
            news = None if text is None else msgspec.json.decode(text, type=kind)
            last = news or last
            yield news
            machine().sleep(max(POLL_S, took * _REST))


# --- doing ----------------------------------------------------------------------------------------------------


def done(place: Place, act: FlowAct, **more: Any) -> ControlReport:  # noqa: ANN401  # the fields of the record
    """Have it done, by the process that has the space open or here. Raises what refuses it."""
    from headwater.inspect.workflow_answers import ControlReport

    return done_as(ControlReport, place, act, **more)


def done_as(kind: type[T], place: Place, act: FlowAct, **more: Any) -> T:  # noqa: ANN401  # likewise
    """The same, with another answer."""
    again = (
        "Published twice with the same id, it is one event"
        if act == "publish"
        else "ControlReport twice, it is refused"
    )
    ask = place.ask("workflow", act=act, **more)
    for _ in range(_TRIES):
        try:
            with reached(place) as source:
                return source.told(kind, ask)
        except ClosedError:
            # Nothing was done: it was closed before.
            continue
        except TimeoutError:
            message = "the process that has the space open does not answer; whether it was done is not known"
            raise EventTimeoutError(f"{message}. {again}") from None
        except ConnectionError:
            message = "the space was closed before there was an answer; whether it was done is not known"
            raise UnavailableError(f"{message}. {again}") from None
    raise ConnectionResetError("it is opened and closed all the time; ask again")
