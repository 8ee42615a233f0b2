"""Names of openings and functions, and the opening or function that a text means."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeVar

import msgspec

from headwater.errors import NotFoundError
from headwater.values.suggestions import did_you_mean

T = TypeVar("T")

# --- openings -------------------------------------------------------------------------------------------------


class InspectScope(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of an open file that a request is about."""

    space: str = ""
    """The name that the space must have; empty: any."""
    app: str = ""
    """The label of an opening; empty: all openings."""
    branch: str = "main"


def labels(apps: Sequence[str]) -> list[str]:
    """One label for each opening: `shop`, and `shop#2` for a second one of the same app."""
    found: list[str] = []
    for number, app in enumerate(apps):
        same = apps[:number].count(app)
        found.append(f"{app}#{same + 1}" if same else app)
    return found


def labelled(openings: Sequence[T], apps: Sequence[str], wanted: str) -> list[tuple[str, T]]:
    """The openings with their labels; if one is wanted, only that. Raises NotFoundError."""
    named = list(zip(labels(apps), openings, strict=True))
    chosen = [(label, opening) for label, opening in named if wanted in ("", label)]
    if not chosen and named:
        there = [label for label, _ in named]
        hint = did_you_mean(wanted, there) or f"; there is {', '.join(there)}"
        raise NotFoundError(f"there is no app {wanted!r} here{hint}", app=wanted)
    return chosen


def check_space(found: str, wanted: str) -> None:
    """Raise NotFoundError if the file holds another space."""
    if wanted and found != wanted:
        message = f"it holds the space {found!r}, not {wanted!r}; leave out --space, or name the folder"
        raise NotFoundError(message, space=wanted, found=found)


# --- functions ------------------------------------------------------------------------------------------------


def function_of(name: str) -> str:
    """`row` of `row(3)`: the function of a node."""
    return name.partition("(")[0] if name.endswith(")") else name


def pattern_of(piece: str) -> str:
    """`timer` of `timer kitchen`: the pattern of a piece."""
    return piece.partition(" ")[0]


def kind_of(name: str, piece: str) -> str:
    """`doubled of timer`: the common name of the nodes of a function."""
    function = function_of(name)
    return f"{function} of {pattern_of(piece)}" if piece else function


def is_called(node_id: str, name: str, text: str, app: str, piece: str = "") -> bool:
    """Whether a text means a node: its name, its function, either with the app in front; `…` stands for anything.

    A node of a piece is also meant with the piece, or its pattern: `doubled of timer kitchen`, `doubled of timer`.
    """
    wanted = text.removeprefix(f"{app}.").replace("...", "…")
    if piece:
        of_piece, of_pattern = f" of {piece}", f" of {pattern_of(piece)}"
        wanted = wanted.removesuffix(of_piece if wanted.endswith(of_piece) else of_pattern)
    if wanted in (node_id, name, function_of(name), f"{name}()"):
        return True
    if "…" in wanted:
        head, _, tail = _bare(wanted).partition("…")
        bare = _bare(name)
        return len(bare) >= len(head) + len(tail) and bare.startswith(head) and bare.endswith(tail)
    return name.endswith(")") and _bare(wanted) == _bare(name)


def _bare(text: str) -> str:
    """Without spaces and quotes."""
    return text.replace(" ", "").replace("'", "").replace('"', "")
