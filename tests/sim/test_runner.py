"""Worlds that hang, die or grow are given up, and the run goes on.

The runner forks, so each test has a process of its own: one that runs tests has threads.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]

START = """
import json, os, sys, time
from sim.plan import Outcome, Violation
from sim.runner import Limits, run

def show(result):
    print(json.dumps([result.seed, result.status, result.text]), flush=True)

def names(count):
    return (("k", seed) for seed in range(count))
"""


def results(program: str) -> dict[int, tuple[str, str]]:
    """What a program prints with `show`: for each seed the status and the text."""
    done = subprocess.run(
        [sys.executable, "-c", START + program], cwd=ROOT, capture_output=True, text=True, check=False, timeout=60
    )
    assert done.returncode == 0, done.stderr
    rows: list[Any] = [json.loads(line) for line in done.stdout.splitlines()]
    return {seed: (status, text) for seed, status, text in rows}


def test_every_world_is_played_once_and_a_violation_is_a_failure() -> None:
    found = results("""
def play(kind, seed):
    return Outcome(violations=(Violation("V", 0.0, "n", "wrong"),) if seed == 3 else ())
assert run(names(50), play, on_result=show, limits=Limits(worlds_per_child=7))
""")
    assert {seed: status for seed, (status, _) in found.items()} == {
        seed: "failed" if seed == 3 else "ok" for seed in range(50)
    }


def test_world_that_hangs_is_too_slow_and_the_stack_says_where() -> None:
    found = results("""
def hang():
    time.sleep(100)
def play(kind, seed):
    if seed == 1:
        hang()
    return Outcome()
run(names(4), play, on_result=show, limits=Limits(real_s=0.3))
""")
    assert {seed: status for seed, (status, _) in found.items()} == {0: "ok", 1: "too slow", 2: "ok", 3: "ok"}
    assert "in hang" in found[1][1]


def test_actor_that_never_hands_over_is_stuck_and_its_stack_is_told() -> None:
    found = results("""
def spin():
    while True:
        pass
def play(kind, seed):
    if seed == 1:
        spin()
    return Outcome()
run(names(4), play, on_result=show, progress=lambda: 0, limits=Limits(stuck_s=0.3))
""")
    assert {seed: status for seed, (status, _) in found.items()} == {0: "ok", 1: "stuck", 2: "ok", 3: "ok"}
    assert "in spin" in found[1][1]


def test_world_that_needs_too_much_memory_is_given_up() -> None:
    found = results("""
def play(kind, seed):
    kept = []
    while seed == 1:
        kept.append(b"x" * (1 << 22))
        time.sleep(0.002)
    return Outcome()
run(names(3), play, on_result=show, limits=Limits(memory=200 << 20))
""")
    assert {seed: status for seed, (status, _) in found.items()} == {0: "ok", 1: "too big", 2: "ok"}


def test_process_that_dies_and_world_that_raises_are_failures_and_the_others_are_played() -> None:
    found = results("""
def play(kind, seed):
    if seed == 1:
        os._exit(9)
    if seed == 2:
        raise ValueError("planted")
    return Outcome()
run(names(5), play, on_result=show)
""")
    assert {seed: status for seed, (status, _) in found.items()} == {0: "ok", 1: "died", 2: "error", 3: "ok", 4: "ok"}
    assert "exit code 9" in found[1][1]
    assert "ValueError: planted" in found[2][1]


def test_each_child_is_prepared_once() -> None:
    found = results("""
marks = []
def prepare():
    marks.append(1)
def play(kind, seed):
    assert len(marks) == 1
    return Outcome()
run(names(10), play, on_result=show, prepare=prepare, limits=Limits(worlds_per_child=2))
""")
    assert {status for status, _ in found.values()} == {"ok"}


def test_interrupt_ends_the_run_and_leaves_no_process() -> None:
    program = """
def play(kind, seed):
    print(os.getpid(), flush=True)
    time.sleep(100)
assert not run(names(2), play, jobs=1)
print("ended", flush=True)
"""
    with subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import signal\nsignal.signal(signal.SIGINT, signal.default_int_handler)\n" + START + program,
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        child = int(process.stdout.readline())
        process.send_signal(signal.SIGINT)
        assert process.stdout.readline() == "ended\n"
        assert process.wait(30) == 0
    assert _is_gone(child)


def _is_gone(pid: int) -> bool:
    for _ in range(100):
        if not Path(f"/proc/{pid}").exists():
            return True
        time.sleep(0.01)
    return False


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="this system does not place processes on cores")
def test_children_have_a_core_each_only_if_they_use_all_of_them() -> None:
    found = results("""
cores = os.sched_getaffinity(0)
def play(kind, seed):
    return Outcome(violations=(Violation("V", 0.0, "n", str(sorted(os.sched_getaffinity(0)))),))
def tell(result):
    print(json.dumps([result.seed, result.status, result.outcome.violations[0].text]), flush=True)
for jobs in (len(cores), len(cores) - 1 or 1):
    run([("k", jobs)], play, jobs=jobs, on_result=tell)
""")
    cores = os.sched_getaffinity(0)
    assert found[len(cores)][1] in {str([core]) for core in cores}
    if len(cores) > 1:
        assert found[len(cores) - 1][1] == str(sorted(cores))
