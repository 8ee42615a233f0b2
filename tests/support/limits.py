"""Bounds made small, so that a short run crosses them often."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch


@contextmanager
def small_limits(**values: int) -> Iterator[None]:
    """Set a named limit in every module of the package that has it; put the old values back in the end."""
    with ExitStack() as stack:
        for name, value in values.items():
            modules = [module for key, module in sys.modules.items() if key.startswith("headwater.")]
            holders = [module for module in modules if hasattr(module, name)]
            assert holders, f"there is no limit called {name}"
            for module in holders:
                stack.enter_context(patch.object(module, name, value))
        yield
