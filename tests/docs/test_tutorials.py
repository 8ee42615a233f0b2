"""The tutorials: a reader who types every step gets what the page shows, and the finished programs are in examples/."""

import http.client
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from jupyter_client.blocking.client import BlockingKernelClient
from jupyter_client.manager import KernelManager

from tests.docs.blocks import COMMANDS, SECONDS_MAX, THIS_CHECKOUT, Command, Reader, alike, find_blocks
from tests.docs.chromium import FOUND, Chromium
from tests.docs.service import Service
from tests.docs.test_blocks import ROOT
from tests.server.running import ServeProcess
from tests.support.warm import Warm

PAGES = {path.stem: path for path in sorted((ROOT / "docs" / "tutorials").glob("*.md"))}
FINISHED = ROOT / "examples"


def versions(name: str) -> dict[str, list[str]]:
    """The files of a page, each as it is after the steps that change it."""
    found: dict[str, list[str]] = {}
    for block in find_blocks(PAGES[name].read_text(encoding="utf-8")):
        if block.file is not None:
            found.setdefault(block.file, []).append(block.source)
    return found


@pytest.mark.parametrize("name", PAGES)
def test_finished_programs_are_those_of_the_last_step(name: str) -> None:
    stored = {path.name: path.read_text(encoding="utf-8") for path in (FINISHED / name).glob("*.py")}
    assert {file: steps[-1] for file, steps in versions(name).items()} == stored


def test_every_step_of_a_tutorial_is_numbered() -> None:
    for page in PAGES.values():
        numbers = re.findall(r"^## (\d) ", page.read_text(encoding="utf-8"), re.MULTILINE)
        assert numbers == [str(number) for number in range(1, len(numbers) + 1)]
        assert 5 <= len(numbers) <= 7


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for the reader's files. Servers leave their token in a folder of the test."""
    run = tmp_path / "run"
    run.mkdir(mode=0o700)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(run))
    return tmp_path


@pytest.fixture
def warm() -> Iterator[Warm]:
    with Warm() as warm:
        yield warm


