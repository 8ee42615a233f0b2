"""A test run does not depend on the shell that started it, and one test that hangs does not hang the run."""

import io
import logging
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

import headwater as hw
from headwater.cells.context import open_spaces
from headwater.host.space_facade import opening_of
from headwater.server.server_log import set_up
from tests.support.surroundings import descendants, interruptible, limited, loggers_restored, spaces_closed

ROOT = Path(__file__).parents[2]
SAFETY_S = 120
WAITS = [sys.executable, "-c", "import time; print(flush=True); time.sleep(1000)"]


def test_a_test_that_hangs_fails_and_the_process_that_it_waits_for_is_ended() -> None:
    with subprocess.Popen(WAITS, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.read(1)
        assert process.pid in descendants(os.getpid())
        too_long = pytest.raises(pytest.fail.Exception, match=r"the one that waits took longer than 0\.05 s")
        with too_long, limited("the one that waits", 0.05):
            process.wait(SAFETY_S)
        assert process.wait(SAFETY_S) == -signal.SIGKILL


def test_cleaning_up_that_hangs_is_interrupted_too() -> None:
    never = threading.Event()
    with pytest.raises(pytest.fail.Exception, match="MainThread"), limited("the one that waits", 0.05, 0.05):
        try:
            never.wait(SAFETY_S)
        finally:
            never.wait(SAFETY_S)


def test_a_limit_within_another_leaves_that_as_it_was() -> None:
    with limited("the outer one", 1000.0):
        with limited("the inner one", 500.0):
            assert 490 < signal.getitimer(signal.ITIMER_REAL)[0] <= 500
        assert 990 < signal.getitimer(signal.ITIMER_REAL)[0] <= 1000
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 0, "the limit of this test"


def test_processes_of_tests_take_sigint_although_the_run_was_started_without() -> None:
    """As `./hw test &` and `nohup ./hw test` do."""
    ask = [sys.executable, "-c", "import signal; print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"]
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        assert subprocess.check_output(ask, timeout=SAFETY_S) == b"True\n"
        with interruptible():
            assert subprocess.check_output(ask, timeout=SAFETY_S) == b"False\n"
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_processes_of_tests_have_no_settings_of_a_developer() -> None:
    assert not [name for name in os.environ if name.startswith("PYTHON")]


def test_what_lands_is_tried_in_a_bare_environment() -> None:
    script = (ROOT / ".ci" / "run").read_text(encoding="utf-8")
    assert "env -i" in script
    for command in ("./hw demo", ".ci/install", "./hw check", "./hw docs test", "./hw test"):
        assert f"bare {command}" in script


def test_programs_of_a_checkout_need_no_more_than_the_demo(tmp_path: Path) -> None:
    """The first pages are followed with `./hw python` and `./hw run`."""
    script = (ROOT / "hw").read_text(encoding="utf-8")
    for name in ("demo", "run", "python"):
        body = script.partition(f"\ndef {name}(")[2].partition("\ndef ")[0]
        assert 'ensure("run")' in body
    for page in ("install.md", "first-program.md"):
        assert "hw venv" not in (ROOT / "docs" / "start" / page).read_text(encoding="utf-8")
    program = tmp_path / "where.py"
    program.write_text("import os, headwater; print(os.getcwd(), headwater.__file__)\n", encoding="utf-8")
    command = [sys.executable, str(ROOT / "hw"), "python", "where.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=SAFETY_S, check=True)
    assert done.stdout.split() == [str(tmp_path), str(ROOT / "src" / "headwater" / "__init__.py")]


def test_a_level_that_a_test_sets_is_gone_after_it() -> None:
    logger = logging.getLogger("headwater")
    before = logger.level, list(logger.handlers)
    with loggers_restored():
        set_up(logger, io.StringIO(), json=True, verbose=True)
        assert logger.level == logging.DEBUG
    assert (logger.level, logger.handlers) == before


def test_logging_that_a_test_turns_off_is_on_after_it(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("headwater")
    with loggers_restored():
        logging.disable(logging.CRITICAL)
        logging.root.setLevel(logging.CRITICAL)
        logger.disabled = True
        logging.setLogRecordFactory(lambda *_, **__: pytest.fail("a line of an earlier test"))
        logger.warning("not heard")
    logger.warning("heard")
    assert caplog.messages == ["heard"]


def test_a_test_that_leaves_a_space_open_fails_and_leaves_none() -> None:
    with hw.App("earlier").open("memory:") as earlier:
        with pytest.raises(pytest.fail.Exception, match="left 2 open: 'main', 'main'"), spaces_closed():
            left = [hw.App("left").open("memory:") for _ in range(2)]
            hw.App("closed").open("memory:").close()
        assert (open_spaces(), [space.closed for space in left]) == ([opening_of(earlier)], [True, True])


def test_a_test_that_fails_and_leaves_a_space_open_shows_its_own_error() -> None:
    with pytest.raises(KeyError), spaces_closed():
        hw.App("left").open("memory:")
        raise KeyError
    assert open_spaces() == []
