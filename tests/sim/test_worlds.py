"""Worlds of every kind, small ones, as a part of the tests: `./hw sim` plays more of them."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from sim.kinds import KINDS
from sim.open_findings import is_open
from sim.sometimes import undeclared

ROOT = Path(__file__).parents[2]
WORLDS = 200


@pytest.mark.parametrize("kind", KINDS)
def test_small_worlds_violate_no_rule(kind: str) -> None:
    count = WORLDS // len(KINDS)
    command = [sys.executable, "-m", "sim", "--json", "--fresh", "--seeds", str(count), "--from", "1"]
    done = subprocess.run(
        [*command, "--kind", f"small-{kind}"], cwd=ROOT, capture_output=True, text=True, check=False, timeout=600
    )
    assert done.stdout, done.stderr
    report = json.loads(done.stdout)
    told = [
        (f"./hw sim --replay {each['kind']}:{each['seed']}", each["violations"] or each["text"])
        for each in report["failures"]
        if not is_open(f"{each['kind']}:{each['seed']}", each["violations"][0]["rule"] if each["violations"] else "")
    ]
    assert told == []
    assert done.returncode == 0, done.stderr
    assert report["worlds"] == {f"small-{kind}": count}
    assert undeclared(report["sometimes"]) == []
