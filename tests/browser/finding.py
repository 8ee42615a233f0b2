"""The browser of this machine, and what happens if there is none."""

from __future__ import annotations

import os
import shutil
from typing import Final, NoReturn

import pytest

VARIABLE: Final = "HEADWATER_BROWSER"

BROWSER: Final = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
    None,
)

MISSING: Final = (
    "THE STUDIO WAS NOT TESTED IN A BROWSER: there is no chromium, chromium-browser or google-chrome on PATH; "
    "`.ci/chromium` installs one"
)


def is_required() -> bool:
    """A machine without a browser is a failure there."""
    return os.environ.get(VARIABLE) == "required"


def warning() -> str:
    """For the summary of every run on a machine without a browser."""
    return "" if BROWSER else MISSING


def missing() -> NoReturn:
    """End the preparation of a test that needs a browser."""
    if is_required():
        pytest.fail(f"{MISSING} ({VARIABLE}=required)", pytrace=False)
    pytest.skip(MISSING)
