"""The decorator for classes of compiled modules that classes of other modules extend.

mypyc reads it when it compiles a class; at run time it does nothing. It is that of `mypy_extensions`, which programs
that use Headwater do not need to install.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

__all__ = ["mypyc_attr"]

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr
else:
    _T = TypeVar("_T")

    def mypyc_attr(**_: object) -> Callable[[_T], _T]:
        """Nothing: the class as it is."""
        return lambda cls: cls
