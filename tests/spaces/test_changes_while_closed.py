"""A space is closed, changed by another program, and opened again while its readers stay open."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import headwater as hw

OTHER_PROGRAM = """
import headwater as hw

far = hw.App("far")
n = far.cell("n", 0)
with far.open("far.db"):
    n.value = 7
"""


def test_its_readers_see_what_another_program_has_changed_meanwhile(tmp_path: Path) -> None:
    near, far = hw.App("near"), hw.App("far")
    n, shown = far.cell("n", 0), list[int]()

    @near.sink
    def show() -> None:
        shown.append(n.value)

    there = far.open("far.db")
    with near.open("near.db"):
        n.value = 1
        there.close()
        subprocess.run([sys.executable, "-c", OTHER_PROGRAM], cwd=tmp_path, check=True, timeout=120)
        with far.open("far.db"):
            assert shown == [0, 1, 7]
