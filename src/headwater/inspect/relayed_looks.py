"""A program whose space is at a server answers questions of owners, which the server passes on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, cast

from headwater.inspect.opening_port import OpeningPort


class _Asked(Protocol):
    """A storage at a server."""

    answer_look: Callable[[str], str] | None


def join(storage: object, opening: OpeningPort) -> Callable[[], None] | None:
    """Answer for an opening. Returns the function that ends this; None: the space is at no server."""
    if not hasattr(storage, "answer_look"):
        return None
    remote = cast("_Asked", storage)
    # Several apps may share one connection. They are closed one by one.
    remote.answer_look = _Answers([*_openings_of(remote), opening])

    def end() -> None:
        left = [each for each in _openings_of(remote) if each is not opening]
        remote.answer_look = _Answers(left) if left else None

    return end


class _Answers:
    """The answers of some openings: JSON of a request to JSON of its response."""

    def __init__(self, openings: list[OpeningPort]) -> None:
        self.openings = openings

    def __call__(self, text: str) -> str:
        # It takes longer to load than a small program takes to run, and most are never asked.
        from headwater.inspect.look_answers import answer_text  # noqa: PLC0415

        return answer_text(self.openings, text)


def _openings_of(remote: _Asked) -> list[OpeningPort]:
    found = remote.answer_look
    return found.openings if isinstance(found, _Answers) else []
