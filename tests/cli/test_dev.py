"""headwater dev: a process that runs an app, and starts it again when its sources change."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.cli.conftest import Run
from tests.cli.processes import COMMAND
from tests.cli.test_workflow_live import until
from tests.studio.pages import PageClient, page_of
from tests.support.open_spaces import SAFETY_S

SHOP = """
import headwater as hw
import prices

app = hw.App("shop")
count = app.cell("count", 0)

@app.sink
def show() -> None:
    print(prices.WORD, count.value)
"""


class Developed:
    """`headwater dev`, in a process of its own."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process

    def printed(self) -> str:
        """The next line of the app."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, "it has ended"
        return line

    def said(self, words: str) -> str:
        """The next line beside the output that has these words."""
        assert self.process.stderr is not None
        while words not in (line := self.process.stderr.readline()):
            assert line, "it has ended"
        return line

    def end(self, number: int = signal.SIGINT) -> int:
        """Tell it to end; its exit code."""
        self.process.send_signal(number)
        return self.process.wait(SAFETY_S)


@contextmanager
def developing(*options: str) -> Iterator[Developed]:
    command = [*COMMAND, "dev", "shop:app", "--no-browser", *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            yield Developed(process)
        finally:
            # Its program sees that, and ends as well.
            process.kill()


def write_shop(word: str = "first") -> None:
    Path("shop.py").write_text(SHOP, encoding="utf-8")
    write_prices(f"WORD = {word!r}")


def write_prices(text: str) -> None:
    """Replaced as a whole: half of it would be another program."""
    Path("prices.new").write_text(text + "\n", encoding="utf-8")
    Path("prices.new").rename("prices.py")


def is_free() -> bool:
    return not Path("shop.db-runtime").exists()


@pytest.mark.slow
def test_a_change_of_a_source_starts_the_app_again_and_its_data_stays(run: Run) -> None:
    write_shop()
    with developing() as developed:
        assert developed.printed() == "first 0\n"
        developed.said("running shop")
        run("set", "shop.count", "5", "--url", "shop.db")
        assert developed.printed() == "first 5\n"
        write_prices("WORD = 'other'")
        developed.said("prices.py has changed")
        assert developed.printed() == "other 5\n"
        assert developed.end() == 0
    assert json.loads(run("get", "shop.count", "--url", "shop.db").stdout) == 5


@pytest.mark.slow
def test_a_mistake_is_shown_and_the_next_change_is_awaited() -> None:
    write_shop()
    with developing() as developed:
        assert developed.printed() == "first 0\n"
        developed.said("running shop")
        write_prices("WORD = (")
        assert "SyntaxError" in developed.said("HW150")
        developed.said("it does not run")
        write_prices("WORD = 'mended'")
        assert developed.printed() == "mended 0\n"
        assert developed.end(signal.SIGTERM) == 0


@pytest.mark.slow
def test_a_module_that_was_missing_may_come() -> None:
    write_shop()
    Path("prices.py").unlink()
    with developing() as developed:
        developed.said("No module named 'prices'")
        developed.said("it does not run")
        write_prices("WORD = 'there'")
        developed.said("prices.py has changed")
        assert developed.printed() == "there 0\n"


@pytest.mark.slow
def test_the_program_ends_with_the_command_that_started_it() -> None:
    write_shop()
    with developing() as developed:
        developed.printed()
        developed.said("running shop")
        until(lambda: not is_free())
        developed.process.kill()
        until(is_free)


@pytest.mark.slow
def test_the_studio_stays_while_the_app_is_started_again() -> None:
    write_shop()
    with developing("--port", "0") as developed:
        link = developed.said("the Studio: ").partition("the Studio: ")[2].split()[0]
        with page_of(link, code=link.partition("#c=")[2]) as page:
            before = page.ask("graph")["apps"][0]["pid"]
            write_prices("WORD = 'other'")
            developed.said("prices.py has changed")
            until(lambda: runs_in(page) not in (0, before))
            report = page.do("set", address="shop.count", text="3")
            assert report["sentence"].startswith("shop.count was written"), report
            while developed.printed() != "other 3\n":
                pass
        assert developed.end() == 0


def runs_in(page: PageClient) -> int:
    """The process of the app; 0: it is not open."""
    apps = page.ask("graph").get("apps") or [{"origin": "", "pid": 0}]
    return int(apps[0]["pid"]) if apps[0]["origin"] == "live" else 0


def test_wrong_use_is_told_before_anything_is_started(run: Run) -> None:
    result = run("dev", "shop:app", "--url", "shop.db", "--ingress", "nowhere", exit=2)
    assert "HOST:PORT is expected" in result.stderr
    result = run("dev", "shop:app", "--url", "odd://place", exit=2)
    assert "is not a URL" in result.stderr
