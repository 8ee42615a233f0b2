"""Tests on the compiled form of the core: `./hw test --compiled`.

A test that is marked `pure` needs the sources, and is skipped there: it replaces a method of a class, counts the calls
of Python functions, or reads code objects. The mark says which, and the summary of the run counts them.
"""

from __future__ import annotations

import pytest

from headwater.host.libraries import core_form


def check(config: pytest.Config) -> None:
    """A run that is said to test the compiled form does so, and one that is not does not."""
    asked = "compiled" if config.getoption("compiled") else "pure"
    if core_form() != asked:
        raise pytest.UsageError(f"the core is {core_form()} here, and the tests were asked to run on the {asked} one")


def needs_sources(reason: str) -> None:
    """Skip the running test on the compiled form: for helpers that many tests use."""
    if core_form() == "compiled":
        pytest.skip(f"needs the sources: {reason}")


def skip_pure(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs the sources."""
    if not config.getoption("compiled"):
        return
    for item in items:
        mark = item.get_closest_marker("pure")
        if mark is not None:
            item.add_marker(pytest.mark.skip(reason=f"needs the sources: {mark.args[0]}"))
