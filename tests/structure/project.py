"""Where things are in this checkout, for the tests that read it instead of running it."""

import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "headwater"


def read_pyproject() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def find_python(*folders: str) -> list[Path]:
    """Every python file below these folders of the checkout, in a stable order."""
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))
