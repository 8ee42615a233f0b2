"""What the scheduler does, through `logging`: records of its trace, one line each, by the logger `headwater.scheduler`.

The scheduler itself logs nothing. There is a record for each step of each run, so the level of this logger, or of
`headwater`, has to be set to DEBUG by name, before a space is opened: a program that logs everything at DEBUG does not
ask for that.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from typing import Final

from headwater.host.console_capture import unheard
from headwater.scheduler.trace import Trace, TraceRecord

LOGGER: Final = "headwater.scheduler"


def log_steps(space: str, trace: Trace) -> None:
    """Log each record from now on, if the level asks for it."""
    log = logging.getLogger(LOGGER)
    if not any(logging.NOTSET < each.level <= logging.DEBUG for each in (log, logging.getLogger("headwater"))):
        return

    def tell(record: TraceRecord) -> None:
        # In the middle of a pass, perhaps of a run: what a log handler of the author prints is not that run's, and what
        # it raises stops nothing.
        with unheard(), suppress(Exception):
            log.debug("%s: %s", space, line_of(record), extra={"headwater": record})

    trace.listen(tell)


def line_of(record: TraceRecord) -> str:
    """A record as one line: which node, what happened to it, and the rest as `name=value`."""
    kind = type(record).__struct_config__.tag
    rest = [name for name in record.__struct_fields__ if name not in ("at_ms", "node")]
    facts = ", ".join(f"{name}={value!r}" for name in rest if (value := getattr(record, name)) not in ("", None, ()))
    return f"{kind} {record.node}".rstrip() + (f": {facts}" if facts else "")
