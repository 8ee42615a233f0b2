"""graph and why, of a space that no process has open, and of the space of another process."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import headwater as hw
from headwater.scheduler.inspect.graph_snapshot import Snapshot
from tests.cli.conftest import Run
from tests.cli.processes import holding
from tests.support.open_spaces import BEGINNING, BRIEF, SAFETY_S, STAYING, end, running, tell


@pytest.fixture
def closed() -> str:
    """A space whose app was closed, after the tax had become 20."""
    subprocess.run([sys.executable, "-c", BRIEF, "shop.db"], check=True)
    return "shop.db"


TREE = """\
receipt  sink · clean · 2 runs
└─ total  clean · 2 runs
   ├─ shop.prices  document
   ├─ gross(0)  clean · 2 runs
   │  ├─ shop.prices  document
   │  └─ shop.tax  document
   └─ gross(1)  clean · 2 runs
      ├─ shop.prices  document
      └─ shop.tax  document

Read by no sink:
unused  dormant · never ran
"""


def without_times(text: str) -> str:
    """From the first effect on, without how long things took."""
    lines = [line.rpartition(" · ")[0] if line.endswith(" ms") else line for line in text.splitlines()]
    return "\n".join(lines[lines.index("receipt  sink · clean · 2 runs") :]) + "\n"


# --- closed -----------------------------------------------------------------------------------------------


def test_closed_space_is_drawn_as_it_was_when_its_app_was_closed(run: Run, closed: str) -> None:
    text = run("graph", "--url", closed).stdout
    first, _, rest = text.partition("\n")
    assert first.startswith("shop, as of 20")
    assert first.endswith(", when shop was last closed")
    assert without_times(rest) == TREE


def test_drawing_imports_no_app_and_changes_nothing(run: Run, closed: str) -> None:
    before = Path(closed).read_bytes()
    for command in (["graph"], ["why", "total"], ["top"], ["stats"], ["trace"]):
        run(*command, "--url", closed)
    assert Path(closed).read_bytes() == before
    assert [path.name for path in Path().iterdir()] == [closed]


def test_json_is_a_snapshot_and_says_where_it_comes_from(run: Run, closed: str) -> None:
    text = run("graph", "--json").stdout
    snapshot = Snapshot.from_json(text)
    assert [node.name for node in snapshot.nodes] == ["total", "unused", "receipt", "gross(0)", "gross(1)"]
    assert Snapshot.from_json(snapshot.to_json()) == snapshot
    more = json.loads(text)
    assert (more["app"], more["branch"], more["live"], more["left_out"]) == ("shop", "main", False, 0)
    assert {name: value for name, value in more.items() if name in snapshot.__struct_fields__} == json.loads(
        snapshot.to_json()
    )
    assert closed == "shop.db"


@pytest.mark.parametrize(
    ("style", "begins"), [("--svg", "<svg"), ("--mermaid", "flowchart"), ("--json", "{"), ("", "shop, ")]
)
def test_every_style_goes_to_the_output_or_into_a_file(run: Run, closed: str, style: str, begins: str) -> None:
    options = ["graph", "--url", closed, *([style] if style else [])]
    printed = run(*options)
    assert begins in printed.stdout[:200]
    assert not style or "as of" in printed.stderr
    assert run(*options, "-o", "graph.out").stdout == ""
    assert Path("graph.out").read_text(encoding="utf-8") == printed.stdout
    assert "graph.out exists; --force replaces it" in run(*options, "-o", "graph.out", exit=4).stderr
    run(*options, "-o", "graph.out", "--force")


def test_why_in_words(run: Run, closed: str) -> None:
    for name in ("total", "shop.total", "total()"):
        assert (
            run("why", name, "--url", closed)
            .stdout.splitlines()[1]
            .startswith("It ran 2 times, the last time because gross(0) and gross(1) changed, for ")
        )
    found = json.loads(run("why", "gross(…)", "--json").stdout)
    assert [one["node"] for one in found] == ["gross(0)", "gross(1)"]
    assert found[0]["words"][0] == "gross(0) is a computation, clean, live: read by live nodes"
    assert run("why", "gross( 1 )").stdout.count("gross(1) is a computation") == 1
    assert "no live node reads it" in run("why", "unused").stdout


def test_why_of_an_unknown_function_suggests_a_close_name(run: Run, closed: str) -> None:
    assert "there is no function totla; did you mean total?" in run("why", "totla", "--url", closed, exit=3).stderr
    assert "did you mean shop.total?" in run("why", "shop.totla", exit=3).stderr
    assert "did you mean gross(1)" in run("why", "gross(11)", exit=3).stderr
    assert "`headwater graph` shows them" in run("why", "xyzzy", exit=3).stderr


def test_why_of_many_instances_is_told_of_some(run: Run) -> None:
    app = hw.App("many")
    row = app.computed(name="row")(_row)
    app.sink(name="show")(lambda: [row(number) for number in range(25)])
    with app.open("many.db"):
        pass
    text = run("why", "row").stdout
    assert text.count("is a computation") == 10
    assert text.endswith("There are 15 more of them: name one, such as row(10)\n")
    assert len(run("why", "row", "--jsonl").stdout.splitlines()) == 25


def _row(number: int) -> int:
    return number


def test_space_in_which_no_app_was_ever_open_says_so(run: Run, shop: str) -> None:
    for command in (["graph"], ["graph", "--svg"], ["why", "total"], ["top"], ["stats"], ["trace"]):
        error = run(*command, "--url", shop, exit=3).stderr
        assert "nothing is known of functions in space 'shop': no app that has any was closed there yet" in error
    assert "there is no space" in run("graph", "--url", "nothing.db", exit=3).stderr
    assert "nothing is known of functions" in run("graph", "--url", "memory:", exit=3).stderr
    assert not Path("nothing.db").exists()


def test_of_several_apps_one_is_chosen_where_only_one_fits(run: Run, closed: str) -> None:
    app = hw.App("other")
    app.sink(name="show")(lambda: None)
    with app.open(closed):
        pass
    text = run("graph").stdout
    assert "other in space shop, as of" in text
    assert "\nshop, as of" in text
    error = run("graph", "--svg", exit=2).stderr
    assert "There are 2 of them; choose with --app other or --app shop." in error
    assert json.loads(run("graph", "--json", "--app", "shop").stdout)["app"] == "shop"
    assert "there is no app 'shpo' here; did you mean shop?" in run("graph", "--app", "shpo", exit=3).stderr


def test_following_a_closed_space_is_not_found(run: Run, closed: str) -> None:
    for command in (["graph", "--live", "--json"], ["trace", "--follow"]):
        error = run(*command, "--url", closed, exit=3).stderr
        assert "no process has space 'shop' open, so there is nothing to follow" in error


def test_live_view_needs_a_terminal_or_json(run: Run, closed: str) -> None:
    for options in ([], ["--svg"], ["--mermaid"], ["--json", "-o", "x"]):
        assert "--live draws on a terminal" in run("graph", "--live", *options, "--url", closed, exit=2).stderr


def test_nothing_that_is_told_can_drive_the_terminal(run: Run) -> None:
    evil = "\x1b[31mred\x07\u202e"
    app = hw.App("evil")

    @app.sink
    def show() -> None:
        raise ValueError(evil)

    with app.open("evil.db", on_error=lambda _: None):
        pass
    for command in (
        ["graph"],
        ["graph", "--svg"],
        ["graph", "--mermaid"],
        ["graph", "--json"],
        ["why", "show"],
        ["top"],
    ):
        text = run(*command).output
        assert not {"\x1b", "\x07", "\u202e"} & set(text), command
    assert Snapshot.from_json(run("graph", "--json").stdout).nodes[0].error == f"ValueError: {evil}"


# --- live -------------------------------------------------------------------------------------------------


def test_open_space_is_drawn_as_it_is_by_another_process(run: Run) -> None:
    with running(STAYING, "shop.db") as process:
        tell(process, 20)
        first, _, rest = run("graph").stdout.partition("\n")
        assert first == f"shop, live in process {process.pid}"
        assert without_times(rest) == TREE
        more = json.loads(run("graph", "--json").stdout)
        assert (more["live"], more["busy"], more["running"]) == (True, False, [])
        tell(process, 30)
        assert Snapshot.from_json(run("graph", "--json").stdout).nodes[0].runs == 3
        assert "because gross(0) and gross(1) changed" in run("why", "total").stdout
        assert "did you mean total?" in run("why", "totla", exit=3).stderr
        end(process)
    assert "as of" in run("graph").stdout


def test_space_of_a_folder_is_found_by_its_name(run: Run) -> None:
    Path("data").mkdir()
    program = STAYING.replace("app.open(sys.argv[1])", "app.open('data/', space='one')")
    with running(program):
        assert "shop in space one, live in process" in run("graph", "--url", "data/", "--space", "one").stdout
        # There is no choice, as for every other command.
        assert "shop in space one, live in process" in run("graph", "--url", "data/").stdout
        assert run("graph", "--url", "data/", "--space", "two", exit=3).stderr


def test_wrong_name_for_an_open_space_is_refused(run: Run) -> None:
    with running(STAYING, "shop.db"):
        error = run("graph", "--url", "shop.db", "--space", "other", exit=3).stderr
        assert "it holds the space 'shop', not 'other'" in error


def test_two_openings_are_both_drawn_and_told_apart(run: Run) -> None:
    program = STAYING.replace(
        "with app.open(sys.argv[1]):", "with app.open(sys.argv[1]), app.open(sys.argv[1], actor='ann'):"
    )
    program = program.replace("tax.value = int(line)", "")
    with running(program, "shop.db") as process:
        text = run("graph").stdout
        assert f"shop, live in process {process.pid}\n" in text
        assert f"\nshop#2 in space shop, live in process {process.pid}, for ann\n" in text
        assert json.loads(run("graph", "--json", "--app", "shop#2").stdout)["app"] == "shop"
        assert [one["app"] for one in json.loads(run("stats", "--json").stdout)] == ["shop", "shop#2"]


BUSY = (
    BEGINNING
    + """
