"""What Headwater says of itself is the same on the compiled form and on the sources: errors, reasons, snapshots."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from headwater.host.libraries import core_form
from tests.app.holding import SAFETY_S

PROGRAM = Path(__file__).with_name("shown_alike.py")

TIMES = re.compile(r"[\d.]+ ms\b|\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC|(?<=ms\": )[\d.]+|(?<=\"groups\": )\d+")
"""Durations and moments; and how many groups of commits were written, which is a matter of time, too."""

MARKS = re.compile(r"^ *[~^]+$\n", re.MULTILINE)
"""Below the line of a call: which part of it. Compiled calls do not have them."""

needs_both = pytest.mark.skipif(
    core_form() == "pure", reason="compares the compiled form with the sources: ./hw test --compiled"
)


def printed(form: str, **variables: str) -> str:
    """What the program prints; the last line says which form it was."""
    command = "import runpy, sys; from headwater.host.libraries import core_form\n"
    command += "print(core_form(), file=sys.stderr)\n"
    command += f"runpy.run_path({str(PROGRAM)!r}, run_name='__main__')"
    done = subprocess.run(
        [sys.executable, "-c", command],
        env={**os.environ, "HEADWATER_PURE": "1" if form == "pure" else "0", **variables},
        capture_output=True,
        text=True,
        check=False,
        timeout=SAFETY_S,
    )
    found, _, errors = done.stderr.partition("\n")
    assert found == form
    assert done.returncode == 1, "the program ends with an error"
    return MARKS.sub("", TIMES.sub("TIME", done.stdout + errors))


@needs_both
@pytest.mark.parametrize("debugging", ["0", "1"])
def test_errors_reasons_and_snapshots_are_the_same_in_both_forms(debugging: str) -> None:
    pure, compiled = (printed(form, HEADWATER_DEBUG=debugging) for form in ("pure", "compiled"))
    assert compiled.splitlines() == pure.splitlines()


def test_what_is_compared_contains_the_calls_inside_and_the_words_of_each_kind_of_error() -> None:
    """So that a program that prints less is noticed."""
    text = printed(core_form())
    for words in (
        "pull.py:",  # compiled, if anything is
        "ZeroDivisionError: integer division",
        "AddressError: HW101",
        "SchemaError: HW108",
        "ConflictError: HW211",
        "EventFailedError: HW161",
        "total() is a computation, clean",
        '"address": "shop.price"',
        "headwater.core.verify['POSITIONAL_OR_KEYWORD engine'",
        "NotOpen: HW001",
    ):
        assert words in text
