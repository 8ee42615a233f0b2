"""`headwater studio`: the link that it prints, and how it ends."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from headwater.cli.main import cli
from tests.studio.pages import page_of
from tests.studio.shop import ignore, make_shop


@pytest.fixture
def file(tmp_path: Path) -> str:
    path = str(tmp_path / "shop.db")
    made = make_shop()
    with made.app.open(path, on_error=ignore):
        made.counted.value = 5
    return path


@contextmanager
def studio(*words: str) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """The command, and the link that it has printed."""
    with subprocess.Popen(
        [sys.executable, "-m", "headwater", "studio", "--no-browser", *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as command:
        try:
            assert command.stdout is not None
            yield command, command.stdout.readline().strip()
        finally:
            command.kill()


@pytest.mark.slow
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM])
def test_it_prints_a_link_that_works_once_and_ends_with_a_signal(file: str, end: signal.Signals) -> None:
    with studio(file) as (command, link):
        address, _, code = link.partition("#c=")
        assert address.startswith("http://127.0.0.1:")
        assert address.endswith("/studio/")
        with page_of(address, code=code) as page:
            assert page.ask("document", address="shop.count")["value"]["text"] == "5"
        with page_of(address) as again:
            assert again.enter(code=code)["code"] == "HW403"
        command.send_signal(end)
        assert command.wait(60) == 0


def test_a_file_that_is_missing_is_an_error_of_the_command(tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["studio", "--no-browser", str(tmp_path / "none.db")])
    assert result.exit_code == 3
    assert "there is no space" in result.output


def test_a_space_is_named_once(file: str) -> None:
    result = CliRunner().invoke(cli, ["studio", "--no-browser", file, "--url", file])
    assert result.exit_code == 2
    assert "Name the space once" in result.output
