"""The programs of the recipes are typed: mypy --strict has nothing to say about them."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import find_blocks
from tests.docs.pages import DOCS, read

RECIPES = sorted((DOCS / "how-to").glob("*.md"))


def programs_of(page: Path) -> Iterator[tuple[str, str]]:
    """The files of a page; and its other programs, which share a namespace, as one."""
    shared = ""
    for block in find_blocks(read(page)):
        if block.language != "python" or not block.is_run:
            continue
        if block.file is not None:
            yield block.file.removesuffix(".py"), block.source
        else:
            shared += block.source
    if shared:
        yield "shown", shared


@pytest.mark.slow
def test_programs_of_the_recipes_are_typed(tmp_path: Path) -> None:
    names = []
    for page in RECIPES:
        for name, source in programs_of(page):
            path = tmp_path / f"{page.stem}_{name}.py".replace("-", "_")
            path.write_text(source, encoding="utf-8")
            names.append(path.name)
    assert len(names) >= len(RECIPES) - 1, "all pages but the index have a program"
    options = ["--strict", "--config-file=", "--cache-dir=cache"]
    done = subprocess.run(
        [sys.executable, "-m", "mypy", *options, *names], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
