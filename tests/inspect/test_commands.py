"""Commands answer about a file that a program has open, and about a space of a server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import headwater as hw
from headwater.cli.main import cli
from tests.server.running import served, settle_in
from tests.support.open_spaces import STAYING, running, tell


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settle_in(tmp_path, monkeypatch)


def run(*args: object, exit: int = 0) -> Result:  # noqa: A002  # as the fixture of the command line's tests
    result = CliRunner().invoke(cli, [str(arg) for arg in args])
    assert result.exit_code == exit, result.output
    return result


def test_documents_of_a_file_that_a_program_has_open(tmp_path: Path) -> None:
    file = tmp_path / "shop.db"
    with running(STAYING, file) as process:
        tell(process, 20)
        assert run("get", "shop.tax", "--url", file).stdout == "20\n"
        assert "shop.tax" in run("ls", "--url", file).stdout
        run("set", "shop.tax", "30", "--url", file)
        assert run("get", "shop.tax", "--url", file).stdout == "30\n"
        assert len(run("history", "shop.tax", "--url", file).stdout.splitlines()) == 2
        assert "could not read it" in run("set", "shop.tax", '"many"', "--url", file, exit=2).stderr
        assert "did you mean shop.tax" in run("get", "shop.tx", "--url", file, exit=3).stderr


def test_functions_and_workflows_of_a_space_at_a_server(tmp_path: Path) -> None:
    app = hw.App("shop")
    tax = app.cell("tax", 10)
    doubled = app.computed(name="doubled")(lambda: tax.value * 2)
    with served(tmp_path / "spaces") as server:
        url = f"{server.url}/home"
        with app.open(url) as space:
            tax.value = 20
            assert doubled() == 40
            space.sync()
        assert "doubled" in run("graph", "--url", url).stdout
        assert "doubled() is a computation, clean" in run("why", "doubled", "--url", url).stdout
        [row] = json.loads(run("top", "--json", "--url", url).stdout)
        assert (row["function"], row["nodes"]) == ("doubled", 1)
        [counts] = json.loads(run("stats", "--json", "--url", url).stdout)
        assert (counts["live"], counts["counts"]["computations"]) == (False, 1)
        assert run("trace", "--url", url).stdout == ""
        assert json.loads(run("workflow", "ls", "--json", "--url", url).stdout) == []
        assert json.loads(run("runs", "ls", "--json", "--url", url).stdout) == []
        assert len(json.loads(run("history", "shop.tax", "--json", "--url", url).stdout)) == 1
        assert "not at the server" in run("trace", "--follow", "--url", url, exit=2).stderr
