"""All diagrams by name, and where they are stored."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from tools.docs.diagrams.concepts import choose, debounce, diamond, live_dormant, offline, restart, where_data_lives
from tools.docs.diagrams.drawing import Drawing
from tools.docs.diagrams.reactive_loop import loops, reactive_loop
from tools.docs.diagrams.states import event_way, pending, run_phases
from tools.docs.diagrams.themes import THEMES

FOLDER: Final = Path(__file__).resolve().parents[3] / "docs" / "diagrams"

DIAGRAMS: Final[dict[str, Callable[[], Drawing]]] = {
    "reactive-loop": reactive_loop,
    "loops": loops,
    "choose": choose,
    "live-dormant": live_dormant,
    "diamond": diamond,
    "debounce": debounce,
    "restart": restart,
    "where-data-lives": where_data_lives,
    "offline": offline,
    "pending": pending,
    "event-way": event_way,
    "run-phases": run_phases,
}


def draw_all() -> Iterator[tuple[str, str]]:
    """The name of each file, and its text."""
    for name, draw in DIAGRAMS.items():
        drawing = draw()
        for theme in THEMES:
            yield f"{name}-{theme}.svg", drawing.svg(theme)
