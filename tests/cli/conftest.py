"""Every test of the command line works in a folder of its own, with nothing set in the environment."""

import importlib
import os
import pkgutil
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import headwater.cli
from headwater.cli.main import cli
from headwater.host.system_clock import SystemClock
from tests.support.letters import Post, forget
from tests.support.orders import write_module

Run = Callable[..., Result]
Terminal = Callable[..., str]


@pytest.fixture(autouse=True)
def _clean_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("HEADWATER_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def run() -> Run:
    """Run a command as in a pipe. The exit code is checked at once: 0 unless said otherwise."""

    def invoke(*args: object, exit: int = 0, stdin: str | bytes | None = None) -> Result:  # noqa: A002
        result = CliRunner().invoke(cli, [str(arg) for arg in args], input=stdin)
        assert result.exit_code == exit, f"headwater {args} ended with {result.exit_code}\n{result.output}"
        assert "Traceback" not in result.stderr
        if exit:
            assert result.exception is None or isinstance(result.exception, SystemExit)
        return result

    return invoke


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> Terminal:
    """What a command writes on a terminal of so many columns, run in this process: it sees the time of the test."""

    def invoke(columns: int, *args: object, exit: int = 0) -> str:  # noqa: A002
        monkeypatch.setenv("COLUMNS", str(columns))
        monkeypatch.setenv("NO_COLOR", "1")
        for module in [module for name, module in sys.modules.items() if name.startswith("headwater.cli.")]:
            if hasattr(module, "is_terminal"):
                monkeypatch.setattr(module, "is_terminal", lambda _stream=None: True)
        result = CliRunner().invoke(cli, [str(arg) for arg in args])
        assert result.exit_code == exit, f"headwater {args} ended with {result.exit_code}\n{result.output}"
        return "\n".join(line.rstrip() for line in result.output.splitlines())

    # All of them, so that none is imported later.
    for module in pkgutil.iter_modules(headwater.cli.__path__, "headwater.cli."):
        importlib.import_module(module.name)
    return invoke


@pytest.fixture
def shop(run: Run) -> str:
    """A small space with a past: notes at 1, 2 and 3, other at 4."""
    run("set", "notes", '{"title": "milk", "items": [1, 2, {"a": null}]}', "--url", "shop.db")
    run("set", "notes/title", '"tea"', "--url", "shop.db")
    run("set", "notes/items/3", "-5", "--url", "shop.db")
    run("set", "other/a/b", "true", "--url", "shop.db")
    return "shop.db"


@pytest.fixture
def orders(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A module `orders` in this folder, which `--app` can name."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    write_module()
    yield "orders:app"
    # Other tests have others of that name.
    sys.modules.pop("orders", None)


@pytest.fixture
def post(monkeypatch: pytest.MonkeyPatch) -> Iterator[Post]:
    """A space with workflows that no process has open; commands see the time that it has."""
    monkeypatch.setattr(sys, "path", [str(Path.cwd()), *sys.path])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    made = Post("post.db")
    monkeypatch.setattr(SystemClock, "now_ms", lambda _: made.clock.now_ms())
    yield made
    forget()
