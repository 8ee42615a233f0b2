"""A real disk that is full for a while: no client ends, nothing is reported as lost, nothing lands twice."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server.running import DEADLINE_S, settle_in

PROGRAM = Path(__file__).with_name("small_disk.py")


def own_name_space(tmp_path: Path) -> list[str] | None:
    """The command that gives a program mounts of its own; None if the system does not allow it."""
    if shutil.which("unshare") is None:
        return None
    for command in (["unshare", "-m"], ["unshare", "-r", "-m"]):
        probe = tmp_path / "probe"
        probe.mkdir(exist_ok=True)
        mount = [*command, "mount", "-t", "tmpfs", "-o", "size=1m", "none", str(probe)]
        if subprocess.run(mount, capture_output=True, check=False, timeout=DEADLINE_S).returncode == 0:
            return command
    return None


@pytest.mark.slow
@pytest.mark.parametrize("how", ["tmpfs", "fsize"])
def test_a_disk_that_is_full_for_a_while_ends_no_client(
    how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_in(tmp_path, monkeypatch)
    before = own_name_space(tmp_path) if how == "tmpfs" else []
    if before is None:
        reason = "this system lets no process have mounts of its own; the other case of this test has run"
        print(reason)
        pytest.skip(reason)
    run = subprocess.run(
        [*before, sys.executable, "-P", str(PROGRAM), str(tmp_path), how],
        capture_output=True,
        text=True,
        check=False,
        timeout=4 * DEADLINE_S,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        # Who is refused more bytes is told so by the call, and not ended.
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    assert run.returncode == 0, run.stderr
    found = json.loads(run.stdout)
    assert found["seen while full"] == [15, 15]
    assert "over" not in found["while full"]
    assert found["results"] == ["kept", "plain"]
    assert found["states"] == ["live", "live", "live"]
    assert found["counts"] == [15, 15]
    assert found["log"] == ["kept", "plain"]
    assert found["lost"] == []
    assert found["refused"] == 0
    assert ".jsonl" not in found["files"]
    assert (found["board.count_kept"], found["board.count_plain"]) == ("15\n", "15\n")
    assert found["verify"] == 0
    # With `fsize` there is no room anywhere.
    assert found["backup while full"] > 0 or how == "fsize"
