"""The colors of the diagrams, by theme and name. Text on its background has a contrast of at least 4.5."""

from __future__ import annotations

from typing import Final

THEMES: Final[dict[str, dict[str, str]]] = {
    "light": {
        "surface": "#ffffff",
        "line": "#dbe1e7",
        "line-strong": "#818c99",
        "ink": "#131a22",
        "ink-2": "#46515e",
        "ink-3": "#5c6875",
        "accent": "#0a6580",
        "accent-soft": "#e0f0f5",
        "clean": "#1a7038",
        "clean-soft": "#e4f4e9",
        "invalid": "#805300",
        "invalid-soft": "#fff1d2",
        "running": "#0b5cad",
        "running-soft": "#e2effd",
        "failed": "#b3261e",
        "failed-soft": "#fdebe9",
        "waiting": "#6a3ea1",
        "waiting-soft": "#f1e9fb",
        "dormant": "#5c6875",
        "dormant-soft": "#eceff3",
    },
    "dark": {
        "surface": "#151b22",
        "line": "#2a3440",
        "line-strong": "#6d7a89",
        "ink": "#e9eef3",
        "ink-2": "#b2bdc9",
        "ink-3": "#93a0af",
        "accent": "#63c1dc",
        "accent-soft": "#12303a",
        "clean": "#63cf85",
        "clean-soft": "#12291b",
        "invalid": "#edbb55",
        "invalid-soft": "#31260f",
        "running": "#78b7ff",
        "running-soft": "#12273f",
        "failed": "#ff928a",
        "failed-soft": "#3a1b1b",
        "waiting": "#c8a6f7",
        "waiting-soft": "#281d3a",
        "dormant": "#9aa6b4",
        "dormant-soft": "#1f2730",
    },
}
