"""httpx is loaded when `hw.http` is used, and not before; and if it is not there, that is said."""

from __future__ import annotations

import subprocess
import sys
from typing import Any, assert_type

import pytest

import headwater as hw


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=300, check=False)
    return done.stdout + done.stderr


def test_importing_headwater_loads_no_httpx() -> None:
    loaded = "'httpx' in sys.modules"
    code = f"import sys, headwater as hw; hw.App('x'); before = {loaded}; hw.http; print(before, {loaded})"
    assert run(code) == "False True\n"


@pytest.mark.parametrize("name", ["http", "OpenAIFixer"])
def test_without_httpx_it_says_what_to_install(name: str) -> None:
    code = f"import sys; sys.modules['httpx'] = None; import headwater as hw; hw.App('x'); hw.{name}"
    assert 'hw.http and hw.OpenAIFixer need httpx: pip install "httpx>=0.27"' in run(code)


def test_the_package_has_the_names_that_it_says() -> None:
    assert [name for name in hw.http.__all__ if not hasattr(hw.http, name)] == []
    assert hw.http.json.name == "json"


def test_what_is_read_has_a_type() -> None:
    with hw.App("x").open("memory:"):
        url = "http://127.0.0.1:1/"
        assert_type(hw.http.text(url), hw.Pending | hw.Ready[str] | hw.Failed[str])
        assert_type(hw.http.bytes(url, fresh_for=None), hw.Pending | hw.Ready[bytes] | hw.Failed[bytes])
        found = hw.http.Client(allow=["a.example"]).json(url, headers={"A": "b"}, fresh_for="1h", retry=hw.Retry(3))
        assert_type(found, hw.Pending | hw.Ready[Any] | hw.Failed[Any])
