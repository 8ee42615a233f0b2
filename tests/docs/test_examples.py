"""The programs in examples/ print what they should, and the second run goes on where the first one ended."""

import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.docs.blocks import SECONDS_MAX, is_ready

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

PROGRAMS = {
    "shop_orders.py": (
        """\
loaded 8
3600 {'open': 8} ['8: Ann', '7: Ann']
[True, True, True] False
3000 {'open': 5, 'paid': 3} ['4 400', '5 500', '6 600', '7 700', '8 800']
[[1, 2], [3]]
0 8 Ann (100, 1) 800 None
""",
        """\
3000 {'open': 5, 'paid': 3} ['8: Ann', '7: Ann']
[True, True, True] False
1500 {'open': 2, 'paid': 6} ['7 700', '8 800']
[[1, 2], [3, 4], [5, 6]]
0 8 Ann (100, 1) 800 None
""",
    ),
    "spaces_transfer.py": ("97 12 3\n", "94 24 6\n"),
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
    "spaces_links.py": (
        """\
True
[('tea', False)]
[('tea', 'Ann')]
""",
        """\
True
[('tea', False), ('tea', False)]
[('tea', 'Ann'), ('tea', 'Ann')]
""",
    ),
    "spaces_two_apps.py": (
        """\
40 0
32 2
""",
        """\
32 2
24 4
""",
    ),
    "spaces_read.py": (
        """\
14.4
18.0
18.0
runs: 0 0
""",
        """\
18.0
18.0
runs: 0 0
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
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "search.py" else []) for name in PROGRAMS]
)
def test_program_prints_what_it_should_and_goes_on_where_it_stopped(name: str, tmp_path: Path) -> None:
    assert (run(name, tmp_path), run(name, tmp_path)) == PROGRAMS[name]


def test_importing_a_program_makes_no_file(tmp_path: Path) -> None:
    """Declaring does no IO."""
    modules = ", ".join(name.removesuffix(".py") for name in (*PROGRAMS, "seats.py"))
    source = f"import sys; sys.path.insert(0, {str(EXAMPLES)!r}); import {modules}"
    subprocess.run([sys.executable, "-B", "-c", source], cwd=tmp_path, timeout=SECONDS_MAX, check=True)
    assert list(tmp_path.iterdir()) == []


def test_every_program_is_tried_here() -> None:
    assert {path.name for path in EXAMPLES.glob("*.py")} == {
        *PROGRAMS,
        "inbox.py",
        "demo.py",
        "seats.py",
        "test_search.py",
    }


@pytest.mark.slow
def test_example_of_a_test_passes_in_its_own_folder(tmp_path: Path) -> None:
    """As a reader would run it; and it fails if what it claims is not so."""
    for name in ("search.py", "test_search.py"):
        (tmp_path / name).write_text((EXAMPLES / name).read_text(encoding="utf-8"), encoding="utf-8")
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "no:xdist", "test_search.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout
    claims = tmp_path / "test_search.py"
    claims.write_text(claims.read_text(encoding="utf-8").replace('["apple"]', '["pear"]'), encoding="utf-8")
    failed = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert "1 failed" in failed.stdout


def headwater(folder: Path, *words: str) -> str:
    """What a command prints; nothing, as long as there is nothing to be asked."""
    command = [sys.executable, "-m", "headwater", *words, "--url", "inbox.db"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False).stdout


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
        assert program.wait(SECONDS_MAX) == 0
    assert (tmp_path / "ledger.csv").read_text(encoding="utf-8").count("milk.txt,buy milk") == 1


# --- seats.py: a server and two programs -------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The URL of a server that is a process of its own, and ends well."""
    run_folder = tmp_path / "run"
    run_folder.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run_folder))
    command = [sys.executable, "-m", "headwater", "serve", "--store", "seats", "--listen", "127.0.0.1:0"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        try:
            found = re.search(r"ws://127.0.0.1(:\d+)", process.stderr.readline())
            assert found is not None
            end = time.monotonic() + SECONDS_MAX
            while not is_ready(found[1]):
                assert time.monotonic() < end
                time.sleep(0.01)
            yield found[0]
        finally:
            process.send_signal(signal.SIGTERM)
            assert "everything that was acknowledged is on disk" in process.stderr.read()
    assert process.returncode == 0


def book(url: str, *names: str) -> dict[str, list[str]]:
    """What seats.py prints, started for all at the same time."""
    programs = {
        name: subprocess.Popen(
            [sys.executable, str(EXAMPLES / "seats.py"), name, f"{url}/seats"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for name in names
    }
    printed = {}
    for name, program in programs.items():
        out, error = program.communicate(timeout=SECONDS_MAX)
        assert (program.returncode, error) == (0, "")
        printed[name] = out.splitlines()
    return printed


def test_one_of_two_programs_gets_the_seat_and_the_other_is_told_who(server: str) -> None:
    printed = book(server, "ann", "bob")
    winner, loser = ("ann", "bob") if printed["ann"][-1] == "ann got it" else ("bob", "ann")
    assert printed[winner][-1] == f"{winner} got it"
    assert printed[loser][-1] == f"{loser} lost it to {winner}"
    assert f"seat={winner!r} confirmed" in printed[winner]
    assert f"seat={loser!r} confirmed" not in printed[loser]


def test_who_comes_later_finds_the_seat_taken(server: str) -> None:
    printed = book(server, "ann")["ann"]
    # On a slow machine the server may be quicker than the sink.
    assert [line for line in printed if line != "seat='ann' pending"] == [
        "seat='' confirmed",
        "seat='ann' confirmed",
        "ann got it",
    ]
    assert book(server, "bob")["bob"] == ["seat='ann' confirmed", "bob lost it to ann"]


@pytest.mark.slow
def test_demo_runs_to_its_end_and_leaves_nothing_behind(tmp_path: Path) -> None:
    printed = run("demo.py", tmp_path)
    assert printed.count("found after it") == 3
    assert printed.count("it was handled before") == 2
    assert list(tmp_path.iterdir()) == []
    workflow, shared = printed.index("\nA workflow acts outside"), printed.index("\nTwo programs, one space")
    check_the_workflow_that_is_killed(printed[workflow:shared])
    check_the_server_that_is_killed(printed[shared:])


def check_the_server_that_is_killed(printed: str) -> None:
    """Bob's seat was pending and is Ann's; what Ann wrote without a server is Bob's, too, each of it once."""
    seen = [line.strip() for line in printed.splitlines()]
    for line in (
        "Ann takes it: 'Ann', pending",
        "Bob takes it, too: 'Bob', pending",
        "Bob sees: 'Ann', confirmed",
        "Ann sees: 3, pending; offline, 3 wait",
        "Ann sees: 3, confirmed; live",
        "Bob sees: 3, confirmed; live",
    ):
        assert seen.count(line) == 1
    assert max(map(len, seen)) <= 80


def check_the_workflow_that_is_killed(printed: str) -> None:
    """Two runs of one chain, one call, three rows; and what was asked in between knew of the first run alone."""
    runs = re.findall(r"^    run (\d+), (\w+): ", printed, re.MULTILINE)
    statuses = [status for _, status in runs]
    assert statuses == ["crashed", "crashed", "committed"]
    assert runs[0] == runs[1] != runs[2]
    assert printed.count("its next() prints: 3 rows added") == 1
    known = " ".join(printed.split())
    assert known.count("It is not known yet whether it happened.") == 1
    assert known.count("It happened: that was found out by looking it up.") == 1
    rows = re.findall(r"^    (\w{32})  (\w+)\.txt +\w", printed, re.MULTILINE)
    assert sorted(note for _, note in rows) == ["ann", "milk", "tea"]
    assert len({key for key, _ in rows}) == 1, "they are of one call"
    assert max(map(len, printed.splitlines())) <= 80
