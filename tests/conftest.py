"""Hypothesis profiles, chosen by HEADWATER_HYPOTHESIS: dev (quick), ci (the default), nightly (thorough).

And what every test is given: no settings of a developer's shell, SIGINT as usual, a limit of time.
"""

import os
from collections.abc import Generator, Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.surroundings import exit_soon, interruptible, limited, loggers_restored, scrub

# `ci` tries the same examples every time, so that a change lands or fails for what it is; `nightly` tries new ones.
# No deadlines and no complaint about slow generation: how busy the machine is, is not a property of the code.
settings.register_profile(
    "ci",
    derandomize=True,
    print_blob=True,
    deadline=None,
    max_examples=100,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.register_profile("dev", settings.get_profile("ci"), max_examples=20, derandomize=False)
settings.register_profile("nightly", settings.get_profile("ci"), max_examples=5000, derandomize=False)
settings.load_profile(os.environ.get("HEADWATER_HYPOTHESIS", "ci"))

scrub()


@pytest.fixture(scope="session", autouse=True)
def _interruptible() -> Iterator[None]:
    with interruptible():
        yield


@pytest.fixture(autouse=True)
def _loggers_restored() -> Iterator[None]:
    with loggers_restored():
        yield


# Each phase on its own, and nearest to it: what is raised is the result of that phase.


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, object, object]:
    with limited(f"the preparation of {item.nodeid}"):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    with limited(item.nodeid):
        return (yield)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, object, object]:
    with limited(f"what follows {item.nodeid}"):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_unconfigure() -> None:
    exit_soon()