def program(folder: Path, *words: str) -> str:
    """What a program prints."""
    command = [sys.executable, *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=SECONDS_MAX, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


# --- the shop ------------------------------------------------------------------------------------------------


class ShopReader(Reader):
    """Types what the page of the shop says, uvicorn, curl and kill included."""

    words = (*COMMANDS, "uvicorn", "curl", "kill")

    def __init__(self, folder: Path, warm: Warm) -> None:
        super().__init__("shop.md", folder, THIS_CHECKOUT, warm)
        self.service: Service | None = None
        self.answers: list[str] = []

    def interrupt(self, command: Command, line: int) -> None:
        assert self.service is not None, f"line {line}: {command.text}"
        self.service.end(signal.SIGINT)
        log = "".join(self.service.lines)
        assert "Application shutdown complete" in log or "timeout graceful shutdown exceeded" in log, log

    def run_command(self, command: Command, line: int) -> None:
        match shlex.split(command.text):
            case ["uvicorn", "web:web", *options]:
                self.service = Service(self.work, *options)
            case ["kill", "-9", "PID"]:
                assert self.service is not None
                self.service.end(signal.SIGKILL)
            case ["curl", *words]:
                got = self.curl(words)
                assert alike(command.wanted, got), f"line {line}: {command.text}\nshown:\n{command.wanted}\ngot:\n{got}"
                self.answers.append(got)
            case _:
                super().run_command(command, line)

    def curl(self, words: list[str]) -> str:
        assert self.service is not None
        *options, url = words
        given = dict(zip(options[::2], options[1::2], strict=True))
        assert given.keys() <= {"-X", "-H"}, given
        name, _, value = given.get("-H", "").partition(": ")
        path = url.removeprefix("127.0.0.1:8000")
        return self.service.ask(path, given.get("-X", "GET"), **({name: value} if name else {})).read().decode()


@pytest.mark.slow
def test_shop_is_built_step_by_step_and_killed_without_losing_an_order(
    home: Path, monkeypatch: pytest.MonkeyPatch, warm: Warm
) -> None:
    reader = ShopReader(home, warm)
    monkeypatch.chdir(reader.work)
    try:
        reader.follow(PAGES["shop"].read_text(encoding="utf-8"))
        assert reader.service is not None
        assert reader.answers[-2:] == ['{"left":5}', '{"left":5}'], "before and after the kill"
        assert json.loads(reader.service.ask("/live").readline().removeprefix(b"data: "))["tea"] == 5
    finally:
        if reader.service is not None:
            reader.service.end(signal.SIGKILL)


@pytest.fixture
def shop(tmp_path: Path) -> Iterator[Service]:
    """The finished shop, with 3 teas and a cake."""
    folder = tmp_path / "shop"
    shutil.copytree(FINISHED / "shop", folder)
    service = Service(folder, "--timeout-graceful-shutdown", "1")
    try:
        yield service
    finally:
        service.end(signal.SIGKILL)


def event(page: http.client.HTTPResponse) -> Any:
    line = page.readline()
    assert page.readline() == b"\n"
    return json.loads(line.removeprefix(b"data: "))


@pytest.mark.slow
def test_open_pages_get_each_change_and_do_not_keep_the_service_from_ending(shop: Service) -> None:
    pages = [shop.ask("/live"), shop.ask("/live")]
    assert [event(page) for page in pages] == [{"cake": 1, "earned": 0, "tea": 3}] * 2
    first = shop.ask("/buy/cake", "POST", Idempotency_Key="a")
    assert (first.status, json.load(first)) == (200, {"left": 0})
    assert [event(page) for page in pages] == [{"cake": 0, "earned": 250, "tea": 3}] * 2
    again = shop.ask("/buy/cake", "POST", Idempotency_Key="a")
    assert (again.status, json.load(again)) == (200, {"left": 0})
    other = shop.ask("/buy/tea", "POST", Idempotency_Key="a")
    assert other.status == 422
    sold_out = shop.ask("/buy/cake", "POST", Idempotency_Key="b")
    assert (sold_out.status, json.load(sold_out)) == (409, {"detail": "not enough cake"})
    assert shop.ask("/buy/tea?count=2", "POST").status == 200
    assert [event(page) for page in pages] == [{"cake": 0, "earned": 1050, "tea": 1}] * 2
    shop.end(signal.SIGINT)
    assert "Finished server process" in "".join(shop.lines)


@pytest.mark.slow
@pytest.mark.skipif(FOUND is None, reason="needs Chromium: apt-get install chromium")
def test_two_browser_pages_follow_each_other(shop: Service, tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    profile.mkdir()
    with Chromium(profile) as browser:
        left, right = (browser.open(f"http://127.0.0.1:{shop.port}/") for _ in range(2))
        assert json.loads(right.text("#view", "text"))["tea"] == 3
        left.run("document.querySelector('button').click()")
        assert json.loads(left.text("#answer", "text")) == {"left": 2}
        for page in (left, right):
            assert json.loads(page.text("#view", "JSON.parse(text).tea === 2"))["earned"] == 400
        right.run("document.querySelectorAll('button')[1].click()")
        left.text("#view", "JSON.parse(text).cake === 0")
        left.run("document.querySelectorAll('button')[1].click()")
        assert json.loads(left.text("#answer", "text.includes('detail')")) == {"detail": "not enough cake"}


# --- the pipeline --------------------------------------------------------------------------------------------


def test_pipeline_runs_for_changed_files_only(tmp_path: Path, warm: Warm) -> None:
    def runs() -> str:
        code, printed = warm.run("python", "pipeline.py", folder=tmp_path, env=os.environ)
        assert code == 0, printed
        return printed

    shutil.copytree(FINISHED / "pipeline", tmp_path, dirs_exist_ok=True)
    sales = tmp_path / "sales"
    sales.mkdir()
    for day in ("monday", "tuesday"):
        (sales / f"{day}.csv").write_text("product,cents\ntea,400\n", encoding="utf-8")
    assert runs() == "runs: 2 2 2\n"
    assert runs() == "runs: 0 0 0\n"
    (sales / "tuesday.csv").write_text("product,cents\ntea,400\njam,390\n", encoding="utf-8")
    assert runs() == "runs: 1 1 1\n"
    assert (tmp_path / "report.txt").read_text(encoding="utf-8").split() == ["jam", "3.90", "tea", "8.00"]


class Notebook:
    """A kernel of Jupyter, as a front end uses it."""

    def __init__(self, folder: Path, sockets: Path) -> None:
        """Sockets are files: a port that is free now may be taken when a kernel begins."""
        self._kernel = KernelManager(kernel_name="python3", transport="ipc", ip=str(sockets / "k"))
        self._kernel.start_kernel(cwd=str(folder))
        self._client = self._connected()

    def _connected(self) -> BlockingKernelClient:
        client = self._kernel.blocking_client()
        assert isinstance(client, BlockingKernelClient)
        client.start_channels()
        client.wait_for_ready(timeout=SECONDS_MAX)
        return client

    def enter(self, source: str) -> str:
        """What one input prints, and its value."""
        shown: list[str] = []

        def hook(message: dict[str, Any]) -> None:
            content = message["content"]
            if message["msg_type"] == "stream":
                shown.append(content["text"])
            elif message["msg_type"] == "execute_result":
                shown.append(content["data"]["text/plain"])

        answer = self._client.execute_interactive(source, output_hook=hook, timeout=SECONDS_MAX)
        assert answer["content"]["status"] == "ok", answer["content"]
        return "".join(shown)

    def restart(self) -> None:
        """As "Restart kernel" in the menu: the kernel is asked to end, and another one begins."""
        self._client.stop_channels()
        self._kernel.restart_kernel(now=False)
        self._client = self._connected()

    def close(self) -> None:
        self._client.stop_channels()
        self._kernel.shutdown_kernel(now=True)
        self._kernel.cleanup_resources()


@pytest.fixture
def notebook(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Notebook]:
    for name in ("RUNTIME", "CONFIG", "DATA"):
        monkeypatch.setenv(f"JUPYTER_{name}_DIR", str(tmp_path / "jupyter"))
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    monkeypatch.setenv("JUPYTER_PLATFORM_DIRS", "1")
    folder = tmp_path / "notebook"
    folder.mkdir()
    with TemporaryDirectory() as sockets:  # not in tmp_path: names of sockets must be short
        notebook = Notebook(folder, Path(sockets))
        try:
            yield notebook
        finally:
            notebook.close()


@pytest.mark.slow
def test_pipeline_in_a_notebook_reads_nothing_again_after_a_restart_of_the_kernel(notebook: Notebook) -> None:
    text = PAGES["pipeline"].read_text(encoding="utf-8")
    inputs = [block.source for block in find_blocks(text) if block.language == "python" and block.file is None]
    shown = [notebook.enter(source) for source in inputs]
    assert [line for each in shown for line in each.splitlines() if line.startswith("runs:")] == [
        "runs: 3 2 2",
        "runs: 3 2 2",
        "runs: 4 3 3",
    ]
    assert "[('tea', 400), ('cake', 250)]" in shown
    assert "It ran 3 times" in shown[-2]
    notebook.restart()
    first, last = (next(i for i, each in enumerate(inputs) if word in each) for word in ("hw.App", "def scan"))
    again = [notebook.enter(source) for source in inputs[first : last + 1]]
    assert again[-1].splitlines()[-1] == "runs: 0 0 0"
    notebook.enter(inputs[first])  # an input that is run again opens the file anew
    notebook.enter(inputs[-1])


# --- the board -----------------------------------------------------------------------------------------------


@pytest.fixture
def board(home: Path) -> Iterator[Path]:
    """A folder with the finished programs, and a server for them."""
    folder = home / "board"
    shutil.copytree(FINISHED / "board", folder)
    with ServeProcess(folder / "data") as server:
        script = folder / "person.py"
        script.write_text(script.read_text(encoding="utf-8").replace(":8400", f":{server.port}"), encoding="utf-8")
        yield folder
        server.end()
        assert server.wait() == 0


@pytest.mark.slow
def test_of_two_people_at_once_one_gets_the_task_and_a_third_sees_it(board: Path) -> None:
    command = [sys.executable, "-u", "person.py"]
    with subprocess.Popen([*command, "carl"], cwd=board, stdout=subprocess.PIPE, text=True) as carl:
        assert carl.stdout is not None
        try:
            seen = [carl.stdout.readline()]
            program(board, "person.py", "dora", "add", "milk")
            seen.append(carl.stdout.readline())
            people = {
                name: subprocess.Popen([*command, name, "take", "milk"], cwd=board, stdout=subprocess.PIPE, text=True)
                for name in ("ann", "bob")
            }
            said = {name: each.communicate(timeout=SECONDS_MAX)[0].splitlines() for name, each in people.items()}
            seen.append(carl.stdout.readline())
        finally:
            carl.send_signal(signal.SIGINT)
        seen += carl.stdout
    winner, loser = ("ann", "bob") if said["bob"][-1].startswith("rejected") else ("bob", "ann")
    assert said[winner][-1] == f"board: milk [{winner}]"
    assert said[loser][-1] == f"rejected: {winner} has it"
    assert seen == ["board: \n", "board: milk\n", f"board: milk [{winner}]\n"]
    assert carl.returncode == 0


@pytest.mark.slow
def test_board_is_built_step_by_step_and_continues_without_its_server(
    home: Path, monkeypatch: pytest.MonkeyPatch, warm: Warm
) -> None:
    reader = Reader("board.md", home, THIS_CHECKOUT, warm)
    monkeypatch.chdir(reader.work)
    reader.follow(PAGES["board"].read_text(encoding="utf-8"))
    [refused] = (reader.work / "ann-laptop").glob("*.refused.jsonl")
    rejected = [json.loads(line) for line in refused.read_text(encoding="utf-8").splitlines()]
    written = [operation for commit in rejected for operation in commit["operations"]]
    assert [each["value"] for each in written if each["at"].endswith("/owner")] == ["ann"]
    assert all("HW211" in commit["why"] for commit in rejected)
    assert not list((reader.work / "bob-laptop").glob("*.refused.jsonl"))
