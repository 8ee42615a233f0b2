"""The steps of a pass, and the loop that performs them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TypeAlias

import msgspec

from headwater.scheduler.runs.attempt import Call


class Idle(msgspec.Struct, frozen=True):
    """Nothing can run now; `wake_at` is the time at which something may be due, if known."""

    wake_at: float | None


PassStep: TypeAlias = Call | Idle
Perform: TypeAlias = Callable[[Call], None]


def drive(steps: Iterator[PassStep], perform: Perform) -> float | None:
    """Perform all steps of a generator. An error that leaves a function is thrown into the generator.

    Returns the time at which something may be due, if known.
    """
    wake_at: float | None = None
    step = next(steps, None)
    while step is not None:
        if type(step) is Idle:
            wake_at = step.wake_at
            step = next(steps, None)
            continue
        try:
            perform(step)  # type: ignore[arg-type]  # the kinds that are not Idle
        except BaseException as error:  # noqa: BLE001  # thrown into the steps, which know whom it concerns
            step = _thrown(steps, error)
        else:
            step = next(steps, None)
    return wake_at


def _thrown(steps: Iterator[PassStep], error: BaseException) -> PassStep | None:
    throw: Callable[[BaseException], PassStep] = steps.throw  # type: ignore[attr-defined]
    try:
        return throw(error)
    except StopIteration:
        return None
