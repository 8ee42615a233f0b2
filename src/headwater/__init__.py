"""Headwater: durable documents, and programs that react to them."""

from headwater._version import __version__

__all__ = ["__version__"]
