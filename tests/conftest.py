"""The half of the suite that is asked for, and what every test is given.

That is: no settings of a developer's shell, SIGINT as usual, a limit of time.
"""

from collections.abc import Generator, Iterator

import pytest

from tests.browser.finding import warning
from tests.support import compiled, halves
from tests.support.surroundings import exit_soon, interruptible, limited, loggers_restored, scrub, spaces_closed

scrub()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--half", choices=halves.HALVES, help="fast: as ./hw test; rest: as ./hw test --rest")
    parser.addoption("--compiled", action="store_true", help="as ./hw test --compiled: the core must be compiled")


def pytest_configure(config: pytest.Config) -> None:
    compiled.check(config)
    halves.load_profile(config.getoption("half"))
    halves.share_compiling(config)
    halves.begin_collecting()


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    halves.choose(config, items)
    compiled.skip_pure(config, items)


def pytest_collection_finish() -> None:
    halves.forget_collecting()


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    with interruptible():
        yield


@pytest.fixture(autouse=True)
def _loggers_restored() -> Iterator[None]:
    with loggers_restored():
        yield


@pytest.fixture(autouse=True)
def _spaces_closed() -> Iterator[None]:
    with spaces_closed():
        yield


# Each phase on its own, and nearest to it: what is raised is the result of that phase.


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with limited(f"the preparation of {item.nodeid}"):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with limited(item.nodeid), halves.noted(item):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with limited(f"what follows {item.nodeid}"):
        return (yield)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    line = warning()
    if line:
        terminalreporter.section("browser", red=True)
        terminalreporter.line(line, red=True)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    exit_soon()
