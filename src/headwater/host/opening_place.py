"""Where an app is opened, as text: for the storage, and to be compared with where it was opened before."""

from __future__ import annotations

from os import PathLike
from typing import cast

from headwater.errors import HeadwaterError
from headwater.host.space_files import default_url, locate
from headwater.runtime.options import Options


def url_text(url: str | PathLike[str] | None) -> str:
    """The URL that was given, or the one to use without any."""
    if url is None:
        return default_url()
    return str(url) if isinstance(url, PathLike) else url


def place_of(url: str | PathLike[str] | None, options: Options) -> str:
    """Where an app is opened, to be compared with where it was before."""
    try:
        text = url_text(url)
        if not isinstance(cast("object", text), str):
            return ""
        where = text if text.startswith(("ws:", "wss:")) else locate(text, options.space).key or text
        if where == "memory:":
            # Each opening has a space of its own.
            return ""
        return f"{where}#{options.space}#{options.branch}#{options.actor}#{options.local}"
    except HeadwaterError:
        # Told by the opening itself.
        return ""
