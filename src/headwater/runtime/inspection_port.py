"""What a runtime needs of its inspection: the names that a space and its tools use of `inspect.view`."""

from __future__ import annotations

from typing import Literal, TypeAlias

GraphForm: TypeAlias = Literal["text", "svg", "mermaid", "json"]
"""How a graph is drawn."""