import threading
app = hw.App("shop")
count = app.cell("count", 0)
other = app.cell("other", 0)

@app.sink
def slow():
    if count.value:
        print("busy", flush=True)
        sys.stdin.readline()

@app.sink
def quick():
    other.value

with app.open("shop.db"):
    ready()
    count.value = 1
"""
)


def test_long_pass_is_said_to_be_going_on(run: Run) -> None:
    with running(BUSY) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "busy\n"
        text = run("graph").stdout
        assert text.startswith(f"shop, live in process {process.pid}, running slow (busy: seen in passing)\n")
        assert "slow  sink · running · clean · 2 runs" in text
        assert "It is running" in run("why", "slow").stdout
        assert "running" in run("top").stdout
        result = run("stats")
        assert "a pass is going on: counts are known when it is over" in result.stderr
        found = json.loads(run("stats", "--json").stdout)
        assert (found[0]["busy"], found[0]["running"], found[0]["counts"]) == (True, ["slow"], {})
        end(process)


def test_door_of_a_killed_process_is_passed_by(run: Run) -> None:
    subprocess.run([sys.executable, "-c", BRIEF, "shop.db"], check=True)
    with running(STAYING, "shop.db") as process:
        process.send_signal(signal.SIGKILL)
        process.wait(SAFETY_S)
    assert Path("shop.db-runtime").is_socket()
    assert "as of" in run("graph", "--url", "shop.db").stdout


def test_process_that_has_no_app_open_is_named(run: Run, closed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("headwater.inspect.resolve._SOCKET_S", 0.0)
    with holding(closed) as pid:
        error = run("graph", "--url", closed, exit=4).stderr
        assert f"is open in process {pid}" in error
        assert "it has no app open, or no socket beside the file" in error


def test_space_that_was_opened_a_moment_ago_is_waited_for(run: Run) -> None:
    program = STAYING.replace("sockets.GRACE_S = 0\n", "sockets.GRACE_S = 0.4\n").replace(
        "    ready()\n", "    print('ready', flush=True)\n"
    )
    with running(program, "shop.db") as process:
        assert f"live in process {process.pid}" in run("graph").stdout
