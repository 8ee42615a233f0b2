"""The core is compiled or pure; HEADWATER_PURE=1 imports the sources although compiled modules lie beside them."""

from __future__ import annotations

import importlib.machinery
import os
import subprocess
import sys
import traceback
from pathlib import Path

import pytest

import headwater
from headwater._sources import SourceFinder, is_wanted
from headwater.core import freeze
from headwater.errors import AddressError
from headwater.host.libraries import core_form
from headwater.runtime.tracebacks import author_calls
from tests.app.holding import SAFETY_S

FORM = "from headwater.host.libraries import core_form; print(core_form())"


def form_of_another_process(**variables: str) -> str:
    found = subprocess.run(
        [sys.executable, "-c", FORM],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
        timeout=SAFETY_S,
    )
    return found.stdout.strip()


def test_sources_can_be_asked_for_in_either_form() -> None:
    assert form_of_another_process(HEADWATER_PURE="1") == "pure"
    assert form_of_another_process(HEADWATER_PURE="0") == form_of_another_process() == core_form()


@pytest.mark.parametrize(("value", "wanted"), [("1", True), ("yes", True), ("0", False), ("", False)])
def test_zero_and_nothing_do_not_ask_for_sources(value: str, wanted: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HEADWATER_PURE", value)
    assert is_wanted() is wanted


def test_finder_prefers_the_source_to_the_extension_module(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("", encoding="utf-8")
    (tmp_path / f"part{importlib.machinery.EXTENSION_SUFFIXES[0]}").write_bytes(b"")
    usual = importlib.machinery.PathFinder.find_spec("box.part", [str(tmp_path)])
    assert usual is not None
    assert isinstance(usual.loader, importlib.machinery.ExtensionFileLoader)
    found = SourceFinder("box").find_spec("box.part", [str(tmp_path)])
    assert found is not None
    assert isinstance(found.loader, importlib.machinery.SourceFileLoader)


def test_finder_leaves_other_packages_and_missing_modules_to_others(tmp_path: Path) -> None:
    (tmp_path / "part.py").write_text("", encoding="utf-8")
    finder = SourceFinder("box")
    assert finder.find_spec("boxes.part", [str(tmp_path)]) is None
    assert finder.find_spec("box.missing", [str(tmp_path)]) is None
    assert finder.find_spec("box") is None


def test_a_call_of_the_core_names_the_file_of_its_source_in_either_form() -> None:
    """So a traceback shows the line, and `author_calls` knows whose call it is."""
    with pytest.raises(AddressError) as caught:
        freeze({"price": float("nan")})
    last = traceback.extract_tb(caught.value.__traceback__)[-1]
    assert Path(last.filename) == Path(headwater.__file__).parent / "values" / "tree.py"
    assert last.name == "freeze"
    assert str(last.line).startswith("raise ")
    shown = traceback.extract_tb(author_calls(caught.value))
    assert [frame.filename for frame in shown] == [__file__]
