"""`./hw sim` as it is used: in a process of its own."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from sim.apps.parts import App
from sim.cli import main
from sim.kinds import make_plan
from sim.program.operations import Operation
from sim.program.shown import shown

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).parent / "toy_timeline.txt"
TOY = "small-tests.sim.toy"


def sim(*args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sim", *args]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=120)


def test_timeline_of_a_fixed_seed_is_as_recorded() -> None:
    """`./hw sim --replay small-tests.sim.toy:3` writes the file; digests depend on the source."""
    done = sim("--replay", f"{TOY}:3")
    assert re.sub(r"(plan|digest) [0-9a-f]{16}", r"\1 ...", done.stdout) == GOLDEN.read_text(encoding="utf-8")
    assert done.returncode == 1


def test_timeline_with_every_detail_has_the_switches_too() -> None:
    brief, whole = (sim("--replay", f"{TOY}:3", *args).stdout.splitlines() for args in ((), ("--every",)))
    details = [line for line in whole if "goes on after" in line]
    assert details
    assert [line.split() for line in whole if line not in details] == [line.split() for line in brief]


def test_replay_of_a_world_without_a_violation_ends_with_0() -> None:
    assert sim("--replay", f"{TOY}:11").returncode == 0


def test_run_sums_up_its_worlds_and_names_the_replay_of_a_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.json"
    done = sim("--seeds", "20", "--from", "0", "--kind", TOY, "--report", str(report))
    assert done.returncode == 1, done.stderr
    assert "20 in " in done.stdout
    assert f"./hw sim --replay {TOY}:3" in done.stdout
    found = json.loads(report.read_text(encoding="utf-8"))
    assert found["worlds"] == {TOY: 20}
    assert {each["seed"] for each in found["failures"]} >= {3}
    assert found["counts"]["operations"] == 120


def test_report_as_json_is_one_object() -> None:
    done = sim("--seeds", "2", "--from", "3", "--kind", TOY, "--json")
    assert json.loads(done.stdout)["first_seed"] == 3


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (("--seeds", "0"), "expected a number from 1"),
        (("--seeds", "-3"), "expected a number from 1"),
        (("--seeds", "many"), "expected a number from 1"),
        (("--seeds", "²"), "expected a number from 1"),
        (("--minutes", "nan"), "expected minutes"),
        (("--minutes", "0"), "expected minutes"),
        (("--from", "-1"), "expected a number from 0"),
        (("--kind", "nothing"), "there is no kind of worlds 'nothing'"),
        (("--kind", "tests.sim.nothing"), "there is no kind of worlds"),
        (("--replay", "shared:x"), "is no seed"),
        (("--replay", ""), "is no seed"),
        (("--replay", "99999999999999999999"), "is no seed"),
        (("--replay", f"{TOY}:1", "--kind", "tests.sim.toy"), "names the kind"),
        (("--replay", f"{TOY}:1", "--seeds", "4"), "does not belong to --replay"),
        (("--replay", f"{TOY}:1", "--shrink", "1"), "not allowed with"),
        (("--every",), "--every belongs to --replay"),
        (("--source",), "--source belongs to --replay"),
        (("--replay", "storage:1", "--source"), "storage:1: programs of this kind are not generated"),
        (("--twice", "3", "--seeds", "3"), "leave --seeds out"),
        (("--report", "/nowhere/at/all.json"), "there is no folder /nowhere/at"),
    ],
)
def test_wrong_use_ends_with_2_and_says_why(
    args: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(args)
    assert ended.value.code == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert said in told.err


@pytest.mark.slow
def test_real_clock_inside_a_world_is_found_by_playing_it_twice() -> None:
    done = sim("--twice", "2", "--from", "1", "--kind", "small-tests.sim.toy_clock")
    assert done.returncode == 3
    assert "it is " in done.stdout
    assert "/adder]" in done.stdout


@pytest.mark.slow
def test_order_of_a_set_is_found_by_playing_a_world_twice() -> None:
    done = sim("--twice", "2", "--from", "1", "--kind", "small-tests.sim.toy_hash")
    assert done.returncode == 3


def test_world_without_leaks_is_the_same_twice() -> None:
    done = sim("--twice", "20", "--from", "1", "--kind", "tests.sim.toy")
    assert done.returncode == 0, done.stdout
    assert "20 worlds from seed 1, each in two interpreters: 0 differ" in done.stdout


@pytest.mark.parametrize("kind", ["program", "workflow"])
def test_source_of_a_generated_program_can_be_shown(kind: str) -> None:
    told = sim("--replay", f"{kind}:3", "--source")
    assert told.returncode == 0
    compile(told.stdout, kind, "exec")
    assert "import headwater as hw" in told.stdout


def test_timeline_of_a_program_shows_its_operations_as_python() -> None:
    plan = make_plan("small-program", 3)
    assert isinstance(plan.app, App)
    texts = [shown(each, plan.app) for each in plan.operations if isinstance(each, Operation)]
    assert texts
    assert not [text for text in texts if text.startswith(("Write(", "Block(", "Send(", "Call("))]
