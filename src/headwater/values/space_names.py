"""The rule for names of spaces: one for files, servers and grants."""

from __future__ import annotations

from typing import Final

from headwater.errors import NameRefusedError

NAME_MAX: Final = 200
"""Characters: enough for people, and short enough for a file name made from it."""


def check_space_name(space: str) -> str:
    """Return the name. Raises NameRefusedError: a slash could lead to another folder."""
    if (
        not space
        or len(space) > NAME_MAX
        or not space.isprintable()
        or space != space.strip()
        or "/" in space
        or "\\" in space
    ):
        message = f"{space!r} is not a name for a space: up to 200 printable characters without slashes are expected"
        raise NameRefusedError(message, space=space)
    return space
