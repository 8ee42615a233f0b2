"""A table of transitions: from a state and a signal to the next state."""

from __future__ import annotations

from enum import Enum
from typing import NoReturn, TypeVar

from headwater.errors import InvariantError

S = TypeVar("S", bound=Enum)
T = TypeVar("T", bound=Enum)


class Transitions(dict[tuple[S, T], S]):
    """The next states. A pair that is not in the table cannot happen: looking it up raises InvariantError."""

    def __missing__(self, pair: tuple[S, T]) -> NoReturn:
        state, signal = pair
        message = f"the signal {signal.value!r} is not possible in the state {state.value!r}"
        raise InvariantError(message, status=state.value, signal=signal.value)
