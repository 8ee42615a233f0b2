"""The Studio: the web page on which people look at a space and act on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from headwater.studio.local_server import Studio

__all__ = ["Studio"]


def __getattr__(name: str) -> Any:  # noqa: ANN401  # the class; the HTTP server is loaded when it is used
    if name != "Studio":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from headwater.studio.local_server import Studio  # noqa: PLC0415

    return Studio
