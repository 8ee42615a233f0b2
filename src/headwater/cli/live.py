"""Views that stay: a terminal's screen that is drawn anew when something happens, until Ctrl-C.

Must never know: what is drawn.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

from headwater.cli.output import console, note
from headwater.cli.runtime import POLL_S, Answer, again, calling
from headwater.machine import machine

if TYPE_CHECKING:
    from rich.console import RenderableType

    from headwater.inspect.legacy import Caller
    from headwater.inspect.records import Ask

_REST: Final = 4
"""Times as long as it took to be answered."""


def stay(
    url: str | None,
    space: str | None,
    app: str | None,
    ask: Callable[[str], Ask],
    draw: Callable[[Answer, int], RenderableType],
) -> None:
    """Ask and draw, again and again. `ask` is given the mark of the answer before, `draw` the width there is."""
    screen = console()
    last: Answer | None = None
    size = screen.size
    with calling(url, space) as caller:
        try:
            with screen.screen() as shown:
                for answer in _answers(caller, ask, space, app):
                    if answer.views:
                        last = answer
                    if last is not None and (answer.views or screen.size != size):
                        size = screen.size
                        shown.update(draw(last, size.width))
        finally:
            # What was seen last stays in view.
            if last is not None:
                screen.print(draw(last, screen.width))
    note("it was closed")


def each_change(
    url: str | None, space: str | None, app: str | None, ask: Callable[[str], Ask], tell: Callable[[Answer], None]
) -> None:
    """The same for programs: told of every answer that is different."""
    with calling(url, space) as caller:
        for answer in _answers(caller, ask, space, app):
            if answer.views:
                tell(answer)


def _answers(caller: Caller, ask: Callable[[str], Ask], space: str | None, app: str | None) -> Iterator[Answer]:
    """Until the space is closed. If it takes long to answer, the program is left alone for longer."""
    mark = ""
    while True:
        begin = machine().monotonic()
        answer = again(caller, ask(mark), space, app)
        took = machine().monotonic() - begin
        if answer is None:
            return
        yield answer
        mark = answer.mark
        machine().sleep(max(POLL_S, took * _REST))
