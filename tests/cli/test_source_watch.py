"""Which files of a program are watched."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli import source_watch
from headwater.cli.source_watch import SourceWatch


def test_files_that_another_thread_adds_meanwhile_end_no_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    watch = SourceWatch()
    watch.add([tmp_path / "first.py", tmp_path / "second.py"])
    look = source_watch._mark

    def looked(file: Path) -> object:
        monkeypatch.setattr(source_watch, "_mark", look)
        watch.add([tmp_path / "third.py"])
        return look(file)

    monkeypatch.setattr(source_watch, "_mark", looked)
    assert watch.changed() is None
    (tmp_path / "third.py").write_text("", encoding="utf-8")
    assert watch.changed() == tmp_path / "third.py"
