"""The Studio: the web page on which people look at a space and act on it."""

from headwater.studio.local_server import Studio

__all__ = ["Studio"]
