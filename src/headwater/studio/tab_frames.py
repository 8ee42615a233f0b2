"""The frames of one tab from answers and errors."""

from __future__ import annotations

import logging
from typing import Final

import msgspec

from headwater.errors import HeadwaterError, UnavailableError
from headwater.studio import answers, page_frames
from headwater.studio.feed import Answered
from headwater.values.author_text import describe

log: Final = logging.getLogger("headwater.studio")


def answer_frame(number: int, found: Answered) -> page_frames.AnswerFrame:
    """The answer to a question."""
    return page_frames.AnswerFrame(
        n=number,
        mark=found.mark,
        seq=found.seq,
        at_ms=found.at_ms,
        live=found.live,
        busy=found.busy,
        same=found.record is None,
        record=msgspec.UNSET if found.record is None else msgspec.Raw(found.record),
    )


def trouble_frame(error: Exception, number: int) -> page_frames.TroubleFrame:
    """Why there is no answer."""
    if isinstance(error, HeadwaterError):
        return page_frames.trouble_of(error, number)
    if isinstance(error, OSError):
        message = f"it cannot be read: {describe(error)}"
        return page_frames.TroubleFrame(n=number, code=UnavailableError.code, kind="UnavailableError", message=message)
    log.error("a question of a page could not be answered", exc_info=error)
    message = f"this is a bug of Headwater: {describe(error)}"
    return page_frames.TroubleFrame(n=number, code=HeadwaterError.code, kind=type(error).__name__, message=message)


def graph_delta(before: answers.GraphAnswer, after: answers.GraphAnswer) -> answers.GraphDelta | None:
    """The changed states; None if boxes or routes have changed, too."""
    if before.structure != after.structure or before.apps != after.apps or before.note != after.note:
        return None
    known = {state.box: state for state in before.states}
    changed = tuple(state for state in after.states if known.get(state.box) != state)
    return answers.GraphDelta(structure=after.structure, seq=after.seq, states=changed, tones=after.tones)
