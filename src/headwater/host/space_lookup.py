"""The space of a URL and a name. If there is none, the error suggests similar names."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import Final

from headwater.errors import HeadwaterError, NotFoundError
from headwater.host import space_files
from headwater.host.postgres.database_url import is_database
from headwater.host.storage import Storage
from headwater.machine import machine
from headwater.values.suggestions import did_you_mean

_SPACES_MAX: Final = 20
"""Spaces of a folder that are opened to learn their names for a suggestion."""


def open_space(url: str | None, space: str | None, *, create: bool = False) -> Storage:
    """Open a space. Creates nothing without `create`."""
    url = url if url is not None else space_files.default_url()
    try:
        storage = space_files.open_space(url, space, create=create)
    except NotFoundError as error:
        raise NotFoundError(error.message + _suggest_space(url, space), **error.facts) from None
    if space is not None and storage.name != space:
        storage.close()
        message = f"{url} holds the space {storage.name!r}, not {space!r}; leave out --space, or name the folder"
        raise NotFoundError(message, url=url, space=space, found=storage.name)
    return storage


def is_folder(url: str) -> bool:
    """Whether the URL is a folder of spaces."""
    return url != "memory:" and not is_database(url) and (url.endswith(("/", os.sep)) or machine().files.is_dir(url))


def _suggest_space(url: str, space: str | None) -> str:
    """The end of the message about a missing space: a similar name, or all names."""
    path, files = Path(url), machine().files
    if files.is_file(path) or is_database(url):
        return ""
    if not is_folder(url):
        beside = [str(other) for other in space_files.spaces_in(path.parent)] if files.is_dir(path.parent) else []
        return did_you_mean(url, beside)
    if not files.is_dir(path):
        return ""
    names: list[str] = []
    for file in space_files.spaces_in(path)[:_SPACES_MAX]:
        with suppress(HeadwaterError), space_files.open_space(str(file), create=False) as storage:
            names.append(storage.name)
    if space is not None and (close := did_you_mean(space, names)):
        return close
    return f"; the spaces there are: {', '.join(names)} (choose with --space)" if names else ""
