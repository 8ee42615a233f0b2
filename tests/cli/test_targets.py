"""One set of commands for a closed file, for a file that a program has open, and for a space of a server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import click
import msgspec
import pytest

import headwater as hw
from headwater.cli import care_syntax, data_syntax, function_syntax, workflow_syntax
from headwater.cli.main import cli
from headwater.cli.output import Column
from headwater.host.space_files import file_name
from headwater.inspect import sockets
from headwater.workflow.wording.views import FlowView, InputView, RunDetails, RunView
from tests.cli.conftest import Run
from tests.server.running import served, settle_in
from tests.support.open_spaces import socket_ready


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sockets, "GRACE_S", 0.0)
    settle_in(tmp_path, monkeypatch)


def make_app() -> tuple[hw.App, hw.Cell[int]]:
    app = hw.App("shop")
    tax = app.cell("tax", 10)
    doubled = app.computed(name="doubled")(lambda: tax.value * 2)
    app.sink(name="show")(lambda: doubled())  # noqa: PLW0108  # a sink is a function of no app
    return app, tax


@pytest.fixture
def held(tmp_path: Path) -> Iterator[str]:
    """The URL of a file that a program has open."""
    app, tax = make_app()
    file = tmp_path / "shop.db"
    with app.open(file) as space:
        tax.value = 20
        space.sync()
        socket_ready(file)
        yield str(file)


@pytest.fixture
def at_server(tmp_path: Path) -> Iterator[str]:
    """The URL of a space of a server, in which an app was closed."""
    folder = tmp_path / "served"
    folder.mkdir()
    app, tax = make_app()
    with app.open(folder / file_name("home"), space="home"):
        tax.value = 20
    with served(folder) as server:
        yield f"{server.url}/home"


# --- a file that a program has open ---------------------------------------------------------------------------


def test_documents_of_a_held_file_are_read_and_written(run: Run, held: str) -> None:
    assert run("get", "shop.tax", "--url", held).stdout == "20\n"
    assert "shop.tax\t" in run("ls", "--url", held).stdout
    assert run("ls", "shop.", "-l", "--url", held).stdout.endswith("\t20\n")
    seq = int(run("set", "shop.tax", "30", "--url", held).stdout)
    changes = json.loads(run("history", "shop.tax", "--url", held, "--json").stdout)
    assert changes[0]["seq"] == seq
    assert run("get", "shop.tax", "--at", changes[1]["seq"], "--url", held).stdout == "20\n"
    assert run("get", "shop.tax", "--url", held).stdout == "30\n"


def test_errors_at_a_held_file_are_those_of_a_closed_one(run: Run, held: str) -> None:
    assert "did you mean shop.tax?" in run("get", "shop.tx", "--url", held, exit=3).stderr
    assert "declared as int" in run("set", "shop.tax", '"many"', "--url", held, exit=2).stderr
    assert "SpaceHeldError HW202" in run("compact", "--url", held, exit=4).stderr


# --- a server -------------------------------------------------------------------------------------------------


def test_functions_of_a_served_space_are_shown(run: Run, at_server: str) -> None:
    assert "doubled" in run("graph", "--url", at_server).stdout
    assert "shop in space home" in run("why", "doubled", "--url", at_server).stderr
    assert json.loads(run("top", "--url", at_server, "--json").stdout)[0]["app"] == "shop"
    assert json.loads(run("stats", "--url", at_server, "--json").stdout)[0]["live"] is False
    assert run("stats", "--resume", "--url", at_server).stdout.startswith("restored\t")
    run("trace", "--url", at_server)
    assert run("pieces", "--url", at_server).stdout == ""


def test_workflows_of_a_served_space_are_shown(run: Run, at_server: str) -> None:
    assert json.loads(run("workflow", "--url", at_server, "--json").stdout) == []
    assert json.loads(run("runs", "--url", at_server, "--json").stdout) == []
    assert json.loads(run("inputs", "--url", at_server, "--json").stdout) == []
    assert "HW" in run("workflow", "pause", "letters", "--url", at_server, exit=3).stderr


def test_history_of_a_served_space_is_that_of_its_file(run: Run, at_server: str) -> None:
    [first, *_] = json.loads(run("history", "shop.tax", "--url", at_server, "--json").stdout)
    assert run("get", "shop.tax", "--url", at_server).stdout == "20\n"
    assert first["seq"] == json.loads(run("get", "shop.tax", "--url", at_server, "--json").stdout)["seq"]


def test_commands_about_the_file_itself_say_so(run: Run, at_server: str) -> None:
    for command in (["verify"], ["compact"], ["export"], ["diff", "1", "2"]):
        assert "needs the file itself" in run(*command, "--url", at_server, exit=2).stderr


# --- the records ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("record", "view", "more"),
    [
        (workflow_syntax.RUN, RunView, set()),
        (workflow_syntax.WORKFLOW, FlowView, {"hosted"}),
        (workflow_syntax.INPUT, InputView, set()),
        (workflow_syntax.RUN_STORY, RunDetails, set()),
    ],
)
def test_fields_in_the_help_are_those_of_the_record(
    record: tuple[Column | str, ...], view: type[msgspec.Struct], more: set[str]
) -> None:
    names = {each if isinstance(each, str) else each.name for each in record}
    assert names == {*view.__struct_fields__} | more


def commands(group: click.Group) -> Iterator[click.Command]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None
        if isinstance(command, click.Group):
            yield from commands(command)
        else:
            yield command


def test_every_option_for_json_names_its_fields() -> None:
    for command in commands(cli):
        for option in command.params:
            if isinstance(option, click.Option) and "--json" in option.opts and option.name == "form":
                assert "Fields: " in (option.help or ""), command.name


def test_every_command_has_an_action_that_takes_its_options() -> None:
    import importlib
    import inspect

    found = 0
    for module in (care_syntax, data_syntax, function_syntax, workflow_syntax):
        for command in [each for each in vars(module).values() if isinstance(each, click.Command)]:
            for one in commands(command) if isinstance(command, click.Group) else [command]:
                where = inspect.getclosurevars(one.callback).nonlocals  # type: ignore[arg-type]
                action = getattr(
                    importlib.import_module(f"headwater.cli.{where['module']}"), where["declared"].__name__
                )
                given = {str(param.name) for param in one.params} | set(where["fixed"])
                if "url" in given:
                    given = given - {"url", "space", "branch", "app", "token_file"} | {"target"}
                takes = inspect.signature(action).parameters
                assert given <= takes.keys(), one.name
                assert {name for name in takes if takes[name].default is inspect.Parameter.empty} <= given, one.name
                found += 1
    assert found > 50
