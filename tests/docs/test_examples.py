"""The programs in examples/ print what they should, and the second run goes on where the first one ended."""

import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

PROGRAMS = {
    "counter.py": (
        """\
0 doubled is 0
1 doubled is 2
""",
        """\
1 doubled is 2
2 doubled is 4
""",
    ),
    "todo.py": (
        """\
home []
home ['[ ] milk (Ann)', '[ ] tea (Ann)']
home ['[ ] tea (Ann)']
home ['[ ] tea (Anna)']
""",
        """\
home ['[ ] tea (Anna)']
home ['[ ] tea (Anna)', '[ ] milk (Ann)', '[ ] tea (Ann)']
home ['[ ] tea (Anna)', '[ ] milk (Anna)', '[ ] tea (Anna)']
""",
    ),
    "order.py": (
        """\
1000 [1000]
""",
        """\
1000 [1000, 1000]
""",
    ),
    "report.py": (
        """\
sum 333328333350000
runs of heavy: 1
""",
        """\
sum 333328333350000
runs of heavy: 0
""",
    ),
    "cards.py": (
        """\
cards: 0, known: 0
cards: 3, known: 0
  Bach    box 1
  See     box 1
  Quelle  box 1
cards: 3, known: 1
  Bach    box 2
brook: right
sea: wrong
cards: 3, known: 2
  Quelle  box 2
spring: right
""",
        """\
cards: 3, known: 2
  Bach    box 2
  See     box 1
  Quelle  box 2
cards: 3, known: 2
  Bach    box 3
brook: right
sea: wrong
cards: 3, known: 2
  Quelle  box 3
spring: right
learnt: Bach, Quelle
cards: 1, known: 0
""",
    ),
    "weather.py": (
        """\
loading
Oslo -4.5
loading
Rome 17.0
Oslo -4.5
requests: 2
""",
        """\
Oslo -4.5
Rome 17.0
Oslo -4.5
requests: 0
""",
    ),
    "search.py": (
        """\
8 found: apple, apricot, banana, blackcurrant, cherry, grape, grapefruit, pineapple
typed, and nothing has run yet
2 found: grape, grapefruit
1 found: apple
runs: {'hits': 3, 'show': 3}
""",
        """\
1 found: apple
typed, and nothing has run yet
2 found: grape, grapefruit
1 found: apple
runs: {'hits': 2, 'show': 3}
""",
    ),
}
"""What each prints in an empty folder, and then once more there."""


def run(name: str, folder: Path) -> str:
    command = [sys.executable, str(EXAMPLES / name)]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize("name", PROGRAMS)
def test_program_prints_what_it_should_and_goes_on_where_it_stopped(name: str, tmp_path: Path) -> None:
    assert (run(name, tmp_path), run(name, tmp_path)) == PROGRAMS[name]


def test_importing_a_program_makes_no_file(tmp_path: Path) -> None:
    """Declaring does no IO."""
    modules = ", ".join(name.removesuffix(".py") for name in PROGRAMS)
    source = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import {modules}"
    subprocess.run([sys.executable, "-B", "-c", source], cwd=tmp_path, timeout=60, check=True)
    assert list(tmp_path.iterdir()) == []


def test_every_program_is_tried_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {*PROGRAMS, "inbox.py", "demo.py", "test_search.py"}


def test_example_of_a_test_passes_in_its_own_folder(tmp_path: Path) -> None:
    """As a reader would run it; and it fails if what it claims is not so."""
    for name in ("search.py", "test_search.py"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_search.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    claims = tmp_path / "test_search.py"
    claims.write_text(claims.read_text(encoding="utf-8").replace('["apple"]', '["pear"]'), encoding="utf-8")
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "1 failed" in failed.stdout


def headwater(folder: Path, *words: str) -> str:
    """What a command prints; nothing, as long as there is nothing to be asked."""
    command = [sys.executable, "-m", "headwater", *words, "--url", "inbox.db"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=60, check=False).stdout


def test_inbox_asks_appends_each_note_once_and_ends_when_it_is_told_to(tmp_path: Path) -> None:
    (tmp_path / "inbox").mkdir()
    (tmp_path / "inbox" / "milk.txt").write_text("buy milk", encoding="utf-8")
    command = [sys.executable, "-u", str(EXAMPLES / "inbox.py")]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None
        try:
            while "paused:approval" not in (runs := headwater(tmp_path, "runs", "ls")):
                assert program.poll() is None
            headwater(tmp_path, "approve", runs.split()[0])
            assert program.stdout.readline() == "1 rows added\n"
        finally:
            program.send_signal(signal.SIGINT)
        assert program.wait(60) == 0
    assert (tmp_path / "ledger.csv").read_text(encoding="utf-8").count("milk.txt,buy milk") == 1


def test_demo_runs_to_its_end_and_leaves_nothing_behind(tmp_path: Path) -> None:
    printed = run("demo.py", tmp_path)
    assert printed.count("found after it") == 3
    assert printed.count("it was handled before") == 2
    assert list(tmp_path.iterdir()) == []
    check_the_workflow_that_is_killed(printed[printed.index("\nA workflow acts outside") :])


def check_the_workflow_that_is_killed(printed: str) -> None:
    """Two runs of one chain, one call, three rows; and what was asked in between knew of the first run alone."""
    runs = re.findall(r"^    run (\d+), (\w+): ", printed, re.MULTILINE)
    statuses = [status for _, status in runs]
    assert statuses == ["crashed", "crashed", "committed"]
    assert runs[0] == runs[1] != runs[2]
    assert printed.count("its next() prints: 3 rows added") == 1
    known = " ".join(printed.split())
    assert known.count("Nobody knows yet whether it happened.") == 1
    assert known.count("It happened: that was found out by looking it up.") == 1
    rows = re.findall(r"^    (\w{32})  (\w+)\.txt +\w", printed, re.MULTILINE)
    assert sorted(note for _, note in rows) == ["ann", "milk", "tea"]
    assert len({key for key, _ in rows}) == 1, "they are of one call"
    assert max(map(len, printed.splitlines())) <= 80
