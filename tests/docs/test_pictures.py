"""The picture of ARCHITECTURE.md is what its program draws, and names modules that exist."""

from pathlib import Path
from runpy import run_path

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "docs" / "internals" / "draw_loop.py"


def test_the_picture_is_what_its_program_draws() -> None:
    drawn: str = run_path(str(PROGRAM))["drawn"]()
    assert PROGRAM.with_name("loop.svg").read_text(encoding="utf-8") == drawn, f"run python {PROGRAM.name}"
    assert "docs/internals/loop.svg" in (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")


def test_boxes_of_the_picture_name_modules_that_exist() -> None:
    modules = [box[3] for box in run_path(str(PROGRAM))["BOXES"]]
    assert [name for name in modules if not (ROOT / "src" / "headwater" / name).is_file()] == []
